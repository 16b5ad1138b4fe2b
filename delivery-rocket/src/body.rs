//! Bodies: of a request that Rocket did not accept itself, and of an answer.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use delivery_core::http::ReplyBody;
use rocket::Request;
use rocket::futures::Stream;
use rocket::tokio::io::{AsyncRead, AsyncSeek, ReadBuf};

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

/// The body of an answer, as Rocket reads it, and what is left of the piece at hand. Rocket knows its length, and never seeks.
pub(crate) struct Answer(pub ReplyBody, pub Bytes);

impl AsyncRead for Answer {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.1.is_empty() {
            self.1 = self.0.next_piece().unwrap_or_default();
        }
        let fits = self.1.len().min(into.remaining());
        into.put_slice(&self.1.split_to(fits));
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for Answer {
    fn start_seek(self: Pin<&mut Self>, _: io::SeekFrom) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}
