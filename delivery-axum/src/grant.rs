//! A guard for the host's own routes.

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use delivery_core::Delivery;
use delivery_core::http::{Call, Reply, granted};
use delivery_core::key::Key;
use delivery_core::product::ProductId;

use crate::exchange;

/// A key that is valid now, for a route of the host's own.
///
/// Extracting one checks the key like `/api/validate` does, wherever it stands (`?key=`, `Authorization: Bearer`,
/// `X-API-Key`), and counts nothing; a request without a valid key gets the API's own answer. Counting a use is the
/// route's explicit choice: [`count_use`](Self::count_use).
///
/// The router's state must hold the service: `Delivery: FromRef<S>`. A state without it does not compile.
///
/// ```
/// use axum::{Router, extract::FromRef, routing::get};
/// use delivery_axum::{Grant, Refused};
/// use delivery_core::{Delivery, product::ProductId};
///
/// #[derive(Clone, FromRef)]
/// struct App { delivery: Delivery }
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
pub struct Grant {
    delivery: Delivery,
    key: Key,
}

/// The API's answer to a request that was refused; a handler returns it as its error.
#[derive(Debug)]
pub struct Refused(Box<Reply>);

impl Grant {
    /// The key as it stood when the request came.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Counts one use of the key for `product`, durably, and answers the key as it stands then.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the key is for another product or was used up or revoked meanwhile, or the store failed; nothing was
    /// counted then.
    pub async fn count_use(&self, product: ProductId) -> Result<Key, Refused> {
        let counted = self.delivery.count_use(self.key.id(), product).await;
        counted.map_err(|error| Refused(Box::new(Reply::failure(&error))))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Grant
where
    Delivery: FromRef<S>,
{
    type Rejection = Refused;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Refused> {
        let delivery = Delivery::from_ref(state);
        let call = Call {
            query: head.uri.query().map(str::to_owned),
            headers: head.headers.clone(),
            peer: exchange::peer(&head.extensions),
            ..Call::new(head.method.clone())
        };
        match granted(&delivery, &call).await {
            Ok(key) => Ok(Self { delivery, key }),
            Err(reply) => Err(Refused(reply)),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        exchange::response(*self.0)
    }
}
