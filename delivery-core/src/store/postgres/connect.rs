//! Connecting: the limits of a session, the server's fitness, the schema.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgPool, Row};
use tokio::time::timeout;
use url::Url;

use super::PostgresError;
use super::error::store_error;
use super::schema_lock::{LockState, Origin, leave, share};
use crate::store::StoreError;
use crate::store::sql::{Script, migrator};

/// Connections that search and list; finding keys and writing have their own.
const READERS: u32 = 4;
/// How long a connection may take to be made, or to become free, before the answer is "unavailable".
pub(super) const ACQUIRE: Duration = Duration::from_secs(2);
/// How long a batch may take in all. A server that is frozen answers nothing at all.
pub(super) const BATCH: Duration = Duration::from_secs(5);
/// How long a start waits for a server that says nothing.
const PATIENCE: Duration = Duration::from_secs(15);
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

/// Who finds and changes keys asks the same few questions over and over, each for a few rows by their index: they are planned
/// once, which takes longer than answering them, and so that a table that was small then may grow.
const SERVING: [(&str, &str); 5] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    // A table of one row has no index, and is read all the same, but at a price at which its query would be compiled first:
    // for a tenth of a second and more.
    ("jit", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

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

const MIGRATIONS: &[Script] = &[(1, "delivery", include_str!("migrations/0001_delivery.sql"))];

/// How to make a session.
#[derive(Clone)]
pub(super) struct Sessions {
    options: PgConnectOptions,
    /// Where the schema came from when this server opened it.
    origin: Origin,
}

impl Sessions {
    pub(super) fn new(url: &str, schema: &str) -> Result<Self, PostgresError> {
        let named = (1..=63).contains(&schema.len())
            && schema.starts_with(|c: char| c.is_ascii_lowercase())
            && schema.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !named {
            return Err(PostgresError::SchemaName);
        }
        let known = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
        let parsed = Url::parse(url).ok().filter(|_| known).ok_or(PostgresError::Malformed)?;
        // The driver would log it with its value, and go on without it.
        if parsed.query_pairs().any(|(name, _)| !PARAMETERS.contains(&&*name) && !name.starts_with("options[")) {
            return Err(PostgresError::Parameter);
        }
        let options = PgConnectOptions::from_str(url).map_err(|_| PostgresError::Malformed)?;
        let options = options.options(SESSION).options([("search_path", schema)]).disable_statement_logging();
        Ok(Self { options, origin: Origin::default() })
    }

    /// A session to find and change keys from: none while a store is being moved into the schema, or once one was.
    pub(super) async fn connect_to_serve(&self) -> Result<PgConnection, StoreError> {
        let options = self.options.clone().options(SERVING);
        let connected = timeout(ACQUIRE, options.connect()).await;
        let connected = connected.map_err(|_| StoreError::unavailable("the database does not answer"))?;
        let mut session = connected.map_err(store_error)?;
        let state = timeout(ACQUIRE, share(&mut session)).await;
        let state = state.map_err(|_| StoreError::unavailable("the database does not answer"))?;
        self.shared(state.map_err(store_error)?)?;
        let durable = timeout(ACQUIRE, is_durable(&mut session)).await;
        if durable.map_err(|_| StoreError::unavailable("the database does not answer"))?? {
            Ok(session)
        } else {
            Err(StoreError::unavailable(
                "the database has fsync or full_page_writes off, and would lose what it acknowledges",
            ))
        }
    }

    fn shared(&self, state: LockState) -> Result<(), StoreError> {
        match state {
            LockState::Shared(origin) if origin == self.origin => Ok(()),
            LockState::Shared(_) => {
                Err(StoreError::unavailable("another store was moved into the schema: start again"))
            }
            LockState::Busy | LockState::Unfinished => {
                Err(StoreError::unavailable("a store is being moved into the schema"))
            }
        }
    }

    /// Prepares `schema` for this server; readers are pooled.
    pub(super) async fn open(&mut self, schema: &str) -> Result<PgPool, PostgresError> {
        let failed = |source| PostgresError::while_opening(schema, source);
        let mut session = self.prepare(schema).await?;
        let state = timeout(PATIENCE, share(&mut session)).await.map_err(|_| PostgresError::Silent)?;
        self.origin = match state.map_err(failed)? {
            LockState::Shared(origin) => origin,
            LockState::Busy => return Err(PostgresError::Busy),
            LockState::Unfinished => return Err(PostgresError::Moving { schema: schema.to_owned() }),
        };
        leave(session).await.map_err(failed)?;
        let sessions = self.clone();
        let pool = PgPoolOptions::new().max_connections(READERS).acquire_timeout(ACQUIRE);
        let pool = pool.after_connect(move |session, _| {
            let sessions = sessions.clone();
            Box::pin(async move {
                let state = share(session).await?;
                sessions.shared(state).map_err(|error| sqlx::Error::Configuration(Box::new(error)))
            })
        });
        Ok(pool.connect_lazy_with(self.options.clone()))
    }

    /// Makes sure that the server keeps what it acknowledges, and brings `schema` up to date. Any number of servers may
    /// do so at once. Statements of the session may take as long as they like.
    pub(super) async fn prepare(&self, schema: &str) -> Result<PgConnection, PostgresError> {
        let failed = |source| PostgresError::while_opening(schema, source);
        let silent = |_| PostgresError::Silent;
        let mut session = timeout(PATIENCE, self.options.connect()).await.map_err(silent)?.map_err(failed)?;
        timeout(PATIENCE, check(&mut session)).await.map_err(silent)??;
        // Waits for another server's migration for as long as that takes.
        sqlx::raw_sql("SET statement_timeout = 0; SET lock_timeout = 0").execute(&mut session).await.map_err(failed)?;
        make_schema(&mut session, schema).await.map_err(failed)?;
        let migrated = migrator(MIGRATIONS).run_direct(None, &mut session, false).await;
        migrated.map_err(|error| PostgresError::while_migrating(schema, error))?;
        Ok(session)
    }
}

/// Whether the server keeps what it acknowledges; the session is set to wait for that. A role or a server whose
/// `synchronous_commit` was switched off since the start would lose the last orders in a crash.
pub(super) async fn is_durable(session: &mut PgConnection) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on' AND \
        set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' \
            ELSE current_setting('synchronous_commit') END, false) <> 'off'";
    sqlx::query_scalar(SQL).fetch_one(session).await.map_err(store_error)
}

async fn check(session: &mut PgConnection) -> Result<(), PostgresError> {
    const SQL: &str = "SELECT current_setting('server_version_num')::bigint AS number, \
        current_setting('server_version') AS version, current_setting('fsync') AS fsync, \
        current_setting('full_page_writes') AS full_page_writes, \
        current_setting('synchronous_commit') AS synchronous_commit, \
        current_setting('server_encoding') AS encoding";
    let unreachable = |source| PostgresError::Unreachable { source };
    let row = sqlx::query(SQL).fetch_one(session).await.map_err(unreachable)?;
    if row.try_get::<i64, _>("number").map_err(unreachable)? < 140_000 {
        return Err(PostgresError::TooOld { found: row.try_get("version").map_err(unreachable)? });
    }
    if row.try_get::<&str, _>("encoding").map_err(unreachable)? != "UTF8" {
        return Err(PostgresError::NotUtf8);
    }
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        if row.try_get::<&str, _>(setting).map_err(unreachable)? == "off" {
            return Err(PostgresError::NotDurable { setting: setting.to_owned() });
        }
    }
    Ok(())
}

/// Makes the schema where it is missing; a user who may not make one can be given it.
async fn make_schema(session: &mut PgConnection, schema: &str) -> Result<(), sqlx::Error> {
    // `IF NOT EXISTS` alone fails if two servers do it at the same moment.
    const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('delivery schema ' || $1, 0))";
    const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
    let mut transaction = session.begin().await?;
    sqlx::query(LOCK).bind(schema).execute(&mut *transaction).await?;
    let exists: bool = sqlx::query_scalar(EXISTS).bind(schema).fetch_one(&mut *transaction).await?;
    if !exists {
        // Its name was checked: it needs no quotes.
        let create = sqlx::AssertSqlSafe(format!("CREATE SCHEMA {schema}"));
        sqlx::query(create).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
