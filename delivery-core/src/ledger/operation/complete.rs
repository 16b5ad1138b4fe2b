//! Ends the lease of a message, and records the outcome of sending the message.

use super::{Answer, Operate, Subject};
use crate::ledger::plan::{Basis, Needs, Planner};
use crate::ledger::{Lease, Outcome, StoreError};

/// The end of a message's lease, with the outcome of sending the message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct CompleteMessage {
    /// The lease to end. If the message was leased again meanwhile, nothing changes.
    pub lease: Lease,
    /// The outcome, which determines whether the message is tried again.
    pub outcome: Outcome,
}

impl Operate for CompleteMessage {
    fn needs(&self, _: &mut Needs) {}

    fn numbers(&self) -> usize {
        0
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Message(self.lease.message)
    }

    fn plan(&self, planner: &mut Planner<'_>) -> Result<(Answer, Basis), StoreError> {
        planner.writes.completed.push((self.lease, self.outcome.clone()));
        Ok((Answer::Completed, Basis::Read))
    }
}
