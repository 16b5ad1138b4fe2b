//! Changes a key, if the rules for keys allow the change.

use super::{Answer, Operate, Subject};
use crate::key::{Change, KeyId};
use crate::ledger::plan::{Basis, Needs, Planner};
use crate::ledger::{Notice, StoreError};

/// A change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct ChangeKey {
    /// The key to change.
    pub key: KeyId,
    /// How the key changes.
    pub change: Change,
    /// Messages that announce the change. They are queued only if the key changes.
    pub messages: Vec<Notice>,
}

impl Operate for ChangeKey {
    fn needs(&self, needs: &mut Needs) {
        needs.keys.insert(self.key);
    }

    fn numbers(&self) -> usize {
        1 + self.messages.len()
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Key(self.key)
    }

    fn plan(&self, planner: &mut Planner<'_>) -> Result<(Answer, Basis), StoreError> {
        let (changed, basis) = planner.change(self.key, &self.change, &self.messages)?;
        Ok((Answer::Changed(changed), basis))
    }
}
