//! Issues a key. An order gets only one key for each product.

use super::{Answer, Operate, Subject};
use crate::key::{Key, KeyState};
use crate::ledger::plan::{Basis, Needs, Planner, PurchaseId};
use crate::ledger::{Action, Imported, NewSale, StoreError};

/// The answer of [`Ledger::issue`](crate::store::Ledger::issue).
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a key is new or it is not")]
pub enum Issue {
    /// The key was issued now.
    New(Key),
    /// The order already had this key for the product; nothing was written.
    Existing(Key),
}

impl Issue {
    /// Returns the key, whether it is new or existing.
    #[must_use]
    pub fn into_key(self) -> Key {
        match self {
            Self::New(key) | Self::Existing(key) => key,
        }
    }
}

impl Operate for NewSale {
    fn needs(&self, needs: &mut Needs) {
        needs.new.insert(self.key.id);
        needs.purchases.extend(PurchaseId::of(&self.key));
        needs.aliases.extend(self.alias());
    }

    fn numbers(&self) -> usize {
        1 + usize::from(self.by.is_some()) + self.messages.len()
    }

    fn subject(&self) -> Subject<'_> {
        Subject::NewKey(&self.key)
    }

    fn needs_transaction(&self) -> bool {
        self.alias().is_some()
    }

    fn plan(&self, planner: &mut Planner<'_>) -> Result<(Answer, Basis), StoreError> {
        let (issue, basis) = planner.issue(self)?;
        Ok((Answer::Issued(issue), basis))
    }
}

impl Planner<'_> {
    pub(super) fn issue(&mut self, sale: &NewSale) -> Result<(Issue, Basis), StoreError> {
        let NewSale { key: new, messages, by, imported } = sale;
        let purchase = PurchaseId::of(new);
        let owner = match &purchase {
            Some(purchase) => self.loaded.purchase(purchase)?,
            None => None,
        };
        let owner = owner.unwrap_or(new.id);
        if let Some(row) = self.loaded.key(owner)? {
            let key = row.key.clone();
            let issue = match owner == new.id {
                false => Issue::Existing(key),
                // An earlier attempt of the same operation has issued the key.
                true if key.granted().as_ref() == new => Issue::New(key),
                // Another key already has this id.
                true => return Err(StoreError::Refused { source: None }),
            };
            return Ok((issue, self.loaded.basis(owner)));
        }
        let alias = sale.alias();
        if let Some(alias) = &alias
            && self.loaded.alias(alias)?.is_some_and(|key| key != new.id)
        {
            return Err(StoreError::Refused { source: None });
        }
        let mut key = Key::from(new.clone());
        if let Some(Imported { used, .. }) = *imported {
            let state = KeyState { used: used.into(), ..key.state().clone() };
            key = Key::new(key.granted().clone(), state);
        }
        // An imported key may have been issued long ago. Its messages count as queued at the time of the import, which
        // is the time in its id.
        let at = if imported.is_some() { new.id.made_at() } else { new.issued_at };
        let unit = self.insert(key.clone(), None, messages, at)?;
        if let Some(alias) = alias {
            self.add_alias(unit, alias)?;
        }
        if let Some(by) = by {
            self.log(unit, at, by, Action::Issued, None)?;
        }
        Ok((Issue::New(key), Basis::Unit(unit)))
    }
}
