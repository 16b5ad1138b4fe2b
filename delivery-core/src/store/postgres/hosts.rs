//! The hosts of a database, and all their addresses.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions, Executor, Row};
use tokio::time::timeout;

use crate::net::{addresses, race};

/// How long a host or an address is tried alone: several fit into the time that a session may take.
const HEAD_START: Duration = Duration::from_millis(500);

/// What a session sets.
pub(super) type Setting = (&'static str, &'static str);

/// The hosts of a database, in the order in which they are tried.
#[derive(Clone)]
pub(super) struct Hosts {
    first: PgConnectOptions,
    others: Vec<PgConnectOptions>,
    /// How long one host may take.
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

    /// The same hosts with other options.
    pub(super) fn map(self, change: impl Fn(PgConnectOptions) -> PgConnectOptions) -> Self {
        let Self { first, others, patience } = self;
        Self { first: change(first), others: others.into_iter().map(&change).collect(), patience }
    }

    /// A session on whichever host connects first, and the options that lead there, without `settings`. Of several hosts, one
    /// that can only be read is passed over.
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

/// A session on one host, at whichever of its addresses connects first.
///
/// The driver tries the addresses of a name one after another, and leaves a silent one only after minutes. So the others
/// are tried by themselves. Where the certificate must be the name's, only the driver can do that.
async fn connect(
    options: PgConnectOptions,
    settings: &'static [Setting],
    is_one: bool,
) -> Result<(PgConnection, PgConnectOptions), sqlx::Error> {
    let others = other_addresses(&options).await;
    let attempt = |options: PgConnectOptions| async move {
        let connected = options.clone().options(settings.iter().copied()).connect().await;
        match connected {
            Ok(session) => Ok(Ok((session, options))),
            // The server's own words: it would say the same at another address.
            Err(refused @ sqlx::Error::Database(_)) => Ok(Err(refused)),
            Err(error) => Err(error),
        }
    };
    let (mut session, options) = race(HEAD_START, options, others, attempt).await??;
    if !is_one && is_standby(&mut session).await? {
        return Err(sqlx::Error::Configuration("the server is a standby, which takes no orders".into()));
    }
    Ok((session, options))
}

/// The same options for each address of the host but its first.
async fn other_addresses(options: &PgConnectOptions) -> Vec<PgConnectOptions> {
    let host = options.get_host();
    let is_name = options.get_socket().is_none() && !host.starts_with('/') && host.parse::<IpAddr>().is_err();
    if !is_name || matches!(options.get_ssl_mode(), PgSslMode::VerifyFull) {
        return Vec::new();
    }
    // A name that is unknown is told of by the driver.
    let found = addresses(host, options.get_port()).await.unwrap_or_default();
    found.iter().skip(1).map(|address| options.clone().host(&address.ip().to_string())).collect()
}

async fn is_standby(session: &mut PgConnection) -> Result<bool, sqlx::Error> {
    session.fetch_one("SELECT pg_is_in_recovery()").await?.try_get(0)
}
