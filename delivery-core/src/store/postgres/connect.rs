//! Connecting: the source of sessions, and their settings and time limits.

use std::sync::atomic::{self, AtomicBool};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgPool};
use tokio::time::timeout;

use super::PostgresError;
use super::error::store_error;
use super::hosts::{Hosts, Setting};
use super::schema::{PATIENCE, SchemaConfig, check, check_migrated, ensure_durable, prepare_schema};
use super::session::{Lent, Session};
use crate::store::StoreError;

/// Pooled connections for searches and lists; finding keys and writing have their own.
const READERS: u32 = 4;
/// How long connecting, or waiting for a free connection, may take before the answer is "unavailable".
pub(super) const ACQUIRE: Duration = Duration::from_secs(2);
/// How long a batch may take in all. A server that is frozen does not even report a timeout.
pub(super) const BATCH: Duration = Duration::from_secs(5);
/// Settings of a session. The server's own timeouts, in milliseconds, are below [`BATCH`], so that its errors are seen.
const SESSION: [(&str, &str); 10] = [
    ("statement_timeout", "4000"),
    // The role or the database may default to another isolation level, under which servers miss each other's commits.
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    // Longer than another server's commit. After a timeout, the operations on the locked row are deferred, and no other
    // operation waits for it.
    ("lock_timeout", "100"),
    // For a server that died while it held a row lock.
    ("idle_in_transaction_session_timeout", "2500"),
    // For a server whose machine or network vanished: its locks are released within a minute.
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "60000"),
    ("application_name", "delivery"),
];

/// For statements that no customer waits for: they wait for a lock as long as a deferred operation does.
pub(super) const PATIENT: &str = "SET LOCAL lock_timeout = '3s'";

/// For figures, which read every key in one snapshot: a key that is marked or replaced meanwhile counts once.
pub(super) const AT_LENGTH: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '60s'; SET LOCAL enable_seqscan = on; \
    SET LOCAL plan_cache_mode = force_custom_plan";

/// Settings of sessions that find and change keys. They run the same few statements, each for a few rows found by
/// index. Generic plans save the planning, which takes longer than the execution, and without sequential scans the plan
/// still fits after a small table has grown.
const SERVING: [Setting; 5] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    // A table of one row has no index and is scanned even so, at a cost estimate that would make PostgreSQL compile the
    // query first, which takes a tenth of a second and more.
    ("jit", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

/// Settings that a transaction on a connection of the host application makes for itself.
const LENT: [(&str, &str); 4] = [
    ("statement_timeout", "4000"),
    ("lock_timeout", "100"),
    ("idle_in_transaction_session_timeout", "2500"),
    ("jit", "off"),
];

/// The source of sessions. Cloning is cheap.
#[derive(Clone)]
pub(super) struct Sessions(Arc<Shared>);

struct Shared {
    source: Source,
    schema: String,
    /// Whether the store is closed. The host application's pool stays open then.
    is_closed: AtomicBool,
}

enum Source {
    /// The store's own sessions: five that write and find, and a pool of readers.
    Own { hosts: RwLock<Arc<Hosts>>, readers: PgPool },
    /// The host application's pool, and the statements that begin a transaction there.
    Lent { pool: PgPool, begin: String },
}

impl Sessions {
    /// Returns a source of the store's own sessions, in a schema that is prepared for this server.
    pub(super) async fn own(hosts: Hosts, place: SchemaConfig) -> Result<Self, PostgresError> {
        let hosts = hosts.map(|options| in_schema(options, &place.schema));
        let (session, readers_options) = prepare_schema(&hosts, &place).await?;
        session.close().await.map_err(|source| PostgresError::while_opening(&place.schema, source))?;
        let readers = PgPoolOptions::new().max_connections(READERS).acquire_timeout(ACQUIRE);
        let readers = readers.connect_lazy_with(readers_options);
        let source = Source::Own { hosts: RwLock::new(Arc::new(hosts)), readers };
        Ok(Self(Arc::new(Shared { source, schema: place.schema, is_closed: AtomicBool::new(false) })))
    }

    /// Returns a source of transactions on connections from the host application's pool.
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
            check(&mut session).await?;
            check_migrated(&mut session, &place.schema).await?;
            session.finish().await.map_err(failed)
        };
        timeout(PATIENCE, open).await.map_err(|_| PostgresError::Silent)??;
        Ok(Self(Arc::new(Shared {
            source: Source::Lent { pool, begin },
            schema: place.schema,
            is_closed: AtomicBool::new(false),
        })))
    }

    /// Brings the schema up to date.
    pub(super) async fn migrate(hosts: Hosts, place: &SchemaConfig) -> Result<(), PostgresError> {
        let (session, _) = prepare_schema(&hosts.map(|options| in_schema(options, &place.schema)), place).await?;
        session.close().await.map_err(|source| PostgresError::while_opening(&place.schema, source))
    }

    /// Returns whether everything happens in transactions on the host application's connections.
    pub(super) fn are_lent(&self) -> bool {
        matches!(self.0.source, Source::Lent { .. })
    }

    /// Uses these options for new connections of the store's own.
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
                // Readers follow to the host and address that answers, unless other options were set in the meantime.
                let current = hosts.read().unwrap_or_else(PoisonError::into_inner);
                if Arc::ptr_eq(&tried, &current) {
                    readers.set_connect_options(options);
                }
                Session::Own(session)
            }
            Source::Lent { pool, begin } => lend(pool, begin).await?,
        };
        let admitted = async { timeout(ACQUIRE, ensure_durable(&mut session)).await.map_err(silent)? };
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
            Source::Own { readers, .. } => readers.acquire().await.map(Session::Reader).map_err(store_error),
            Source::Lent { pool, begin } => lend(pool, begin).await,
        }
    }

    /// Closes the readers' sessions; the host application's pool stays open.
    pub(super) async fn close(&self) {
        self.0.is_closed.store(true, atomic::Ordering::Relaxed);
        if let Source::Own { readers, .. } = &self.0.source {
            // Closing waits for every session, and one into a network that vanished would take minutes.
            let _ = timeout(BATCH, readers.close()).await;
        }
    }
}

/// Begins a transaction on a connection of the host application.
async fn lend(pool: &PgPool, begin: &str) -> Result<Session<'static>, StoreError> {
    let busy = |_| StoreError::unavailable("no connection of the host's pool is free, or the database is silent");
    let lent = timeout(ACQUIRE, Lent::begin(pool, begin.to_owned())).await.map_err(busy)?;
    lent.map(Session::Lent).map_err(store_error)
}

pub(super) fn in_schema(options: PgConnectOptions, schema: &str) -> PgConnectOptions {
    options.options(SESSION).options([("search_path", schema)]).disable_statement_logging()
}
