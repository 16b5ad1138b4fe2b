//! Row numbers, which writers take in blocks.

use super::error::store_error;
use super::session::Session;
use crate::ledger::plan::Numbers;
use crate::store::StoreError;

/// The number of row numbers in a block. It must equal the increment of the sequence in the schema. For a full batch of
/// 1,024 operations, one block has 16 numbers for each operation. An order or a use takes at most 11 numbers: one for
/// its key or use, one for its audit entry, one for its e-mail, and one for each of at most eight webhooks.
pub(super) const BLOCK: i64 = 16_384;

/// Takes the next block of numbers.
pub(super) async fn next_block(session: &mut Session<'_>) -> Result<Numbers, StoreError> {
    Ok(Numbers::block(next_number(session).await?, BLOCK))
}

/// Takes the next block, and returns its first number.
pub(super) async fn next_number(session: &mut Session<'_>) -> Result<i64, StoreError> {
    let first = session.scalar::<i64>("SELECT nextval('delivery_number')").fetch_one(&mut **session).await;
    first.map_err(store_error)
}
