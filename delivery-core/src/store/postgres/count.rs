//! Counting uses, which is what comes most: one trip to the database or two, where a transaction that locks first takes four.
//!
//! The rules are applied to keys as they are [remembered](super::remembered) or, if they are not, as they are read; what comes
//! of it is written in one statement, a transaction by itself, for those keys that still are what they were. Where another
//! server was faster, nothing is written, and they are tried again: read this time, and after that the long way
//! ([`plan`](super::plan)).

use std::collections::{HashMap, HashSet};

use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};

use super::error::store_error;
use super::plan::{Row, Uses, ask};
use super::remembered::Version;
use super::write::Numbers;
use crate::key::{Change, KeyId};
use crate::store::StoreError;
use crate::store::operation::{Answer, Operation};
use crate::store::rows::{self, Columns};

/// The keys of a batch that does nothing but count uses.
pub(super) fn keys(operations: &[Operation]) -> Option<HashSet<KeyId>> {
    let key = |operation: &Operation| match operation {
        Operation::Change(id, Change::Use { .. }) => Some(*id),
        _ => None,
    };
    operations.iter().map(key).collect()
}

/// The rows of keys, as they are now.
pub(super) async fn read(
    session: &mut PgConnection,
    ids: &HashSet<KeyId>,
) -> Result<HashMap<KeyId, Version>, StoreError> {
    const READ: &str = concat!(
        "SELECT k.xmin::text::bigint AS written_by, ",
        rows::key_columns!(),
        " FROM delivery_key k WHERE k.id = ANY($1)"
    );
    let found = ask(session, READ, ids).await?;
    let version = |row: &PgRow| {
        let (written_by, row) = (row.integer("written_by")?, Row::read(row)?);
        Ok((row.key.id(), Version { row, written_by }))
    };
    found.iter().map(version).collect()
}

/// What became of a batch.
pub(super) struct Counted {
    /// None of a use whose key was not known as it is: nothing has happened to that.
    pub(super) answers: Vec<Option<Answer>>,
    /// Its keys as they are now.
    pub(super) written: HashMap<KeyId, Version>,
    /// Those that another transaction has changed since they were read.
    pub(super) stale: HashSet<KeyId>,
}

/// Counts the uses of a batch: of each key all, or none if its row is not the version that is known. What only a key that
/// was `asked` for can tell, is that a use is refused.
pub(super) async fn write(
    session: &mut PgConnection,
    numbers: &mut Numbers,
    (mut keys, asked): (HashMap<KeyId, Version>, &HashSet<KeyId>),
    operations: &[Operation],
) -> Result<Counted, StoreError> {
    // Rows are locked in the order of their numbers, as every server does it. One that another transaction changed since this
    // statement began, is looked at once more when that has ended, and then is another version.
    const WRITE: &str = "WITH changed AS ( \
            UPDATE delivery_key k SET used = c.used, last_use = c.last_use \
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS c (number, written_by, used, last_use) \
            WHERE k.number = c.number AND k.xmin::text::bigint = c.written_by RETURNING k.number), \
        counted AS ( \
            INSERT INTO delivery_use (number, key, at, previous) \
            SELECT u.* FROM unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]) AS u (number, key, at, previous) \
            WHERE (u.key IN (SELECT number FROM changed)) IS TRUE) \
        SELECT array_agg(number) AS numbers, pg_current_xact_id()::xid::text::bigint AS written_by FROM changed";
    numbers.provide(operations.len(), session).await?;
    let mut uses = Uses::default();
    let mut answers = Vec::with_capacity(operations.len());
    for operation in operations {
        let Operation::Change(id, change) = operation else { continue };
        let changed = keys.get_mut(id).map(|version| version.row.change(change, numbers, &mut uses));
        let believed = asked.contains(id) || matches!(changed, Some(Ok(_)));
        answers.push(believed.then_some(Answer::Changed(changed)));
    }
    keys.retain(|_, version| version.row.dirty);
    if keys.is_empty() {
        return Ok(Counted { answers, written: keys, stale: HashSet::new() });
    }
    let mut changed: Vec<&Version> = keys.values().collect();
    changed.sort_unstable_by_key(|version| version.row.number);
    let column = |of: fn(&Version) -> i64| changed.iter().map(|version| of(version)).collect::<Vec<i64>>();
    let query = sqlx::query(WRITE)
        .bind(column(|version| version.row.number))
        .bind(column(|version| version.written_by))
        .bind(column(|version| i64::try_from(version.row.key.used()).unwrap_or(i64::MAX)))
        .bind(changed.iter().map(|version| version.row.last_use).collect::<Vec<_>>());
    let query = query.bind(uses.numbers).bind(uses.keys).bind(uses.at).bind(uses.previous);
    // All there is, and not the one row: what follows it says whether the transaction was committed.
    let told = query.fetch_all(session).await.map_err(store_error)?;
    let told = told.first().and_then(|row| Some((row.try_get("numbers").ok()?, row.try_get("written_by").ok()?)));
    // It is committed: no error may have it done again.
    let (numbers, newer): (Option<Vec<i64>>, i64) =
        told.ok_or(StoreError::unavailable("the database is no longer understood"))?;
    let numbers: HashSet<i64> = numbers.into_iter().flatten().collect();
    for version in keys.values_mut() {
        (version.row.dirty, version.written_by) = (false, newer);
    }
    let stale = keys.extract_if(|_, version| !numbers.contains(&version.row.number));
    let stale: HashSet<KeyId> = stale.map(|(id, _)| id).collect();
    for (operation, answer) in operations.iter().zip(&mut answers) {
        if matches!(operation, Operation::Change(id, _) if stale.contains(id)) {
            *answer = None;
        }
    }
    Ok(Counted { answers, written: keys, stale })
}
