//! An extractor that guards the host application's own routes with a key.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use axum::Extension;
use axum::extract::{FromRef, FromRequestParts, OptionalFromRequestParts, State};
use axum::http::request::Parts;
use delivery_core::Delivery;
use delivery_core::http::{self, Reply};

use crate::exchange;
use crate::rejection::GrantRejection;

/// A currently valid key, as an extractor for the host application's own routes. It wraps a
/// [`delivery_core::http::Grant`].
///
/// A request without a valid key gets the API's own error response. A route that answers such requests itself takes
/// `Result<Grant, GrantRejection>`. A route that also serves requests without a key takes `Option<Grant>`. The option
/// is `None` only if the request has no key; an invalid key is still refused. The extractor counts no use; to count
/// one, call [`count_use`](http::Grant::count_use). Behind a [`RequireKeyLayer`](crate::RequireKeyLayer), the extractor
/// returns the key that the layer has checked.
///
/// The extractor takes the service from the router's state `S`, which needs `Delivery: FromRef<S>`. A router whose
/// state lacks this implementation does not compile:
///
/// ```compile_fail,E0277
/// use axum::{Router, routing::get};
/// let routes: Router<()> = Router::new().route("/", get(async |grant: delivery_axum::Grant| "never"));
/// ```
///
/// ```
/// use axum::{Router, extract::FromRef, routing::get};
/// use delivery_axum::{Grant, GrantRejection};
/// use delivery_core::Delivery;
///
/// #[derive(Clone)]
/// struct App { delivery: Delivery }
///
/// impl FromRef<App> for Delivery {
///     fn from_ref(app: &App) -> Self { app.delivery.clone() }
/// }
///
/// async fn download(grant: Grant) -> Result<String, GrantRejection> {
///     let product = grant.key().product();
///     let key = grant.count_use(product).await?;
///     Ok(format!("used {} times", key.used()))
/// }
///
/// let routes: Router<App> = Router::new().route("/download", get(download));
/// ```
///
/// # Example: the service as an extension
///
/// ```
/// use axum::{Extension, Router, routing::get};
/// use delivery_axum::Grant;
/// use delivery_core::Delivery;
///
/// fn routes(delivery: Delivery) -> Router {
///     let hello = async |grant: Grant<Extension<Delivery>>| grant.key().email().to_string();
///     Router::new().route("/hello", get(hello)).layer(Extension(delivery))
/// }
/// ```
pub struct Grant<From = State<Delivery>>(http::Grant, PhantomData<fn() -> From>);

impl<F> Grant<F> {
    pub(crate) fn new(grant: http::Grant) -> Self {
        Self(grant, PhantomData)
    }

    /// Returns the grant that a layer has put into the request's extensions.
    fn checked(head: &Parts) -> Option<Self> {
        head.extensions.get::<Grant>().map(|grant| Self::new(grant.0.clone()))
    }

    async fn of(head: &Parts, delivery: &Delivery) -> Result<Self, GrantRejection> {
        if let Some(checked) = Self::checked(head) {
            return Ok(checked);
        }
        let call = exchange::call(head.clone());
        http::Grant::of(delivery, &call).await.map(Self::new).map_err(GrantRejection::from)
    }

    async fn of_optional(head: &Parts, delivery: &Delivery) -> Result<Option<Self>, GrantRejection> {
        if let Some(checked) = Self::checked(head) {
            return Ok(Some(checked));
        }
        let call = exchange::call(head.clone());
        let grant = http::Grant::of_optional(delivery, &call).await.map_err(GrantRejection::from)?;
        Ok(grant.map(Self::new))
    }
}

/// Returns the service that the host application has added as an extension. If the application has not added it, logs
/// the cause and returns the API's response 500.
fn extension(head: &Parts) -> Result<&Delivery, GrantRejection> {
    head.extensions.get::<Delivery>().ok_or_else(|| {
        tracing::error!("a route takes Grant<Extension<Delivery>>, and its router has no .layer(Extension(delivery))");
        GrantRejection::from(Box::new(Reply::internal()))
    })
}

impl<S: Send + Sync> FromRequestParts<S> for Grant<State<Delivery>>
where
    Delivery: FromRef<S>,
{
    type Rejection = GrantRejection;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, GrantRejection> {
        Self::of(head, &Delivery::from_ref(state)).await
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for Grant<State<Delivery>>
where
    Delivery: FromRef<S>,
{
    type Rejection = GrantRejection;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Option<Self>, GrantRejection> {
        Self::of_optional(head, &Delivery::from_ref(state)).await
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Grant<Extension<Delivery>> {
    type Rejection = GrantRejection;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, GrantRejection> {
        Self::of(head, extension(head)?).await
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for Grant<Extension<Delivery>> {
    type Rejection = GrantRejection;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Option<Self>, GrantRejection> {
        Self::of_optional(head, extension(head)?).await
    }
}

impl<F> Deref for Grant<F> {
    type Target = http::Grant;

    fn deref(&self) -> &http::Grant {
        &self.0
    }
}

impl<F> Clone for Grant<F> {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl<F> fmt::Debug for Grant<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Grant").field(&self.0).finish()
    }
}
