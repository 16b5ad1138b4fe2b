//! How a store is connected: to which schema, over whose connections, and whether it migrates the schema.

use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use super::address::address;
use super::connect::Sessions;
use super::inspect::inspect;
use super::schema::SchemaConfig;
use super::{PostgresError, PostgresStore, SCHEMA};
use crate::key::Fingerprint;
use crate::store::inspection::Inspection;

/// Options for connecting a [`PostgresStore`]. By default the store uses the schema `delivery`, and creates and
/// migrates it as needed.
///
/// # Connections
///
/// | | sessions | round trips per order | behind PgBouncer |
/// |---|---|---|---|
/// | [`connect`](Self::connect), [`connect_with`](Self::connect_with) | at most nine of its own | one | no: the store sends its settings as startup parameters |
/// | [`with_pool`](Self::with_pool) | a pool connection per transaction | about sixteen | yes, in transaction mode |
///
/// The settings and prepared statements of the store's own sessions outlive a transaction, so a write needs only one
/// statement. On a connection from the host application's pool, everything happens inside a transaction, and neither
/// settings nor prepared statements remain on the connection.
///
/// # Example: the host application's pool
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
/// Migrating needs a whole session, which PgBouncer in transaction mode does not provide. So migrate once, over a
/// direct connection, before the servers start.
///
/// The driver sends a startup parameter that PgBouncer refuses by default. Configure PgBouncer with
/// `ignore_startup_parameters = extra_float_digits`.
///
/// On connections from a pool, the store prepares its statements without a name, so they leave nothing on the server.
/// Set `statement_cache_capacity(0)`, so that the driver never reuses a statement that it prepared in another session.
/// The driver still gives your own statements names. If PgBouncer runs two clients in the same session of the server,
/// the names of their statements collide. There are three remedies:
///
/// - Run your statements with `persistent(false)` inside a transaction.
/// - Let PgBouncer manage the names (`max_prepared_statements`, from version 1.21 on).
/// - Let PgBouncer discard the names after each transaction (`server_reset_query_always = 1`).
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
    may_lose: bool,
}

impl PostgresOptions {
    pub(super) fn new() -> Self {
        Self { schema: SCHEMA.to_owned(), migrates: true, may_lose: false }
    }

    /// Uses the schema with this name. The name must be 1 to 63 lower-case letters, digits and underscores, and begin
    /// with a letter. If several services share a database, each needs its own schema.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Does not migrate the schema when the store connects. The schema must be up to date already, for example because
    /// a deployment step [migrates](Self::migrate) it as a database user that may change tables.
    #[must_use]
    pub fn without_migrating(mut self) -> Self {
        self.migrates = false;
        self
    }

    /// Accepts a database that may lose acknowledged writes in a crash, because `fsync`, `full_page_writes` or
    /// `synchronous_commit` is off. By default such a database is refused. Use this only for tests, because sold keys
    /// may be lost.
    #[must_use]
    pub fn losing_data_in_a_crash(mut self) -> Self {
        self.may_lose = true;
        self
    }

    /// Connects to the database at `url`, `postgres://user:password@host:5432/database`.
    ///
    /// `url` may list several hosts, `host1:5432,host2:5432`. They are tried in order. The next host is tried half a
    /// second after the one before it, or as soon as an attempt fails. The first host that answers is used. The
    /// addresses of a host name are tried in the same way. If several hosts are listed, standby servers are skipped.
    ///
    /// With `sslmode=verify-full`, the addresses of a host name are tried strictly one after another, so an address
    /// that does not answer delays the addresses after it.
    ///
    /// These parameters of libpq are supported: `sslmode`, `sslrootcert` (also `system`), `sslcert`, `sslkey`,
    /// `channel_binding`, `host` (also the folder of a socket), `hostaddr`, `port`, `dbname`, `user`, `password`,
    /// `application_name`, `options`, `connect_timeout` (for each host, within the store's own limits) and
    /// `target_session_attrs`. The driver does not support channel binding, so `channel_binding=require` is treated as
    /// `sslmode=verify-full`.
    ///
    /// # Errors
    ///
    /// [`PostgresError`] names the cause, in a sentence for the operator.
    pub async fn connect(self, url: &str) -> Result<PostgresStore, PostgresError> {
        let sessions = Sessions::own(address(url)?, self.checked()?).await?;
        Ok(PostgresStore::start(sessions))
    }

    /// Connects with the driver's own options, for example to use certificates, a socket, or a password that is not
    /// part of an address. In addition, the store sets the session settings that it depends on, such as `search_path`
    /// and timeouts.
    ///
    /// Call [`PostgresStore::set_connect_options`] when the password changes.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(self, options: PgConnectOptions) -> Result<PostgresStore, PostgresError> {
        let sessions = Sessions::own(options.into(), self.checked()?).await?;
        Ok(PostgresStore::start(sessions))
    }

    /// Uses the host application's pool for everything except migrating. For migrating, the store opens a separate
    /// connection with the pool's options. The role in these options must be allowed to create a schema, unless [the
    /// deployment migrates the schema](Self::without_migrating). [`close`](crate::store::Backend::close) leaves the
    /// pool open.
    ///
    /// Writes, and reads of keys by their ids, use up to five of the pool's connections. Each search and each list uses
    /// one more. A call that gets no free connection within two seconds fails with
    /// [`StoreError::Unavailable`](crate::store::StoreError::Unavailable).
    ///
    /// If the host application calls the service while a transaction of its own is open, it occupies two connections of
    /// the pool at once. To avoid this when issuing a key, call [`prepare`](crate::Delivery::prepare) before the
    /// transaction begins, and pass its result to [`issue_in`](crate::Delivery::issue_in) in the transaction.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn with_pool(self, pool: PgPool) -> Result<PostgresStore, PostgresError> {
        let sessions = Sessions::lent(pool, self.checked()?).await?;
        Ok(PostgresStore::start(sessions))
    }

    /// Creates and migrates the schema without opening a store. Any number of servers may do so at once.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn migrate(self, options: PgConnectOptions) -> Result<(), PostgresError> {
        Sessions::migrate(options.into(), &Self { migrates: true, ..self }.checked()?).await
    }

    /// Inspects the schema without changing it: whether it contains a store, and whether that store accepts secrets
    /// with the fingerprints in `keyring`.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn inspect(self, url: &str, keyring: &[Fingerprint]) -> Result<Inspection, PostgresError> {
        inspect(address(url)?, &self.checked()?, keyring).await
    }

    pub(super) fn checked(self) -> Result<SchemaConfig, PostgresError> {
        let Self { schema, migrates, may_lose } = self;
        let named = (1..=63).contains(&schema.len())
            && schema.starts_with(|c: char| c.is_ascii_lowercase())
            && schema.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if named { Ok(SchemaConfig { schema, migrates, may_lose }) } else { Err(PostgresError::SchemaName) }
    }
}
