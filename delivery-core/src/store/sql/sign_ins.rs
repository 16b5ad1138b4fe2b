//! Who is signed in at the desk as rows.

use super::rows::{Columns, parsed, seconds};
use crate::store::{SignIn, SignInId, StoreError};

pub(in crate::store) const OPEN: &str =
    "INSERT INTO delivery_session (id, actor, token, expires_at) VALUES ($1, $2, $3, $4)";
pub(in crate::store) const FIND: &str = "SELECT actor, token, expires_at FROM delivery_session WHERE id = $1";
pub(in crate::store) const CLOSE: &str = "DELETE FROM delivery_session WHERE id = $1";
pub(in crate::store) const PRUNE: &str = "DELETE FROM delivery_session WHERE expires_at < $1";

/// The session with this id.
pub(in crate::store) fn signed_in(id: SignInId, row: &impl Columns) -> Result<SignIn, StoreError> {
    let token = row.bytes("token")?.try_into().map_err(|_| StoreError::corrupt("a token's MAC of another length"))?;
    Ok(SignIn {
        id,
        actor: parsed(row.text("actor")?.parse(), "actor")?,
        token,
        expires_at: seconds(row.integer("expires_at")?)?,
    })
}
