//! Sessions of sellers who are signed in at the desk (the seller's web pages), stored in `delivery_session`.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::rows::{Columns, parsed, seconds};
use super::session::{Database, Patience, values};
use crate::store::{SignIn, SignInId, SignIns, StoreError};

#[async_trait]
impl<D: Database> SignIns for D {
    async fn sign_in(&self, sign_in: SignIn) -> Result<(), StoreError> {
        const OPEN: &str = "INSERT INTO delivery_session (id, actor, token, expires_at) VALUES ($1, $2, $3, $4)";
        let SignIn { id, actor, token, expires_at } = sign_in;
        let opened = values![id.as_bytes().to_vec(), actor.as_str(), token.to_vec(), expires_at.timestamp()];
        self.write(Patience::Usual, move |session| Box::pin(session.execute(OPEN, opened))).await.map(drop)
    }

    async fn signed_in(&self, id: SignInId) -> Result<Option<SignIn>, StoreError> {
        const FIND: &str = "SELECT actor, token, expires_at FROM delivery_session WHERE id = $1";
        let wanted = values![id.as_bytes().to_vec()];
        let find = self.read(Patience::Usual, move |session| Box::pin(session.row(FIND, wanted)));
        find.await?.map(|found| signed_in(id, &found)).transpose()
    }

    async fn sign_out(&self, id: SignInId) -> Result<(), StoreError> {
        const CLOSE: &str = "DELETE FROM delivery_session WHERE id = $1";
        let closed = values![id.as_bytes().to_vec()];
        self.write(Patience::Usual, move |session| Box::pin(session.execute(CLOSE, closed))).await.map(drop)
    }

    async fn prune_sign_ins(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        const PRUNE: &str = "DELETE FROM delivery_session WHERE expires_at < $1";
        let before = values![before.timestamp()];
        self.write(Patience::Usual, move |session| Box::pin(session.execute(PRUNE, before))).await
    }
}

/// Converts a row to the session with this id.
fn signed_in(id: SignInId, row: &impl Columns) -> Result<SignIn, StoreError> {
    let token = row.bytes("token")?.try_into().map_err(|_| StoreError::corrupt("a token's MAC of another length"))?;
    Ok(SignIn {
        id,
        actor: parsed(row.text("actor")?.parse(), "actor")?,
        token,
        expires_at: seconds(row.integer("expires_at")?)?,
    })
}
