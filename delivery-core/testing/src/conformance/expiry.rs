//! Keys that expire: buyers are notified before, and searches find the keys after.

use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::email::Email;
use delivery_core::key::{Actor, Change, Key, KeyId, LimitChange, NewKey, Status};
use delivery_core::ledger::{Edit, LeasedMessage, MessageKind, Outcome, Recipient};
use delivery_core::store::{ExpiryScan, KeyQuery};
use delivery_core::terms::{NEVER, UseLimit};

use super::fixtures::{
    WholePort, apply, at, day, find, issue, key, now, product, records, revoke, rotate, search, successor, use_at,
};

/// Notifies buyers of keys that expire within 14 days from `at`, at most `most` keys. Returns how many keys were
/// handled.
async fn notify(store: &WholePort, at: DateTime<Utc>, most: usize) -> usize {
    let domain = "example.com".to_owned();
    let scan = ExpiryScan { now: at, until: at + TimeDelta::days(14), limit: most, domain };
    records(store).notify_expiring(scan).await.expect("queued")
}

/// Returns the keys about which e-mails are due at `at`, and the recipients.
async fn queued(store: &WholePort, at: DateTime<Utc>) -> Vec<(u8, String)> {
    let claimed = store.claim_messages(at, at + TimeDelta::minutes(5), 100).await.expect("claimed");
    let facts = |message: &LeasedMessage| {
        assert_eq!(message.kind, MessageKind::Expiring);
        let Recipient::Email(email) = &message.recipient else { panic!("an e-mail") };
        (message.key.id().as_bytes()[0], email.as_str().to_owned())
    };
    let mut facts: Vec<_> = claimed.iter().map(facts).collect();
    for message in claimed {
        store.complete_message(message.lease, Outcome::Sent { at }).await.expect("completed");
    }
    facts.sort();
    facts
}

/// Issues a key that was sold a month ago.
async fn issue_until(store: &WholePort, index: u8, expires_at: DateTime<Utc>) -> KeyId {
    issue(store, NewKey { expires_at, issued_at: day(-30), ..key(index, 2) }).await.id()
}

async fn set_expiry(store: &WholePort, id: KeyId, expires_at: DateTime<Utc>) {
    let change = Change::SetTerms { at: now(), by: Actor::admin(), expires_at: Some(expires_at), limit: None };
    apply(store, id, change).await.expect("allowed");
}

pub(super) async fn a_buyer_is_told_once_of_each_time_at_which_a_key_expires(store: WholePort) {
    let at = at(1);
    // Keys with an even number belong to buyer0, the others to buyer1.
    let first = issue_until(&store, 1, day(13)).await;
    let last = issue_until(&store, 2, at + TimeDelta::days(14)).await;
    let later = issue_until(&store, 3, at + TimeDelta::days(14) + TimeDelta::seconds(1)).await;
    issue_until(&store, 4, at).await;
    issue_until(&store, 5, NEVER).await;
    let revoked = issue_until(&store, 6, day(5)).await;
    apply(&store, revoked, revoke(now(), None)).await.expect("allowed");
    let used_up = issue_until(&store, 7, day(6)).await;
    for minutes in 0..2 {
        let change = use_at(now() + TimeDelta::seconds(30 + minutes));
        apply(&store, used_up, change).await.expect("allowed");
    }
    let buyers = |numbers: &[u8]| -> Vec<_> {
        numbers.iter().map(|number| (*number, format!("buyer{}@example.com", number % 2))).collect()
    };
    while notify(&store, at, 2).await > 0 {}
    assert_eq!(queued(&store, at).await, buyers(&[1, 2]));
    assert_eq!((notify(&store, at, 9).await, queued(&store, at).await), (0, Vec::new()), "told once");
    // A new expiry time causes another e-mail; an expiry time of which the buyer was notified does not.
    set_expiry(&store, first, day(12)).await;
    set_expiry(&store, last, day(300)).await;
    while notify(&store, at, 9).await > 0 {}
    assert_eq!(queued(&store, at).await, buyers(&[1]));
    set_expiry(&store, last, at + TimeDelta::days(14)).await;
    assert_eq!((notify(&store, at, 9).await, queued(&store, at).await), (0, Vec::new()), "of this time it was told");
    let at = at + TimeDelta::minutes(1);
    while notify(&store, at, 9).await > 0 {}
    assert_eq!(queued(&store, at).await, buyers(&[3]));
    let later = find(&store, later).await;
    assert_eq!((later.used(), later.revoked_at()), (0, None), "the key is as it was");
    // The buyer of an exhausted key is notified once the key has uses again.
    let limit = Some(LimitChange::Set(UseLimit::from_count(3).expect("in range")));
    apply(&store, used_up, Change::SetTerms { at, by: Actor::admin(), expires_at: None, limit })
        .await
        .expect("allowed");
    while notify(&store, at, 9).await > 0 {}
    assert_eq!(queued(&store, at).await, buyers(&[7]));
}

pub(super) async fn a_key_that_was_sold_for_days_is_told_of_nothing(store: WholePort) {
    // One key is issued for exactly the notice period, and one for a second less.
    for (index, seconds) in [(1, 0), (2, -1)] {
        let expires_at = now() + TimeDelta::days(14) + TimeDelta::seconds(seconds);
        issue(&store, NewKey { expires_at, issued_at: now(), ..key(index, 2) }).await;
    }
    while notify(&store, now(), 9).await > 0 {}
    assert_eq!(queued(&store, now()).await, [(1, "buyer1@example.com".to_owned())]);
    // A buyer is notified if the key was extended to more than the notice period, or was sold for that long and
    // shortened.
    set_expiry(&store, key(2, 1).id, day(40)).await;
    set_expiry(&store, key(1, 1).id, day(2)).await;
    while notify(&store, day(1), 9).await > 0 {}
    assert_eq!(queued(&store, day(1)).await, [(1, "buyer1@example.com".to_owned())]);
    while notify(&store, day(30), 9).await > 0 {}
    assert_eq!(queued(&store, day(30)).await, [(2, "buyer0@example.com".to_owned())]);
}

pub(super) async fn a_successor_is_told_of_no_time_that_the_buyer_knows(store: WholePort) {
    let id = issue_until(&store, 1, day(10)).await;
    while notify(&store, now(), 9).await > 0 {}
    assert_eq!(queued(&store, now()).await.len(), 1);
    rotate(&store, id, successor(key(2, 1).id, now(), Actor::admin())).await;
    assert_eq!((notify(&store, now(), 9).await, queued(&store, now()).await), (0, Vec::new()));
    set_expiry(&store, key(2, 1).id, day(9)).await;
    while notify(&store, now(), 9).await > 0 {}
    assert_eq!(queued(&store, now()).await, [(2, "buyer1@example.com".to_owned())], "another time");
}

pub(super) async fn those_that_expire_first_are_told_first_and_the_erased_are_not(store: WholePort) {
    for (index, expires) in [(1, 9), (2, 3), (3, 6), (4, 1)] {
        issue_until(&store, index, day(expires)).await;
    }
    let ada: Email = "ada@example.com".parse().expect("an address");
    issue(&store, NewKey { email: ada.clone(), expires_at: day(2), issued_at: day(-30), ..key(5, 2) }).await;
    let pseudonym = "erased-1@erased.invalid".parse().expect("an address");
    records(&store).erase(&ada, &pseudonym, Edit::new(Actor::admin(), now())).await.expect("erased");
    let mut order = Vec::new();
    let mut minute = 0;
    while notify(&store, at(minute), 1).await > 0 {
        order.push(queued(&store, at(minute)).await.first().map(|(number, _)| *number));
        minute += 1;
    }
    assert_eq!(order, [Some(4), None, Some(2), Some(3), Some(1)]);
}

pub(super) async fn buyers_are_told_once_by_several_at_once(store: WholePort) {
    for index in 1..=40 {
        issue_until(&store, index, day(i64::from(index) % 13 + 1)).await;
    }
    let each = async |second: i64| while notify(&store, now() + TimeDelta::seconds(second), 4).await > 0 {};
    tokio::join!(each(1), each(2), each(3), each(4));
    // A scan may have skipped keys that another scan had locked. The next scan finds them.
    each(5).await;
    let numbers: Vec<u8> = queued(&store, day(1)).await.into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
}

/// Compares every search by status and product, at times before and after keys expire, with a list of all keys.
async fn assert_searches_are_exact(store: &WholePort, when: &str) {
    let all = store.search(&KeyQuery { limit: 1000, ..KeyQuery::default() }).await.expect("searched").items;
    let ids = |keys: &[Key]| keys.iter().map(|key| key.id().as_bytes()[0]).collect::<Vec<_>>();
    let email = "buyer1@example.com".parse::<Email>().ok();
    for at in [day(0), day(1), day(2), day(4), day(9)] {
        for status in [None, Some(Status::Valid), Some(Status::Exhausted), Some(Status::Expired), Some(Status::Revoked)]
        {
            for (of, email) in
                [(None, None), (Some(product(1)), None), (Some(product(2)), None), (Some(product(2)), email.clone())]
            {
                let status = status.map(|status| (status, at));
                let query = KeyQuery { status, product: of, email, limit: 3, ..KeyQuery::default() };
                let expected: Vec<Key> = all.iter().filter(|key| query.matches(key)).cloned().collect();
                let found = search(store, &query).await;
                assert_eq!(ids(&found), ids(&expected), "{when}: {query:?}");
            }
        }
    }
}

pub(super) async fn searches_find_the_same_before_and_after_expired_keys_are_marked(store: WholePort) {
    let mark = async |at, most| while records(&store).mark_expired(at, most).await.expect("marked") == most {};
    let change = async |id, change| drop(apply(&store, id, change).await.expect("allowed"));
    let mut ids = Vec::new();
    for index in 0..24 {
        let expires_at = [day(1), day(3), day(5), NEVER][usize::from(index / 2 % 4)];
        let granted = NewKey { expires_at, product: product(i64::from(index % 2) + 1), ..key(index, 1) };
        let id = issue(&store, granted).await.id();
        match index / 8 {
            0 => {}
            1 => change(id, Change::use_of(product(i64::from(index % 2) + 1), now())).await,
            _ => change(id, revoke(now(), None)).await,
        }
        ids.push(id);
    }
    assert_searches_are_exact(&store, "before any is marked").await;
    mark(day(2), 1).await;
    assert_searches_are_exact(&store, "with some marked").await;
    // A key marked as expired is extended, an unmarked one is shortened, and others change in other ways.
    let set = |expires_at, limit| Change::SetTerms { at: now(), by: Actor::admin(), expires_at, limit };
    change(ids[0], set(Some(day(6)), None)).await;
    change(ids[9], set(Some(NEVER), None)).await;
    change(ids[5], set(Some(day(1)), None)).await;
    change(ids[8], set(None, UseLimit::from_count(2).map(LimitChange::Set).ok())).await;
    change(ids[1], revoke(now(), None)).await;
    change(ids[16], Change::Restore { at: now(), by: Actor::admin() }).await;
    assert_searches_are_exact(&store, "after changes").await;
    mark(day(4), 2).await;
    assert_searches_are_exact(&store, "with most marked").await;
    change(ids[17], Change::Restore { at: now(), by: Actor::admin() }).await;
    change(ids[0], set(Some(day(1)), None)).await;
    assert_searches_are_exact(&store, "after other changes").await;
}
