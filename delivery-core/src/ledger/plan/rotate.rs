//! A key whose text leaked gives its place to a successor.

use super::{Planner, Rotated};
use crate::key::{KeyId, Refusal};
use crate::ledger::{Action, Issue, Refused, StoreError, Successor};

impl Planner<'_> {
    pub(super) fn rotate(&mut self, id: KeyId, successor: &Successor) -> Result<Rotated, StoreError> {
        let Some(row) = self.loaded.key(id)? else { return Ok(None) };
        let (key, number) = (row.key.clone(), row.number);
        let Successor { id: new, secret, at, by, messages, withdrawn } = successor;
        let (old, new) = match key.rotate((*new, *secret), *at, by) {
            Ok(rotated) => rotated,
            Err(Refusal::Replaced { .. }) => {
                let heir = self.heir(id)?;
                let row = self.loaded.key(heir)?.ok_or(StoreError::corrupt("a successor that is not there"))?;
                return Ok(Some(Ok(Issue::Existing(row.key.clone()))));
            }
            Err(refusal) => return Ok(Some(Err(Refused { refusal, key }))),
        };
        let unit = self.unit(id)?.ok_or(StoreError::corrupt("a key that is gone"))?;
        if let Some(row) = self.loaded.key(id)? {
            row.key = old;
            let row = row.clone();
            self.queue(unit, &row, withdrawn, *at)?;
        }
        self.log(unit, *at, by, Action::Rotated, Some(format!("successor {}", new.id())))?;
        let unit = self.insert(new.clone(), Some(number), messages, *at)?;
        self.log(unit, *at, by, Action::Issued, Some(format!("in place of {id}")))?;
        Ok(Some(Ok(Issue::New(new))))
    }

    /// The key that has the place of `id` now: itself, or the last of its successors.
    pub(super) fn heir(&mut self, mut id: KeyId) -> Result<KeyId, StoreError> {
        while let Some(successor) = self.loaded.key(id)?.and_then(|row| row.key.successor()) {
            id = successor;
        }
        Ok(id)
    }
}
