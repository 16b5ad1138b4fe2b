//! Withdraws a key whose text leaked, and issues another key in its place.

use chrono::{DateTime, Utc};

use super::{Answer, Operate, Subject};
use crate::key::{Actor, KeyId, Refusal, SecretVersion};
use crate::ledger::plan::{Basis, Needs, Planner};
use crate::ledger::{Action, Issue, Notice, Refused, StoreError};

/// A key that replaces a key whose text leaked, and the messages that announce the replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct Successor {
    /// The new key's id.
    pub id: KeyId,
    /// The version of the secret that signs the new key's text.
    pub secret: SecretVersion,
    /// When the old key is withdrawn.
    pub at: DateTime<Utc>,
    /// Who replaces the key.
    pub by: Actor,
    /// Messages about the new key: the e-mail that delivers it, and the host application's webhooks.
    pub messages: Vec<Notice>,
    /// Messages that announce that the old key was withdrawn.
    pub withdrawn: Vec<Notice>,
}

/// A key and its [`Successor`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is a pair")]
pub struct RotateKey {
    /// The key that is withdrawn.
    pub key: KeyId,
    /// The key that replaces it.
    pub successor: Successor,
}

impl Operate for RotateKey {
    fn needs(&self, needs: &mut Needs) {
        needs.keys.insert(self.key);
    }

    fn numbers(&self) -> usize {
        // The numbers are for the successor's row, two audit entries and the messages.
        3 + self.successor.messages.len() + self.successor.withdrawn.len()
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Key(self.key)
    }

    fn needs_transaction(&self) -> bool {
        true
    }

    fn plan(&self, planner: &mut Planner<'_>) -> Result<(Answer, Basis), StoreError> {
        let id = self.key;
        let Some(row) = planner.loaded.key(id)? else { return Ok((Answer::Rotated(None), Basis::Read)) };
        let (key, number) = (row.key.clone(), row.number);
        let Successor { id: new, secret, at, by, messages, withdrawn } = &self.successor;
        let (old, new) = match key.rotate((*new, *secret), *at, by) {
            Ok(rotated) => rotated,
            Err(Refusal::Replaced { .. }) => {
                let heir = planner.heir(id)?;
                let row = planner.loaded.key(heir)?.ok_or(StoreError::corrupt("a successor that is not there"))?;
                return Ok((Answer::Rotated(Some(Ok(Issue::Existing(row.key.clone())))), Basis::Read));
            }
            Err(refusal) => return Ok((Answer::Rotated(Some(Err(Refused { refusal, key }))), Basis::Read)),
        };
        let unit = planner.unit(id)?.ok_or(StoreError::corrupt("a key that is gone"))?;
        if let Some(row) = planner.loaded.key(id)? {
            row.key = old;
            let row = row.clone();
            planner.queue(unit, &row, withdrawn, *at)?;
        }
        planner.log(unit, *at, by, Action::Rotated, Some(format!("successor {}", new.id())))?;
        let unit = planner.insert(new.clone(), Some(number), messages, *at)?;
        planner.log(unit, *at, by, Action::Issued, Some(format!("in place of {id}")))?;
        Ok((Answer::Rotated(Some(Ok(Issue::New(new)))), Basis::Read))
    }
}
