//! The stream to a mail server, with or without TLS, that lettre reads and writes.
//!
//! lettre reads replies as UTF-8. It rejects long lines, lines that end in LF alone, and lines without text, although
//! RFC 5321, 4.2, makes the text optional. If it rejected a confirmation in this way, the e-mail would be sent again
//! and again. lettre also recognises the names of extensions only in capitals. This stream therefore rewrites replies
//! into a form that lettre accepts.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

/// The number of digits of a reply code.
const CODE: usize = 3;
/// The maximum number of bytes that are kept of each line of a reply. lettre accepts at most 1,000 bytes, including the
/// line ending.
const LINE: usize = 900;
/// The bytes that end a message. lettre writes them in a separate call.
const DOT: &[u8] = b"\r\n.\r\n";
/// The maximum number of bytes that are kept of a reply. A longer reply is an error, because it would take too much
/// time: for each further line, lettre parses the reply from its beginning again.
const REPLY: usize = 8 * 1024;
/// The maximum number of bytes that are read of a reply, including the bytes that are not kept. A longer reply is an
/// error.
const READ_OF_REPLY: usize = 128 * 1024;
/// The maximum number of bytes to read at once.
const READ: usize = 2048;

/// A connection. Its clones share one stream: lettre reads and writes through one clone. Another clone is used to query
/// the connection, and to upgrade it to TLS.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    /// `None` after the stream was taken out to be upgraded to TLS.
    stream: Option<Stream>,
    replies: Replies,
    is_written: bool,
    dot_sent: bool,
}

#[derive(Debug)]
enum Stream {
    Clear(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Rewrites replies into a form that lettre accepts.
#[derive(Debug, Default)]
struct Replies {
    /// The number of bytes of the current line so far.
    column: usize,
    /// Whether the current line so far is a code without visible text. Spaces, and bytes that are not ASCII, do not
    /// count as visible text.
    is_code: bool,
    /// Whether the last command was EHLO.
    is_hello: bool,
    /// The number of bytes that the server has sent since the last command.
    read: usize,
    /// The number of bytes of rewritten replies since the last command.
    kept: usize,
    /// The rewritten bytes that lettre has not read yet.
    ready: std::collections::VecDeque<u8>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self::over(Stream::Clear(stream), "")
    }

    fn over(stream: Stream, greeting: &str) -> Self {
        let replies = Replies { ready: greeting.bytes().collect(), ..Replies::default() };
        let inner = Inner { stream: Some(stream), replies, is_written: false, dot_sent: false };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Upgrades the connection to TLS. lettre first reads `greeting`, then what the server sends. After STARTTLS,
    /// `greeting` stands in for the server's greeting: lettre waits for one, but the server sends none.
    pub(super) async fn secured(
        self,
        tls: &TlsConnector,
        host: ServerName<'static>,
        greeting: &str,
    ) -> io::Result<Self> {
        let stream = match self.inner().stream.take() {
            Some(Stream::Clear(stream)) => stream,
            Some(Stream::Tls(_)) | None => return Err(io::ErrorKind::NotConnected.into()),
        };
        Ok(Self::over(Stream::Tls(Box::new(tls.connect(host, stream).await?)), greeting))
    }

    /// Returns whether a command was sent to the server. If not, the server's last reply can only be its greeting.
    pub(super) fn is_written(&self) -> bool {
        self.inner().is_written
    }

    /// Returns whether the dot that ends a message was sent since the last call of this function. If it was sent, the
    /// server may have accepted the message.
    pub(super) fn dot_sent(&self) -> bool {
        std::mem::take(&mut self.inner().dot_sent)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_stream<T>(&self, act: impl FnOnce(Pin<&mut dyn Duplex>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &mut self.inner().stream {
            Some(Stream::Clear(stream)) => act(Pin::new(stream)),
            Some(Stream::Tls(stream)) => act(Pin::new(stream.as_mut())),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

impl Replies {
    fn take_in(&mut self, bytes: &[u8]) {
        self.read = self.read.saturating_add(bytes.len());
        for byte in bytes {
            match *byte {
                b'\n' => {
                    if self.is_code && self.column >= CODE {
                        // lettre rejects a code without text, so add a text: `250` becomes `250 -`, and `250-` becomes
                        // `250--`.
                        self.keep(if self.column == CODE { b" -" } else { b"-" });
                    }
                    self.keep(b"\r\n");
                    self.column = 0;
                }
                // Drop CR, at the end of a line and inside one: each line gets a new CR and LF at its end.
                b'\r' => {}
                byte => {
                    let is_of_code = match self.column {
                        0..CODE => byte.is_ascii_digit(),
                        CODE => matches!(byte, b'-' | b' '),
                        _ => byte == b' ' || !byte.is_ascii(),
                    };
                    self.is_code = is_of_code && (self.column == 0 || self.is_code);
                    self.column = self.column.saturating_add(1);
                    if self.column <= LINE && byte.is_ascii() {
                        self.keep(&[if self.is_hello { byte.to_ascii_uppercase() } else { byte }]);
                    }
                }
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.ready.extend(bytes);
        self.kept = self.kept.saturating_add(bytes.len());
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            {
                let ready = &mut self.inner().replies.ready;
                if !ready.is_empty() {
                    let some = ready.len().min(buffer.remaining());
                    ready.drain(..some).for_each(|byte| buffer.put_slice(&[byte]));
                    return Poll::Ready(Ok(()));
                }
            }
            let mut bytes = [0; READ];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(self.with_stream(|stream| stream.poll_read(context, &mut read)))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            let replies = &mut self.inner().replies;
            replies.take_in(read.filled());
            if replies.kept > REPLY || replies.read > READ_OF_REPLY {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(self.with_stream(|stream| stream.poll_write(context, bytes)))?;
        let mut inner = self.inner();
        inner.is_written = true;
        inner.dot_sent |= bytes == DOT;
        let replies = &mut inner.replies;
        (replies.read, replies.kept, replies.is_hello) = (0, 0, bytes.starts_with(b"EHLO"));
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with_stream(|stream| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with_stream(|stream| stream.poll_shutdown(context))
    }
}

impl AsyncTokioStream for Wire {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.inner().stream {
            Some(Stream::Clear(stream)) => stream.peer_addr(),
            Some(Stream::Tls(stream)) => stream.get_ref().0.peer_addr(),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_become_ascii_lines_that_lettre_takes() {
        let long = "x".repeat(20_000);
        for (said, read) in [
            (&b"250 ok\r\n"[..], "250 ok\r\n".to_owned()),
            (b"250\r\n", "250 -\r\n".to_owned()),
            (b"250-\n250-a\n250\n", "250--\r\n250-a\r\n250 -\r\n".to_owned()),
            (b"250 \r\n250- \r\n250-\xfc\r\n", "250 -\r\n250- -\r\n250--\r\n".to_owned()),
            (b"25\r\n2500\r\n250--\r\n", "25\r\n2500\r\n250--\r\n".to_owned()),
            (b"250 \xfcbernommen\r\n", "250 bernommen\r\n".to_owned()),
            ("250 übernommen\r\n".as_bytes(), "250 bernommen\r\n".to_owned()),
            (format!("250-{long}\r\n250 ok\r\n").as_bytes(), format!("250-{}\r\n250 ok\r\n", "x".repeat(LINE - 4))),
        ] {
            for pieces in [1, 7, said.len()] {
                let mut replies = Replies::default();
                said.chunks(pieces).for_each(|piece| replies.take_in(piece));
                let ready: Vec<u8> = replies.ready.into();
                assert_eq!(String::from_utf8(ready).unwrap(), read);
            }
        }
    }
}
