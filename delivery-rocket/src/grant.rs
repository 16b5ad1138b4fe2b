//! A guard for the host's own routes.

use std::ops::Deref;

use delivery_core::delivery::Error;
use delivery_core::http::{self, Reply};
use rocket::http::Status;
use rocket::request::{FromRequest, Outcome, Request};
use rocket::response::{self, Responder};
use rocket::{Ignite, Rocket, Sentinel};

use crate::exchange;
use crate::fairing::Mounted;

/// A key that is valid now, for a route of the host's own: a [`delivery_core::http::Grant`] as a guard.
///
/// A request without a valid key gets the API's own answer; a route that wants to answer for itself takes
/// `Result<Grant, Refused>`. Counting a use is the route's choice: [`count_use`](http::Grant::count_use).
///
/// An application whose routes ask for a `Grant` does not launch without its [`DeliveryFairing`](crate::DeliveryFairing).
/// Attach that before other fairings that look at responses. A catcher sees a refusal as a status that is none; one
/// that sets a status itself has the last word.
///
/// ```
/// use delivery_rocket::{Grant, Refused};
///
/// #[rocket::get("/download")]
/// async fn download(grant: Grant) -> Result<String, Refused> {
///     let product = grant.key().product();
///     let key = grant.count_use(product).await?;
///     Ok(format!("used {} times", key.used()))
/// }
/// # let _ = rocket::routes![download];
/// ```
#[derive(Debug, Clone)]
pub struct Grant(http::Grant);

/// The API's answer to a request that was refused; a handler returns it as its error.
#[derive(Debug, Clone)]
pub struct Refused(Box<Reply>);

impl Refused {
    /// The answer, for a route that decides by its status.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        &self.0
    }
}

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
    type Error = Refused;

    async fn from_request(request: &'r Request<'_>) -> Outcome<Self, Refused> {
        // It is there, unless another guard asks for this one: that hides it from the launch.
        let Some(Mounted(delivery)) = request.rocket().state() else {
            let (reply, response) = (Reply::internal(), exchange::response(Reply::internal()));
            return Outcome::Error((response.status(), Refused(Box::new(reply))));
        };
        match http::Grant::of(delivery, &exchange::call(request, request.method())).await {
            Ok(grant) => Outcome::Success(Self(grant)),
            Err(reply) => {
                request.local_cache(|| Some(Refused(reply.clone())));
                Outcome::Error((REFUSED, Refused(reply)))
            }
        }
    }
}

/// Aborts the launch of an application that forgot the fairing.
impl Sentinel for Grant {
    fn abort(rocket: &Rocket<Ignite>) -> bool {
        rocket.state::<Mounted>().is_none()
    }
}

/// The API's own answer to a request whose guard failed: a guard can only fail with a status, and catchers are the host's.
pub(crate) fn refusal(request: &Request<'_>) -> Reply {
    let refused: &Option<Refused> = request.local_cache(|| None);
    refused.as_ref().map_or_else(Reply::internal, |Refused(reply)| *reply.clone())
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self(Box::new(Reply::failure(&error)))
    }
}

impl<'r> Responder<'r, 'static> for Refused {
    fn respond_to(self, _: &'r Request<'_>) -> response::Result<'static> {
        Ok(exchange::response(*self.0))
    }
}
