//! Connections to the mail server, kept for the next letter.
//!
//! A connection comes back only when the exchange over it is over. One whose letter was cut off is dropped with it: replies
//! that are under way would be read by the next letter as its own, and that be taken for sent. lettre's own pool takes
//! such a connection back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use std::{fmt, io};

use lettre::Message;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Tls};
use lettre::transport::smtp::extension::ClientId;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(30);
/// How long a server may take to say that it is still there.
const ANSWER: Duration = Duration::from_secs(5);
/// A connection that nobody needs is closed after once or twice this: mail servers wait for minutes, but have others to
/// serve.
const IDLE: Duration = Duration::from_secs(10);
/// Letters over one connection: several mail servers allow a hundred.
const LETTERS: u32 = 100;

/// A letter that was not taken.
#[derive(Debug, Error)]
pub(super) enum SendError {
    #[error("connection error")]
    Connect(#[from] io::Error),
    #[error(transparent)]
    Smtp(#[from] lettre::transport::smtp::Error),
}

/// Where letters go.
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Tls,
    pub(super) credentials: Option<Credentials>,
}

/// The connections that wait for a letter.
pub(super) struct Connections {
    server: Server,
    hello: ClientId,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    idle: Vec<Open>,
    /// Whether somebody looks after those that nobody needs.
    swept: bool,
}

struct Open {
    connection: AsyncSmtpConnection,
    letters: u32,
    /// Idle since before the last sweep.
    unused: bool,
}

impl Connections {
    pub(super) fn to(server: Server) -> Arc<Self> {
        Arc::new(Self { server, hello: ClientId::default(), kept: Mutex::default() })
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Sends a message over a connection that is there, or a new one.
    pub(super) async fn send(self: &Arc<Self>, message: &Message) -> Result<(), SendError> {
        let (envelope, text) = (message.envelope(), message.formatted());
        let mut kept = self.idle().await;
        if let Some(open) = &mut kept {
            match open.connection.send(envelope, &text).await {
                Ok(_) => {}
                // It did not take the letter, but may just have had enough of this connection.
                Err(error) if error.is_transient() => kept = None,
                Err(error) => return Err(error.into()),
            }
        }
        let mut open = if let Some(open) = kept {
            open
        } else {
            let mut connection = self.server.connect(&self.hello).await?;
            // A refusal ends the connection too.
            connection.send(envelope, &text).await?;
            Open { connection, letters: 0, unused: false }
        };
        open.letters += 1;
        if open.letters < LETTERS {
            self.keep(open);
        } else {
            tokio::spawn(quit(open));
        }
        Ok(())
    }

    /// A connection whose server still answers.
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
        if !std::mem::replace(&mut kept.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what was idle since the last sweep; whether anything is left to look after.
    fn unused(&self) -> (Vec<Open>, bool) {
        let mut kept = self.kept();
        let unused = kept.idle.extract_if(.., |open| std::mem::replace(&mut open.unused, true)).collect();
        kept.swept = !kept.idle.is_empty();
        (unused, kept.swept)
    }
}

impl Server {
    async fn connect(&self, hello: &ClientId) -> Result<AsyncSmtpConnection, SendError> {
        // A URL has an IPv6 address in brackets.
        let address = (self.host.trim_matches(['[', ']']), self.port);
        let mut connection = if let Tls::Wrapper(tls) = &self.tls {
            AsyncSmtpConnection::connect_tokio1(address, Some(CONNECT), hello, Some(tls.clone()), None).await?
        } else {
            let stream = timeout(CONNECT, TcpStream::connect(address)).await.map_err(io::Error::from)??;
            // lettre writes a letter and its final dot one after the other: the dot would wait until the letter is
            // acknowledged, which the other side may put off for 40 ms.
            stream.set_nodelay(true)?;
            AsyncSmtpConnection::connect_with_transport(Box::new(stream), hello).await?
        };
        if let Tls::Required(tls) = &self.tls {
            connection.starttls(tls.clone(), hello).await?;
        }
        if let Some(credentials) = &self.credentials {
            connection.auth(DEFAULT_MECHANISMS, credentials).await?;
        }
        Ok(connection)
    }
}

/// Closes what nobody needs, until there is nothing left.
async fn sweep(connections: Weak<Connections>) {
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

/// Says good-bye; a server that does not answer is left all the same.
async fn quit(mut open: Open) {
    let _ = timeout(CONNECT, open.connection.quit()).await;
}
