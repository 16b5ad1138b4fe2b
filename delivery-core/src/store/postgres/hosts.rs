//! The hosts of a database, and all their addresses.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions, Executor, Row};
use tokio::time::timeout;

use crate::net::{addresses, race};

/// How long a host or an address is tried before the next one is tried too, at the same time. This is short, so that
/// several hosts are tried within the time limit for connecting.
const HEAD_START: Duration = Duration::from_millis(500);

/// A setting of a session: its name and its value.
pub(super) type Setting = (&'static str, &'static str);

/// The hosts of a database, in the order in which they are tried.
#[derive(Clone)]
pub(super) struct Hosts {
    first: PgConnectOptions,
    others: Vec<PgConnectOptions>,
    /// The time limit for connecting to one host; `None` if the database's address sets no limit.
    patience: Option<Duration>,
}

impl From<PgConnectOptions> for Hosts {
    fn from(first: PgConnectOptions) -> Self {
        Self { first, others: Vec::new(), patience: None }
    }
}

impl Hosts {
    pub(super) fn new(first: PgConnectOptions, others: Vec<PgConnectOptions>, patience: Option<Duration>) -> Self {
        Self { first, others, patience }
    }

    /// Returns the hosts after applying `change` to the options of each.
    pub(super) fn map(self, change: impl Fn(PgConnectOptions) -> PgConnectOptions) -> Self {
        let Self { first, others, patience } = self;
        Self { first: change(first), others: others.into_iter().map(&change).collect(), patience }
    }

    /// Connects to the host that answers first, and applies `settings` to the session. Returns the session, and options
    /// for further connections to the same host. These options do not contain `settings`. If there are several hosts,
    /// skips standby servers.
    pub(super) async fn connect(
        &self,
        settings: &'static [Setting],
    ) -> Result<(PgConnection, PgConnectOptions), sqlx::Error> {
        let (patience, is_one) = (self.patience, self.others.is_empty());
        race(HEAD_START, self.first.clone(), self.others.clone(), |options| async move {
            let connecting = connect(options, settings, is_one);
            match patience {
                None => connecting.await,
                Some(patience) => {
                    let connected = timeout(patience, connecting).await;
                    connected.unwrap_or_else(|elapsed| Err(io::Error::from(elapsed).into()))
                }
            }
        })
        .await
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &PgConnectOptions> {
        std::iter::once(&self.first).chain(&self.others)
    }

    #[cfg(test)]
    pub(super) fn patience(&self) -> Option<Duration> {
        self.patience
    }
}

/// Connects to one host, at the address that answers first.
///
/// The driver tries the addresses of a host name one after another, and gives up on a silent address only after
/// minutes. So this function also tries the second and all further addresses by itself, without waiting for the driver.
/// With `sslmode=verify-full` it does not, because only the driver can check that a certificate belongs to the host
/// name.
async fn connect(
    options: PgConnectOptions,
    settings: &'static [Setting],
    is_one: bool,
) -> Result<(PgConnection, PgConnectOptions), sqlx::Error> {
    let others = other_addresses(&options).await;
    let (mut session, options) = first_of(options, others, settings).await?;
    if !is_one && is_standby(&mut session).await? {
        return Err(sqlx::Error::Configuration("the server is a standby, which takes no orders".into()));
    }
    Ok((session, options))
}

/// Connects with the options `by_name`, which contain the host's name, or with one of `others`, which contain the
/// host's other addresses. Returns the connection that is open first.
async fn first_of(
    by_name: PgConnectOptions,
    others: Vec<PgConnectOptions>,
    settings: &'static [Setting],
) -> Result<(PgConnection, PgConnectOptions), sqlx::Error> {
    let attempt = |(options, has_name): (PgConnectOptions, bool)| async move {
        let connected = options.clone().options(settings.iter().copied()).connect().await;
        match connected {
            Ok(session) => Ok(Ok((session, options))),
            // If the connection sent the host's name, an error that the server reports is final, because the server
            // would report the same at its other addresses. If the connection sent only an address, the error is not
            // final: a proxy for many servers may need the name, and accept the attempt that sends it.
            Err(refused @ sqlx::Error::Database(_)) if has_name => Ok(Err(refused)),
            Err(error) => Err(error),
        }
    };
    race(HEAD_START, (by_name, true), others.into_iter().map(|options| (options, false)), attempt).await?
}

/// Returns the options for each address of the host except the first one, which the driver tries by itself. Returns
/// none if the host is a socket or an IP address, or if `sslmode` is `verify-full`.
async fn other_addresses(options: &PgConnectOptions) -> Vec<PgConnectOptions> {
    let host = options.get_host();
    let is_name = options.get_socket().is_none() && !host.starts_with('/') && host.parse::<IpAddr>().is_err();
    if !is_name || matches!(options.get_ssl_mode(), PgSslMode::VerifyFull) {
        return Vec::new();
    }
    // If the name is unknown, there are no addresses here, and the driver reports the error.
    let found = addresses(host, options.get_port()).await.unwrap_or_default();
    found.iter().skip(1).map(|address| options.clone().host(&address.ip().to_string())).collect()
}

async fn is_standby(session: &mut PgConnection) -> Result<bool, sqlx::Error> {
    session.fetch_one("SELECT pg_is_in_recovery()").await?.try_get(0)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Imitates a proxy that finds a tenant's server only by the host name that the client sends in TLS. The proxy
    /// first refuses a connection that was made to its IP address. It later accepts a connection that was made to its
    /// host name, and this connection must be used.
    #[tokio::test]
    async fn who_is_refused_by_address_is_still_let_in_by_name() {
        const REFUSED: &[u8] = b"E\x00\x00\x00\x23SFATAL\0C08004\0Mno such tenant\0\0";
        const LET_IN: &[u8] = b"R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I";
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let by_name = PgConnectOptions::new_without_pgpass().host("localhost").username("delivery");
        let by_name = by_name.port(listener.local_addr().unwrap().port()).ssl_mode(PgSslMode::Disable);
        let by_address = by_name.clone().host("127.0.0.1");
        let server = async {
            let (mut named, _) = listener.accept().await.unwrap();
            // The second connection is made after the head start, because the first one gets no answer.
            let (mut unnamed, _) = listener.accept().await.unwrap();
            unnamed.write_all(REFUSED).await.unwrap();
            // Waits until the client has closed the second connection.
            let _ = unnamed.read_to_end(&mut Vec::new()).await;
            let _ = named.write_all(LET_IN).await;
            named
        };
        let (connected, _) = tokio::join!(first_of(by_name, vec![by_address], &[]), server);
        assert_eq!(connected.unwrap().1.get_host(), "localhost");
    }
}
