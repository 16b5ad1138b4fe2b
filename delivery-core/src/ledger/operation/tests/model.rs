//! Compares plans with a model that is as simple as possible: keys and orders in maps, one operation after another.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::key::LimitChange;

/// A step on one of the keys 0 to 5: the key is issued or changed. Two of the keys are issued by hand, and two for each
/// of two orders.
#[derive(Debug, Clone)]
enum Step {
    Issue(u8),
    Change(u8, Change),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..6_u8).prop_map(Step::Issue),
        5 => (0..6_u8, changes()).prop_map(|(key, change)| Step::Change(key, change)),
    ];
    prop::collection::vec(step, 0..30)
}

/// Changes in the first minutes of a key. Most of them are uses, mostly for the right product. The others may make the
/// key invalid, or valid again.
fn changes() -> impl Strategy<Value = Change> {
    let limit = (1..4_i64, any::<bool>()).prop_map(|(uses, added)| match UseLimit::from_count(uses).unwrap() {
        UseLimit::Uses(uses) if added => LimitChange::Add(uses),
        limit => LimitChange::Set(limit),
    });
    let (second, by) = (1..200_i64, Actor::system());
    let (reviver, editor) = (by.clone(), by.clone());
    prop_oneof![
        8 => (1..8_i64, second.clone()).prop_map(|(product, second)| {
            Change::use_of(ProductId::new(1 + product / 7).unwrap(), at(second))
        }),
        1 => second.clone().prop_map(move |second| Change::Revoke { at: at(second), reason: None, by: by.clone() }),
        1 => second.clone().prop_map(move |second| Change::Restore { at: at(second), by: reviver.clone() }),
        1 => (second.clone(), prop::option::of(second), prop::option::of(limit)).prop_map(move |(second, end, limit)| {
            Change::SetTerms { at: at(second), by: editor.clone(), expires_at: end.map(at), limit }
        }),
    ]
}

proptest! {
    #[test]
    fn a_plan_on_nothing_comes_to_what_the_operations_come_to_one_at_a_time(steps in steps()) {
        let (mut keys, mut orders) = (HashMap::<KeyId, Key>::new(), HashMap::<String, KeyId>::new());
        let mut operations = Vec::new();
        let mut answers = Vec::new();
        for step in steps {
            match step {
                Step::Issue(id) => {
                    let order = ["", "A", "B"][usize::from(id) % 3];
                    let new = new_key(id, order);
                    let owner = orders.get(order).copied().unwrap_or(new.id);
                    let existing = keys.get(&owner).cloned();
                    let expected = match existing {
                        Some(key) if owner == new.id => Issue::New(key),
                        Some(key) => Issue::Existing(key),
                        None => {
                            let key = Key::from(new.as_ref().clone());
                            keys.insert(new.id, key.clone());
                            if !order.is_empty() {
                                orders.insert(order.to_owned(), new.id);
                            }
                            Issue::New(key)
                        }
                    };
                    operations.push(issue(&new));
                    answers.push(Some(Answer::Issued(expected)));
                }
                Step::Change(id, what) => {
                    let id = new_key(id, "").id;
                    let expected = keys.get(&id).cloned().map(|key| match key.apply(&what) {
                        Ok(changed) => {
                            keys.insert(id, changed.clone());
                            Ok(changed)
                        }
                        Err(refusal) => Err(Refused { refusal, key }),
                    });
                    operations.push(Operation::Change(ChangeKey { key: id, change: what, messages: Vec::new() }));
                    answers.push(Some(Answer::Changed(expected)));
                }
            }
        }
        let plan = planned(&operations, []);
        let written: HashMap<KeyId, Key> =
            plan.writes.keys.iter().map(|write| (write.row.key.id(), write.row.key.clone())).collect();
        prop_assert_eq!(&written, &keys, "whole states");
        let uses: u64 = keys.values().map(Key::used).sum();
        prop_assert_eq!(plan.writes.uses.len() as u64, uses);
        prop_assert_eq!(plan.answers(|_| true), answers);
    }
}
