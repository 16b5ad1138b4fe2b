//! Loading rows, for the writers and for callers that find keys.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use tokio::time::timeout;

use super::connect::{ACQUIRE, BATCH, Sessions};
use super::error::store_error;
use super::session::Session;
use crate::key::{Key, KeyId};
use crate::ledger::plan::{PurchaseId, Row};
use crate::store::batch::BatchHandler;
use crate::store::sql::rows;
use crate::store::{Attempt, StoreError};

/// Loads the rows of the keys with these ids. A key that does not exist is left out.
pub(super) async fn keys(
    session: &mut Session<'_>,
    ids: impl IntoIterator<Item = &KeyId>,
) -> Result<Vec<Row>, StoreError> {
    const READ: &str = concat!("SELECT ", rows::key_columns!(), " FROM delivery_key k WHERE k.id = ANY($1)");
    ask(session, READ, ids).await?.iter().map(rows::key).collect()
}

/// Loads the rows of keys, and locks them in the order of their numbers.
pub(super) async fn locked_keys(
    session: &mut Session<'_>,
    ids: impl IntoIterator<Item = &KeyId>,
) -> Result<Vec<Row>, StoreError> {
    const LOCK: &str = concat!(
        "SELECT ",
        rows::key_columns!(),
        " FROM delivery_key k WHERE k.id = ANY($1) ORDER BY k.number FOR UPDATE"
    );
    ask(session, LOCK, ids).await?.iter().map(rows::key).collect()
}

/// Loads the rows of keys and of all their successors (the keys that replaced them), and locks them in the order of
/// their numbers.
pub(super) async fn locked_lines(
    session: &mut Session<'_>,
    ids: impl IntoIterator<Item = &KeyId>,
) -> Result<Vec<Row>, StoreError> {
    const LOCK: &str = concat!(
        "WITH RECURSIVE line (id, successor) AS ( \
            SELECT id, successor FROM delivery_key WHERE id = ANY($1) \
            UNION SELECT k.id, k.successor FROM line l \
                JOIN delivery_key k ON k.id = decode(replace(l.successor, '-', ''), 'hex')) \
        SELECT ",
        rows::key_columns!(),
        " FROM line l JOIN delivery_key k ON k.id = l.id ORDER BY k.number FOR UPDATE OF k"
    );
    ask(session, LOCK, ids).await?.iter().map(rows::key).collect()
}

/// Loads the rows of the keys that were issued for these purchases. A purchase is an order and a product.
pub(super) async fn purchases(
    session: &mut Session<'_>,
    purchases: impl IntoIterator<Item = &PurchaseId>,
) -> Result<Vec<Row>, StoreError> {
    const SQL: &str = concat!(
        "SELECT ",
        rows::key_columns!(),
        " FROM unnest($1::text[], $2::text[], $3::bigint[]) AS o (source, order_id, product) JOIN delivery_purchase p \
          ON p.order_id = o.order_id AND p.source = o.source AND p.product = o.product \
          JOIN delivery_key k ON k.number = p.key"
    );
    let (mut sources, mut orders, mut products) = (Vec::new(), Vec::new(), Vec::new());
    for PurchaseId { order, product } in purchases {
        sources.push(order.source.as_str().to_owned());
        orders.push(order.id.as_str().to_owned());
        products.push(product.get());
    }
    if orders.is_empty() {
        return Ok(Vec::new());
    }
    let query = session.query(SQL).bind(sources).bind(orders).bind(products);
    let found = query.fetch_all(&mut **session).await;
    found.map_err(store_error)?.iter().map(rows::key).collect()
}

/// Runs `statement`, whose only parameter is the ids of keys. Returns the rows that the statement finds.
pub(super) async fn ask<'a>(
    session: &mut Session<'_>,
    statement: &'static str,
    ids: impl IntoIterator<Item = &'a KeyId>,
) -> Result<Vec<PgRow>, StoreError> {
    let ids: Vec<Vec<u8>> = ids.into_iter().map(|id| id.as_bytes().to_vec()).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    session.query(statement).bind(ids).fetch_all(&mut **session).await.map_err(store_error)
}

/// Finds keys for callers. While a query runs, further requests wait, and the next query finds all their keys together.
pub(super) struct Finder {
    sessions: Sessions,
    /// The store's own session, while no query uses it.
    session: Option<Session<'static>>,
}

impl Finder {
    pub(super) fn new(sessions: Sessions) -> Self {
        Self { sessions, session: None }
    }

    async fn find(&mut self, ids: &[KeyId]) -> Result<Vec<Row>, StoreError> {
        // The connection of an idle session may be broken. The query is then repeated below on a new session. There is
        // time for that, because the queue refuses callers only after five seconds.
        if let Some(mut session) = self.session.take() {
            match timeout(ACQUIRE, keys(&mut session, ids)).await {
                Ok(Ok(found)) => {
                    self.session = Some(session);
                    return Ok(found);
                }
                // The connection has not failed, so the session can be used again.
                Ok(Err(error)) if !matches!(error, StoreError::Unavailable { .. }) => {
                    self.session = Some(session);
                    return Err(error);
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        let mut session = self.sessions.serve().await?;
        let found = timeout(BATCH, keys(&mut session, ids)).await;
        let found = found.map_err(|_| StoreError::unavailable("the database does not answer"))??;
        if session.is_ours() {
            self.session = Some(session);
        } else {
            // Nothing was written, so an error of the commit does no harm.
            let _ = timeout(BATCH, session.finish()).await;
        }
        Ok(found)
    }
}

impl BatchHandler for Finder {
    type Operation = KeyId;
    type Answer = Option<Key>;

    const WRITES: bool = false;

    async fn commit(&mut self, ids: &[KeyId], _: Attempt, _: bool) -> Result<Vec<Option<Option<Key>>>, StoreError> {
        let found = self.find(ids).await?;
        let found: HashMap<KeyId, Key> = found.into_iter().map(|row| (row.key.id(), row.key)).collect();
        Ok(ids.iter().map(|id| Some(found.get(id).cloned())).collect())
    }

    async fn finish(self) {
        if let Some(session) = self.session {
            // The session has only read: a failure to close it does no harm.
            let _ = timeout(BATCH, session.close()).await;
        }
    }
}
