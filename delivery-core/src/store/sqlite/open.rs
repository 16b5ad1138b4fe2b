//! Opening a store: locks the file, checks SQLite's version and journal mode, migrates the schema, and loads the counts
//! of uses that were not flushed before the process last ended.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row};

use super::cache::Cache;
use super::load::Loaders;
use super::lock::Lock;
use super::writer::Writer;
use super::{SqliteError, SqliteStore, Tasks, lost};
use crate::store::batch::BatchQueue;
use crate::store::clock::SteadyClock;
use crate::store::sql::{Script, WorkQueue, migrator};

/// The oldest version of SQLite that is accepted. Version 3.51.3 fixed the WAL-reset bug, which could corrupt a
/// database: <https://sqlite.org/wal.html#walresetbug>.
const OLDEST: [u32; 3] = [3, 51, 3];
/// The maximum number of pooled connections for searches and lists. A query uses a connection for a fraction of a
/// millisecond.
const READERS: u32 = 4;
/// How long a reader waits for a pooled connection. After that, it gets
/// [`StoreError::Unavailable`](crate::store::StoreError::Unavailable).
const ACQUIRE: Duration = Duration::from_secs(3);

/// How long a statement waits for a lock that another connection has on the file: SQLite's busy timeout.
pub(super) const BUSY: Duration = Duration::from_secs(5);

const MIGRATIONS: &[Script] = &[
    (1, "delivery", include_str!("migrations/0001_delivery.sql")),
    (2, "dismissed", include_str!("migrations/0002_dismissed.sql")),
    (3, "transfer", include_str!("migrations/0003_transfer.sql")),
    (4, "files", include_str!("migrations/0004_files.sql")),
    (5, "platform secrets", include_str!("migrations/0005_platform_secrets.sql")),
    (6, "archived products", include_str!("migrations/0006_archived_products.sql")),
    (7, "payments", include_str!("migrations/0007_payments.sql")),
    (8, "inbox by source", include_str!("migrations/0008_inbox_by_source.sql")),
    (9, "aliases", include_str!("migrations/0009_aliases.sql")),
];

/// Returns the number of the newest migration.
pub(super) fn newest_script() -> i64 {
    MIGRATIONS.last().map_or(0, |(number, ..)| *number)
}

pub(super) async fn open(path: &Path) -> Result<SqliteStore, SqliteError> {
    // If `path` is a symbolic link, its target is locked and opened.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (cache, lock) = (Arc::new(Cache::new()), Arc::new(Lock::take(&path).await?));
    let failed = |source| SqliteError::while_opening(path.clone(), source);
    let other = |source| SqliteError::Other { path: path.clone(), source: Box::new(source) };
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // Switches off SQLite's own checkpoints: each of them would delay the commit that fills the log. The module
        // `checkpoint` makes checkpoints instead.
        .pragma("wal_autocheckpoint", "0")
        .busy_timeout(BUSY)
        // Overwrites deleted data, so that nothing about an erased person stays in the file.
        .pragma("secure_delete", "1")
        // Foreign keys are enforced for the host application's tables. This store's tables have none.
        .foreign_keys(true)
        .disable_statement_logging();
    let mut connection = options.connect().await.map_err(failed)?;
    check(&mut connection, &path).await?;
    migrate(&mut connection).await.map_err(|error| SqliteError::while_migrating(path.clone(), error))?;
    let reading = options.clone().create_if_missing(false).pragma("query_only", "1");
    let (loaders, [first_end, second_end]) = Loaders::start(&reading, &cache);
    // SQLite ends a transaction by itself in some cases, for example after an I/O error. The driver does not notice
    // this, and the next transactions that it begins on this connection would never end. `before_acquire` makes the
    // pool close such a connection.
    let pool = SqlitePoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(ACQUIRE)
        .before_acquire(|reader, _| Box::pin(async move { Ok(!reader.is_in_transaction()) }));
    let readers = pool.connect_with(reading).await.map_err(failed)?;
    let writer = Writer::start(connection, options, cache.clone(), lock.clone()).await.map_err(other)?;
    let (queue, ended) = BatchQueue::start(writer);
    let writer = WorkQueue::new(queue);
    let (asks, asks_end) = lost::gather(writer.clone());
    Ok(SqliteStore {
        tasks: Mutex::new(Some(Tasks { writer, asks, loaders })),
        ended: Mutex::new(vec![first_end, second_end, asks_end, ended]),
        readers,
        cache,
        clock: SteadyClock::default(),
        lock: Mutex::new(Some(lock)),
    })
}

pub(in crate::store) async fn migrate(writer: &mut SqliteConnection) -> Result<(), MigrateError> {
    migrator(MIGRATIONS).run_direct(None, writer, false).await
}

/// Checks the version of SQLite, and that SQLite has accepted the settings on which durability depends.
async fn check(writer: &mut SqliteConnection, path: &Path) -> Result<(), SqliteError> {
    let row = sqlx::query(
        "SELECT sqlite_version() AS version, (SELECT journal_mode FROM pragma_journal_mode) AS journal, \
         (SELECT synchronous FROM pragma_synchronous) AS synchronous",
    )
    .fetch_one(&mut *writer)
    .await
    .map_err(|source| SqliteError::while_opening(path.to_owned(), source))?;
    let found: String = row.try_get("version").unwrap_or_default();
    let version: Vec<u32> = found.split('.').filter_map(|part| part.parse().ok()).collect();
    let unfit = |why| Err(SqliteError::Unfit { found: found.clone(), why });
    if version.as_slice() < OLDEST.as_slice() {
        return unfit("it is older than 3.51.3, which fixed a bug that could corrupt the database");
    }
    if row.try_get::<String, _>("journal").ok().as_deref() != Some("wal") {
        return unfit("its journal cannot be a write-ahead log here (a network file system?)");
    }
    // 2 is FULL: a commit is synced to disk before it returns.
    if row.try_get::<i64, _>("synchronous").ok() != Some(2) {
        return unfit("it does not sync each commit");
    }
    Ok(())
}
