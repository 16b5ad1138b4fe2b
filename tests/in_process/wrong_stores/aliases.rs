//! What a wrong store makes of aliases.

use async_trait::async_trait;
use delivery_core::key::{Alias, KeyId};
use delivery_core::store::{Aliases, Ledger, StoreError};

use super::fault::Fault::{AlwaysHasAliases, FindsErasedAliases, FindsTheLastAlias, FindsTheSuccessor, LosesAliases};
use super::store::Wrong;

#[async_trait]
impl Aliases for Wrong {
    async fn alias(&self, any_of: &[Alias]) -> Result<Option<KeyId>, StoreError> {
        let mut any_of = any_of.to_vec();
        if self.is(FindsTheLastAlias) {
            any_of.reverse();
        }
        let found = self.kept()?.alias(&any_of).await?;
        match (found, self.fault) {
            (Some(_), LosesAliases) => Ok(None),
            (Some(id), FindsTheSuccessor) => {
                let key = self.inner.find(id).await?;
                Ok(key.and_then(|key| key.successor()).or(found))
            }
            (found, FindsErasedAliases) => {
                let mut aliases = self.aliases.lock().unwrap();
                aliases.extend(any_of.iter().filter_map(|alias| Some((*alias, found?))));
                Ok(any_of.iter().find_map(|alias| aliases.get(alias)).copied())
            }
            (found, _) => Ok(found),
        }
    }

    async fn has_aliases(&self) -> Result<bool, StoreError> {
        Ok(self.kept()?.has_aliases().await? || self.is(AlwaysHasAliases))
    }
}
