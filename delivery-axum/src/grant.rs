//! A guard for the host's own routes.

use std::ops::Deref;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use delivery_core::Delivery;
use delivery_core::delivery::Error;
use delivery_core::http::{self, Reply};

use crate::exchange;

/// A key that is valid now, for a route of the host's own: a [`delivery_core::http::Grant`] as an extractor.
///
/// A request without a valid key gets the API's own answer; a route that wants to answer for itself takes
/// `Result<Grant, Refused>`. Counting a use is the route's choice: [`count_use`](http::Grant::count_use).
///
/// The router's state must hold the service: `Delivery: FromRef<S>`. A state without it does not compile:
///
/// ```compile_fail,E0277
/// use axum::{Router, routing::get};
/// let routes: Router<()> = Router::new().route("/", get(async |grant: delivery_axum::Grant| "never"));
/// ```
///
/// ```
/// use axum::{Router, extract::FromRef, routing::get};
/// use delivery_axum::{Grant, Refused};
/// use delivery_core::Delivery;
///
/// #[derive(Clone)]
/// struct App { delivery: Delivery }
///
/// impl FromRef<App> for Delivery {
///     fn from_ref(app: &App) -> Self { app.delivery.clone() }
/// }
///
/// async fn download(grant: Grant) -> Result<String, Refused> {
///     let product = grant.key().product();
///     let key = grant.count_use(product).await?;
///     Ok(format!("used {} times", key.used()))
/// }
///
/// let routes: Router<App> = Router::new().route("/download", get(download));
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

impl Deref for Grant {
    type Target = http::Grant;

    fn deref(&self) -> &http::Grant {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Grant
where
    Delivery: FromRef<S>,
{
    type Rejection = Refused;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Refused> {
        let call = exchange::call(head.clone());
        http::Grant::of(&Delivery::from_ref(state), &call).await.map(Self).map_err(Refused)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self(Box::new(Reply::failure(&error)))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        exchange::response(*self.0)
    }
}
