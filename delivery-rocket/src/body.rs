//! The body of a request that Rocket did not accept itself.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use rocket::Request;
use rocket::futures::Stream;

/// A request's body as a stream, for a host that accepts connections in a loop of its own and dispatches requests by
/// [`Client`](rocket::local::asynchronous::Client).
///
/// Rocket's local requests take their body as bytes, so the API could not limit how much of a client's body is read,
/// and for how long. With a stream it can. `examples/rocket_server.rs` is such a host.
#[derive(Default)]
pub struct RequestBody(Mutex<Option<Pieces>>);

pub(crate) type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

impl RequestBody {
    /// Gives `request` a body, which the API's routes read instead of Rocket's own. A second one is dropped.
    pub fn attach(request: &Request<'_>, body: impl Stream<Item = io::Result<Bytes>> + Send + 'static) {
        request.local_cache(|| Self(Mutex::new(Some(Box::pin(body)))));
    }

    /// The attached body, once.
    pub(crate) fn take(request: &Request<'_>) -> Option<Pieces> {
        request.local_cache(Self::default).0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
