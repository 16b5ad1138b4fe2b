//! The rules of a key, against a model so naive that it can be read as the specification.

use chrono::{DateTime, Utc};
use delivery_core::email::Email;
use delivery_core::key::{
    Actor, Change, Key, KeyId, KeyState, LimitChange, NewKey, Reason, Refusal, SecretVersion, Status,
};
use delivery_core::product::ProductId;
use delivery_core::terms::{MAX_USES, NEVER, Terms, UseLimit, Validity};
use delivery_testing::strategies;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// What a key is, in the plainest words: what it was granted, and a list of what was done with it.
struct Model {
    granted: NewKey,
    expires_at: DateTime<Utc>,
    limit: i64,
    uses: Vec<DateTime<Utc>>,
    revoked: Option<(DateTime<Utc>, Option<Reason>, Actor)>,
    email: Email,
}

impl Model {
    fn new(granted: NewKey) -> Self {
        let (expires_at, limit, email) = (granted.expires_at, granted.limit.as_count(), granted.email.clone());
        Self { granted, expires_at, limit, uses: Vec::new(), revoked: None, email }
    }

    fn apply(&mut self, change: &Change) -> Result<(), Refusal> {
        match change {
            // Strategies make whole milliseconds.
            Change::Revoke { at, reason, by } => {
                // That of a person takes the place of a platform's, which the platform may lift later.
                let is_platform = |by: &Actor| by.as_str().starts_with("platform:");
                let stays = |(.., first): &(_, _, Actor)| is_platform(by) || !is_platform(first);
                if !self.revoked.as_ref().is_some_and(stays) {
                    self.revoked = Some((*at, reason.clone(), by.clone()));
                }
            }
            Change::Restore { .. } => self.revoked = None,
            Change::SetEmail { email, .. } => self.email = email.clone(),
            Change::SetTerms { expires_at, limit, .. } => {
                match limit {
                    Some(LimitChange::Add(_)) if self.limit == -1 => return Err(Refusal::NoLimit),
                    Some(LimitChange::Add(more)) => {
                        self.limit = (self.limit + i64::from(more.get())).min(i64::from(MAX_USES));
                    }
                    Some(LimitChange::Set(limit)) => self.limit = limit.as_count(),
                    None => {}
                }
                if let Some(at) = expires_at {
                    self.expires_at = DateTime::from_timestamp(at.timestamp().max(0), 0).unwrap().min(NEVER);
                }
            }
            Change::Use { product, at, .. } => {
                if let Some((at, ..)) = self.revoked {
                    return Err(Refusal::Revoked { at });
                }
                if *at >= self.expires_at {
                    return Err(Refusal::Expired { since: self.expires_at });
                }
                if *product != self.granted.product {
                    return Err(Refusal::WrongProduct { granted: self.granted.product });
                }
                if self.limit >= 0 && self.uses.len() >= usize::try_from(self.limit).unwrap() {
                    return Err(Refusal::Exhausted { limit: UseLimit::from_count(self.limit).unwrap() });
                }
                self.uses.push(*at);
            }
        }
        Ok(())
    }
}

/// The key answers to each change, and stands after it, as the model does.
fn agree(granted: NewKey, changes: &[Change]) -> Result<(), TestCaseError> {
    let mut key = Key::from(granted.clone());
    let mut model = Model::new(granted);
    for change in changes {
        let before = key.clone();
        let expected = model.apply(change);
        match key.apply(change) {
            Ok(next) => {
                prop_assert_eq!(expected, Ok(()));
                key = next;
            }
            Err(refusal) => prop_assert_eq!(expected, Err(refusal)),
        }
        let KeyState { expires_at, limit, used, revoked } = key.state();
        prop_assert_eq!(*used, model.uses.len() as u64);
        prop_assert!(*used >= before.used(), "uses never decrease");
        prop_assert_eq!((*expires_at, limit.as_count()), (model.expires_at, model.limit));
        let revoked = revoked.as_ref().map(|it| (it.at, it.reason.clone(), it.by.clone()));
        prop_assert_eq!(revoked, model.revoked.clone());
        prop_assert_eq!(key.email(), &model.email);
        let granted = NewKey { email: model.granted.email.clone(), ..key.granted().as_ref().clone() };
        prop_assert_eq!(&granted, &model.granted, "what was granted never changes, but for the address");
    }
    Ok(())
}

/// Found by chance: an expiry in the year 10,000, and of a part of a second. Found by an attack: one before the year 0,
/// which a dump could write and no load could read.
#[test]
fn an_expiry_is_kept_from_1970_to_the_last_day() {
    let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    let (id, version) = (KeyId::from_bytes([7; 16]), SecretVersion::from_stored(1));
    let terms = Terms { validity: Validity::Never, limit: UseLimit::Unlimited };
    let (product, email) = (ProductId::new(2).unwrap(), "a@b.example".parse().unwrap());
    let granted = NewKey::on_terms((id, version), product, email, terms, at("2095-05-03T01:28:37Z"));
    for expires_at in [DateTime::from_timestamp_millis(253_402_346_125_714).unwrap(), at("-0001-01-01T23:59:59Z")] {
        let by = Actor::platform(&"stripe".parse().unwrap());
        let at = at("2095-05-03T01:28:36.002Z");
        let change = Change::SetTerms { at, by, expires_at: Some(expires_at), limit: None };
        let changed = Key::from(granted.clone()).apply(&change).unwrap().state().expires_at;
        assert!((DateTime::UNIX_EPOCH..=NEVER).contains(&changed), "{expires_at}: {changed}");
        agree(granted.clone(), &[change]).unwrap();
    }
}

proptest! {
    #[test]
    fn apply_does_what_the_model_does((granted, changes) in strategies::history()) {
        agree(granted, &changes)?;
    }

    #[test]
    fn a_revocation_and_its_lifting_leave_the_key_as_it_was(key in strategies::key(), at in strategies::instant()) {
        prop_assume!(key.revoked_at().is_none());
        let (reason, by) = (None, Actor::admin());
        let revoked = key.apply(&Change::Revoke { at, reason, by: by.clone() }).unwrap();
        prop_assert_eq!(revoked.status(at), Status::Revoked);
        prop_assert_eq!(revoked.apply(&Change::Restore { at, by }).unwrap(), key);
    }

    #[test]
    fn revoking_or_restoring_again_changes_nothing(key in strategies::key(), at in strategies::instant()) {
        for change in [
            Change::Revoke { at, reason: None, by: Actor::admin() },
            Change::Restore { at, by: Actor::admin() },
        ] {
            let once = key.apply(&change).unwrap();
            prop_assert_eq!(once.apply(&change).unwrap(), once);
        }
    }

    #[test]
    fn a_successor_is_good_for_what_is_left_of_the_key_that_it_replaces(
        (key, at, use_at) in (strategies::key(), strategies::instant(), strategies::instant()),
        id: [u8; 16],
    ) {
        let (id, by) = ((KeyId::from_bytes(id), key.granted().secret), Actor::admin());
        match key.rotate(id, at, &by) {
            Ok((withdrawn, successor)) => {
                prop_assert!(key.revoked_at().is_none());
                prop_assert_eq!((withdrawn.status(use_at), withdrawn.successor()), (Status::Revoked, Some(id.0)));
                let restored = withdrawn.apply(&Change::Restore { at, by: by.clone() });
                prop_assert_eq!(restored, Err(Refusal::Replaced { successor: id.0 }));
                prop_assert_eq!(withdrawn.rotate(id, at, &by), Err(Refusal::Replaced { successor: id.0 }));
                prop_assert_eq!(successor.state(), key.state());
                prop_assert_eq!(successor.check(use_at), key.check(use_at));
                let granted = NewKey { id: key.id(), ..successor.granted().as_ref().clone() };
                prop_assert_eq!(&granted, key.granted().as_ref());
            }
            Err(refusal) => prop_assert_eq!(key.revoked_at().map(|at| Refusal::Revoked { at }), Some(refusal)),
        }
    }

    #[test]
    fn a_key_checks_as_a_use_of_its_own_product_would(key in strategies::key(), at in strategies::instant()) {
        let used = key.apply(&Change::use_of(key.product(), at));
        prop_assert_eq!(key.check(at), used.map(drop));
        prop_assert_eq!(key.status(at) == Status::Valid, key.check(at).is_ok());
    }

    #[test]
    fn what_remains_is_the_limit_without_the_uses(key in strategies::key()) {
        match key.limit() {
            UseLimit::Uses(uses) => {
                prop_assert_eq!(key.remaining(), Some(u64::from(uses.get()).saturating_sub(key.used())));
            }
            UseLimit::Unlimited => prop_assert_eq!(key.remaining(), None),
        }
    }

    #[test]
    fn every_instant_and_every_count_has_an_answer(key in strategies::key(), seconds: i64) {
        let at = DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::<Utc>::MAX_UTC);
        let state = KeyState { used: u64::MAX, revoked: None, ..key.state().clone() };
        let full = Key::new(key.granted().clone(), state);
        let used = full.apply(&Change::use_of(key.product(), at));
        prop_assert!(used.is_err() || key.limit() == UseLimit::Unlimited);
    }
}
