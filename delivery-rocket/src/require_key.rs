//! A fairing that lets only requests with a key through.

use delivery_core::http::{Grant, Reply, Requirement};
use delivery_core::product::ProductId;
use rocket::fairing::{self, Fairing, Info, Kind};
use rocket::http::Method::{Connect, Delete, Get, Head, Options, Patch, Post, Put, Trace};
use rocket::http::uri::Origin;
use rocket::route::{self, Outcome};
use rocket::{Build, Data, Request, Rocket, Route};

use crate::exchange::{self, Mounted};

/// Where refused requests are sent, to be answered.
const REFUSED: &str = "/delivery-refused-request";

/// A fairing that lets only requests with a valid key to the routes under a path. Others get the API's own answer.
///
/// Attach it after the [`DeliveryFairing`](crate::DeliveryFairing), once for each path. Routes see the key with the guard
/// [`Grant`](crate::Grant), which does not check it again.
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

/// What the fairing has found out about a request.
struct Checked(Option<Result<Grant, Box<Reply>>>);

impl RequireKey {
    /// Guards `path` and everything below it: `/downloads` guards `/downloads/book`, not `/downloads-elsewhere`.
    pub fn at(path: &str) -> Self {
        Self { base: path.trim_end_matches('/').to_owned(), requirement: Requirement::default() }
    }

    /// Asks for a key for `product`.
    pub fn product(self, product: ProductId) -> Self {
        Self { requirement: self.requirement.product(product), ..self }
    }

    /// Counts each request as a use of the key, durably, before the route sees it; HEAD counts none.
    pub fn counting(self) -> Self {
        Self { requirement: self.requirement.counting(), ..self }
    }

    /// Whether a request is for a path that is guarded. Rocket takes `//downloads` and `/downloads/` for the same path.
    fn guards(&self, path: &str) -> bool {
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        self.base.split('/').filter(|segment| !segment.is_empty()).all(|expected| {
            let segment = segments.next().map(|segment| rocket::http::RawStr::new(segment).percent_decode_lossy());
            segment.is_some_and(|segment| segment == expected)
        })
    }
}

/// The grant of a request that passed.
pub(crate) fn checked<'r>(request: &'r Request<'_>) -> Option<&'r Result<Grant, Box<Reply>>> {
    request.local_cache(|| Checked(None)).0.as_ref()
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
        if rocket.routes().any(|route| route.uri.path() == REFUSED) {
            return Ok(rocket);
        }
        let methods = [Get, Put, Post, Delete, Options, Head, Trace, Connect, Patch];
        Ok(rocket.mount("/", methods.map(|method| Route::new(method, REFUSED, Refuse))))
    }

    async fn on_request(&self, request: &mut Request<'_>, _: &mut Data<'_>) {
        let Some(Mounted(delivery)) = request.rocket().state() else { return };
        if !self.guards(request.uri().path().as_str()) {
            return;
        }
        let checked = self.requirement.check(delivery, &exchange::call(request, request.method())).await;
        let is_refused = checked.is_err();
        request.local_cache(|| Checked(Some(checked)));
        if is_refused {
            request.set_uri(Origin::const_new(REFUSED, None::<&str>));
        }
    }
}

/// Answers what was refused.
#[derive(Clone)]
struct Refuse;

#[rocket::async_trait]
impl route::Handler for Refuse {
    async fn handle<'r>(&self, request: &'r Request<'_>, _: Data<'r>) -> Outcome<'r> {
        let reply = match checked(request) {
            Some(Err(reply)) => reply.as_ref().clone(),
            // Somebody has asked for this path itself.
            Some(Ok(_)) | None => Reply::not_found(),
        };
        Outcome::Success(exchange::response(reply))
    }
}
