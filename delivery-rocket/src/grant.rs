//! A request guard for the host application's own routes.

use std::ops::Deref;

use delivery_core::http::{self, Reply};
use rocket::http::Status;
use rocket::request::{FromRequest, Outcome, Request};
use rocket::{Ignite, Rocket, Sentinel};

use crate::exchange::{self, Mounted};
use crate::rejection::GrantRejection;
use crate::require_key;

/// A currently valid key, as a request guard for the host application's own routes. It wraps a
/// [`delivery_core::http::Grant`].
///
/// A request without a valid key gets the API's own error response. A route that answers such requests itself takes
/// `Result<Grant, GrantRejection>`. A route that also serves requests without a key takes [`OptionalGrant`], because
/// Rocket's own `Option<Grant>` is `None` for an invalid key too. The guard counts no use; to count one, call
/// [`count_use`](http::Grant::count_use). Under the path of a [`RequireKey`](crate::RequireKey), the guard returns the
/// key that this fairing has checked.
///
/// An application whose routes take a `Grant` does not launch without a [`DeliveryFairing`](crate::DeliveryFairing).
/// Attach that fairing before other fairings that read responses. If the guard refuses a request, Rocket calls the
/// catcher of the host application with a status that HTTP does not define. The `DeliveryFairing` then replaces the
/// catcher's response with the API's error response, unless the catcher has set a status itself.
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

/// A [`Grant`], or `None` if the request has no key. An invalid key is refused.
#[derive(Debug, Clone)]
pub struct OptionalGrant(pub Option<Grant>);

/// The status with which a guard refuses a request. It is never sent, because the fairing replaces the response with
/// the API's error response.
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

/// Returns the API's error response to a request that a guard refused. The guard has stored this response in the
/// request's local cache, because a guard can pass only a status to Rocket, and the catchers belong to the host
/// application.
pub(crate) fn refusal(request: &Request<'_>) -> Reply {
    let refused: &Option<GrantRejection> = request.local_cache(|| None);
    refused.as_ref().map_or_else(Reply::internal, |refused| refused.reply().clone())
}
