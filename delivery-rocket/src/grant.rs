//! A guard for the host's own routes.

use std::ops::Deref;

use delivery_core::delivery::Error;
use delivery_core::http::{self, Reply};
use rocket::http::Status;
use rocket::request::{FromRequest, Outcome, Request};
use rocket::response::{self, Responder};
use rocket::{Ignite, Rocket, Sentinel};

use crate::exchange::{self, Mounted};

/// A guard for the host's own routes: a key that is valid now, as a [`delivery_core::http::Grant`].
///
/// A request without a valid key gets the API's own answer. A route that answers such requests itself takes
/// `Result<Grant, Refused>`. The route decides whether to count a use, with [`count_use`](http::Grant::count_use).
///
/// An application whose routes take a `Grant` does not launch without a [`DeliveryFairing`](crate::DeliveryFairing).
/// Attach the fairing before other fairings that read responses. Catchers see a refusal as a status that HTTP does not
/// define; the fairing then replaces it by the API's answer. If a catcher sets a status itself, its answer is sent
/// instead.
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
        // Always present, unless another guard calls this one: the check at launch does not see such a use.
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

/// The API's own answer to a request whose guard failed. It is kept with the request, because a guard can only fail
/// with a status, and catchers belong to the host.
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
