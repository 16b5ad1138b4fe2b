//! Sessions of the desk, buyers' requests for lost keys, and secrets of platforms, in memory.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::MemoryStore;
use delivery_core::email::Email;
use delivery_core::key::KeyId;
use delivery_core::ledger::{Action, Edit, MessageKind, NewMessage, Recipient, number_at};
use delivery_core::order::Source;
use delivery_core::store::{
    LOST_PAUSE, LostKeys, LostScan, PlatformSecrets, SealedSecret, SignIn, SignInId, SignIns, StoreError,
};

/// The rows that the pages need.
#[derive(Default)]
pub(super) struct PageRows {
    sign_ins: HashMap<SignInId, SignIn>,
    secrets: BTreeMap<Source, Vec<u8>>,
    /// The addresses that asked for their keys, by the number of the request.
    lost: BTreeMap<i64, Email>,
}

impl PageRows {
    pub(super) fn erase(&mut self, email: &Email) {
        self.lost.retain(|_, asked| !asked.is_same(email));
    }
}

#[async_trait]
impl SignIns for MemoryStore {
    async fn sign_in(&self, sign_in: SignIn) -> Result<(), StoreError> {
        self.state().pages.sign_ins.insert(sign_in.id, sign_in);
        Ok(())
    }

    async fn signed_in(&self, id: SignInId) -> Result<Option<SignIn>, StoreError> {
        Ok(self.state().pages.sign_ins.get(&id).cloned())
    }

    async fn sign_out(&self, id: SignInId) -> Result<(), StoreError> {
        self.state().pages.sign_ins.remove(&id);
        Ok(())
    }

    async fn prune_sign_ins(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let sign_ins = &mut self.state().pages.sign_ins;
        let all = sign_ins.len();
        sign_ins.retain(|_, sign_in| sign_in.expires_at >= before);
        Ok(u64::try_from(all - sign_ins.len()).unwrap_or(u64::MAX))
    }
}

#[async_trait]
impl PlatformSecrets for MemoryStore {
    async fn platform_secrets(&self) -> Result<Vec<SealedSecret>, StoreError> {
        let state = self.state();
        let all = state.pages.secrets.iter();
        Ok(all.map(|(source, sealed)| SealedSecret { source: source.clone(), sealed: sealed.clone() }).collect())
    }

    async fn set_platform_secret(
        &self,
        source: &Source,
        sealed: Option<Vec<u8>>,
        edit: Edit,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let (is_set, secrets) = (sealed.is_some(), &mut state.pages.secrets);
        let is_changed = match sealed {
            Some(sealed) => {
                secrets.insert(source.clone(), sealed);
                true
            }
            None => secrets.remove(source).is_some(),
        };
        if is_changed {
            state.log((None, None), Action::of_secret(is_set), edit);
        }
        Ok(())
    }

    async fn reseal_platform_secret(&self, source: &Source, from: &[u8], to: Vec<u8>) -> Result<(), StoreError> {
        if let Some(sealed) = self.state().pages.secrets.get_mut(source).filter(|sealed| *sealed == from) {
            *sealed = to;
        }
        Ok(())
    }
}

#[async_trait]
impl LostKeys for MemoryStore {
    async fn ask(&self, email: &Email, _: DateTime<Utc>) -> Result<(), StoreError> {
        let mut state = self.state();
        state.number += 1;
        let number = state.number;
        state.pages.lost.insert(number, email.clone());
        Ok(())
    }

    async fn answer_lost(&self, scan: LostScan) -> Result<usize, StoreError> {
        let mut state = self.state();
        let state = &mut *state;
        let waiting: Vec<(i64, Email)> =
            state.pages.lost.iter().take(scan.limit).map(|(number, email)| (*number, email.clone())).collect();
        for (request, email) in &waiting {
            let name = scan.name(*request)?;
            let keys = || state.keys.values().map(|row| &row.key).filter(|key| key.email().is_same(email));
            let newest = keys().rfind(|key| key.revoked_at().is_none() && !key.email().is_erased()).cloned();
            let ids: Vec<KeyId> = keys().map(delivery_core::key::Key::id).collect();
            let is_recent = state.queue.stored().any(|message| {
                message.kind == MessageKind::Lost
                    && message.queued_at.signed_duration_since(scan.now).abs() < LOST_PAUSE
                    && ids.contains(&message.key)
            });
            if let (Some(key), false) = (newest, is_recent) {
                state.number += 1;
                let (number, kind) = (number_at(scan.now, state.number), MessageKind::Lost);
                let recipient = Recipient::Email(key.email().clone());
                let message = NewMessage { unit: 0, number, key: 0, id: name, kind, recipient, at: scan.now };
                state.queue.add(&message, key.id());
            }
            state.pages.lost.remove(request);
        }
        Ok(waiting.len())
    }
}
