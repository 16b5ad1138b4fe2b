//! Finds imported keys by their aliases, which are stored in `delivery_alias`. An alias is a MAC of the key text that
//! the buyer already had before the import.

use async_trait::async_trait;

use super::rows::{Columns, key_id};
use super::session::{Database, Patience, values};
use crate::key::{Alias, KeyId};
use crate::store::{Aliases, StoreError};

#[async_trait]
impl<D: Database> Aliases for D {
    async fn alias(&self, any_of: &[Alias]) -> Result<Option<KeyId>, StoreError> {
        const FIND: &str = "SELECT k.id FROM delivery_alias a JOIN delivery_key k ON k.number = a.key WHERE a.mac = $1";
        let any_of = any_of.to_vec();
        self.read(Patience::Usual, move |session| {
            Box::pin(async move {
                for alias in any_of {
                    if let Some(found) = session.row(FIND, values![alias.as_bytes().to_vec()]).await? {
                        return key_id(&found).map(Some);
                    }
                }
                Ok(None)
            })
        })
        .await
    }

    async fn has_aliases(&self) -> Result<bool, StoreError> {
        const ANY: &str = "SELECT key FROM delivery_alias LIMIT 1";
        let any = self.read(Patience::Usual, |session| Box::pin(session.row(ANY, Vec::new()))).await?;
        Ok(any.is_some())
    }
}

/// Converts a row with the columns `mac` and `id` to an alias and the id of its key.
pub(in crate::store) fn alias(row: &impl Columns) -> Result<(Alias, KeyId), StoreError> {
    let mac = row.bytes("mac")?.try_into().map_err(|_| StoreError::corrupt("an alias of another length"))?;
    Ok((Alias::from_bytes(mac), key_id(row)?))
}
