//! Appending use records, the most frequent write.
//!
//! All rows are written by one statement, in which each value is a parameter. If the rows were JSON in a single
//! parameter, SQLite would parse each row three times. When this was measured, parsing took four fifths of the
//! database's time for a use.
//!
//! SQLite has to prepare a statement for each number of rows, so there are statements only for powers of two. If a
//! statement has room for more rows than there are uses, the other rows are null, and the statement filters them out.

use std::sync::LazyLock;

use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use crate::ledger::plan::NewUse;
use crate::store::StoreError;
use crate::store::batch::BATCH;

/// The statements for 1, 2, 4 … rows.
static STATEMENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let sizes = (0..=BATCH.next_power_of_two().ilog2()).map(|power| 1 << power);
    let statement = |rows| {
        let values = vec!["(?,?,?,?,?)"; rows].join(",");
        format!(
            "INSERT INTO delivery_use (number, key, at, used, previous) \
            SELECT * FROM (VALUES {values}) WHERE column1 IS NOT NULL"
        )
    };
    sizes.map(statement).collect()
});

/// Appends up to [`BATCH`] uses in one statement.
pub(super) async fn append(connection: &mut SqliteConnection, uses: &[NewUse]) -> Result<(), StoreError> {
    if uses.is_empty() {
        return Ok(());
    }
    let power = uses.len().next_power_of_two().ilog2() as usize;
    let statement = STATEMENTS.get(power).ok_or(StoreError::corrupt("more uses than fit into a batch"))?;
    let query = uses.iter().fold(sqlx::query(statement.as_str()), |query, used| {
        let count = i64::try_from(used.used).unwrap_or(i64::MAX);
        query.bind(used.number).bind(used.key).bind(used.at.timestamp_millis()).bind(count).bind(used.previous)
    });
    query.execute(connection).await.map(drop).map_err(store_error)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use sqlx::ConnectOptions;
    use sqlx::sqlite::SqliteConnectOptions;

    use super::*;

    fn uses(from: i64, size: usize) -> Vec<NewUse> {
        let number = |index: usize| from + i64::try_from(index).unwrap();
        let at = DateTime::from_timestamp_millis(-5).unwrap();
        let used = |index| NewUse { unit: 0, number: number(index), key: 7, at, used: 3, previous: None };
        (0..size).map(|index| NewUse { previous: Some(1).filter(|_| index.is_multiple_of(2)), ..used(index) }).collect()
    }

    #[tokio::test]
    async fn every_use_of_a_batch_is_a_row_and_nothing_else_is() {
        let mut connection = SqliteConnectOptions::new().connect().await.unwrap();
        super::super::open::migrate(&mut connection).await.unwrap();
        let mut all: Vec<(i64, i64, i64, i64, Option<i64>)> = Vec::new();
        for size in [1, 2, 3, 4, 5, 63, 64, 65, BATCH - 1, BATCH] {
            let uses = uses(i64::try_from(all.len()).unwrap() + 1, size);
            append(&mut connection, &uses).await.unwrap();
            all.extend(uses.iter().map(|used| (used.number, 7, -5, 3, used.previous)));
        }
        let kept: Vec<(i64, i64, i64, i64, Option<i64>)> =
            sqlx::query_as("SELECT number, key, at, used, previous FROM delivery_use ORDER BY number")
                .fetch_all(&mut connection)
                .await
                .unwrap();
        assert_eq!(kept, all);
    }

    #[tokio::test]
    async fn more_than_a_batch_is_refused() {
        let mut connection = SqliteConnectOptions::new().connect().await.unwrap();
        let refused = append(&mut connection, &uses(1, BATCH + 1)).await;
        assert!(matches!(refused, Err(StoreError::Corrupt { .. })));
    }
}
