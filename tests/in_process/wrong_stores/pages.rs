//! A wrong store's sessions, and what it makes of buyers who have lost their keys.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::email::Email;
use delivery_core::ledger::Edit;
use delivery_core::order::Source;
use delivery_core::store::{LostKeys, LostScan, PlatformSecrets, SealedSecret, SignIn, SignInId, SignIns, StoreError};

use super::fault::Fault::{
    AnswersMoreThanAsked, AnswersTooLate, KeepsRemovedSecrets, LosesWhatBuyersAsk, PrunesSessions,
    ResealsWhateverIsThere, SignsNobodyOut,
};
use super::store::Wrong;

#[async_trait]
impl SignIns for Wrong {
    async fn sign_in(&self, sign_in: SignIn) -> Result<(), StoreError> {
        self.kept()?.sign_in(sign_in).await
    }

    async fn signed_in(&self, id: SignInId) -> Result<Option<SignIn>, StoreError> {
        self.kept()?.signed_in(id).await
    }

    async fn sign_out(&self, id: SignInId) -> Result<(), StoreError> {
        if self.is(SignsNobodyOut) {
            return Ok(());
        }
        self.kept()?.sign_out(id).await
    }

    async fn prune_sign_ins(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let before = if self.is(PrunesSessions) { before + TimeDelta::hours(1) } else { before };
        self.kept()?.prune_sign_ins(before).await
    }
}

#[async_trait]
impl PlatformSecrets for Wrong {
    async fn platform_secrets(&self) -> Result<Vec<SealedSecret>, StoreError> {
        self.kept()?.platform_secrets().await
    }

    async fn set_platform_secret(
        &self,
        source: &Source,
        sealed: Option<Vec<u8>>,
        edit: Edit,
    ) -> Result<(), StoreError> {
        if sealed.is_none() && self.is(KeepsRemovedSecrets) {
            return Ok(());
        }
        self.kept()?.set_platform_secret(source, sealed, edit).await
    }

    async fn reseal_platform_secret(&self, source: &Source, from: &[u8], to: Vec<u8>) -> Result<(), StoreError> {
        let kept = self.kept()?.platform_secrets().await?;
        let present = kept.into_iter().find(|secret| secret.source == *source).map(|secret| secret.sealed);
        let from = if self.is(ResealsWhateverIsThere) { present.as_deref().unwrap_or(from) } else { from };
        self.kept()?.reseal_platform_secret(source, from, to).await
    }
}

#[async_trait]
impl LostKeys for Wrong {
    async fn ask(&self, email: &Email, at: DateTime<Utc>) -> Result<(), StoreError> {
        if self.is(LosesWhatBuyersAsk) {
            return Ok(());
        }
        self.kept()?.ask(email, at).await
    }

    async fn answer_lost(&self, scan: LostScan) -> Result<usize, StoreError> {
        let limit = if self.is(AnswersMoreThanAsked) { scan.limit + 1 } else { scan.limit };
        let now = if self.is(AnswersTooLate) { scan.now + TimeDelta::minutes(5) } else { scan.now };
        self.kept()?.answer_lost(LostScan { now, limit, ..scan }).await
    }
}
