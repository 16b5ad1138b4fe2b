//! How a store is connected: which schema, whose connections, and whether it is migrated.

use std::str::FromStr;

use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use url::Url;

use super::connect::Sessions;
use super::inspect::inspect;
use super::schema::Place;
use super::{PostgresError, PostgresStore, SCHEMA};
use crate::key::Fingerprint;
use crate::store::Inspection;

/// The parameters of an address that the driver knows, without their other spellings.
const PARAMETERS: [&str; 12] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

/// How to connect a [`PostgresStore`]: by default to the schema `delivery`, which is made and migrated as needed.
///
/// # Whose connections
///
/// | | sessions | an order costs | behind PgBouncer |
/// |---|---|---|---|
/// | [`connect`](Self::connect), [`connect_with`](Self::connect_with) | at most nine of its own | one trip to the server | no: its settings are startup parameters |
/// | [`with_pool`](Self::with_pool) | those of the host's pool, a transaction each | some sixteen trips | transaction mode |
///
/// Its own sessions have settings and prepared statements that outlive a transaction, so a write is one statement. On a
/// connection of the host's pool everything happens inside a transaction, and nothing of it stays behind.
///
/// # Example: the host's pool
///
/// ```no_run
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use delivery_core::store::PostgresStore;
///
/// let store = PostgresStore::options().schema("keys").with_pool(pool).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Example: PgBouncer in transaction mode
///
/// Migrating needs a session, so it goes around the pooler, once, before the servers start. The driver sends a startup
/// parameter that PgBouncer refuses unless it is told `ignore_startup_parameters = extra_float_digits`.
///
/// The store's own statements leave nothing behind. The driver gives every other statement a name, whatever the size of its cache, and
/// two clients' names collide in one session of the server. So either run your statements with `persistent(false)` inside a
/// transaction, or let PgBouncer look after names (`max_prepared_statements`, from 1.21 on), or let it forget them after each
/// transaction (`server_reset_query_always = 1`).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use delivery_core::store::PostgresStore;
/// use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
///
/// let direct: PgConnectOptions = "postgres://shop:secret@database:5432/shop".parse()?;
/// PostgresStore::options().migrate(direct).await?;
///
/// let pooled: PgConnectOptions = "postgres://shop:secret@pooler:6432/shop".parse()?;
/// let pool = PgPoolOptions::new().connect_with(pooled.statement_cache_capacity(0)).await?;
/// let store = PostgresStore::options().without_migrating().with_pool(pool).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresOptions {
    schema: String,
    migrates: bool,
}

impl PostgresOptions {
    pub(super) fn new() -> Self {
        Self { schema: SCHEMA.to_owned(), migrates: true }
    }

    /// Keeps everything in this schema: 1 to 63 lower-case letters, digits and underscores, beginning with a letter. Two
    /// services may share a database, each with a schema of its own.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Expects the schema to be [migrated](Self::migrate) already, by a step of the deployment whose user may change
    /// tables.
    #[must_use]
    pub fn without_migrating(mut self) -> Self {
        self.migrates = false;
        self
    }

    /// Connects to the database at `url`, `postgres://user:password@host:5432/database`.
    ///
    /// # Errors
    ///
    /// [`PostgresError`] says which of the many ways to fail it was, in a sentence for the operator.
    pub async fn connect(self, url: &str) -> Result<PostgresStore, PostgresError> {
        self.connect_with(address(url)?).await
    }

    /// Connects with the driver's own options: certificates, sockets, passwords from elsewhere. Settings of the session
    /// that the store depends on, such as `search_path` and timeouts, are set in addition.
    ///
    /// A password that changes is told by [`PostgresStore::set_connect_options`].
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(self, options: PgConnectOptions) -> Result<PostgresStore, PostgresError> {
        let sessions = Sessions::own(options, self.checked()?).await?;
        Ok(PostgresStore::start(sessions))
    }

    /// Uses the host's pool, for everything but migrating, which makes a connection of its own with the pool's options, and
    /// whose role must be allowed to make a schema, unless [the deployment does that](Self::without_migrating).
    /// [`close`](crate::store::Backend::close) leaves the pool open.
    ///
    /// Writing and finding keys take up to four of the pool's connections, and each search or list one more. A call that finds
    /// none free within two seconds is refused. A host that calls the service while it holds a connection itself needs two: call
    /// [`prepare`](crate::Delivery::prepare) before the transaction begins.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn with_pool(self, pool: PgPool) -> Result<PostgresStore, PostgresError> {
        let sessions = Sessions::lent(pool, self.checked()?).await?;
        Ok(PostgresStore::start(sessions))
    }

    /// Makes the schema and brings it up to date, without opening a store. Any number of servers may do so at once.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn migrate(self, options: PgConnectOptions) -> Result<(), PostgresError> {
        Sessions::migrate(options, &Self { migrates: true, ..self }.checked()?).await
    }

    /// Looks at the schema without changing it: whether it has a store, and whether that may be used with secrets of these
    /// fingerprints.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn inspect(self, url: &str, keyring: &[Fingerprint]) -> Result<Inspection, PostgresError> {
        inspect(address(url)?, &self.checked()?, keyring).await
    }

    fn checked(self) -> Result<Place, PostgresError> {
        let Self { schema, migrates } = self;
        let named = (1..=63).contains(&schema.len())
            && schema.starts_with(|c: char| c.is_ascii_lowercase())
            && schema.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if named { Ok(Place { schema, migrates }) } else { Err(PostgresError::SchemaName) }
    }
}

/// The options that an address says.
pub(super) fn address(url: &str) -> Result<PgConnectOptions, PostgresError> {
    let known = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
    let parsed = Url::parse(url).ok().filter(|_| known).ok_or(PostgresError::Malformed)?;
    // The driver would log it with its value, and go on without it.
    if parsed.query_pairs().any(|(name, _)| !PARAMETERS.contains(&&*name) && !name.starts_with("options[")) {
        return Err(PostgresError::Parameter);
    }
    PgConnectOptions::from_str(url).map_err(|_| PostgresError::Malformed)
}

/// The place that a transfer fills.
#[cfg(feature = "sqlite")]
pub(super) fn place(schema: &str) -> Result<Place, PostgresError> {
    PostgresOptions::new().schema(schema).checked()
}
