//! The rules of a key, against a model so naive that it can be read as the specification.

use chrono::{DateTime, Utc};
use delivery_core::key::{Change, Key, NewKey, Refusal, Standing};
use delivery_core::terms::UseLimit;
use delivery_core::testing::strategies;
use proptest::prelude::*;

/// What a key is, in the plainest words: a list of what was done with it.
struct Model {
    granted: NewKey,
    uses: Vec<DateTime<Utc>>,
    revoked: Option<DateTime<Utc>>,
}

impl Model {
    fn apply(&mut self, change: &Change) -> Result<(), Refusal> {
        match *change {
            Change::Revoke { at } => {
                if self.revoked.is_none() {
                    self.revoked = Some(at); // strategies make whole milliseconds
                }
                Ok(())
            }
            Change::Use { product, at } => {
                if let Some(at) = self.revoked {
                    return Err(Refusal::Revoked { at });
                }
                if at >= self.granted.expires_at {
                    return Err(Refusal::Expired { since: self.granted.expires_at });
                }
                if product != self.granted.product {
                    return Err(Refusal::WrongProduct { granted: self.granted.product });
                }
                if let UseLimit::Uses(uses) = self.granted.limit
                    && self.uses.len() == uses.get() as usize
                {
                    return Err(Refusal::Exhausted { limit: self.granted.limit });
                }
                self.uses.push(at);
                Ok(())
            }
            _ => unreachable!("a new change needs a line here"),
        }
    }
}

proptest! {
    #[test]
    fn apply_does_what_the_model_does((granted, changes) in strategies::history()) {
        let mut key = Key::from(granted.clone());
        let mut model = Model { granted, uses: Vec::new(), revoked: None };
        for change in &changes {
            let before = key.clone();
            let expected = model.apply(change);
            match key.apply(change) {
                Ok(changed) => {
                    prop_assert_eq!(expected, Ok(()));
                    key = changed;
                }
                Err(refusal) => prop_assert_eq!(expected, Err(refusal)),
            }
            prop_assert_eq!(key.used(), model.uses.len() as u64);
            prop_assert_eq!(key.revoked_at(), model.revoked);
            prop_assert_eq!(key.granted(), before.granted(), "what was granted never changes");
        }
    }

    #[test]
    fn a_key_checks_as_a_use_of_its_own_product_would(key in strategies::key(), at in strategies::instant()) {
        let used = key.apply(&Change::Use { product: key.product(), at });
        prop_assert_eq!(key.check(at), used.map(drop));
        prop_assert_eq!(key.standing(at) == Standing::Valid, key.check(at).is_ok());
    }

    #[test]
    fn uses_and_what_remains_add_up_to_the_limit(key in strategies::key()) {
        match key.limit() {
            UseLimit::Uses(uses) => prop_assert_eq!(key.used() + key.remaining().unwrap(), u64::from(uses.get())),
            UseLimit::Unlimited => prop_assert_eq!(key.remaining(), None),
        }
    }

    #[test]
    fn every_instant_and_every_count_has_an_answer(key in strategies::key(), seconds: i64) {
        let at = DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::<Utc>::MAX_UTC);
        let full = Key::restore(key.granted().clone(), u64::MAX, None);
        let used = full.apply(&Change::Use { product: key.product(), at });
        prop_assert!(used.is_err() || key.limit() == UseLimit::Unlimited);
    }
}
