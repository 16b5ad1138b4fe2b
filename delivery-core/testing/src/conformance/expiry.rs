//! Keys that expire: buyers are notified before, and searches find the keys after.

use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::email::Email;
use delivery_core::key::{Actor, Change, Key, KeyId, LimitChange, NewKey, SecretVersion, Status};
use delivery_core::ledger::{Edit, MessageKind, NewSale, Recipient, Successor};
use delivery_core::store::{ExpiryScan, KeyQuery};
use delivery_core::terms::{NEVER, UseLimit};

use super::fixtures::{Whole, key, now, product, records, revoke, use_at};

type Port = std::sync::Arc<dyn Whole>;

fn days(days: i64) -> DateTime<Utc> {
    now() + TimeDelta::days(days)
}

/// Notifies buyers of keys that expire within 14 days from `at`, at most `most` keys. Returns how many keys were
/// handled.
async fn notify(store: &Port, at: DateTime<Utc>, most: usize) -> usize {
    let domain = "example.com".to_owned();
    let scan = ExpiryScan { now: at, until: at + TimeDelta::days(14), limit: most, domain };
    records(store).notify_expiring(scan).await.expect("queued")
}

/// Returns the keys about which e-mails are due at `at`, and the recipients.
async fn queued(store: &Port, at: DateTime<Utc>) -> Vec<(u8, String)> {
    let claimed = store.claim_messages(at, at + TimeDelta::minutes(5), 100).await.expect("claimed");
    let facts = |message: &delivery_core::ledger::LeasedMessage| {
        assert_eq!(message.kind, MessageKind::Expiring);
        let Recipient::Email(email) = &message.recipient else { panic!("an e-mail") };
        (message.key.id().as_bytes()[0], email.as_str().to_owned())
    };
    let mut facts: Vec<_> = claimed.iter().map(facts).collect();
    for message in claimed {
        let sent = delivery_core::ledger::Outcome::Sent { at };
        store.complete_message(message.lease, sent).await.expect("completed");
    }
    facts.sort();
    facts
}

async fn issue(store: &Port, index: u8, expires_at: DateTime<Utc>) -> KeyId {
    let granted = NewKey { expires_at, issued_at: now() - TimeDelta::days(30), ..key(index, 2) };
    store.issue(NewSale::new(granted, Vec::new())).await.expect("issued").into_key().id()
}

async fn set_expiry(store: &Port, id: KeyId, expires_at: DateTime<Utc>) {
    let change = Change::SetTerms { at: now(), by: Actor::admin(), expires_at: Some(expires_at), limit: None };
    store.change(id, change, Vec::new()).await.expect("changed").expect("known").expect("allowed");
}

pub(super) async fn a_buyer_is_told_once_of_each_time_at_which_a_key_expires(store: Port) {
    let at = now() + TimeDelta::minutes(1);
    // Keys with an even number belong to buyer0, the others to buyer1.
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
    while notify(&store, at, 2).await > 0 {}
    assert_eq!(queued(&store, at).await, buyers(&[1, 2]));
    assert_eq!((notify(&store, at, 9).await, queued(&store, at).await), (0, Vec::new()), "told once");
    // A new expiry time causes another e-mail; an expiry time of which the buyer was notified does not.
    set_expiry(&store, first, days(12)).await;
    set_expiry(&store, last, days(300)).await;
    while notify(&store, at, 9).await > 0 {}
    assert_eq!(queued(&store, at).await, buyers(&[1]));
    set_expiry(&store, last, at + TimeDelta::days(14)).await;
    assert_eq!((notify(&store, at, 9).await, queued(&store, at).await), (0, Vec::new()), "of this time it was told");
    let at = at + TimeDelta::minutes(1);
    while notify(&store, at, 9).await > 0 {}
    assert_eq!(queued(&store, at).await, buyers(&[3]));
    let history = store.find(later).await.expect("found").expect("known");
    assert_eq!((history.used(), history.revoked_at()), (0, None), "the key is as it was");
    // The buyer of an exhausted key is notified once the key has uses again.
    let limit = Some(LimitChange::Set(UseLimit::from_count(3).expect("in range")));
    change(&store, used_up, Change::SetTerms { at, by: Actor::admin(), expires_at: None, limit }).await;
    while notify(&store, at, 9).await > 0 {}
    assert_eq!(queued(&store, at).await, buyers(&[7]));
}

pub(super) async fn a_key_that_was_sold_for_days_is_told_of_nothing(store: Port) {
    // One key is issued for exactly the notice period, and one for a second less.
    for (index, seconds) in [(1, 0), (2, -1)] {
        let expires_at = now() + TimeDelta::days(14) + TimeDelta::seconds(seconds);
        let granted = NewKey { expires_at, issued_at: now(), ..key(index, 2) };
        store.issue(NewSale::new(granted, Vec::new())).await.expect("issued");
    }
    while notify(&store, now(), 9).await > 0 {}
    assert_eq!(queued(&store, now()).await, [(1, "buyer1@example.com".to_owned())]);
    // A buyer is notified if the key was extended to more than the notice period, or was sold for that long and
    // shortened.
    set_expiry(&store, key(2, 1).id, days(40)).await;
    set_expiry(&store, key(1, 1).id, days(2)).await;
    while notify(&store, days(1), 9).await > 0 {}
    assert_eq!(queued(&store, days(1)).await, [(1, "buyer1@example.com".to_owned())]);
    while notify(&store, days(30), 9).await > 0 {}
    assert_eq!(queued(&store, days(30)).await, [(2, "buyer0@example.com".to_owned())]);
}

pub(super) async fn a_successor_is_told_of_no_time_that_the_buyer_knows(store: Port) {
    let id = issue(&store, 1, days(10)).await;
    while notify(&store, now(), 9).await > 0 {}
    assert_eq!(queued(&store, now()).await.len(), 1);
    let (secret, messages, withdrawn) = (SecretVersion::from_stored(513), Vec::new(), Vec::new());
    let successor = Successor { id: key(2, 1).id, secret, at: now(), by: Actor::admin(), messages, withdrawn };
    store.rotate(id, successor).await.expect("rotated").expect("known").expect("allowed");
    assert_eq!((notify(&store, now(), 9).await, queued(&store, now()).await), (0, Vec::new()));
    set_expiry(&store, key(2, 1).id, days(9)).await;
    while notify(&store, now(), 9).await > 0 {}
    assert_eq!(queued(&store, now()).await, [(2, "buyer1@example.com".to_owned())], "another time");
}

pub(super) async fn those_that_expire_first_are_told_first_and_the_erased_are_not(store: Port) {
    for (index, expires) in [(1, 9), (2, 3), (3, 6), (4, 1)] {
        issue(&store, index, days(expires)).await;
    }
    let ada: Email = "ada@example.com".parse().expect("an address");
    let granted = NewKey { email: ada.clone(), expires_at: days(2), issued_at: days(-30), ..key(5, 2) };
    store.issue(NewSale::new(granted, Vec::new())).await.expect("issued");
    let pseudonym = "erased-1@erased.invalid".parse().expect("an address");
    records(&store).erase(&ada, &pseudonym, Edit::new(Actor::admin(), now())).await.expect("erased");
    let mut order = Vec::new();
    while notify(&store, now() + TimeDelta::minutes(order.len().try_into().expect("few")), 1).await > 0 {
        let at = now() + TimeDelta::minutes(order.len().try_into().expect("few"));
        order.push(queued(&store, at).await.first().map(|(number, _)| *number));
    }
    assert_eq!(order, [Some(4), None, Some(2), Some(3), Some(1)]);
}

pub(super) async fn buyers_are_told_once_by_several_at_once(store: Port) {
    for index in 1..=40 {
        issue(&store, index, days(i64::from(index) % 13 + 1)).await;
    }
    let each = async |second: i64| while notify(&store, now() + TimeDelta::seconds(second), 4).await > 0 {};
    tokio::join!(each(1), each(2), each(3), each(4));
    // A scan may have skipped keys that another scan had locked. The next scan finds them.
    each(5).await;
    let numbers: Vec<u8> = queued(&store, days(1)).await.into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
}

async fn change(store: &Port, id: KeyId, change: Change) {
    store.change(id, change, Vec::new()).await.expect("changed").expect("known").expect("allowed");
}

/// Compares every search by status and product, at times before and after keys expire, with a list of all keys.
async fn assert_searches_are_exact(store: &Port, when: &str) {
    let all = store.search(&KeyQuery { limit: 1000, ..KeyQuery::default() }).await.expect("searched").items;
    let ids = |keys: &[Key]| keys.iter().map(|key| key.id().as_bytes()[0]).collect::<Vec<_>>();
    let email = "buyer1@example.com".parse::<Email>().ok();
    for at in [days(0), days(1), days(2), days(4), days(9)] {
        for status in [None, Some(Status::Valid), Some(Status::Exhausted), Some(Status::Expired), Some(Status::Revoked)]
        {
            for (of, email) in
                [(None, None), (Some(product(1)), None), (Some(product(2)), None), (Some(product(2)), email.clone())]
            {
                let status = status.map(|status| (status, at));
                let query = KeyQuery { status, product: of, email, limit: 3, ..KeyQuery::default() };
                let expected: Vec<Key> = all.iter().filter(|key| query.matches(key)).cloned().collect();
                let (mut found, mut before) = (Vec::new(), None);
                loop {
                    let page = store.search(&KeyQuery { before, ..query.clone() }).await.expect("searched");
                    found.extend(page.items);
                    before = page.next;
                    if before.is_none() {
                        break;
                    }
                }
                assert_eq!(ids(&found), ids(&expected), "{when}: {query:?}");
            }
        }
    }
}

pub(super) async fn searches_find_the_same_before_and_after_expired_keys_are_marked(store: Port) {
    let mark = async |at, most| while records(&store).mark_expired(at, most).await.expect("marked") == most {};
    let mut ids = Vec::new();
    for index in 0..24 {
        let expires_at = [days(1), days(3), days(5), NEVER][usize::from(index / 2 % 4)];
        let granted = NewKey { expires_at, product: product(i64::from(index % 2) + 1), ..key(index, 1) };
        let id = store.issue(NewSale::new(granted, Vec::new())).await.expect("issued").into_key().id();
        match index / 8 {
            0 => {}
            1 => change(&store, id, Change::use_of(product(i64::from(index % 2) + 1), now())).await,
            _ => change(&store, id, revoke(now(), None)).await,
        }
        ids.push(id);
    }
    assert_searches_are_exact(&store, "before any is marked").await;
    mark(days(2), 1).await;
    assert_searches_are_exact(&store, "with some marked").await;
    // A key marked as expired is extended, an unmarked one is shortened, and others change in other ways.
    let set = |expires_at, limit| Change::SetTerms { at: now(), by: Actor::admin(), expires_at, limit };
    change(&store, ids[0], set(Some(days(6)), None)).await;
    change(&store, ids[9], set(Some(NEVER), None)).await;
    change(&store, ids[5], set(Some(days(1)), None)).await;
    change(&store, ids[8], set(None, UseLimit::from_count(2).map(LimitChange::Set).ok())).await;
    change(&store, ids[1], revoke(now(), None)).await;
    change(&store, ids[16], Change::Restore { at: now(), by: Actor::admin() }).await;
    assert_searches_are_exact(&store, "after changes").await;
    mark(days(4), 2).await;
    assert_searches_are_exact(&store, "with most marked").await;
    change(&store, ids[17], Change::Restore { at: now(), by: Actor::admin() }).await;
    change(&store, ids[0], set(Some(days(1)), None)).await;
    assert_searches_are_exact(&store, "after other changes").await;
}
