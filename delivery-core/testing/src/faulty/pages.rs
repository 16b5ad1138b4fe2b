//! Faults of the ports that the pages need: sign-ins, lost keys and secrets of platforms.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use delivery_core::email::Email;
use delivery_core::ledger::Edit;
use delivery_core::order::Source;
use delivery_core::store::{
    Ledger, LostKeys, LostScan, PlatformSecrets, SealedSecret, SignIn, SignInId, SignIns, StoreError,
};

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
impl<S: Ledger> PlatformSecrets for Faulty<S> {
    async fn platform_secrets(&self) -> Result<Vec<SealedSecret>, StoreError> {
        self.call(self.kept()?.platform_secrets()).await
    }

    async fn set_platform_secret(
        &self,
        source: &Source,
        sealed: Option<Vec<u8>>,
        edit: Edit,
    ) -> Result<(), StoreError> {
        self.call(self.kept()?.set_platform_secret(source, sealed, edit)).await
    }

    async fn reseal_platform_secret(&self, source: &Source, from: &[u8], to: Vec<u8>) -> Result<(), StoreError> {
        self.call(self.kept()?.reseal_platform_secret(source, from, to)).await
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
