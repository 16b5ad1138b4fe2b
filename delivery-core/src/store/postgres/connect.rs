//! Connecting: where sessions come from, and their limits.

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

/// Connections that search and list; finding keys and writing have their own.
const READERS: u32 = 4;
/// How long a connection may take to be made, or to become free, before the answer is "unavailable".
pub(super) const ACQUIRE: Duration = Duration::from_secs(2);
/// How long a batch may take in all. A server that is frozen answers nothing at all.
pub(super) const BATCH: Duration = Duration::from_secs(5);
/// What the server itself ends, in milliseconds: below [`BATCH`], so that its error is the one that is seen.
const SESSION: [(&str, &str); 10] = [
    ("statement_timeout", "4000"),
    // The role or the database may have other defaults: under another isolation, two servers would not see each other.
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    // For a row that somebody else holds: longer than another server's commit. Then the operations on that row are deferred,
    // and no other waits for it.
    ("lock_timeout", "100"),
    // Of a server that died with a row in its hand.
    ("idle_in_transaction_session_timeout", "2500"),
    // Of a server whose machine or network vanished: its locks go with it, in a minute.
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "60000"),
    ("application_name", "delivery"),
];

/// For statements that no customer waits for: they wait for a lock as long as a deferred operation does.
pub(super) const PATIENT: &str = "SET LOCAL lock_timeout = '3s'";

/// For figures, which read every key, in one snapshot: a key that is marked or replaced meanwhile counts once.
pub(super) const AT_LENGTH: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '60s'; SET LOCAL enable_seqscan = on; \
    SET LOCAL plan_cache_mode = force_custom_plan";

/// Who finds and changes keys asks the same few questions over and over, each for a few rows by their index: they are planned
/// once, which takes longer than answering them, and so that a table that was small then may grow.
const SERVING: [Setting; 5] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    // A table of one row has no index, and is read all the same, but at a price at which its query would be compiled first:
    // for a tenth of a second and more.
    ("jit", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

/// What a transaction on a connection of the host's sets, for itself.
const LENT: [(&str, &str); 4] = [
    ("statement_timeout", "4000"),
    ("lock_timeout", "100"),
    ("idle_in_transaction_session_timeout", "2500"),
    ("jit", "off"),
];

/// Where sessions come from. Cloning is cheap.
#[derive(Clone)]
pub(super) struct Sessions(Arc<Shared>);

struct Shared {
    source: Source,
    schema: String,
    /// The host's pool stays open when the store is closed.
    is_closed: AtomicBool,
}

enum Source {
    /// Sessions of ours: four that write and find, and a pool of readers.
    Own { hosts: RwLock<Arc<Hosts>>, readers: PgPool },
    /// The host's pool, and how a transaction begins there.
    Lent { pool: PgPool, begin: String },
}

impl Sessions {
    /// Sessions of ours, in a schema that is prepared for this server.
    pub(super) async fn own(hosts: Hosts, place: SchemaConfig) -> Result<Self, PostgresError> {
        let hosts = hosts.map(|options| in_schema(options, &place.schema));
        let (session, readers_options) = prepare_schema(&hosts, &place).await?;
        session.close().await.map_err(|source| PostgresError::while_opening(&place.schema, source))?;
        let readers = PgPoolOptions::new().max_connections(READERS).acquire_timeout(ACQUIRE);
        let readers = readers.connect_lazy_with(readers_options);
        let source = Source::Own { hosts: RwLock::new(Arc::new(hosts)), readers };
        Ok(Self(Arc::new(Shared { source, schema: place.schema, is_closed: AtomicBool::new(false) })))
    }

    /// Transactions on connections from the host's pool.
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

    /// Whether everything happens inside transactions on the host's connections.
    pub(super) fn are_lent(&self) -> bool {
        matches!(self.0.source, Source::Lent { .. })
    }

    /// Connects with these options from now on.
    pub(super) fn set_options(&self, new: PgConnectOptions) {
        if let Source::Own { hosts, readers } = &self.0.source {
            let new = in_schema(new, &self.0.schema);
            let mut hosts = hosts.write().unwrap_or_else(PoisonError::into_inner);
            readers.set_connect_options(new.clone());
            *hosts = Arc::new(new.into());
        }
    }

    /// A session to find and change keys from.
    pub(super) async fn serve(&self) -> Result<Session<'static>, StoreError> {
        let silent = |_| StoreError::unavailable("the database does not answer");
        let mut session = match &self.0.source {
            Source::Own { hosts, readers } => {
                let tried = hosts.read().unwrap_or_else(PoisonError::into_inner).clone();
                let connected = timeout(ACQUIRE, tried.connect(&SERVING)).await.map_err(silent)?;
                let (session, options) = connected.map_err(store_error)?;
                // Readers follow to the host and address that answers, unless other options were set meanwhile.
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

    /// The schema that everything is in.
    pub(super) fn schema(&self) -> &str {
        &self.0.schema
    }

    /// A session to search and list from.
    pub(super) async fn read(&self) -> Result<Session<'static>, StoreError> {
        if self.0.is_closed.load(atomic::Ordering::Relaxed) {
            return Err(StoreError::unavailable("closed"));
        }
        match &self.0.source {
            Source::Own { readers, .. } => readers.acquire().await.map(Session::Reader).map_err(store_error),
            Source::Lent { pool, begin } => lend(pool, begin).await,
        }
    }

    /// Ends the sessions that readers share; the host's pool stays open.
    pub(super) async fn close(&self) {
        self.0.is_closed.store(true, atomic::Ordering::Relaxed);
        if let Source::Own { readers, .. } = &self.0.source {
            // A session into a network that vanished would be waited for.
            let _ = timeout(BATCH, readers.close()).await;
        }
    }
}

/// A transaction on a connection of the host's.
async fn lend(pool: &PgPool, begin: &str) -> Result<Session<'static>, StoreError> {
    let busy = |_| StoreError::unavailable("no connection of the host's pool is free, or the database is silent");
    let lent = timeout(ACQUIRE, Lent::begin(pool, begin.to_owned())).await.map_err(busy)?;
    lent.map(Session::Lent).map_err(store_error)
}

pub(super) fn in_schema(options: PgConnectOptions, schema: &str) -> PgConnectOptions {
    options.options(SESSION).options([("search_path", schema)]).disable_statement_logging()
}
