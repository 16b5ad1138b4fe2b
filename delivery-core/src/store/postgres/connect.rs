//! Opening sessions, with their settings and time limits.

use std::sync::atomic::{self, AtomicBool};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgPool};
use tokio::time::timeout;

use super::PostgresError;
use super::error::store_error;
use super::hosts::{Hosts, Setting};
use super::schema::{PATIENCE, SchemaConfig, check, check_migrated, is_durable, prepare_schema};
use super::session::{Lent, Session};
use crate::store::StoreError;

/// The number of pooled connections for searches and lists. Finding keys and writing use other connections.
const READERS: u32 = 4;
/// Time limit for connecting, and for waiting for a free connection. A call that exceeds it fails with
/// [`StoreError::Unavailable`].
pub(super) const ACQUIRE: Duration = Duration::from_secs(2);
/// Time limit for the statements of a batch of operations, and again for the commit of the batch. The store measures
/// this itself, because a frozen server does not even report a timeout.
pub(super) const BATCH: Duration = Duration::from_secs(5);
/// Settings of the store's own sessions. The database server's timeouts for statements, locks and idle transactions are
/// in milliseconds, and are shorter than [`BATCH`]. So the database server reports a timeout before the store stops
/// waiting.
const SESSION: [(&str, &str); 10] = [
    ("statement_timeout", "4000"),
    // The role or the database may have other defaults. For example, a transaction that is repeatable read does not see
    // what other transactions commit after its first statement.
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    // How long a statement waits for a lock. This is longer than a commit of another server normally takes. After the
    // timeout, the operations that need the locked row are deferred, and no other operation waits for the row.
    ("lock_timeout", "100"),
    // If a process that uses the store freezes in the middle of a transaction, its row locks are released after this
    // time.
    ("idle_in_transaction_session_timeout", "2500"),
    // If the machine or the network of a process that uses the store fails, its row locks are released within a minute.
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "60000"),
    ("application_name", "delivery"),
];

/// Lets a transaction wait longer for locks, because no customer waits for its statements. Three seconds is also the
/// longest time for which the queue defers an operation that met a lock.
pub(super) const PATIENT: &str = "SET LOCAL lock_timeout = '3s'";

/// Settings of a transaction that computes statistics about all keys. It reads a single snapshot, so that a key that is
/// marked as expired, or is replaced, during the transaction is counted exactly once.
pub(super) const AT_LENGTH: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '60s'; SET LOCAL enable_seqscan = on; \
    SET LOCAL plan_cache_mode = force_custom_plan";

/// Settings of sessions that find and change keys. These sessions run few different statements, each for a few rows
/// found by index. Generic plans save the planning, which takes longer than the execution. Sequential scans are off, so
/// that a plan that was made for a small table is still good after the table has grown.
const SERVING: [Setting; 5] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    // A query without a condition, such as the query for the only row of `delivery_catalog`, cannot use an index. So it
    // scans its table sequentially even with `enable_seqscan` off, and its estimated cost is very high. With `jit` on,
    // PostgreSQL would therefore compile the query first, which takes a tenth of a second or more.
    ("jit", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

/// Settings of each transaction that the store begins on a connection from the host application's pool. They apply only
/// to the transaction.
const LENT: [(&str, &str); 4] = [
    ("statement_timeout", "4000"),
    ("lock_timeout", "100"),
    ("idle_in_transaction_session_timeout", "2500"),
    ("jit", "off"),
];

/// Opens [sessions](Session). Cloning is cheap.
#[derive(Clone)]
pub(super) struct Sessions(Arc<Shared>);

struct Shared {
    source: Source,
    schema: String,
    may_lose: bool,
    /// Whether the store is closed. This flag is necessary because closing the store does not close the host
    /// application's pool.
    is_closed: AtomicBool,
}

enum Source {
    /// The store's own sessions. The sessions that write and find keys, at most five, connect to `hosts`. Searches and
    /// lists use the pool `readers`.
    Own { hosts: RwLock<Arc<Hosts>>, readers: PgPool },
    /// The host application's pool, and the statements that begin a transaction there.
    Lent { pool: PgPool, begin: String },
}

impl Sessions {
    /// [Prepares the schema](prepare_schema). The returned `Sessions` opens the store's own connections, which use this
    /// schema.
    pub(super) async fn own(hosts: Hosts, place: SchemaConfig) -> Result<Self, PostgresError> {
        let hosts = hosts.map(|options| in_schema(options, &place.schema));
        let (session, readers_options) = prepare_schema(&hosts, &place).await?;
        session.close().await.map_err(|source| PostgresError::while_opening(&place.schema, source))?;
        let readers = PgPoolOptions::new().max_connections(READERS).acquire_timeout(ACQUIRE);
        let readers = readers.connect_lazy_with(readers_options);
        let source = Source::Own { hosts: RwLock::new(Arc::new(hosts)), readers };
        Ok(Self::new(source, place))
    }

    /// Migrates the schema if `place.migrates` is set, and checks it. The returned `Sessions` begins transactions on
    /// connections from the host application's pool.
    pub(super) async fn lent(pool: PgPool, place: SchemaConfig) -> Result<Self, PostgresError> {
        if place.migrates {
            Self::migrate(pool.connect_options().as_ref().clone().into(), &place).await?;
        }
        let mut begin = String::from("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
        for (name, value) in LENT.into_iter().chain([("search_path", place.schema.as_str())]) {
            begin.extend(["; SET LOCAL ", name, " TO \"", value, "\""]);
        }
        let failed = |source| PostgresError::while_opening(&place.schema, source);
        let open = async {
            let mut session = Session::Lent(Lent::begin(&pool, begin.clone()).await.map_err(failed)?);
            check(&mut session, place.may_lose).await?;
            check_migrated(&mut session, &place.schema).await?;
            session.finish().await.map_err(failed)
        };
        timeout(PATIENCE, open).await.map_err(|_| PostgresError::Silent)??;
        Ok(Self::new(Source::Lent { pool, begin }, place))
    }

    fn new(source: Source, SchemaConfig { schema, may_lose, .. }: SchemaConfig) -> Self {
        Self(Arc::new(Shared { source, schema, may_lose, is_closed: AtomicBool::new(false) }))
    }

    /// Fails if a setting of the database server would let a crash lose acknowledged writes. Always succeeds if
    /// `may_lose` is set.
    pub(super) async fn ensure_durable(&self, session: &mut Session<'_>) -> Result<(), StoreError> {
        const LOSES: &str = "the database has fsync or full_page_writes off, and would lose what it acknowledges";
        if self.0.may_lose || is_durable(session).await? { Ok(()) } else { Err(StoreError::unavailable(LOSES)) }
    }

    /// Creates the schema if it is missing, and migrates it.
    pub(super) async fn migrate(hosts: Hosts, place: &SchemaConfig) -> Result<(), PostgresError> {
        let (session, _) = prepare_schema(&hosts.map(|options| in_schema(options, &place.schema)), place).await?;
        session.close().await.map_err(|source| PostgresError::while_opening(&place.schema, source))
    }

    /// Returns whether all sessions are transactions on the host application's connections.
    pub(super) fn are_lent(&self) -> bool {
        matches!(self.0.source, Source::Lent { .. })
    }

    /// Uses these options for the store's own connections from now on. Does nothing if the store uses the host
    /// application's pool.
    pub(super) fn set_options(&self, new: PgConnectOptions) {
        if let Source::Own { hosts, readers } = &self.0.source {
            let new = in_schema(new, &self.0.schema);
            let mut hosts = hosts.write().unwrap_or_else(PoisonError::into_inner);
            readers.set_connect_options(new.clone());
            *hosts = Arc::new(new.into());
        }
    }

    /// Returns a session for finding and changing keys.
    pub(super) async fn serve(&self) -> Result<Session<'static>, StoreError> {
        let silent = |_| StoreError::unavailable("the database does not answer");
        let mut session = match &self.0.source {
            Source::Own { hosts, readers } => {
                let tried = hosts.read().unwrap_or_else(PoisonError::into_inner).clone();
                let connected = timeout(ACQUIRE, tried.connect(&SERVING)).await.map_err(silent)?;
                let (session, options) = connected.map_err(store_error)?;
                // From now on, readers connect to the host and address that has just answered, unless other options
                // were set in the meantime.
                let current = hosts.read().unwrap_or_else(PoisonError::into_inner);
                if Arc::ptr_eq(&tried, &current) {
                    readers.set_connect_options(options);
                }
                Session::Own(session)
            }
            Source::Lent { pool, begin } => lend(pool, begin).await?,
        };
        let admitted = async { timeout(ACQUIRE, self.ensure_durable(&mut session)).await.map_err(silent)? };
        if let Err(refused) = admitted.await {
            if !session.is_ours() {
                let _ = timeout(ACQUIRE, session.roll_back()).await;
            }
            return Err(refused);
        }
        Ok(session)
    }

    /// Returns the schema that all tables are in.
    pub(super) fn schema(&self) -> &str {
        &self.0.schema
    }

    /// Returns a session for searches and lists.
    pub(super) async fn read(&self) -> Result<Session<'static>, StoreError> {
        if self.0.is_closed.load(atomic::Ordering::Relaxed) {
            return Err(StoreError::unavailable("closed"));
        }
        match &self.0.source {
            Source::Own { readers, .. } => Lent::acquire(readers).await.map(Session::Reader).map_err(store_error),
            Source::Lent { pool, begin } => lend(pool, begin).await,
        }
    }

    /// Closes the sessions for searches and lists. The host application's pool stays open.
    pub(super) async fn close(&self) {
        self.0.is_closed.store(true, atomic::Ordering::Relaxed);
        if let Source::Own { readers, .. } = &self.0.source {
            // Closing waits for every session. Without a time limit, this would take minutes if the network has failed.
            let _ = timeout(BATCH, readers.close()).await;
        }
    }
}

/// Begins a transaction on a connection from the host application's pool.
async fn lend(pool: &PgPool, begin: &str) -> Result<Session<'static>, StoreError> {
    let busy = |_| StoreError::unavailable("no connection of the host's pool is free, or the database is silent");
    let lent = timeout(ACQUIRE, Lent::begin(pool, begin.to_owned())).await.map_err(busy)?;
    lent.map(Session::Lent).map_err(store_error)
}

pub(super) fn in_schema(options: PgConnectOptions, schema: &str) -> PgConnectOptions {
    options.options(SESSION).options([("search_path", schema)]).disable_statement_logging()
}
