//! Dumping a database file, even while a server has it open, and creating a database file from a dump.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::Serialize;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};

use super::backup::make;
use super::error::store_error;
use super::inspect::{reading, step};
use super::json::json;
use super::lock::Lock;
use super::open::{migrate, newest_script};
use super::path::{folder, with_end};
use super::{SqliteError, SqliteStore, cold};
use crate::key::{Acceptance, Fingerprint};
use crate::store::dump::{self, Checked, DumpError, Dumped, Kind, Progress, Table, Target};
use crate::store::sql::keyring::acceptance;
use crate::store::sql::session::Value;

impl SqliteStore {
    /// Writes a dump of the store in the file `from` to `to`, even while a server has the file open. Calls `progress`
    /// after each chunk of rows. Returns the number of rows of each table, and the SHA-256 of the dump.
    ///
    /// # Errors
    ///
    /// [`DumpError`]. What was written to `to` before the error is not a complete dump.
    pub async fn dump(
        from: impl AsRef<Path>,
        to: impl Write + Send,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Dumped, DumpError> {
        let path = from.as_ref();
        let failed = |source| SqliteError::while_opening(path.to_owned(), source);
        let mut reader = reading(path).connect().await.map_err(failed)?;
        match step(&mut reader).await.map_err(failed)? {
            None => return Err(SqliteError::NotAStore { path: path.to_owned() }.into()),
            Some(step) if step > newest_script() => {
                return Err(SqliteError::NewerSchema { path: path.to_owned(), step }.into());
            }
            Some(step) if step < newest_script() => return Err(DumpError::Older),
            Some(_) => {}
        }
        let mut snapshot = reader.begin().await.map_err(store_error)?;
        snapshot.execute(COUNTED).await.map_err(store_error)?;
        let dumped = dump::write(&mut cold::reading(&mut snapshot), "delivery_dumped_key", to, progress).await?;
        snapshot.commit().await.map_err(store_error)?;
        reader.close().await.map_err(store_error)?;
        Ok(dumped)
    }

    /// Creates the database file `to` from the dump in the file `from`. If there is a store at `to`, the new file
    /// replaces it. No server may have that store open, and the store must be empty, except for sign-ins and for
    /// fingerprints of signing secrets. The new file is built under another name in the same folder, and is moved to
    /// `to` once it is complete. So a load that fails or is killed does not change the store at `to`, and can be
    /// repeated.
    ///
    /// `keyring` contains the fingerprints of the secrets with which the store will be used. Calls `progress`
    /// repeatedly while the dump is checked and loaded.
    ///
    /// # Errors
    ///
    /// [`DumpError`]. Nothing was changed.
    pub async fn load(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        keyring: &[Fingerprint],
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Dumped, DumpError> {
        let (to, mut progress) = (to.as_ref(), progress);
        let checked = dump::check(from.as_ref(), keyring, &mut progress)?;
        let was_there = to.exists();
        // The lock is held until the new file is in place, so that no server opens the store meanwhile.
        let lock = Lock::take(to).await?;
        // If `to` is a symbolic link, its target is replaced, not the link.
        let to = to.canonicalize().unwrap_or_else(|_| to.to_owned());
        let loaded = put(checked, &to, keyring, progress).await;
        if loaded.is_err() {
            let _ = fs::remove_file(loading_path(&to));
            // If there was no file at `to`, taking the lock has created an empty one. Remove this file, unless
            // somebody has written to it.
            if !was_there && to.metadata().is_ok_and(|file| file.len() == 0) {
                let _ = fs::remove_file(&to);
            }
        }
        drop(lock);
        loaded
    }
}

/// Builds the new file and moves it to `to`.
async fn put(
    checked: Checked,
    to: &Path,
    keyring: &[Fingerprint],
    progress: impl FnMut(Progress) + Send,
) -> Result<Dumped, DumpError> {
    let new = loading_path(to);
    refuse_a_store(to).await?;
    // A load that was killed may have left this file.
    let _ = fs::remove_file(&new);
    let loaded = fill(checked, &new, keyring, progress).await?;
    // A process that was killed may have left the log or the journal of an old, empty store. SQLite would apply it to
    // the new file. A start that was killed before the first migration leaves a journal that makes the file empty.
    for end in ["-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(with_end(to, end));
    }
    fs::rename(&new, to).map_err(|source| SqliteError::Other { path: to.to_owned(), source: Box::new(source) })?;
    if let Err(error) = File::open(folder(to)).and_then(|folder| folder.sync_all()) {
        tracing::warn!(%error, "the store is loaded, and its folder cannot be synced");
    }
    Ok(loaded)
}

/// Creates a view of the keys with their counts of uses. Uses up to the number in `delivery_watermark` are flushed,
/// which means that they are counted in `delivery_count`. If a key has newer uses, its count is in the newest of them;
/// otherwise it is the flushed count.
const COUNTED: &str = "\
    CREATE TEMP TABLE delivery_newest AS SELECT key, max(number) AS number, used FROM main.delivery_use \
        WHERE number > (SELECT number FROM main.delivery_watermark) GROUP BY key; \
    CREATE UNIQUE INDEX temp.delivery_newest_by_key ON delivery_newest (key); \
    CREATE TEMP VIEW delivery_dumped_key AS \
        SELECT k.*, coalesce(n.used, c.used, 0) AS used, coalesce(n.number, nullif(c.last_use, 0)) AS last_use \
        FROM main.delivery_key k LEFT JOIN main.delivery_count c ON c.key = k.number \
            LEFT JOIN temp.delivery_newest n ON n.key = k.number";

/// Fails unless the file has no content or contains an empty store.
async fn refuse_a_store(path: &Path) -> Result<(), DumpError> {
    let failed = |source| SqliteError::while_opening(path.to_owned(), source);
    if path.metadata().is_ok_and(|file| file.len() == 0) {
        return Ok(());
    }
    let mut reader = reading(path).connect().await.map_err(failed)?;
    if step(&mut reader).await.map_err(failed)?.is_none() {
        return Err(SqliteError::NotAStore { path: path.to_owned() }.into());
    }
    let is_empty = dump::is_empty(&mut cold::reading(&mut reader)).await;
    reader.close().await.map_err(failed)?;
    if is_empty? { Ok(()) } else { Err(DumpError::NotEmpty) }
}

async fn fill(
    checked: Checked,
    new: &Path,
    secrets: &[Fingerprint],
    progress: impl FnMut(Progress) + Send,
) -> Result<Dumped, DumpError> {
    // Makes sure that new rows get numbers that are neither in use nor referred to by a key. A key may refer to a use
    // that was pruned, or to a product that was deleted.
    //
    // In tables that are listed by time, a row number has the time in its upper bits, and a serial number in its lower
    // 30 bits. If a clock was set back, the greatest row number need not have the greatest serial number. So the
    // statements take the maximum of the serial numbers.
    const NUMBERS: [&str; 4] = [
        "UPDATE delivery_watermark SET number = max((SELECT coalesce(max(number), 0) FROM delivery_use), \
            (SELECT coalesce(max(last_use), 0) FROM delivery_count))",
        "UPDATE delivery_watermark SET reserved = max(number, (SELECT coalesce(max(number), 0) FROM delivery_key), \
            (SELECT coalesce(max(number), 0) FROM delivery_deal), \
            (SELECT coalesce(max(number & 1073741823), 0) FROM delivery_message), \
            (SELECT coalesce(max(number & 1073741823), 0) FROM delivery_event), \
            (SELECT coalesce(max(number & 1073741823), 0) FROM delivery_inbox))",
        "INSERT INTO sqlite_sequence (name, seq) SELECT 'delivery_product', 0 \
            WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'delivery_product')",
        "UPDATE sqlite_sequence SET seq = max(seq, (SELECT coalesce(max(product), 0) FROM delivery_key)) \
            WHERE name = 'delivery_product'",
    ];
    let failed = |source| SqliteError::while_opening(new.to_owned(), source);
    make(new).map_err(|source| SqliteError::Other { path: new.to_owned(), source: Box::new(source) })?;
    // The file needs no rollback journal, because nobody else sees it before it is complete and synced.
    let options = SqliteConnectOptions::new().filename(new).disable_statement_logging();
    let options = options.pragma("journal_mode", "OFF").pragma("synchronous", "OFF").pragma("cache_size", "-200000");
    let mut connection = options.connect().await.map_err(failed)?;
    migrate(&mut connection).await.map_err(|error| SqliteError::while_migrating(new.to_owned(), error))?;
    connection.execute("BEGIN").await.map_err(store_error)?;
    let loaded = dump::load(checked, &mut Filling(&mut connection), progress).await?;
    for statement in NUMBERS {
        connection.execute(statement).await.map_err(store_error)?;
    }
    let (acceptance, _) = acceptance(&mut cold::reading(&mut connection), secrets).await?;
    if acceptance != Acceptance::Accepted {
        return Err(DumpError::OtherSecret);
    }
    connection.execute("COMMIT").await.map_err(store_error)?;
    connection.close().await.map_err(store_error)?;
    let synced = File::open(new).and_then(|file| file.sync_all());
    synced.map_err(|source| SqliteError::Other { path: new.to_owned(), source: Box::new(source) })?;
    Ok(loaded)
}

struct Filling<'c>(&'c mut SqliteConnection);

#[async_trait]
impl Target for Filling<'_> {
    async fn insert(&mut self, table: &'static Table, rows: Vec<Vec<Value>>) -> Result<(), DumpError> {
        const COUNTS: &str = "INSERT INTO delivery_count (key, used, last_use) \
            SELECT value->>0, value->>1, coalesce(value->>2, 0) FROM json_each(?) \
            WHERE value->>1 > 0 OR value->>2 IS NOT NULL";
        const EXHAUSTED: &str = "UPDATE delivery_key SET exhausted = 1 WHERE number IN \
            (SELECT value->>0 FROM json_each(?) WHERE value->>3 >= 0 AND value->>1 >= value->>3)";
        // In SQLite the counts are in `delivery_count`, not in `delivery_key`.
        let is_count = |column: &str| table.name == "delivery_key" && matches!(column, "used" | "last_use");
        let columns = table.columns.iter().enumerate().filter(|(_, (_, column, _))| !is_count(column));
        let (names, values): (Vec<&str>, Vec<String>) = columns
            .map(|(place, (_, column, kind))| match kind {
                Kind::KeyId | Kind::Bytes => (*column, format!("unhex(value->>{place})")),
                _ => (*column, format!("value->>{place}")),
            })
            .unzip();
        let sql = format!(
            "INSERT INTO {} ({}) SELECT {} FROM json_each(?) ORDER BY json_each.key",
            table.name,
            names.join(", "),
            values.join(", ")
        );
        let all = json(&rows.iter().map(|row| row.iter().map(Cell).collect::<Vec<_>>()).collect::<Vec<_>>())?;
        sqlx::query(AssertSqlSafe(sql)).bind(all).execute(&mut *self.0).await.map_err(store_error)?;
        if table.name == "delivery_key" {
            let place = |name| table.columns.iter().position(|(_, column, _)| *column == name);
            let places = ["number", "used", "last_use", "max_uses"].map(place);
            let counted = |row: &Vec<Value>| places.map(|place| place.and_then(|place| row.get(place)).cloned());
            let counts: Vec<_> = rows.iter().map(counted).collect();
            let counts: Vec<Vec<_>> = counts.iter().map(|row| row.iter().flatten().map(Cell).collect()).collect();
            let counts = json(&counts)?;
            for sql in [COUNTS, EXHAUSTED] {
                sqlx::query(sql).bind(counts.as_str()).execute(&mut *self.0).await.map_err(store_error)?;
            }
        }
        Ok(())
    }
}

/// A value that serializes to JSON in the form that the SQL statements here read. Bytes are hexadecimal text.
struct Cell<'v>(&'v Value);

impl Serialize for Cell<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Integer(value) => value.serialize(serializer),
            Value::Text(value) => value.serialize(serializer),
            Value::Bytes(Some(value)) => serializer.serialize_str(&data_encoding::HEXUPPER.encode(value)),
            Value::Bytes(None) => serializer.serialize_none(),
            Value::Integers(values) => values.serialize(serializer),
        }
    }
}

/// Returns the path where the file is built. Only one load at a time uses this path, because a load holds the lock of
/// the store.
fn loading_path(to: &Path) -> PathBuf {
    with_end(to, ".loading")
}
