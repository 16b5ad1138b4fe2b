//! Entries of the audit log for changes that no plan makes: of products, posts, messages and persons.

use super::error::store_error;
use super::numbers::next_number;
use super::session::Session;
use crate::store::sql::statements::{LOG, bind_log};
use crate::store::{Action, Edit, StoreError};

/// Adds an entry, of a key's row or of a product.
pub(super) async fn log(
    session: &mut Session<'_>,
    (key, product): (Option<i64>, Option<i64>),
    action: Action,
    edit: &Edit,
) -> Result<(), StoreError> {
    let number = next_number(session).await?;
    let log = bind_log!(session.query(LOG), number, (key, product), action, edit);
    log.execute(&mut **session).await.map(drop).map_err(store_error)
}
