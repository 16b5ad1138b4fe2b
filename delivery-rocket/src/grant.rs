//! A guard for the host's own routes.

use std::ops::Deref;

use delivery_core::http::{self, Reply};
use rocket::http::Status;
use rocket::request::{FromRequest, Outcome, Request};
use rocket::{Ignite, Rocket, Sentinel};

use crate::exchange::{self, Mounted};
use crate::rejection::GrantRejection;
use crate::require_key;

/// A guard for the host's own routes: a key that is valid now, as a [`delivery_core::http::Grant`].
///
/// A request without a valid key gets the API's own answer. A route that answers such requests itself takes
/// `Result<Grant, GrantRejection>`, and one that also serves requests without a key takes [`OptionalGrant`]: Rocket's own
/// `Option<Grant>` is `None` for a key that is wrong, too. Under the paths of a [`RequireKey`](crate::RequireKey) it is the key
/// that the fairing has checked. The route decides whether to count a use, with [`count_use`](http::Grant::count_use).
///
/// An application whose routes take a `Grant` does not launch without a [`DeliveryFairing`](crate::DeliveryFairing).
/// Attach the fairing before other fairings that read responses. Catchers see a refusal as a status that HTTP does not
/// define; the fairing then replaces it by the API's answer. If a catcher sets a status itself, its answer is sent
/// instead.
///
/// ```
/// use delivery_rocket::{Grant, GrantRejection};
///
/// #[rocket::get("/download")]
/// async fn download(grant: Grant) -> Result<String, GrantRejection> {
///     let product = grant.key().product();
///     let key = grant.count_use(product).await?;
///     Ok(format!("used {} times", key.used()))
/// }
/// # let _ = rocket::routes![download];
/// ```
#[derive(Debug, Clone)]
pub struct Grant(http::Grant);

/// A [`Grant`], or `None` for a request that has no key at all. A key that is wrong is refused.
#[derive(Debug, Clone)]
pub struct OptionalGrant(pub Option<Grant>);

/// Marks a response in whose place a refusal goes; it is no status, and is never sent.
pub(crate) const REFUSED: Status = Status::new(u16::MAX);

impl Deref for Grant {
    type Target = http::Grant;

    fn deref(&self) -> &http::Grant {
        &self.0
    }
}

#[rocket::async_trait]
impl<'r> FromRequest<'r> for Grant {
    type Error = GrantRejection;

    async fn from_request(request: &'r Request<'_>) -> Outcome<Self, GrantRejection> {
        if let Some(Ok(checked)) = require_key::checked(request) {
            return Outcome::Success(Self(checked));
        }
        let Some(delivery) = exchange::mounted(request) else { return without_fairing() };
        outcome(request, http::Grant::of(delivery, &exchange::asked(request)).await.map(Self))
    }
}

#[rocket::async_trait]
impl<'r> FromRequest<'r> for OptionalGrant {
    type Error = GrantRejection;

    async fn from_request(request: &'r Request<'_>) -> Outcome<Self, GrantRejection> {
        if let Some(Ok(checked)) = require_key::checked(request) {
            return Outcome::Success(Self(Some(Grant(checked))));
        }
        let Some(delivery) = exchange::mounted(request) else { return without_fairing() };
        let grant = http::Grant::of_optional(delivery, &exchange::asked(request)).await;
        outcome(request, grant.map(|grant| Self(grant.map(Grant))))
    }
}

fn without_fairing<T>() -> Outcome<T, GrantRejection> {
    Outcome::Error((exchange::response(Reply::internal()).status(), Box::new(Reply::internal()).into()))
}

fn outcome<T>(request: &Request<'_>, granted: Result<T, Box<Reply>>) -> Outcome<T, GrantRejection> {
    match granted {
        Ok(grant) => Outcome::Success(grant),
        Err(reply) => {
            let refused = GrantRejection::from(reply);
            request.local_cache(|| Some(refused.clone()));
            Outcome::Error((REFUSED, refused))
        }
    }
}

/// Aborts the launch of an application that forgot the fairing.
impl Sentinel for Grant {
    fn abort(rocket: &Rocket<Ignite>) -> bool {
        rocket.state::<Mounted>().is_none()
    }
}

/// Aborts the launch of an application that forgot the fairing.
impl Sentinel for OptionalGrant {
    fn abort(rocket: &Rocket<Ignite>) -> bool {
        rocket.state::<Mounted>().is_none()
    }
}

/// The API's own answer to a request whose guard failed. It is kept with the request, because a guard can only fail
/// with a status, and catchers belong to the host.
pub(crate) fn refusal(request: &Request<'_>) -> Reply {
    let refused: &Option<GrantRejection> = request.local_cache(|| None);
    refused.as_ref().map_or_else(Reply::internal, |refused| refused.reply().clone())
}
