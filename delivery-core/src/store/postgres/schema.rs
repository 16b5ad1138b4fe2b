//! Checking whether the server and the schema can be used, and preparing the schema.

use std::cmp::Ordering;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Row};
use tokio::time::timeout;

use super::PostgresError;
use super::error::store_error;
use super::hosts::Hosts;
use super::session::Session;
use crate::store::StoreError;
use crate::store::sql::{Script, migrator};

/// How long opening or inspecting a store waits for a server that does not answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

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

/// The name of a schema, and how the store uses it. The name has only letters, digits and underscores.
#[derive(Debug, Clone)]
pub(super) struct SchemaConfig {
    pub(super) schema: String,
    pub(super) migrates: bool,
    /// Whether to accept a database that may lose acknowledged writes in a crash.
    pub(super) may_lose: bool,
}

/// Connects, and checks that the server can be used. If `place.migrates` is set, creates and migrates the schema. If it
/// is not set, fails unless the schema is up to date. Any number of servers may call this at once. The returned session
/// has no statement timeout and no lock timeout.
pub(super) async fn prepare_schema(
    hosts: &Hosts,
    place: &SchemaConfig,
) -> Result<(PgConnection, PgConnectOptions), PostgresError> {
    let failed = |source| PostgresError::while_opening(&place.schema, source);
    let silent = |_| PostgresError::Silent;
    let (mut session, options) = timeout(PATIENCE, hosts.connect(&[])).await.map_err(silent)?.map_err(failed)?;
    timeout(PATIENCE, check(&mut Session::Host(&mut session), place.may_lose)).await.map_err(silent)??;
    // Another server may be migrating the schema, so this session waits without a time limit.
    sqlx::raw_sql("SET statement_timeout = 0; SET lock_timeout = 0").execute(&mut session).await.map_err(failed)?;
    if place.migrates {
        make_schema(&mut session, &place.schema).await.map_err(failed)?;
        let migrated = migrator(MIGRATIONS).run_direct(None, &mut session, false).await;
        migrated.map_err(|error| PostgresError::while_migrating(&place.schema, error))?;
    } else {
        check_migrated(&mut Session::Host(&mut session), &place.schema).await?;
    }
    Ok((session, options))
}

/// Returns the number of the schema's newest migration, or 0 if there is none.
pub(super) async fn newest_migration(session: &mut Session<'_>, schema: &str) -> Result<i64, PostgresError> {
    // `to_regclass` returns null if the schema or the table does not exist.
    const EXISTS: &str = "SELECT to_regclass('_delivery_migrations') IS NOT NULL";
    const NEWEST: &str = "SELECT coalesce(max(version), 0) FROM _delivery_migrations WHERE success";
    let failed = |source| PostgresError::while_opening(schema, source);
    if session.scalar::<bool>(EXISTS).fetch_one(&mut **session).await.map_err(failed)? {
        session.scalar::<i64>(NEWEST).fetch_one(&mut **session).await.map_err(failed)
    } else {
        Ok(0)
    }
}

/// Compares `newest`, the number of a schema's newest migration, with the number of the newest migration in
/// [`MIGRATIONS`]. Fails if `newest` is greater.
pub(super) fn compare(newest: i64) -> Result<Ordering, PostgresError> {
    let needed = MIGRATIONS.last().map_or(0, |(number, ..)| *number);
    match newest.cmp(&needed) {
        Ordering::Greater => Err(PostgresError::NewerSchema { step: newest }),
        compared => Ok(compared),
    }
}

/// Checks that the schema is up to date, without migrating it.
pub(super) async fn check_migrated(session: &mut Session<'_>, schema: &str) -> Result<(), PostgresError> {
    match compare(newest_migration(session, schema).await?)? {
        Ordering::Equal => Ok(()),
        _ => Err(PostgresError::NotMigrated { schema: schema.to_owned() }),
    }
}

/// Returns whether `fsync` and `full_page_writes` are on, so that acknowledged writes survive a crash of the database
/// server. Also switches `synchronous_commit` on if it is off. An administrator may have switched it off since the
/// store was opened, and a crash would then lose the last orders. It is switched on for the session, or, on a
/// connection of the host application, only for the transaction.
pub(super) async fn is_durable(session: &mut Session<'_>) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on' AND \
        set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' \
            ELSE current_setting('synchronous_commit') END, $1) <> 'off'";
    let is_lent = !session.is_ours();
    session.scalar(SQL).bind(is_lent).fetch_one(&mut **session).await.map_err(store_error)
}

pub(super) async fn check(session: &mut Session<'_>, may_lose: bool) -> Result<(), PostgresError> {
    const SQL: &str = "SELECT current_setting('server_version_num')::bigint AS number, \
        current_setting('server_version') AS version, current_setting('fsync') AS fsync, \
        current_setting('full_page_writes') AS full_page_writes, \
        current_setting('synchronous_commit') AS synchronous_commit, \
        current_setting('server_encoding') AS encoding";
    let unreachable = |source| PostgresError::Unreachable { source };
    let row = session.query(SQL).fetch_one(&mut **session).await.map_err(unreachable)?;
    if row.try_get::<i64, _>("number").map_err(unreachable)? < 140_000 {
        return Err(PostgresError::TooOld { found: row.try_get("version").map_err(unreachable)? });
    }
    if row.try_get::<&str, _>("encoding").map_err(unreachable)? != "UTF8" {
        return Err(PostgresError::NotUtf8);
    }
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        if !may_lose && row.try_get::<&str, _>(setting).map_err(unreachable)? == "off" {
            return Err(PostgresError::NotDurable { setting: setting.to_owned() });
        }
    }
    Ok(())
}

/// Creates the schema if it is missing. If it exists, the user need not have the right to create schemas.
async fn make_schema(session: &mut PgConnection, schema: &str) -> Result<(), sqlx::Error> {
    // The lock is necessary, because `CREATE SCHEMA IF NOT EXISTS` can fail if two servers run it at the same moment.
    const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('delivery schema ' || $1, 0))";
    const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
    let mut transaction = session.begin().await?;
    sqlx::query(LOCK).bind(schema).execute(&mut *transaction).await?;
    let exists: bool = sqlx::query_scalar(EXISTS).bind(schema).fetch_one(&mut *transaction).await?;
    if !exists {
        // The name is quoted, because it may be a keyword, such as `order`.
        let create = sqlx::AssertSqlSafe(format!("CREATE SCHEMA \"{schema}\""));
        sqlx::query(create).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
