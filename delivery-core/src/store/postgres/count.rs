//! Counting uses, which is what comes most: two trips to the database, where a transaction that locks first takes four.
//!
//! The keys are read and the rules applied; what comes of it is written in one statement, a transaction by itself, if the
//! keys still are what they were. If another server was faster, nothing is written, and the batch goes the long way
//! ([`plan`](super::plan)).

use std::collections::{HashMap, HashSet};

use sqlx::Row as _;
use sqlx::postgres::PgConnection;

use super::error::store_error;
use super::plan::{Row, Uses, rows_of};
use super::read::KEYS;
use super::write::Numbers;
use crate::key::{Change, KeyId};
use crate::store::StoreError;
use crate::store::operation::{Answer, Operation};

/// The keys of a batch that does nothing but count uses.
pub(super) fn keys(operations: &[Operation]) -> Option<HashSet<KeyId>> {
    let key = |operation: &Operation| match operation {
        Operation::Change(id, Change::Use { .. }) => Some(*id),
        _ => None,
    };
    operations.iter().map(key).collect()
}

/// The rows of keys, as they are now.
pub(super) async fn read(session: &mut PgConnection, ids: &HashSet<KeyId>) -> Result<HashMap<KeyId, Row>, StoreError> {
    rows_of(session, KEYS, ids).await
}

/// Counts the uses of a batch: all of them, or none if a key is no longer what was read.
pub(super) async fn write(
    session: &mut PgConnection,
    numbers: &mut Numbers,
    mut read: HashMap<KeyId, Row>,
    operations: &[Operation],
) -> Result<Option<Vec<Answer>>, StoreError> {
    // Rows are locked in the order of their numbers, as every server does it, before one of them is looked at. What another
    // transaction changed since this statement began is seen by the lock, and then nothing is written.
    const WRITE: &str = "WITH \
        c AS (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) \
            AS c (number, used_before, last_before, used, last_use)), \
        locked AS (SELECT k.used = c.used_before AND k.last_use IS NOT DISTINCT FROM c.last_before \
                AND k.revoked_at IS NULL AS is_same \
            FROM c JOIN delivery_key k ON k.number = c.number ORDER BY k.number FOR UPDATE OF k), \
        same AS MATERIALIZED \
            (SELECT count(*) FILTER (WHERE is_same) = cardinality($1) AS all_of_them FROM locked), \
        changed AS (UPDATE delivery_key k SET used = c.used, last_use = c.last_use FROM c, same \
            WHERE same.all_of_them AND k.number = c.number), \
        counted AS (INSERT INTO delivery_use (number, key, at, previous) SELECT u.* FROM same, \
            unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]) u WHERE same.all_of_them) \
        SELECT all_of_them FROM same";
    numbers.provide(operations.len(), session).await?;
    let before: HashMap<KeyId, (u64, Option<i64>)> =
        read.iter().map(|(id, row)| (*id, (row.key.used(), row.last_use))).collect();
    let mut uses = Uses::default();
    let mut answers = Vec::with_capacity(operations.len());
    for operation in operations {
        let Operation::Change(id, change) = operation else { return Ok(None) };
        let answer = read.get_mut(id).map(|row| row.change(change, numbers, &mut uses));
        answers.push(Answer::Changed(answer));
    }
    if uses.numbers.is_empty() {
        return Ok(Some(answers));
    }
    let count = |used: u64| i64::try_from(used).unwrap_or(i64::MAX);
    let (mut keys, mut used_before, mut last_before) = (Vec::new(), Vec::new(), Vec::new());
    let (mut counts, mut newest_uses) = (Vec::new(), Vec::new());
    for (id, row) in read.iter().filter(|(_, row)| row.dirty) {
        let (count_before, newest) = before.get(id).copied().unwrap_or_default();
        keys.push(row.number);
        used_before.push(count(count_before));
        last_before.push(newest);
        counts.push(count(row.key.used()));
        newest_uses.push(row.last_use);
    }
    let query = sqlx::query(WRITE).bind(keys).bind(used_before).bind(last_before).bind(counts).bind(newest_uses);
    let query = query.bind(uses.numbers).bind(uses.keys).bind(uses.at).bind(uses.previous);
    // All there is, and not the one row: what follows it says whether the transaction was committed.
    let answered = query.fetch_all(session).await.map_err(store_error)?;
    let written = answered.first().map(|row| row.try_get("all_of_them")).transpose().map_err(store_error)?;
    Ok(Some(answers).filter(|_| written == Some(true)))
}
