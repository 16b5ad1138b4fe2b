//! Who is signed in at the desk.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::error::store_error;
use super::session::Session;
use super::{PostgresStore, detached};
use crate::store::sql::sign_ins::{CLOSE, FIND, OPEN, PRUNE, signed_in};
use crate::store::{SignIn, SignInId, SignIns, StoreError};

#[async_trait]
impl SignIns for PostgresStore {
    async fn sign_in(&self, sign_in: SignIn) -> Result<(), StoreError> {
        let SignIn { id, actor, token, expires_at } = sign_in;
        let open = async move |session: &mut Session<'_>| {
            let open = session.query(OPEN).bind(id.as_bytes().to_vec()).bind(actor.as_str().to_owned());
            let open = open.bind(token.to_vec()).bind(expires_at.timestamp());
            open.execute(&mut **session).await.map(drop).map_err(store_error)
        };
        self.maintenance()?.run(move |session| Box::pin(async move { open(session).await })).await
    }

    async fn signed_in(&self, id: SignInId) -> Result<Option<SignIn>, StoreError> {
        let sessions = self.sessions.clone();
        detached(async move {
            let mut session = sessions.read().await?;
            let find = session.query(FIND).bind(id.as_bytes().to_vec());
            let found = find.fetch_optional(&mut *session).await.map_err(store_error)?;
            session.finish().await.map_err(store_error)?;
            found.map(|row| signed_in(id, &row)).transpose()
        })
        .await
    }

    async fn sign_out(&self, id: SignInId) -> Result<(), StoreError> {
        let close = async move |session: &mut Session<'_>| {
            let close = session.query(CLOSE).bind(id.as_bytes().to_vec());
            close.execute(&mut **session).await.map(drop).map_err(store_error)
        };
        self.maintenance()?.run(move |session| Box::pin(async move { close(session).await })).await
    }

    async fn prune_sign_ins(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let prune = async move |session: &mut Session<'_>| {
            let prune = session.query(PRUNE).bind(before.timestamp());
            prune.execute(&mut **session).await.map_err(store_error)
        };
        let queue = self.maintenance()?;
        Ok(queue.run(move |session| Box::pin(async move { prune(session).await })).await?.rows_affected())
    }
}
