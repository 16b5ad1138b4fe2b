//! Sends a key to its buyer again, to a corrected address if the old one was wrong.

use chrono::{DateTime, Utc};

use super::{Answer, Operate, Subject};
use crate::email::Email;
use crate::key::{Actor, Change, KeyId, Refusal};
use crate::ledger::plan::{Basis, Needs, Planner};
use crate::ledger::{Action, Notice, Refused, StoreError};

/// A request to send a key to its buyer again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct Resend {
    /// When the key is sent again.
    pub at: DateTime<Utc>,
    /// Who sends the key again.
    pub by: Actor,
    /// The buyer's corrected address, if the old one was wrong.
    pub email: Option<Email>,
    /// The e-mail that delivers the key.
    pub messages: Vec<Notice>,
    /// Messages that announce the corrected address. They are queued only if the address changes.
    pub corrected: Vec<Notice>,
}

/// A [`Resend`] and the key that it sends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is a pair")]
pub struct ResendKey {
    /// The key to send again.
    pub key: KeyId,
    /// How the key is sent again.
    pub resend: Resend,
}

impl Operate for ResendKey {
    fn needs(&self, needs: &mut Needs) {
        needs.keys.insert(self.key);
    }

    fn numbers(&self) -> usize {
        // The numbers are for at most two audit entries (the corrected address, the new e-mail) and the messages.
        2 + self.resend.messages.len() + self.resend.corrected.len()
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Key(self.key)
    }

    fn plan(&self, planner: &mut Planner<'_>) -> Result<(Answer, Basis), StoreError> {
        let (id, Resend { at, by, email, messages, corrected }) = (self.key, &self.resend);
        let refused = |refusal, key| Answer::Changed(Some(Err(Refused { refusal, key })));
        let Some(row) = planner.loaded.key(id)? else { return Ok((Answer::Changed(None), Basis::Read)) };
        if let Some(at) = row.key.revoked_at() {
            let key = row.key.clone();
            return Ok((refused(Refusal::Revoked { at }, key), planner.loaded.basis(id)));
        }
        if let Some(email) = email.clone() {
            planner.change(id, &Change::SetEmail { at: *at, by: by.clone(), email }, corrected)?;
        }
        let row = planner.loaded.key(id)?.ok_or(StoreError::corrupt("a key that is gone"))?;
        if row.key.email().is_erased() {
            let key = row.key.clone();
            return Ok((refused(Refusal::NoAddress, key), planner.loaded.basis(id)));
        }
        let unit = planner.unit(id)?.ok_or(StoreError::corrupt("a key that is gone"))?;
        planner.log(unit, *at, by, Action::Resent, None)?;
        let row = planner.loaded.key(id)?.ok_or(StoreError::corrupt("a key that is gone"))?.clone();
        planner.queue(unit, &row, messages, *at)?;
        Ok((Answer::Changed(Some(Ok(row.key))), Basis::Unit(unit)))
    }
}
