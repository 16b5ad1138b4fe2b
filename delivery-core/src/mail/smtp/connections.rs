//! Connections to the mail server, kept open for the next e-mail.
//!
//! A connection is reused only after the exchange over it has ended. If the sending of an e-mail is cancelled, its
//! connection is dropped. Otherwise the next e-mail would read the late replies as its own, and could be recorded as
//! sent without being sent. lettre's own pool is not used here, because it does reuse such connections.

use std::fmt;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lettre::Message;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::Starttls;
use lettre::transport::smtp::extension::{ClientId, Extension};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::exchange::{self, BEFORE, ConnectError, SendError};
use super::wire::Wire;
use crate::mail::running_time::within;
use crate::net;

/// How long an e-mail waits until the limit of connections lets it have one. An alert or a test e-mail may have to wait
/// until the server confirms an e-mail of the outbox, which takes up to ten minutes. In turn, the outbox waits only for
/// them, because it never sends more e-mails at once than the limit allows. The desk gives up a test e-mail after 20
/// seconds, so a shorter wait lets it report the reason.
const WAIT: Duration = Duration::from_secs(15);
/// The time limit for the server's replies to the commands that test and close a connection.
const ANSWER: Duration = Duration::from_secs(5);
/// The interval at which idle connections are cleaned up. A connection is closed when it has been idle for one to two
/// intervals. Mail servers would keep it open for minutes, but many of them allow only a limited number of connections.
const IDLE: Duration = Duration::from_secs(10);
/// The maximum number of e-mails that are sent over one connection. Several mail servers allow at most a hundred.
const MESSAGES: u32 = 100;

/// How the connection to the server is secured.
pub(super) enum Security {
    /// Without encryption.
    None,
    /// With TLS from the first byte.
    Implicit(Tls),
    /// With STARTTLS. If the server does not offer STARTTLS, no e-mail is sent.
    StartTls(Tls),
}

pub(super) struct Tls {
    pub(super) connector: TlsConnector,
    pub(super) host: ServerName<'static>,
}

/// The mail server to send through.
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) security: Security,
    pub(super) credentials: Option<Credentials>,
}

/// The connections to a mail server.
pub(super) struct Connections {
    pub(super) server: Arc<Server>,
    kept: Mutex<Kept>,
    /// The maximum number of open connections; `None` if there is no limit.
    pub(super) limit: Option<NonZeroUsize>,
    /// Enforces `limit`: a connection takes a permit before it is opened, and returns the permit when it is closed.
    permits: Arc<Semaphore>,
    /// Notified when a connection becomes idle.
    idle: Notify,
}

#[derive(Default)]
struct Kept {
    idle: Vec<Open>,
    /// Whether the task that closes idle connections is running.
    swept: bool,
    /// The recipient that the server accepted most recently.
    accepted: Option<String>,
}

struct Open {
    connection: AsyncSmtpConnection,
    wire: Wire,
    messages: u32,
    /// Whether the connection has been idle since the last cleanup.
    unused: bool,
    permit: Permit,
}

/// A permit for one connection. It is `None` only if the semaphore is closed, which never happens.
type Permit = Option<OwnedSemaphorePermit>;

/// The connection for the next e-mail: an idle one, or a permit to open a new one.
enum NextConnection {
    Idle(Open),
    New(Permit),
}

impl Connections {
    /// Creates an empty pool of connections to `server`. At most `limit` connections are open at once. No connection is
    /// opened until it is needed.
    pub(super) fn to(server: Arc<Server>, limit: Option<NonZeroUsize>) -> Arc<Self> {
        let permits = limit.map_or(Semaphore::MAX_PERMITS, |limit| limit.get().min(Semaphore::MAX_PERMITS));
        let permits = Arc::new(Semaphore::new(permits));
        Arc::new(Self { server, kept: Mutex::default(), limit, permits, idle: Notify::new() })
    }

    /// Sends a message over an idle connection. If no connection is idle, opens a new one, with the name `hello` in
    /// EHLO.
    pub(super) async fn send(self: &Arc<Self>, message: &Message, hello: &ClientId) -> Result<(), SendError> {
        let text = message.formatted();
        let next = within(WAIT, self.next_connection()).await.ok_or(SendError::Occupied)?;
        let ready = self.ready_for(next, message, &text, hello);
        let mut open = within(BEFORE, ready).await.ok_or(SendError::Slow)??;
        exchange::message(&mut open.connection, &open.wire, &text).await?;
        open.messages += 1;
        if open.messages < MESSAGES {
            self.keep(open);
        } else {
            tokio::spawn(quit(open));
        }
        Ok(())
    }

    /// Checks that a connection to the server can be established, by opening and closing one.
    pub(super) async fn check(&self, hello: &ClientId) -> Result<(), SendError> {
        let permit = within(WAIT, self.permits.clone().acquire_owned()).await.ok_or(SendError::Occupied)?;
        let connect = self.server.connect(permit.ok(), hello);
        let open = within(BEFORE, connect).await.ok_or(SendError::Slow)?;
        quit(open.map_err(SendError::Connect)?).await;
        Ok(())
    }

    /// Waits for an idle connection, or for a permit to open one.
    async fn next_connection(&self) -> NextConnection {
        loop {
            // Register for notifications before looking for an idle connection. Otherwise, a connection that becomes
            // idle between these two steps would not be noticed.
            let mut notified = pin!(self.idle.notified());
            notified.as_mut().enable();
            if let Some(open) = self.idle().await {
                return NextConnection::Idle(open);
            }
            tokio::select! {
                permit = self.permits.clone().acquire_owned() => return NextConnection::New(permit.ok()),
                () = notified => {}
            }
        }
    }

    /// Returns a connection over which the server has accepted the sender and the recipient, and awaits the message.
    async fn ready_for(
        &self,
        next: NextConnection,
        message: &Message,
        text: &[u8],
        hello: &ClientId,
    ) -> Result<Open, SendError> {
        let permit = match next {
            NextConnection::New(permit) => permit,
            NextConnection::Idle(mut open) => match self.name(&mut open, message, text).await {
                Ok(()) => return Ok(open),
                // The idle connection is closed, and a new connection takes over its permit.
                Err(error) if error.is_of_the_connection() => open.permit,
                Err(error) => return Err(error),
            },
        };
        let mut open = self.server.connect(permit, hello).await.map_err(SendError::Connect)?;
        // On a refusal, `open` is dropped, which closes the connection.
        self.name(&mut open, message, text).await?;
        Ok(open)
    }

    /// Sends the commands that precede the message: MAIL, RCPT and DATA. Records the recipient if the server accepts
    /// all three commands.
    async fn name(&self, open: &mut Open, message: &Message, text: &[u8]) -> Result<(), SendError> {
        let recipient = message.envelope().to().first().map(ToString::to_string);
        match exchange::envelope(&mut open.connection, message.envelope(), text).await {
            Ok(()) => {
                self.kept().accepted = recipient;
                Ok(())
            }
            Err(SendError::Recipient { error, .. }) => {
                // A recipient that was accepted is evidence that the server does not refuse all recipients. Use this
                // evidence for one refusal only, because the server may begin to refuse all recipients at any time.
                let accepted = self.kept().accepted.take();
                Err(SendError::Recipient { others: accepted.is_some() && accepted != recipient, error })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns an idle connection whose server still responds, or `None`. Drops the connections that do not respond.
    async fn idle(&self) -> Option<Open> {
        loop {
            let mut open = self.kept().idle.pop()?;
            if timeout(ANSWER, open.connection.test_connected()).await.is_ok_and(|answered| answered) {
                return Some(Open { unused: false, ..open });
            }
        }
    }

    fn keep(self: &Arc<Self>, open: Open) {
        let mut kept = self.kept();
        kept.idle.push(open);
        self.idle.notify_waiters();
        if !std::mem::replace(&mut kept.swept, true) {
            tokio::spawn(cleanup(Arc::downgrade(self)));
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the connections that were not used since the last cleanup. Returns them, and whether other connections
    /// are left.
    fn unused(&self) -> (Vec<Open>, bool) {
        let mut kept = self.kept();
        let unused = kept.idle.extract_if(.., |open| std::mem::replace(&mut open.unused, true)).collect();
        kept.swept = !kept.idle.is_empty();
        (unused, kept.swept)
    }
}

impl Server {
    async fn connect(&self, permit: Permit, hello: &ClientId) -> Result<Open, ConnectError> {
        let stream = net::connect(&self.host, self.port).await?;
        // lettre writes an e-mail and its final dot separately. With Nagle's algorithm, the dot would wait until the
        // server acknowledges the e-mail, which the server may delay by 40 ms.
        stream.set_nodelay(true)?;
        let mut wire = Wire::new(stream);
        match &self.security {
            Security::None => {}
            Security::Implicit(tls) => wire = tls.over(wire, "").await?,
            Security::StartTls(tls) => {
                let mut clear = greeted(&wire, hello).await?;
                if !clear.server_info().supports_feature(Extension::StartTls) {
                    return Err(ConnectError::NoStartTls);
                }
                clear.command(Starttls).await.map_err(ConnectError::StartTls)?;
                // Unencrypted data that the server sent after its reply to STARTTLS is discarded, because `clear` is
                // not read any more.
                wire = tls.over(wire, "220 secured\r\n").await?;
            }
        }
        let mut connection = greeted(&wire, hello).await?;
        if let Some(credentials) = &self.credentials {
            connection.auth(DEFAULT_MECHANISMS, credentials).await.map_err(ConnectError::Login)?;
        }
        Ok(Open { connection, wire, messages: 0, unused: false, permit })
    }
}

impl Tls {
    /// Upgrades a connection to TLS, as [`Wire::secured`] describes.
    async fn over(&self, wire: Wire, greeting: &str) -> Result<Wire, ConnectError> {
        wire.secured(&self.connector, self.host.clone(), greeting).await.map_err(ConnectError::Tls)
    }
}

/// Reads the server's greeting and sends EHLO.
async fn greeted(wire: &Wire, hello: &ClientId) -> Result<AsyncSmtpConnection, ConnectError> {
    let greeted = AsyncSmtpConnection::connect_with_transport(Box::new(wire.clone()), hello).await;
    greeted.map_err(if wire.is_written() { ConnectError::Hello } else { ConnectError::Greeting })
}

/// Closes connections that stay idle. Returns when no idle connection is left.
async fn cleanup(connections: Weak<Connections>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(connections) = connections.upgrade() else { return };
        let (unused, more) = connections.unused();
        for open in unused {
            tokio::spawn(quit(open));
        }
        if !more {
            return;
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Sends QUIT, and closes the connection even if the server does not reply.
async fn quit(mut open: Open) {
    let _ = timeout(ANSWER, open.connection.quit()).await;
}
