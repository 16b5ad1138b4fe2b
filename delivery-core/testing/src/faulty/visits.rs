//! Faults of what the pages need.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use delivery_core::email::Email;
use delivery_core::store::{Ledger, LostKeys, LostScan, SignIn, SignInId, SignIns, StoreError};

use super::Faulty;

#[async_trait]
impl<S: Ledger> SignIns for Faulty<S> {
    async fn sign_in(&self, sign_in: SignIn) -> Result<(), StoreError> {
        let sign_ins = self.inner.sign_ins().ok_or(StoreError::Unsupported)?;
        self.call(sign_ins.sign_in(sign_in)).await
    }

    async fn signed_in(&self, id: SignInId) -> Result<Option<SignIn>, StoreError> {
        let sign_ins = self.inner.sign_ins().ok_or(StoreError::Unsupported)?;
        self.call(sign_ins.signed_in(id)).await
    }

    async fn sign_out(&self, id: SignInId) -> Result<(), StoreError> {
        let sign_ins = self.inner.sign_ins().ok_or(StoreError::Unsupported)?;
        self.call(sign_ins.sign_out(id)).await
    }

    async fn prune_sign_ins(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let sign_ins = self.inner.sign_ins().ok_or(StoreError::Unsupported)?;
        self.call(sign_ins.prune_sign_ins(before)).await
    }
}

#[async_trait]
impl<S: Ledger> LostKeys for Faulty<S> {
    async fn ask(&self, email: &Email, at: DateTime<Utc>) -> Result<(), StoreError> {
        let lost = self.inner.lost_keys().ok_or(StoreError::Unsupported)?;
        self.call(lost.ask(email, at)).await
    }

    async fn answer_lost(&self, scan: LostScan) -> Result<usize, StoreError> {
        let lost = self.inner.lost_keys().ok_or(StoreError::Unsupported)?;
        self.call(lost.answer_lost(scan)).await
    }
}
