//! The records of key uses: reading and pruning them.

use chrono::{DateTime, Utc};

use super::rows::{Columns, milliseconds};
use super::session::{Database, Patience, Session, part_by_part, values};
use super::statements::limit;
use crate::key::KeyId;
use crate::store::{Page, StoreError, Use, UseId, page_size};

/// Selects at most `$2` uses of a key, newest first, beginning with use `$1`. The uses of a key are a linked list: each
/// has the number of the previous use.
const CHAIN: &str = "WITH RECURSIVE chain (number, at, previous) AS ( \
        SELECT number, at, previous FROM delivery_use WHERE number = $1 \
        UNION ALL \
        SELECT u.number, u.at, u.previous FROM chain c JOIN delivery_use u ON u.number = c.previous) \
    SELECT number, at FROM chain LIMIT $2";

/// Selects the number of the use that precedes use `$1` of the key with id `$2`. Finds nothing if use `$1` is not a use
/// of this key.
const BEFORE: &str =
    "SELECT u.previous FROM delivery_use u JOIN delivery_key k ON k.number = u.key WHERE u.number = $1 AND k.id = $2";

/// The maximum number of uses that a prune examines in one transaction. A longer transaction would delay the other work
/// in the same queue, such as customers' operations or e-mails.
const AT_ONCE: i64 = 10_000;

/// Returns a page of a key's uses, newest first. The page begins with the newest use or, if `before` is given, with the
/// use that precedes `before`.
pub(in crate::store) async fn history(
    database: &impl Database,
    id: KeyId,
    before: Option<UseId>,
    most: usize,
) -> Result<Page<Use, UseId>, StoreError> {
    let newest = if before.is_none() { database.newest_use(id).await? } else { None };
    let size = page_size(most);
    let found = database.read(Patience::Usual, move |session| {
        Box::pin(async move {
            let first = match before {
                None => newest,
                Some(before) => {
                    let found = session.row(BEFORE, values![before.get(), id.as_bytes().as_slice()]).await?;
                    found.map(|row| row.integer_or_null("previous")).transpose()?.flatten()
                }
            };
            session.rows(CHAIN, values![first, limit(size + 1)]).await
        })
    });
    page(&found.await?, size)
}

/// Makes a page of at most `size` uses from rows of [`CHAIN`]. If there is one row more than `size`, another page
/// follows.
fn page(rows: &[impl Columns], size: usize) -> Result<Page<Use, UseId>, StoreError> {
    let at = |row| milliseconds(Columns::integer(row, "at")?).map(|at| Use { at });
    let items = rows.iter().take(size).map(at).collect::<Result<Vec<_>, _>>()?;
    let last = rows.get(size.saturating_sub(1)).filter(|_| rows.len() > size);
    let next = last.map(|row| row.integer("number").map(UseId::new)).transpose()?;
    Ok(Page { items, next })
}

/// Deletes the uses that were made before `before` and whose numbers are at most `until`. Returns how many uses it
/// deleted.
pub(in crate::store) async fn prune(
    database: &impl Database,
    before: DateTime<Utc>,
    until: i64,
) -> Result<u64, StoreError> {
    part_by_part(|from| {
        database.write(Patience::Long, move |session| Box::pin(prune_part(session, (before, until), from)))
    })
    .await
}

/// Looks at the next [`AT_ONCE`] uses with numbers from `from` to `until`, and deletes those that were made before
/// `before`. Returns how many it deleted, and the number from which the next call continues. That number is `None` if
/// there are no more uses.
pub(in crate::store) async fn prune_part(
    session: &mut Session<'_>,
    (before, until): (DateTime<Utc>, i64),
    from: i64,
) -> Result<(u64, Option<i64>), StoreError> {
    // The result is cast, because a session reads no values of the type `void`.
    const ALONE: &str =
        "SELECT CAST(pg_advisory_xact_lock(hashtextextended('delivery prune of ' || current_schema(), 0)) AS text)";
    const PART: &str = "SELECT CAST(count(*) AS bigint) AS uses, coalesce(max(number), $1) AS last \
        FROM (SELECT number FROM delivery_use WHERE number >= $1 AND number <= $3 ORDER BY number LIMIT $2) p";
    const DELETE: &str = "DELETE FROM delivery_use WHERE number >= $1 AND number <= $2 AND at < $3";
    if !session.dialect().is_sqlite() {
        // One server prunes at a time: two would wait for each other's rows.
        session.execute(ALONE, Vec::new()).await?;
    }
    let part = session.row(PART, values![from, AT_ONCE, until]).await?;
    let part = part.ok_or(StoreError::corrupt("a count without a row"))?;
    let (uses, last) = (part.integer("uses")?, part.integer("last")?);
    let pruned = session.execute(DELETE, values![from, last, before.timestamp_millis()]).await?;
    Ok((pruned, (uses == AT_ONCE).then_some(last + 1)))
}
