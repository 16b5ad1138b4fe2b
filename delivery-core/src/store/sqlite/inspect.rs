//! Inspecting a file without changing its store, even while a server has the file open.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::open::newest_script;
use super::path::with_end;
use super::{SqliteError, SqliteStore, cold};
use crate::key::Fingerprint;
use crate::store::inspection::Inspection;
use crate::store::inspection::OBJECTS;
use crate::store::sql::keyring::acceptance;

impl SqliteStore {
    /// Inspects the file at `path` without changing its store, even while a server has the file open. Returns whether
    /// the file contains a store, and whether that store accepts secrets with the fingerprints in `keyring`.
    ///
    /// # Errors
    ///
    /// [`SqliteError`] if the file cannot be read, or has a newer schema.
    pub async fn inspect(path: impl AsRef<Path>, keyring: &[Fingerprint]) -> Result<Inspection, SqliteError> {
        inspect(path.as_ref(), keyring).await
    }
}

async fn inspect(path: &Path, secrets: &[Fingerprint]) -> Result<Inspection, SqliteError> {
    const ENGINE: &str = "SELECT 'SQLite ' || sqlite_version()";
    let failed = |source| SqliteError::while_opening(path.to_owned(), source);
    let is_there = path.metadata().is_ok_and(|file| file.len() > 0);
    // If there is no file, the version of SQLite is read from an empty database in memory, which has no store either.
    let options = if is_there { untouched(path) } else { SqliteConnectOptions::new().in_memory(true) };
    let mut reader = options.connect().await.map_err(failed)?;
    let engine = sqlx::query_scalar(ENGINE).fetch_one(&mut reader).await.map_err(failed)?;
    let inspection = match step(&mut reader).await.map_err(failed)? {
        None => Inspection::missing(engine),
        Some(step) if step > newest_script() => return Err(SqliteError::NewerSchema { path: path.to_owned(), step }),
        Some(step) => {
            let other = |source| SqliteError::Other { path: path.to_owned(), source: Box::new(source) };
            let (acceptance, _) = acceptance(&mut cold::reading(&mut reader), secrets).await.map_err(other)?;
            let found = Inspection::found(engine, step == newest_script(), acceptance);
            if step == newest_script() {
                let objects: Vec<String> = sqlx::query_scalar(OBJECTS).fetch_all(&mut reader).await.map_err(failed)?;
                found.with_objects(&objects)
            } else {
                found
            }
        }
    };
    reader.close().await.map_err(failed)?;
    Ok(inspection)
}

/// Returns options for reading the file at `path` without creating other files next to it. If there is a `-wal` file,
/// it may contain changes, and a server may be writing, so the file is not treated as immutable.
fn untouched(path: &Path) -> SqliteConnectOptions {
    reading(path).immutable(!with_end(path, "-wal").exists())
}

/// Returns options for reading a file that a server may be writing at the same time.
pub(super) fn reading(path: &Path) -> SqliteConnectOptions {
    let options = SqliteConnectOptions::new().filename(path).read_only(true).create_if_missing(false);
    options.busy_timeout(Duration::from_secs(5)).disable_statement_logging()
}

/// Returns the number of the newest migration applied to a store, or `None` if the file has no store.
pub(super) async fn step(reader: &mut SqliteConnection) -> Result<Option<i64>, sqlx::Error> {
    const EXISTS: &str = "SELECT count(*) FROM sqlite_schema WHERE name IN ('_delivery_migrations', 'delivery_key')";
    const NEWEST: &str = "SELECT coalesce(max(version), 0) FROM _delivery_migrations WHERE success";
    let found: i64 = sqlx::query_scalar(EXISTS).fetch_one(&mut *reader).await?;
    if found < 2 {
        return Ok(None);
    }
    sqlx::query_scalar(NEWEST).fetch_one(reader).await.map(Some)
}
