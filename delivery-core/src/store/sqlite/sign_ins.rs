//! Who is signed in at the desk.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::error::store_error;
use super::writer::Writer;
use super::{SqliteStore, timely};
use crate::store::sql::sign_ins::{CLOSE, FIND, OPEN, PRUNE, signed_in};
use crate::store::{SignIn, SignInId, SignIns, StoreError};

#[async_trait]
impl SignIns for SqliteStore {
    async fn sign_in(&self, sign_in: SignIn) -> Result<(), StoreError> {
        let SignIn { id, actor, token, expires_at } = sign_in;
        let open = sqlx::query(OPEN).bind(id.as_bytes().to_vec()).bind(actor.as_str().to_owned());
        let open = open.bind(token.to_vec()).bind(expires_at.timestamp());
        let work = async move |writer: &mut Writer| open.execute(&mut writer.connection).await.map_err(store_error);
        self.writer()?.run(move |writer| Box::pin(work(writer))).await.map(drop)
    }

    async fn signed_in(&self, id: SignInId) -> Result<Option<SignIn>, StoreError> {
        let find = sqlx::query(FIND).bind(id.as_bytes().to_vec());
        let found = timely(async { find.fetch_optional(&self.readers).await.map_err(store_error) }).await?;
        found.map(|row| signed_in(id, &row)).transpose()
    }

    async fn sign_out(&self, id: SignInId) -> Result<(), StoreError> {
        let close = sqlx::query(CLOSE).bind(id.as_bytes().to_vec());
        let work = async move |writer: &mut Writer| close.execute(&mut writer.connection).await.map_err(store_error);
        self.writer()?.run(move |writer| Box::pin(work(writer))).await.map(drop)
    }

    async fn prune_sign_ins(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let prune = sqlx::query(PRUNE).bind(before.timestamp());
        let work = async move |writer: &mut Writer| prune.execute(&mut writer.connection).await.map_err(store_error);
        Ok(self.writer()?.run(move |writer| Box::pin(work(writer))).await?.rows_affected())
    }
}
