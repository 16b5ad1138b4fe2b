//! Proptest strategies for the values of this crate.
//!
//! ```
//! use delivery_testing::strategies;
//! use proptest::prelude::*;
//!
//! proptest!(|(key in strategies::key(), change in strategies::change())| {
//!     if let Ok(changed) = key.apply(&change) {
//!         prop_assert!(changed.used() <= key.used() + 1);
//!     }
//! });
//! ```

use chrono::{DateTime, Utc};
use proptest::prelude::*;

use delivery_core::HostRef;
use delivery_core::email::Email;
use delivery_core::key::{Actor, Change, Key, KeyId, LimitChange, NewKey, Reason, SecretVersion};
use delivery_core::order::{OrderId, OrderRef, Source};
use delivery_core::product::ProductId;
use delivery_core::terms::{MAX_DAYS, MAX_USES, OwnTerms, Terms, UseLimit, Validity};

/// Instants of the years 2020 to 2100, to the millisecond.
pub fn instant() -> impl Strategy<Value = DateTime<Utc>> {
    (1_577_836_800_000_i64..4_102_444_800_000)
        .prop_map(|milliseconds| DateTime::from_timestamp_millis(milliseconds).unwrap_or_default())
}

/// One of few products, so that keys and changes often agree.
pub fn product() -> impl Strategy<Value = ProductId> {
    (1_i64..4).prop_map(|id| ProductId::new(id).expect("1 or more"))
}

/// Addresses of few people.
pub fn email() -> impl Strategy<Value = Email> {
    "[a-c]@[a-b]\\.example".prop_map(|text| text.parse().expect("an address"))
}

/// One of few orders.
pub fn order() -> impl Strategy<Value = OrderRef> {
    "[A-D]".prop_map(|id| OrderRef { source: Source::webhook(), id: id.parse::<OrderId>().expect("a number") })
}

/// One of few names of the host's.
pub fn host_ref() -> impl Strategy<Value = HostRef> {
    "[a-d]{1,2}".prop_map(|text| text.parse().expect("a name"))
}

/// Short, long and endless validities.
pub fn validity() -> impl Strategy<Value = Validity> {
    let days = prop_oneof![3 => 1..=3_i64, 1 => 1..=i64::from(MAX_DAYS), 1 => Just(-1)];
    days.prop_map(|days| Validity::from_days(days).expect("in range"))
}

/// Small, large and no limits.
pub fn use_limit() -> impl Strategy<Value = UseLimit> {
    let uses = prop_oneof![3 => 1..=4_i64, 1 => 1..=i64::from(MAX_USES), 1 => Just(-1)];
    uses.prop_map(|uses| UseLimit::from_count(uses).expect("in range"))
}

/// Terms of every kind.
pub fn terms() -> impl Strategy<Value = Terms> {
    (validity(), use_limit()).prop_map(|(validity, limit)| Terms { validity, limit })
}

/// Terms that leave out what they like.
pub fn own_terms() -> impl Strategy<Value = OwnTerms> {
    (prop::option::of(validity()), prop::option::of(use_limit()))
        .prop_map(|(validity, limit)| OwnTerms { validity, limit })
}

/// One of few who change something.
pub fn actor() -> impl Strategy<Value = Actor> {
    prop::sample::select(vec!["admin", "alice", "platform:stripe"]).prop_map(|name| name.parse().expect("a name"))
}

/// One of few reasons.
pub fn reason() -> impl Strategy<Value = Reason> {
    prop::sample::select(vec!["refunded", "Rückbuchung'; --"]).prop_map(|text| text.parse().expect("a reason"))
}

/// Limits that are set, and uses that are added.
pub fn limit_change() -> impl Strategy<Value = LimitChange> {
    (use_limit(), any::<bool>()).prop_map(|(limit, added)| match limit {
        UseLimit::Uses(uses) if added => LimitChange::Add(uses),
        limit => LimitChange::Set(limit),
    })
}

/// A key just issued.
pub fn new_key() -> impl Strategy<Value = NewKey> {
    (any::<[u8; 16]>(), product(), email(), prop::option::of(order()), prop::option::of(host_ref()), terms(), instant())
        .prop_map(|(id, product, email, order, host_ref, terms, issued_at)| {
            let identity = (KeyId::from_bytes(id), SecretVersion::from_stored(1));
            NewKey { order, host_ref, ..NewKey::on_terms(identity, product, email, terms, issued_at) }
        })
}

/// A change at any time.
pub fn change() -> impl Strategy<Value = Change> {
    change_around(instant().boxed())
}

/// A key that lived through some changes.
pub fn key() -> impl Strategy<Value = Key> {
    history()
        .prop_map(|(key, changes)| changes.iter().fold(Key::from(key), |key, change| key.apply(change).unwrap_or(key)))
}

/// A key, and changes in any order: at times within four days of its issue, or within a day of its expiry, before and after.
pub fn history() -> impl Strategy<Value = (NewKey, Vec<Change>)> {
    new_key().prop_flat_map(|key| {
        const DAY: i64 = 24 * 3_600_000;
        let (issue, expiry) = (key.issued_at.timestamp_millis(), key.expires_at.timestamp_millis());
        let times = prop_oneof![2 => issue - 1000..issue + 4 * DAY, 1 => expiry - DAY..expiry + DAY];
        let times = times.prop_map(|at| DateTime::from_timestamp_millis(at).unwrap_or_default()).boxed();
        (Just(key), prop::collection::vec(change_around(times), 0..20))
    })
}

fn change_around(times: BoxedStrategy<DateTime<Utc>>) -> impl Strategy<Value = Change> {
    let terms = (times.clone(), prop::option::of(times.clone()), prop::option::of(limit_change()));
    prop_oneof![
        12 => (product(), times.clone()).prop_map(|(product, at)| Change::Use { product, at }),
        1 => (times.clone(), prop::option::of(reason()), actor()).prop_map(|(at, reason, by)| Change::Revoke { at, reason, by }),
        1 => (times, actor()).prop_map(|(at, by)| Change::Restore { at, by }),
        1 => (terms, actor()).prop_map(|((at, expires_at, limit), by)| Change::SetTerms { at, by, expires_at, limit }),
    ]
}
