//! Tests whole plans, without I/O.

mod model;

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::*;
use crate::key::{Actor, Alias, Change, KeyState, NewKey, Reason, Revocation, SecretVersion};
use crate::ledger::plan::{KeyWrite, NewAuditEntry, NewMessage, NewUse, PurchaseId, Row, number_at};
use crate::ledger::{Action, Imported, MessageId, MessageKind, Notice, Recipient};
use crate::order::{OrderRef, Source};
use crate::product::ProductId;
use crate::terms::{Terms, UseLimit, Validity};

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second, 0).unwrap()
}

fn product() -> ProductId {
    ProductId::new(1).unwrap()
}

/// The key `id`, which may be used three times. It was bought with `order`, or issued by hand if `order` is empty.
fn new_key(id: u8, order: &str) -> Arc<NewKey> {
    let terms = Terms { validity: Validity::Never, limit: UseLimit::from_count(3).unwrap() };
    let identity = (KeyId::from_bytes([id; 16]), SecretVersion::from_stored(1));
    let key = NewKey::on_terms(identity, product(), "a@example.com".parse().unwrap(), terms, at(0));
    let order = order.parse().map(|id| OrderRef { source: Source::webhook(), id });
    Arc::new(NewKey { order: order.ok(), ..key })
}

fn row(key: &Arc<NewKey>, used: u64, number: i64) -> Row {
    let state = KeyState { used, ..KeyState::granted(key.expires_at, key.limit) };
    Row { key: Key::new(key.clone(), state), number, version: 7, last_use: Some(5), may_be_stale: false }
}

fn issue(key: &Arc<NewKey>) -> Operation {
    let message = vec![Notice::purchase(MessageId::new("m@example.com").unwrap())];
    Operation::Issue(Box::new(NewSale::new(key.as_ref().clone(), message)))
}

fn change(key: &NewKey, change: Change) -> Operation {
    Operation::Change(ChangeKey { key: key.id, change, messages: Vec::new() })
}

fn spend() -> Change {
    Change::use_of(product(), at(9))
}

fn revoke() -> Change {
    Change::Revoke { at: at(9), reason: "refunded".parse().ok(), by: Actor::system() }
}

fn planned(operations: &[Operation], rows: impl IntoIterator<Item = Row>) -> Plan {
    let mut loaded = Loaded::absent(&needs(operations));
    rows.into_iter().for_each(|row| loaded.insert(row));
    plan(operations, loaded, &mut Numbers::block(100, 100)).unwrap()
}

/// For each operation of a plan, whether it has an answer.
fn answered(plan: Plan, persisted: impl Fn(usize) -> bool) -> Vec<bool> {
    plan.answers(persisted).iter().map(Option::is_some).collect()
}

/// The answer of the last operation.
fn last_answer(plan: Plan, persisted: bool) -> Answer {
    plan.answers(|_| persisted).pop().unwrap().unwrap()
}

#[test]
fn needs_are_the_keys_and_purchases_of_a_batch_each_once() {
    let (bought, by_hand) = (new_key(1, "A"), new_key(2, ""));
    let operations = [issue(&bought), issue(&by_hand), issue(&bought), change(&by_hand, spend())];
    let needs = needs(&operations);
    assert_eq!((needs.keys, needs.new), ([by_hand.id].into(), [bought.id, by_hand.id].into()));
    assert_eq!(needs.purchases, [PurchaseId::of(&bought).unwrap()].into());
}

#[test]
fn an_order_inserts_its_key_with_its_message_and_nothing_else() {
    let key = new_key(1, "A");
    let plan = planned(&[issue(&key)], []);
    let row = Row { last_use: None, version: 0, ..row(&key, 0, 100) };
    let message = NewMessage {
        unit: 0,
        number: 101,
        key: 100,
        id: MessageId::new("m@example.com").unwrap(),
        kind: MessageKind::Purchase,
        recipient: Recipient::Email(key.email.clone()),
        at: at(0),
    };
    let expected = Writes {
        keys: vec![KeyWrite { row: row.clone(), loaded: None, heir_of: None }],
        messages: vec![message],
        ..Writes::default()
    };
    assert_eq!(plan.writes, expected);
    assert_eq!(last_answer(plan, true), Answer::Issued(Issue::New(row.key)));
}

#[test]
fn an_order_is_never_answered_with_a_key_that_another_took_the_place_of() {
    // The order's key `old` was withdrawn, and `new` took its place. The batch also counts a use of `old`, so the store
    // loads both keys. It may load them in any order, so the test tries both orders.
    let (first, again) = (new_key(1, "A"), new_key(3, "A"));
    let heir = (KeyId::from_bytes([2; 16]), SecretVersion::from_stored(1));
    let (old, new) = row(&first, 2, 40).key.rotate(heir, at(5), &Actor::system()).unwrap();
    let [old, new] = [(old, 40), (new, 41)].map(|(key, number)| Row { key, ..row(&first, 2, number) });
    for rows in [vec![old.clone(), new.clone()], vec![new.clone(), old.clone()]] {
        let plan = planned(&[change(&first, spend()), issue(&again)], rows);
        assert_eq!(last_answer(plan, true), Answer::Issued(Issue::Existing(new.key.clone())));
    }
    // Here only the withdrawn key is loaded, so the order seems to have no key. The plan issues a second key for the
    // order, which the database's unique index refuses.
    let plan = planned(&[change(&first, spend()), issue(&again)], [old]);
    assert_eq!(plan.writes.keys.iter().map(|write| write.row.key.id()).collect::<Vec<_>>(), [again.id]);
}

#[test]
fn an_imported_key_has_its_uses_and_an_alias_that_no_other_key_gets() {
    let alias = Alias::from_bytes([7; 32]);
    let import = |key: &Arc<NewKey>| {
        let imported = Some(Imported { used: 2, alias: Some(alias) });
        Operation::Issue(Box::new(NewSale { imported, ..NewSale::new(key.as_ref().clone(), Vec::new()) }))
    };
    let (first, again, other) = (new_key(1, "A"), new_key(2, "A"), new_key(3, ""));
    let plan = planned(&[import(&first), import(&again)], []);
    let row = Row { last_use: None, version: 0, ..row(&first, 2, 100) };
    let expected = Writes {
        keys: vec![KeyWrite { row, loaded: None, heir_of: None }],
        aliases: vec![(alias, 100)],
        ..Writes::default()
    };
    assert_eq!(plan.writes, expected, "the order that comes again writes nothing");
    assert!(plan.writes.is_atomic());
    // Another key has the alias already, or gets it in the same batch.
    let operations = [import(&first), import(&other)];
    let refused = |loaded: Loaded, operations: &[Operation]| {
        let planned = super::plan(operations, loaded, &mut Numbers::block(100, 100));
        assert!(matches!(planned, Err(StoreError::Refused { .. })));
    };
    refused(Loaded::absent(&needs(&operations)), &operations);
    let mut loaded = Loaded::absent(&needs(&operations[1..]));
    loaded.insert_alias(alias, first.id);
    refused(loaded, &operations[1..]);
}

#[test]
fn uses_of_a_key_are_one_write_with_a_chain_of_records() {
    let key = new_key(1, "");
    let plan = planned(&[change(&key, spend()), change(&key, spend())], [row(&key, 0, 40)]);
    let used = |number, used, previous| NewUse { unit: 0, number, key: 40, at: at(9), used, previous: Some(previous) };
    let after = Row { last_use: Some(101), ..row(&key, 2, 40) };
    let expected = Writes {
        keys: vec![KeyWrite { row: after, loaded: Some(row(&key, 0, 40).key), heir_of: None }],
        uses: vec![used(100, 1, 5), used(101, 2, 100)],
        ..Writes::default()
    };
    assert_eq!(plan.writes, expected);
    assert!(plan.writes.keys[0].is_only_counted());
}

#[test]
fn a_revocation_is_a_whole_state_and_an_audit_entry() {
    let key = new_key(1, "");
    let plan = planned(&[change(&key, revoke()), change(&key, revoke())], [row(&key, 1, 40)]);
    let entry = NewAuditEntry {
        unit: 0,
        number: number_at(at(9), 100),
        key: 40,
        at: at(9),
        actor: Actor::system(),
        action: Action::Revoked,
        detail: Some("refunded".to_owned()),
    };
    let revocation =
        Revocation { at: at(9), reason: "refunded".parse::<Reason>().ok(), by: Actor::system(), successor: None };
    let before = row(&key, 1, 40);
    let state = KeyState { revoked: Some(Arc::new(revocation)), ..before.key.state().clone() };
    let after = Row { key: Key::new(key, state), ..before.clone() };
    let expected = Writes {
        keys: vec![KeyWrite { row: after, loaded: Some(before.key.clone()), heir_of: None }],
        audit_entries: vec![entry],
        ..Writes::default()
    };
    assert_eq!(plan.writes, expected, "the second one changes nothing");
    assert!(!plan.writes.keys[0].is_only_counted());
}

#[test]
fn what_nobody_loaded_is_an_error_and_what_is_absent_an_unknown_key() {
    let key = new_key(1, "A");
    for operation in [issue(&key), change(&key, spend())] {
        let refused = plan([&operation], Loaded::default(), &mut Numbers::block(1, 10));
        assert!(matches!(refused, Err(StoreError::Corrupt { .. })));
    }
    assert_eq!(last_answer(planned(&[change(&key, spend())], []), false), Answer::Changed(None));
}

#[test]
fn a_refusal_is_told_by_a_row_that_was_read_or_that_the_batch_writes() {
    let key = new_key(1, "");
    let cached = |used| Row { may_be_stale: true, ..row(&key, used, 40) };
    // Only the cached row, which may be stale, shows that the key is used up. So the operation has no answer.
    assert_eq!(answered(planned(&[change(&key, spend())], [cached(3)]), |_| true), [false]);
    assert_eq!(answered(planned(&[change(&key, spend())], [row(&key, 3, 40)]), |_| true), [true]);
    // The batch also allows a use of the key, before or after the refused use. Persisting that use proves that the row
    // was current.
    let other = || Change::use_of(ProductId::new(2).unwrap(), at(9));
    for changes in [[spend(), other()], [other(), spend()]] {
        let operations = changes.map(|what| change(&key, what));
        assert_eq!(answered(planned(&operations, [cached(0)]), |_| true), [true, true]);
        assert_eq!(answered(planned(&operations, [cached(0)]), |_| false), [false, false]);
    }
    // The batch itself uses up the key.
    let operations = || [change(&key, spend()), change(&key, spend())];
    assert_eq!(answered(planned(&operations(), [cached(2)]), |_| true), [true, true]);
    assert_eq!(answered(planned(&operations(), [cached(2)]), |_| false), [false, false]);
}

#[test]
fn a_conflict_concerns_the_operations_of_its_key_alone() {
    let (one, two, other) = (new_key(1, ""), new_key(2, ""), new_key(3, "A"));
    let operations = [change(&one, spend()), change(&two, spend()), issue(&other), change(&one, spend())];
    let plan = planned(&operations, [row(&one, 0, 40), row(&two, 0, 41)]);
    let units: Vec<i64> = plan.writes.keys.iter().map(|write| write.row.number).collect();
    let conflict = units.iter().position(|number| *number == 40).unwrap();
    assert_eq!(answered(plan, |unit| unit != conflict), [false, true, true, false]);
}
