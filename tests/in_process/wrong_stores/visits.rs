//! A wrong store's sessions, and what it makes of buyers who have lost their keys.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::email::Email;
use delivery_core::store::{LostKeys, LostScan, SignIn, SignInId, SignIns, StoreError};

use super::fault::Fault::{AnswersMoreThanAsked, AnswersTooLate, LosesWhatBuyersAsk, PrunesSessions, SignsNobodyOut};
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
