//! Uses, appended: what a writer does most.
//!
//! The rows are parameters of one statement. As JSON, which one parameter could hold, each of them is parsed three times:
//! that took four fifths of the database's time for a use. Statements are made for powers of two, since the database
//! prepares each of them; the rows that a batch leaves empty are null, and left out.

use std::sync::LazyLock;

use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use crate::store::StoreError;
use crate::store::commit::BATCH;

/// A use: its number, the number of its key, its time in milliseconds, and the number of the key's use before it.
pub(super) type UseRow = (i64, i64, i64, Option<i64>);

/// Statements for 1, 2, 4 … rows.
static STATEMENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let sizes = (0..=BATCH.next_power_of_two().ilog2()).map(|power| 1 << power);
    let statement = |rows| {
        let values = vec!["(?,?,?,?)"; rows].join(",");
        format!(
            "INSERT INTO delivery_use (number, key, at, previous) \
            SELECT * FROM (VALUES {values}) WHERE column1 IS NOT NULL"
        )
    };
    sizes.map(statement).collect()
});

/// Appends up to [`BATCH`] uses in one statement.
pub(super) async fn append(connection: &mut SqliteConnection, uses: &[UseRow]) -> Result<(), StoreError> {
    let power = uses.len().next_power_of_two().ilog2() as usize;
    let statement = STATEMENTS.get(power).ok_or(StoreError::corrupt("more uses than fit into a batch"))?;
    let query = uses.iter().fold(sqlx::query(statement.as_str()), |query, (number, key, at, previous)| {
        query.bind(*number).bind(*key).bind(*at).bind(*previous)
    });
    query.execute(connection).await.map(drop).map_err(store_error)
}

#[cfg(test)]
mod tests {
    use sqlx::ConnectOptions;
    use sqlx::sqlite::SqliteConnectOptions;

    use super::*;

    #[tokio::test]
    async fn every_use_of_a_batch_is_a_row_and_nothing_else_is() {
        let mut connection = SqliteConnectOptions::new().connect().await.unwrap();
        super::super::open::migrate(&mut connection).await.unwrap();
        let mut all: Vec<UseRow> = Vec::new();
        for size in [1, 2, 3, 4, 5, 63, 64, 65, BATCH - 1, BATCH] {
            let newest = i64::try_from(all.len()).unwrap();
            let number = |index| newest + i64::try_from(index).unwrap() + 1;
            let previous = |index: usize| Some(number(index) - 1).filter(|_| index.is_multiple_of(2));
            let uses: Vec<UseRow> = (0..size).map(|index| (number(index), 7, -5, previous(index))).collect();
            append(&mut connection, &uses).await.unwrap();
            all.extend(uses);
        }
        let kept: Vec<UseRow> = sqlx::query_as("SELECT number, key, at, previous FROM delivery_use ORDER BY number")
            .fetch_all(&mut connection)
            .await
            .unwrap();
        assert_eq!(kept, all);
    }

    #[tokio::test]
    async fn more_than_a_batch_is_refused() {
        let mut connection = SqliteConnectOptions::new().connect().await.unwrap();
        let uses = vec![(1, 1, 1, None); BATCH + 1];
        assert!(matches!(append(&mut connection, &uses).await, Err(StoreError::Corrupt { .. })));
    }
}
