//! Numbers of rows, which writers take in blocks.

use super::error::store_error;
use super::session::Session;
use crate::ledger::plan::Numbers;
use crate::store::StoreError;

/// Numbers in a block, as the sequence is declared. A batch of orders and uses takes its numbers from one block: for each
/// operation one, one for its e-mail, and one for each webhook.
pub(super) const BLOCK: i64 = 16_384;

/// The next block of numbers.
pub(super) async fn next_block(session: &mut Session<'_>) -> Result<Numbers, StoreError> {
    Ok(Numbers::block(next_number(session).await?, BLOCK))
}

/// The first number of the next block.
pub(super) async fn next_number(session: &mut Session<'_>) -> Result<i64, StoreError> {
    let first = session.scalar::<i64>("SELECT nextval('delivery_number')").fetch_one(&mut **session).await;
    first.map_err(store_error)
}
