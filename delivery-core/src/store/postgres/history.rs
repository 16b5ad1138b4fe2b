//! The records of key uses: reading and pruning them.

use chrono::{DateTime, Utc};
use sqlx::Executor;

use super::connect::{PATIENT, Sessions};
use super::detached;
use super::error::store_error;
use super::session::Session;
use crate::key::KeyId;
use crate::store::sql::rows::Columns;
use crate::store::sql::statements::{self, BEFORE, CHAIN, limit};
use crate::store::{Page, StoreError, Use, UseId, page_size};

/// The maximum number of key uses that a prune examines in one transaction. A longer transaction would delay the other
/// work in the same queue, such as e-mails.
const PRUNE: usize = 10_000;

/// Returns a page of a key's uses, newest first. The page begins with the newest use or, if `before` is given, with the
/// use that precedes `before`. The uses of a key are a linked list: each use's row contains the number of the previous
/// use.
pub(super) async fn history(
    sessions: Sessions,
    id: KeyId,
    before: Option<UseId>,
    most: usize,
) -> Result<Page<Use, UseId>, StoreError> {
    const NEWEST: &str = "SELECT last_use FROM delivery_key WHERE id = $1";
    detached(async move {
        let mut session = sessions.read().await?;
        let newest = match before {
            None => {
                let newest = session.scalar(NEWEST).bind(id.as_bytes().as_slice());
                newest.fetch_optional(&mut *session).await.map_err(store_error)?.flatten()
            }
            Some(before) => {
                let previous = session.scalar(BEFORE).bind(before.get()).bind(id.as_bytes().as_slice());
                previous.fetch_optional(&mut *session).await.map_err(store_error)?.flatten()
            }
        };
        let size = page_size(most);
        let chain = session.query(CHAIN).bind::<Option<i64>>(newest).bind(limit(size + 1));
        let found = chain.fetch_all(&mut *session).await.map_err(store_error)?;
        session.finish().await.map_err(store_error)?;
        statements::history_page(&found, size)
    })
    .await
}

/// Looks at the next [`PRUNE`] uses, from number `from` on, and deletes those that were made before `before`. Returns
/// how many it deleted, and the number from which the next call continues; `None` if there are no more uses.
pub(super) async fn prune(
    session: &mut Session<'_>,
    before: DateTime<Utc>,
    from: i64,
) -> Result<(u64, Option<i64>), StoreError> {
    const ALONE: &str = "SELECT pg_advisory_xact_lock(hashtextextended('delivery prune of ' || current_schema(), 0))";
    const DELETE: &str = "WITH part AS (SELECT number FROM delivery_use WHERE number >= $1 ORDER BY number LIMIT $2), \
        gone AS (DELETE FROM delivery_use u USING part p WHERE u.number = p.number AND u.at < $3 RETURNING 1) \
        SELECT (SELECT count(*) FROM gone) AS pruned, count(*) AS seen, max(number) AS last FROM part";
    let mut transaction = session.begin().await.map_err(store_error)?;
    transaction.execute(PATIENT).await.map_err(store_error)?;
    // One server prunes at a time: two would wait for each other's rows.
    transaction.execute(ALONE).await.map_err(store_error)?;
    let mut inside = Session::Host(&mut transaction);
    let delete = inside.query(DELETE).bind(from).bind(limit(PRUNE)).bind(before.timestamp_millis());
    let row = delete.fetch_one(&mut *inside).await.map_err(store_error)?;
    transaction.commit().await.map_err(store_error)?;
    let (pruned, seen, last) = (row.integer("pruned")?, row.integer("seen")?, row.integer_or_null("last")?);
    let next = last.filter(|_| seen == limit(PRUNE)).map(|last| last + 1);
    Ok((u64::try_from(pruned).unwrap_or_default(), next))
}
