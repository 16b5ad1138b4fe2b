//! A connection that is closed when its client reads an answer too slowly.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BufMut;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::io::poll_read_buf;

use super::idle::Conversation;

/// How long a client may take to read an answer, without the time that [`BYTES_A_SECOND`] adds.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many bytes a client must read to get one more second: 1 MiB may take three minutes.
const BYTES_A_SECOND: u64 = 8 << 10;
/// How much of an answer the kernel may buffer, in bytes. Linux doubles this value for its own use.
const KERNEL: usize = 128 << 10;

/// How much is read at once, in bytes: below the buffer of 8 KiB that hyper begins with, so that it never grows for a body.
const PIECE: usize = (8 << 10) - 1;

/// How long the rest of a request's body is read if the request was answered before the end of its body. A connection
/// that is closed with unread bytes is reset, and its client might not get the answer.
const LINGER: Duration = Duration::from_secs(5);
/// How much of this rest is read, in bytes.
const REST: usize = 16 << 20;

/// A client's connection. A write fails with [`io::ErrorKind::TimedOut`] once the client is too slow; the server then
/// closes the connection. A client that keeps up costs no timer.
pub(crate) struct Paced {
    stream: TcpStream,
    /// How long the client may read nothing of an answer.
    patience: Duration,
    /// The answer that the client has kept waiting; `None` if no write of it had to wait.
    answer: Option<Answer>,
    /// Set while a write waits for the client.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Whether the client may still be sending a body when the connection is closed.
    lingers: Arc<AtomicBool>,
    /// When to stop reading the rest of a body; set while the connection is closed.
    lingering: Option<Pin<Box<Sleep>>>,
    /// How many bytes of this rest were read.
    discarded: usize,
    /// Notified when an answer is sent.
    conversation: Arc<Conversation>,
}

struct Answer {
    since: Instant,
    written: u64,
}

impl Paced {
    /// `patience` is how long the client may read nothing of an answer. `lingers` is true while the last
    /// request was answered before the end of its body.
    pub(crate) fn new(
        stream: TcpStream,
        patience: Duration,
        lingers: Arc<AtomicBool>,
        conversation: Arc<Conversation>,
    ) -> Self {
        // Answers are single writes: waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        // Otherwise the kernel buffers megabytes for a client that reads nothing, and the server cannot see how slow it
        // is.
        let _ = SockRef::from(&stream).set_send_buffer_size(KERNEL);
        Self { stream, patience, answer: None, deadline: None, lingers, lingering: None, discarded: 0, conversation }
    }

    /// Applies the deadlines to the result of a write.
    fn paced(&mut self, wrote: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(wrote) = wrote {
            self.deadline = None;
            if let (Some(answer), Ok(bytes)) = (&mut self.answer, &wrote) {
                answer.written += *bytes as u64;
            }
            return Poll::Ready(wrote);
        }
        let (now, patience) = (now(), self.patience);
        let answer = self.answer.get_or_insert(Answer { since: now, written: 0 });
        let whole = answer.since + PATIENCE + Duration::from_secs(answer.written / BYTES_A_SECOND);
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep_until(whole.min(now + patience))));
        ready!(deadline.as_mut().poll(context));
        // Also discards the bytes that the kernel still buffers for the client.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

#[expect(clippy::disallowed_methods, reason = "a client's slowness is measured in real time")]
fn now() -> Instant {
    Instant::now()
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Does not zero the buffer first, as `ReadBuf::initialize_unfilled_to` would do for each request.
        let bytes = ready!(poll_read_buf(Pin::new(&mut self.stream), context, &mut buffer.limit(PIECE)))?;
        // This is the next request, unless the client sent it ahead while it is still reading an answer.
        if bytes > 0 && self.deadline.is_none() {
            self.answer = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.paced(wrote, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.paced(wrote, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() && !self.lingers.load(Ordering::Relaxed) {
            self.conversation.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        if !self.lingers.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let mut room = [0; 8 << 10];
        loop {
            let end = self.lingering.get_or_insert_with(|| Box::pin(sleep_until(now() + LINGER)));
            if end.as_mut().poll(context).is_ready() || self.discarded >= REST {
                return Poll::Ready(Ok(()));
            }
            let mut rest = ReadBuf::new(&mut room);
            // A read error ends the body too.
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut rest));
            if read.is_err() || rest.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.discarded += rest.filled().len();
        }
    }
}
