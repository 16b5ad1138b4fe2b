//! E-mails about keys that expire soon.

use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::email::Email;
use delivery_core::key::{Actor, Change, KeyId, NewKey};
use delivery_core::store::{Edit, ExpiryScan, MessageKind, Recipient, Sale};
use delivery_core::terms::NEVER;

use super::fixtures::{Whole, key, now, records, revoke, use_at};

type Port = std::sync::Arc<dyn Whole>;

fn days(days: i64) -> DateTime<Utc> {
    now() + TimeDelta::days(days)
}

/// Looks 14 days ahead of `at`, for so many keys at most.
async fn told(store: &Port, at: DateTime<Utc>, most: usize) -> usize {
    let domain = "example.com".to_owned();
    let scan = ExpiryScan { now: at, until: at + TimeDelta::days(14), limit: most, domain };
    records(store).notify_expiring(scan).await.expect("queued")
}

/// The keys that e-mails are queued about, at `at`, and whom they go to.
async fn queued(store: &Port, at: DateTime<Utc>) -> Vec<(u8, String)> {
    let claimed = store.claim_messages(at, at + TimeDelta::minutes(5), 100).await.expect("claimed");
    let facts = |message: &delivery_core::store::LeasedMessage| {
        assert_eq!(message.kind, MessageKind::Expiring);
        let Recipient::Email(email) = &message.recipient else { panic!("an e-mail") };
        (message.key.id().as_bytes()[0], email.as_str().to_owned())
    };
    let mut facts: Vec<_> = claimed.iter().map(facts).collect();
    for message in claimed {
        let sent = delivery_core::store::Outcome::Sent { at };
        store.complete_message(message.lease, sent).await.expect("completed");
    }
    facts.sort();
    facts
}

async fn issue(store: &Port, index: u8, expires_at: DateTime<Utc>) -> KeyId {
    let granted = NewKey { expires_at, ..key(index, 2) };
    store.issue(Sale::new(granted, Vec::new())).await.expect("issued").into_key().id()
}

async fn set_expiry(store: &Port, id: KeyId, expires_at: DateTime<Utc>) {
    let change = Change::SetTerms { at: now(), by: Actor::admin(), expires_at: Some(expires_at), limit: None };
    store.change(id, change, Vec::new()).await.expect("changed").expect("known").expect("allowed");
}

pub(super) async fn a_buyer_is_told_once_of_each_time_at_which_a_key_expires(store: Port) {
    let at = now() + TimeDelta::minutes(1);
    // Those with an even number are of buyer0, the others of buyer1.
    let first = issue(&store, 1, days(13)).await;
    let last = issue(&store, 2, at + TimeDelta::days(14)).await;
    let later = issue(&store, 3, at + TimeDelta::days(14) + TimeDelta::seconds(1)).await;
    issue(&store, 4, at).await;
    issue(&store, 5, NEVER).await;
    let revoked = issue(&store, 6, days(5)).await;
    store.change(revoked, revoke(now(), None), Vec::new()).await.expect("changed");
    let used_up = issue(&store, 7, days(6)).await;
    for minutes in 0..2 {
        let change = use_at(now() + TimeDelta::seconds(30 + minutes));
        store.change(used_up, change, Vec::new()).await.expect("changed").expect("known").expect("allowed");
    }
    let buyers = |numbers: &[u8]| -> Vec<_> {
        numbers.iter().map(|number| (*number, format!("buyer{}@example.com", number % 2))).collect()
    };
    while told(&store, at, 2).await > 0 {}
    assert_eq!(queued(&store, at).await, buyers(&[1, 2]));
    assert_eq!((told(&store, at, 9).await, queued(&store, at).await), (0, Vec::new()), "told once");
    // Another time is another e-mail, and the same time again is none.
    set_expiry(&store, first, days(12)).await;
    set_expiry(&store, last, days(300)).await;
    while told(&store, at, 9).await > 0 {}
    assert_eq!(queued(&store, at).await, buyers(&[1]));
    set_expiry(&store, last, at + TimeDelta::days(14)).await;
    assert_eq!((told(&store, at, 9).await, queued(&store, at).await), (0, Vec::new()), "of this time it was told");
    let at = at + TimeDelta::minutes(1);
    while told(&store, at, 9).await > 0 {}
    assert_eq!(queued(&store, at).await, buyers(&[3]));
    let history = store.find(later).await.expect("found").expect("known");
    assert_eq!((history.used(), history.revoked_at()), (0, None), "the key is as it was");
}

pub(super) async fn those_that_expire_first_are_told_first_and_the_erased_are_not(store: Port) {
    for (index, expires) in [(1, 9), (2, 3), (3, 6), (4, 1)] {
        issue(&store, index, days(expires)).await;
    }
    let ada: Email = "ada@example.com".parse().expect("an address");
    let granted = NewKey { email: ada.clone(), expires_at: days(2), ..key(5, 2) };
    store.issue(Sale::new(granted, Vec::new())).await.expect("issued");
    let pseudonym = "erased-1@erased.invalid".parse().expect("an address");
    records(&store).erase(&ada, &pseudonym, Edit::new(Actor::admin(), now())).await.expect("erased");
    let mut order = Vec::new();
    while told(&store, now() + TimeDelta::minutes(order.len().try_into().expect("few")), 1).await > 0 {
        let at = now() + TimeDelta::minutes(order.len().try_into().expect("few"));
        order.push(queued(&store, at).await.first().map(|(number, _)| *number));
    }
    assert_eq!(order, [Some(4), None, Some(2), Some(3), Some(1)]);
}

pub(super) async fn buyers_are_told_once_by_several_at_once(store: Port) {
    for index in 1..=40 {
        issue(&store, index, days(i64::from(index) % 13 + 1)).await;
    }
    let each = async |second: i64| while told(&store, now() + TimeDelta::seconds(second), 4).await > 0 {};
    tokio::join!(each(1), each(2), each(3), each(4));
    // Whoever met the others' locks left those keys for later.
    each(5).await;
    let numbers: Vec<u8> = queued(&store, days(1)).await.into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
}
