//! A few keys that are not like the others, so that there is something to search for.

use std::path::Path;

use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};

use crate::fill::START;

/// Whether a key is like most: valid, for product 1, and sold by the same platform. Of a hundred thousand one is revoked, one is
/// used up, one has expired and one was sold by another platform; of a thousand one is for product 2.
pub fn is_common(number: i64) -> bool {
    !matches!(number % 100_000, 7 | 11 | 13 | 17) && number % 1000 != 3
}

/// Changes what `more` says, and the rest of what [`is_common`] says.
fn statement(more: &str) -> String {
    let expired = START / 1000;
    format!(
        "UPDATE delivery_key SET product = CASE WHEN number % 1000 = 3 THEN 2 ELSE 1 END, \
            max_uses = CASE WHEN number % 100000 = 11 THEN 1 ELSE max_uses END, \
            expires_at = CASE WHEN number % 100000 = 13 THEN {expired} ELSE expires_at END, \
            source = CASE WHEN number % 100000 = 17 THEN 'gumroad' ELSE source END{more} \
        WHERE number % 1000 = 3 OR number % 100000 IN (11, 13, 17)"
    )
}

pub async fn sqlite(file: &Path) {
    let mut connection = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
    let exhausted = ", exhausted = CASE WHEN number % 100000 = 11 THEN 1 ELSE 0 END";
    connection.execute(AssertSqlSafe(statement(exhausted))).await.unwrap();
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await.unwrap();
    connection.close().await.unwrap();
}

pub async fn postgres(url: &str) {
    let mut session = PgConnection::connect(url).await.unwrap();
    session.execute("SET search_path = delivery").await.unwrap();
    session.execute(AssertSqlSafe(statement(""))).await.unwrap();
    session.execute("VACUUM ANALYZE delivery_key").await.unwrap();
    session.close().await.unwrap();
}
