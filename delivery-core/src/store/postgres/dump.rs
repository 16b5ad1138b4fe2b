//! Writes a dump of the store in a schema, and loads a dump into a schema. Servers may use the store while a dump is
//! written.

use std::io::Write;
use std::path::Path;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, Executor, Postgres};

use super::address::address;
use super::cold::cold;
use super::connect::in_schema;
use super::error::store_error;
use super::schema::{check, check_migrated, prepare_schema};
use super::session::Session;
use super::{PostgresError, PostgresOptions};
use crate::key::{Acceptance, Fingerprint};
use crate::store::StoreError;
use crate::store::dump::{self, Checked, DumpError, Dumped, Kind, Progress, TABLES, Table, Target};
use crate::store::sql::keyring::{acceptance, add};
use crate::store::sql::session::Value;

impl PostgresOptions {
    /// Dumps the store in this schema of the database at `url`, and writes the dump to `to`. Servers may use the store
    /// meanwhile. Calls `progress` after each chunk of rows. Returns the number of rows of each table, and the SHA-256
    /// of the dump.
    ///
    /// # Errors
    ///
    /// [`DumpError`]. `to` may then contain an incomplete dump.
    pub async fn dump(
        self,
        url: &str,
        to: impl Write + Send,
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Dumped, DumpError> {
        const SNAPSHOT: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0; \
            SET LOCAL idle_in_transaction_session_timeout = 0";
        let place = self.checked()?;
        let failed = |source| PostgresError::while_opening(&place.schema, source);
        let hosts = address(url)?.map(|options| in_schema(options, &place.schema));
        let (mut connection, _) = hosts.connect(&[]).await.map_err(failed)?;
        check(&mut Session::Host(&mut connection), place.may_lose).await?;
        check_migrated(&mut Session::Host(&mut connection), &place.schema).await?;
        let mut snapshot = connection.begin().await.map_err(store_error)?;
        snapshot.execute(SNAPSHOT).await.map_err(store_error)?;
        let dumped = {
            let mut session = Session::Host(&mut snapshot);
            dump::write(&mut cold(&mut session), "delivery_key", to, progress).await?
        };
        snapshot.commit().await.map_err(store_error)?;
        connection.close().await.map_err(store_error)?;
        Ok(dumped)
    }

    /// Loads the dump in the file `from` into the schema of the database at `url`. Creates and migrates the schema as
    /// needed. The schema must be empty, except for registered secrets and sign-ins. Servers may be connected to it,
    /// but must not have written anything else yet. All rows are loaded in one transaction: if a load fails or is
    /// killed, no row is loaded, and the load can be repeated.
    ///
    /// `keyring` contains the fingerprints of the secrets with which the store will be used. Calls `progress`
    /// repeatedly.
    ///
    /// # Errors
    ///
    /// [`DumpError`]. Nothing was loaded, except possibly after [`StoreError::Unknown`]: the store is then either
    /// completely loaded or empty.
    pub async fn load(
        self,
        from: impl AsRef<Path>,
        url: &str,
        keyring: &[Fingerprint],
        progress: impl FnMut(Progress) + Send,
    ) -> Result<Dumped, DumpError> {
        let (place, mut progress) = (self.checked()?, progress);
        let hosts = address(url)?.map(|options| in_schema(options, &place.schema));
        let checked = dump::check(from.as_ref(), keyring, &mut progress)?;
        let (mut connection, _) = prepare_schema(&hosts, &place).await?;
        let mut transaction = connection.begin().await.map_err(store_error)?;
        let loaded = fill(checked, &mut transaction, keyring, progress).await?;
        transaction.commit().await.map_err(|error| StoreError::unknown(store_error(error)))?;
        // The store is loaded by now, so an error of `ANALYZE` is only logged. The database then analyzes the tables
        // itself later.
        let analyze = format!("ANALYZE {}", names());
        if let Err(error) = connection.execute(AssertSqlSafe(analyze)).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the store is loaded, and was not analyzed");
        }
        let _ = connection.close().await;
        Ok(loaded)
    }
}

async fn fill(
    checked: Checked,
    connection: &mut PgConnection,
    keyring: &[Fingerprint],
    progress: impl FnMut(Progress) + Send,
) -> Result<Dumped, DumpError> {
    // Locks the sequence of row numbers, so that other servers wait for numbers until the load is committed. Changes
    // nothing else, because the cache size of the sequence is 1 anyway.
    const NUMBERS: &str = "ALTER SEQUENCE delivery_number CACHE 1";
    // Checks that no server has taken row numbers before the lock. Rows of the dump may have the same numbers.
    const UNUSED: &str = "SELECT NOT is_called FROM delivery_number";
    const REGISTERED: &str = "DELETE FROM delivery_keyring";
    let alone = format!("SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE {} IN EXCLUSIVE MODE", names());
    connection.execute(AssertSqlSafe(alone)).await.map_err(store_error)?;
    connection.execute(NUMBERS).await.map_err(store_error)?;
    let is_unused: bool = sqlx::query_scalar(UNUSED).fetch_one(&mut *connection).await.map_err(store_error)?;
    let is_empty = dump::is_empty(&mut cold(&mut Session::Host(connection))).await?;
    if !is_unused || !is_empty {
        return Err(DumpError::NotEmpty);
    }
    // `keyring` is checked twice: here against the secrets that connected servers have registered, and after loading
    // against the secrets of the dump.
    let (fits, known) = acceptance(&mut cold(&mut Session::Host(connection)), keyring).await?;
    connection.execute(REGISTERED).await.map_err(store_error)?;
    let loaded = dump::load(checked, &mut Filling(connection), progress).await?;
    let (accepted, dumped) = acceptance(&mut cold(&mut Session::Host(connection)), keyring).await?;
    if fits != Acceptance::Accepted || accepted != Acceptance::Accepted {
        return Err(DumpError::OtherSecret);
    }
    if known.iter().any(|secret| !dumped.contains(secret)) {
        add(&mut cold(&mut Session::Host(connection)), &known).await?;
    }
    for (sequence, newest) in SEQUENCES {
        let next: i64 = sqlx::query_scalar(newest).fetch_one(&mut *connection).await.map_err(store_error)?;
        let restart = format!("{sequence} RESTART WITH {next}");
        // If the transaction is rolled back, `RESTART` is undone. The function `setval` would not be undone.
        connection.execute(AssertSqlSafe(restart)).await.map_err(store_error)?;
    }
    Ok(loaded)
}

/// Returns the names of all tables, separated by commas.
fn names() -> String {
    TABLES.iter().map(|table| table.name).collect::<Vec<_>>().join(", ")
}

/// For each sequence, the beginning of a statement that restarts it, and a query for its next number. The queries also
/// consider the numbers to which keys refer. A key may refer to a pruned use or to a deleted product, and no new row
/// may get the number of such a use or product.
///
/// In tables that are listed by time, a row number has the time in its upper bits, and the number from the sequence in
/// its lower 30 bits. The row with the greatest row number need not have the greatest lower bits, because a clock may
/// have been set back. So the query takes the maximum of the lower bits.
const SEQUENCES: [(&str, &str); 4] = [
    (
        "ALTER SEQUENCE delivery_number",
        "SELECT greatest((SELECT max(number) FROM delivery_use), (SELECT max(last_use) FROM delivery_key), \
            (SELECT max(number) FROM delivery_key), (SELECT max(number) FROM delivery_deal), \
            (SELECT max(number & 1073741823) FROM delivery_message), (SELECT max(number & 1073741823) FROM delivery_event), \
            (SELECT max(number & 1073741823) FROM delivery_inbox), 0) + 1",
    ),
    (
        "ALTER TABLE delivery_product ALTER COLUMN id",
        "SELECT greatest((SELECT max(id) FROM delivery_product), (SELECT max(product) FROM delivery_key), 0) + 1",
    ),
    ("ALTER TABLE delivery_post ALTER COLUMN id", "SELECT coalesce(max(id), 0) + 1 FROM delivery_post"),
    ("ALTER TABLE delivery_lost ALTER COLUMN number", "SELECT coalesce(max(number), 0) + 1 FROM delivery_lost"),
];

struct Filling<'c>(&'c mut PgConnection);

#[async_trait]
impl Target for Filling<'_> {
    async fn insert(&mut self, table: &'static Table, rows: Vec<Vec<Value>>) -> Result<(), DumpError> {
        let kinds = table.columns.iter().map(|(_, _, kind)| *kind);
        let parameters =
            kinds.clone().enumerate().map(|(place, kind)| format!("${}::{}[]", place + 1, database_type(kind)));
        let sql = format!(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest({})",
            table.name,
            table.column_names(),
            parameters.collect::<Vec<_>>().join(", ")
        );
        let mut columns: Vec<_> = rows.into_iter().map(Vec::into_iter).collect();
        let mut insert = sqlx::query(AssertSqlSafe(sql));
        for kind in kinds {
            insert = column(insert, kind, columns.iter_mut().filter_map(Iterator::next))?;
        }
        insert.execute(&mut *self.0).await.map_err(store_error)?;
        Ok(())
    }
}

fn database_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Number | Kind::Id | Kind::Count | Kind::Flag | Kind::Seconds | Kind::Milliseconds => "bigint",
        Kind::Text | Kind::Json => "text",
        Kind::KeyId | Kind::Bytes => "bytea",
    }
}

/// Binds the values of one column as one parameter, an array.
fn column(
    query: Query<'static, Postgres, PgArguments>,
    kind: Kind,
    values: impl Iterator<Item = Value>,
) -> Result<Query<'static, Postgres, PgArguments>, StoreError> {
    let (mut integers, mut texts, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for value in values {
        match value {
            Value::Integer(value) => integers.push(value),
            Value::Text(value) => texts.push(value),
            Value::Bytes(value) => bytes.push(value),
            Value::Integers(_) => return Err(StoreError::corrupt("a list in a row")),
        }
    }
    Ok(match database_type(kind) {
        "bigint" => query.bind(integers),
        "text" => query.bind(texts),
        _ => query.bind(bytes),
    })
}
