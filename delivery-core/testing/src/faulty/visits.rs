//! Faults of the ports that the pages need: sign-ins and lost keys.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use delivery_core::email::Email;
use delivery_core::store::{Ledger, LostKeys, LostScan, SignIn, SignInId, SignIns, StoreError};

use super::Faulty;

#[async_trait]
impl<S: Ledger> SignIns for Faulty<S> {
    async fn sign_in(&self, sign_in: SignIn) -> Result<(), StoreError> {
        self.call(self.kept()?.sign_in(sign_in)).await
    }

    async fn signed_in(&self, id: SignInId) -> Result<Option<SignIn>, StoreError> {
        self.call(self.kept()?.signed_in(id)).await
    }

    async fn sign_out(&self, id: SignInId) -> Result<(), StoreError> {
        self.call(self.kept()?.sign_out(id)).await
    }

    async fn prune_sign_ins(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.call(self.kept()?.prune_sign_ins(before)).await
    }
}

#[async_trait]
impl<S: Ledger> LostKeys for Faulty<S> {
    async fn ask(&self, email: &Email, at: DateTime<Utc>) -> Result<(), StoreError> {
        self.call(self.kept()?.ask(email, at)).await
    }

    async fn answer_lost(&self, scan: LostScan) -> Result<usize, StoreError> {
        self.call(self.kept()?.answer_lost(scan)).await
    }
}
