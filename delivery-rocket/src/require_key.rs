//! A fairing that passes on only requests with a valid key.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use delivery_core::http::{Grant, Reply, Requirement};
use delivery_core::product::ProductId;
use rocket::fairing::{self, Fairing, Info, Kind};
use rocket::http::Method::{Connect, Delete, Get, Head, Options, Patch, Post, Put, Trace};
use rocket::http::RawStr;
use rocket::http::uri::Origin;
use rocket::route::{self, Outcome};
use rocket::{Build, Data, Request, Rocket, Route};

use crate::exchange::{self, Mounted};

/// The path of the route that answers refused requests. The fairing replaces the path of a refused request by this one,
/// so that no route of the host application gets the request.
const REFUSED: &str = "/delivery-refused-request";

/// A fairing that passes on only requests with a valid key to the routes under a path. The fairing answers all other
/// requests to this path with the API's own error response.
///
/// Attach it after the [`DeliveryFairing`](crate::DeliveryFairing), once for each path. Routes get the key from the
/// guard [`Grant`](crate::Grant), which does not check the key again.
///
/// ```
/// use delivery_rocket::{DeliveryFairing, RequireKey};
/// use delivery_rocket::delivery_core::{Delivery, product::ProductId};
///
/// fn app(delivery: Delivery, book: ProductId) -> rocket::Rocket<rocket::Build> {
///     rocket::build()
///         .attach(DeliveryFairing::new(delivery))
///         .attach(RequireKey::at("/downloads").product(book).counting())
/// }
/// ```
#[derive(Debug, Clone)]
#[must_use = "it does nothing unless attached"]
pub struct RequireKey {
    base: String,
    requirement: Requirement,
}

/// The last decision of the [`RequireKey`] fairings about a request. One decision is enough: after a refusal, further
/// fairings do not check the request.
#[derive(Default)]
struct Checked(Mutex<Option<Result<Grant, Box<Reply>>>>);

impl RequireKey {
    /// Guards `path` and everything below it. For example, `/downloads` guards `/downloads/book`, but not
    /// `/downloads-elsewhere`. The path must be absolute and normalized, without a query and without dynamic segments.
    /// Otherwise the launch is aborted.
    pub fn at(path: &str) -> Self {
        let trimmed = path.trim_end_matches('/');
        let base = if trimmed.is_empty() { path } else { trimmed };
        Self { base: base.to_owned(), requirement: Requirement::default() }
    }

    /// Accepts only keys for `product`.
    pub fn product(self, product: ProductId) -> Self {
        Self { requirement: self.requirement.product(product), ..self }
    }

    /// Counts each request as a use of the key, saved before Rocket looks for a route. HEAD requests are not counted. A
    /// request is also counted if there is no route for it. To avoid that, guard the exact path of a route, or call
    /// [`count_use`](delivery_core::http::Grant::count_use) in the route.
    pub fn counting(self) -> Self {
        Self { requirement: self.requirement.counting(), ..self }
    }

    /// Returns whether this path is guarded. Rocket treats `//downloads`, `/downloads/` and `/%64ownloads` as the same
    /// path.
    fn guards(&self, path: &str) -> bool {
        let mut asked = segments(path);
        segments(&self.base).all(|expected| asked.next() == Some(expected))
    }
}

/// Returns the segments of a path, percent-decoded. Empty segments are left out, as Rocket does when it looks for a
/// route.
fn segments(path: &str) -> impl Iterator<Item = Cow<'_, str>> {
    path.split('/').filter(|segment| !segment.is_empty()).map(|segment| RawStr::new(segment).percent_decode_lossy())
}

/// Returns the last decision of the fairings about a request; `None` if no fairing has checked the request.
pub(crate) fn checked(request: &Request<'_>) -> Option<Result<Grant, Box<Reply>>> {
    request.local_cache(Checked::default).0.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[rocket::async_trait]
impl Fairing for RequireKey {
    fn info(&self) -> Info {
        Info { name: "Delivery: routes with a key", kind: Kind::Ignite | Kind::Request }
    }

    async fn on_ignite(&self, rocket: Rocket<Build>) -> fairing::Result {
        if rocket.state::<Mounted>().is_none() {
            rocket::error!("RequireKey needs a DeliveryFairing, attached before it.");
            return Err(rocket);
        }
        let path = Origin::parse(&self.base).ok().filter(|path| path.is_normalized() && path.query().is_none());
        if path.is_none() || self.base.contains(['<', '>']) {
            rocket::error!("The path of RequireKey must be one such as /downloads.");
            return Err(rocket);
        }
        if rocket.routes().any(|route| route.uri.path() == REFUSED) {
            return Ok(rocket);
        }
        let methods = [Get, Put, Post, Delete, Options, Head, Trace, Connect, Patch];
        Ok(rocket.mount("/", methods.map(|method| Route::new(method, REFUSED, Refuse))))
    }

    async fn on_request(&self, request: &mut Request<'_>, _: &mut Data<'_>) {
        let Some(Mounted(delivery)) = request.rocket().state() else { return };
        let is_refused = matches!(checked(request), Some(Err(_)));
        if is_refused || !self.guards(request.uri().path().as_str()) {
            return;
        }
        let checked = self.requirement.check(delivery, &exchange::call(request, request.method())).await;
        let is_refused = checked.is_err();
        let cache = request.local_cache(Checked::default);
        *cache.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(checked);
        if is_refused {
            request.set_uri(Origin::const_new(REFUSED, None::<&str>));
        }
    }
}

/// Answers refused requests. The fairing has replaced their path by [`REFUSED`].
#[derive(Clone)]
struct Refuse;

#[rocket::async_trait]
impl route::Handler for Refuse {
    async fn handle<'r>(&self, request: &'r Request<'_>, _: Data<'r>) -> Outcome<'r> {
        let reply = match checked(request) {
            Some(Err(reply)) => *reply,
            // No fairing has refused this request: the client itself has requested the path `REFUSED`.
            Some(Ok(_)) | None => Reply::not_found(),
        };
        Outcome::Success(exchange::response(reply))
    }
}
