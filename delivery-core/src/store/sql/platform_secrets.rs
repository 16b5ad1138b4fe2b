//! Encrypted secrets of commerce platforms, stored in `delivery_platform_secret`.

use async_trait::async_trait;

use super::rows::{Columns, parsed};
use super::session::{Database, Patience, values};
use crate::ledger::{Action, Edit};
use crate::order::Source;
use crate::store::{PlatformSecrets, SealedSecret, StoreError};

#[async_trait]
impl<D: Database> PlatformSecrets for D {
    async fn platform_secrets(&self) -> Result<Vec<SealedSecret>, StoreError> {
        const ALL: &str = "SELECT source, sealed FROM delivery_platform_secret";
        let rows = self.read(Patience::Usual, |session| Box::pin(session.rows(ALL, Vec::new()))).await?;
        let secret = |row| -> Result<SealedSecret, StoreError> {
            let source = parsed(Columns::text(row, "source")?.parse(), "source")?;
            Ok(SealedSecret { source, sealed: Columns::bytes(row, "sealed")?.to_vec() })
        };
        rows.iter().map(secret).collect()
    }

    async fn set_platform_secret(
        &self,
        source: &Source,
        sealed: Option<Vec<u8>>,
        edit: Edit,
    ) -> Result<(), StoreError> {
        const SET: &str = "INSERT INTO delivery_platform_secret (source, sealed) VALUES ($1, $2) \
            ON CONFLICT (source) DO UPDATE SET sealed = excluded.sealed";
        const REMOVE: &str = "DELETE FROM delivery_platform_secret WHERE source = $1";
        let (change, is_set) = match sealed {
            Some(sealed) => ((SET, values![source.as_str(), sealed]), true),
            None => ((REMOVE, values![source.as_str()]), false),
        };
        self.write(Patience::Usual, move |session| {
            Box::pin(async move {
                if session.execute(change.0, change.1).await? > 0 {
                    session.log((None, None), Action::of_secret(is_set), &edit).await?;
                }
                Ok(())
            })
        })
        .await
    }

    async fn reseal_platform_secret(&self, source: &Source, from: &[u8], to: Vec<u8>) -> Result<(), StoreError> {
        const RESEAL: &str = "UPDATE delivery_platform_secret SET sealed = $3 WHERE source = $1 AND sealed = $2";
        let values = values![source.as_str(), from.to_vec(), to];
        self.write(Patience::Usual, move |session| {
            Box::pin(async move { session.execute(RESEAL, values).await.map(drop) })
        })
        .await
    }
}
