//! A layer that passes on only requests with a valid key.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use delivery_core::Delivery;
use delivery_core::http::Requirement;
use delivery_core::product::ProductId;
use futures_util::future::BoxFuture;
use tower::{Layer, Service};

use crate::exchange;
use crate::grant::Grant;
use crate::rejection::GrantRejection;

/// A [`tower::Layer`] that passes on only requests with a valid key, and puts the [`Grant`] into their extensions. The
/// layer answers all other requests with the API's own error response.
///
/// ```
/// use axum::{Extension, Router, routing::get};
/// use delivery_axum::{Grant, RequireKeyLayer};
/// use delivery_core::{Delivery, product::ProductId};
///
/// fn downloads(delivery: &Delivery, book: ProductId) -> Router {
///     let layer = RequireKeyLayer::new(delivery).product(book).counting();
///     let book = async |grant: Extension<Grant>| format!("used {} times", grant.key().used());
///     Router::new().route("/book", get(book).route_layer(layer))
/// }
/// ```
#[derive(Debug, Clone)]
pub struct RequireKeyLayer {
    delivery: Delivery,
    requirement: Requirement,
}

impl RequireKeyLayer {
    /// Creates a layer that accepts any valid key and counts no use.
    #[must_use]
    pub fn new(delivery: &Delivery) -> Self {
        Self { delivery: delivery.clone(), requirement: Requirement::default() }
    }

    /// Accepts only keys for `product`.
    #[must_use]
    pub fn product(self, product: ProductId) -> Self {
        Self { requirement: self.requirement.product(product), ..self }
    }

    /// Counts each request as a use of the key. The use is saved before the route gets the request. HEAD requests are
    /// not counted. Put the layer on the method router, as the example does: on a router, the layer also counts
    /// requests that are then answered 404 or 405.
    #[must_use]
    pub fn counting(self) -> Self {
        Self { requirement: self.requirement.counting(), ..self }
    }
}

impl<S> Layer<S> for RequireKeyLayer {
    type Service = RequireKey<S>;

    fn layer(&self, inner: S) -> RequireKey<S> {
        RequireKey { inner, require: self.clone() }
    }
}

/// A service behind [`RequireKeyLayer`].
#[derive(Debug, Clone)]
pub struct RequireKey<S> {
    inner: S,
    require: RequireKeyLayer,
}

impl<S> Service<Request> for RequireKey<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // `poll_ready` made `self.inner` ready, so this call uses it and leaves a clone behind.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let RequireKeyLayer { delivery, requirement } = self.require.clone();
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            match requirement.check(&delivery, &exchange::call(head.clone())).await {
                Ok(grant) => {
                    head.extensions.insert(<Grant>::new(grant));
                    inner.call(Request::from_parts(head, body)).await
                }
                Err(reply) => Ok(GrantRejection::from(reply).into_response()),
            }
        })
    }
}
