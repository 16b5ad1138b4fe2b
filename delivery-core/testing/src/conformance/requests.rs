//! Requests that may be repeated.

use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::key::{KeyId, NewKey, Refusal, Rules};
use delivery_core::ledger::{Fetch, IDEMPOTENCY_WINDOW, MOST_REPEATS, RequestId};
use delivery_core::store::Ledger;

use super::fixtures::{Port, apply, at, day, find, issue, key, now, product, revoke, use_at};
use super::{Case, cases};
use crate::racing::race;

cases![
    /// The promises of a store that keeps [`Requests`](delivery_core::store::Requests).
    REQUESTS: dyn Ledger, each_request_case,
    a_request_counts_once_and_is_answered_ten_times_more,
    a_request_is_known_for_a_day,
    a_request_is_known_by_a_clock_that_is_behind,
    the_last_use_can_be_asked_for_again_and_a_revoked_key_cannot,
    a_name_is_of_one_key_and_one_product,
    a_request_that_is_refused_is_not_known,
    requests_that_race_count_once,
    requests_and_other_uses_that_race_keep_the_limit,
    old_requests_are_pruned_and_counts_stay,
];

/// Issues a key for thirty days.
async fn issue_key(ledger: &Port, index: u8, uses: i64) -> KeyId {
    issue(ledger, NewKey { issued_at: now(), expires_at: day(30), ..key(index, uses) }).await.id()
}

/// Makes a request. Returns whether it was a repeat, and the key's count after it; or why it was refused.
async fn ask(ledger: &Port, id: KeyId, name: &str, at: DateTime<Utc>) -> Result<(bool, u64), Refusal> {
    let fetch = Fetch { product: product(1), at, request: RequestId::of(name.as_bytes()), rules: Rules::NONE };
    let fetched = ledger.fetch(id, fetch).await.expect("answered").expect("known");
    fetched.map(|fetched| (fetched.is_repeat, fetched.key.used())).map_err(|refused| refused.refusal)
}

async fn used(ledger: &Port, id: KeyId) -> u64 {
    find(ledger, id).await.used()
}

async fn a_request_counts_once_and_is_answered_ten_times_more(ledger: Port) {
    let id = issue_key(&ledger, 1, 5).await;
    assert_eq!(ask(&ledger, id, "a", at(0)).await, Ok((false, 1)));
    for minute in 1..=i64::from(MOST_REPEATS) {
        assert_eq!(ask(&ledger, id, "a", at(minute)).await, Ok((true, 1)), "the repeat after {minute} minutes");
    }
    // After the last repeat, each request counts.
    assert_eq!(ask(&ledger, id, "a", at(20)).await, Ok((false, 2)));
    assert_eq!(ask(&ledger, id, "a", at(21)).await, Ok((false, 3)));
    assert_eq!(ask(&ledger, id, "b", at(22)).await, Ok((false, 4)));
    assert_eq!(ask(&ledger, id, "b", at(23)).await, Ok((true, 4)));
    assert_eq!(used(&ledger, id).await, 4);
}

async fn a_request_is_known_for_a_day(ledger: Port) {
    let id = issue_key(&ledger, 1, 9).await;
    let later = now() + IDEMPOTENCY_WINDOW;
    assert_eq!(ask(&ledger, id, "a", now()).await, Ok((false, 1)));
    assert_eq!(ask(&ledger, id, "a", later - TimeDelta::milliseconds(1)).await, Ok((true, 1)));
    assert_eq!(ask(&ledger, id, "a", later).await, Ok((false, 2)), "a new request");
    assert_eq!(ask(&ledger, id, "a", later + TimeDelta::minutes(1)).await, Ok((true, 2)));
    for minute in 2..=i64::from(MOST_REPEATS) {
        assert_eq!(ask(&ledger, id, "a", later + TimeDelta::minutes(minute)).await, Ok((true, 2)));
    }
    assert_eq!(ask(&ledger, id, "a", later + TimeDelta::hours(1)).await, Ok((false, 3)));
}

async fn a_request_is_known_by_a_clock_that_is_behind(ledger: Port) {
    let id = issue_key(&ledger, 1, 9).await;
    assert_eq!(ask(&ledger, id, "a", at(60)).await, Ok((false, 1)));
    assert_eq!(ask(&ledger, id, "a", at(60) - TimeDelta::milliseconds(1)).await, Ok((true, 1)));
    assert_eq!(ask(&ledger, id, "a", at(0)).await, Ok((true, 1)));
    assert_eq!(ask(&ledger, id, "a", at(61)).await, Ok((true, 1)));
}

async fn the_last_use_can_be_asked_for_again_and_a_revoked_key_cannot(ledger: Port) {
    let id = issue_key(&ledger, 1, 1).await;
    assert_eq!(ask(&ledger, id, "a", at(0)).await, Ok((false, 1)));
    assert_eq!(ask(&ledger, id, "a", at(1)).await, Ok((true, 1)));
    assert!(matches!(ask(&ledger, id, "b", at(2)).await, Err(Refusal::Exhausted { .. })));
    assert!(apply(&ledger, id, use_at(at(3))).await.is_err());
    assert_eq!(ask(&ledger, id, "a", at(4)).await, Ok((true, 1)), "used up, and answered all the same");
    assert!(apply(&ledger, id, revoke(at(5), None)).await.is_ok());
    assert!(matches!(ask(&ledger, id, "a", at(6)).await, Err(Refusal::Revoked { .. })));
    // A key that expires after the request was made.
    let id = issue(&ledger, NewKey { issued_at: now(), expires_at: at(10), ..key(2, 5) }).await.id();
    assert_eq!(ask(&ledger, id, "a", at(9)).await, Ok((false, 1)));
    assert_eq!(ask(&ledger, id, "a", at(11)).await, Ok((true, 1)));
    assert!(matches!(ask(&ledger, id, "b", at(12)).await, Err(Refusal::Expired { .. })));
}

async fn a_name_is_of_one_key_and_one_product(ledger: Port) {
    let (one, other) = (issue_key(&ledger, 1, 5).await, issue_key(&ledger, 2, 5).await);
    let fetch =
        |number| Fetch { product: product(number), at: at(1), request: RequestId::of(b"a"), rules: Rules::NONE };
    assert_eq!(ask(&ledger, one, "a", at(0)).await, Ok((false, 1)));
    assert_eq!(ask(&ledger, other, "a", at(0)).await, Ok((false, 1)), "the request of another key");
    let refused = ledger.fetch(one, fetch(2)).await.expect("answered").expect("known").expect_err("refused");
    assert_eq!((refused.refusal, refused.key.used()), (Refusal::OtherRequest, 1));
    assert_eq!(ask(&ledger, one, "a", at(2)).await, Ok((true, 1)));
    let unknown = KeyId::from_bytes([9; 16]);
    assert!(ledger.fetch(unknown, fetch(1)).await.expect("answered").is_none());
}

async fn a_request_that_is_refused_is_not_known(ledger: Port) {
    let id = issue_key(&ledger, 1, 1).await;
    let wrong = Fetch { product: product(2), at: at(0), request: RequestId::of(b"a"), rules: Rules::NONE };
    let refused = ledger.fetch(id, wrong).await.expect("answered").expect("known").expect_err("refused");
    assert!(matches!(refused.refusal, Refusal::WrongProduct { .. }));
    assert_eq!(ask(&ledger, id, "a", at(1)).await, Ok((false, 1)));
    assert_eq!(ask(&ledger, id, "a", at(2)).await, Ok((true, 1)));
}

async fn requests_that_race_count_once(ledger: Port) {
    let id = issue_key(&ledger, 1, -1).await;
    let asked = (0..16).map(|_| {
        let ledger = ledger.clone();
        async move { ask(&ledger, id, "a", at(1)).await }
    });
    let repeats: u32 = race(asked).await.into_iter().map(|asked| u32::from(asked.expect("allowed").0)).sum();
    // The first request counted, ten were repeats, and the other five counted again.
    assert_eq!((repeats, used(&ledger, id).await), (MOST_REPEATS, 6));
}

async fn requests_and_other_uses_that_race_keep_the_limit(ledger: Port) {
    let id = issue_key(&ledger, 1, 20).await;
    let asked = (0..64).map(|index| {
        let ledger = ledger.clone();
        async move {
            match index % 2 {
                // Sixteen requests, each made twice.
                0 => ask(&ledger, id, &format!("{}", index % 32), at(1)).await.is_ok_and(|(is_repeat, _)| !is_repeat),
                _ => apply(&ledger, id, use_at(at(1))).await.is_ok(),
            }
        }
    });
    let counted: u64 = race(asked).await.into_iter().map(u64::from).sum();
    assert_eq!((counted, used(&ledger, id).await), (20, 20));
    assert_eq!(ledger.history(id, None, 100).await.expect("read").items.len(), 20, "each use has its record");
}

async fn old_requests_are_pruned_and_counts_stay(ledger: Port) {
    let id = issue_key(&ledger, 1, 9).await;
    for (minute, name) in [(0, "a"), (1, "b"), (2, "c")] {
        assert!(ask(&ledger, id, name, at(minute)).await.is_ok());
    }
    let requests = ledger.office().expect("requests");
    assert_eq!(requests.prune_requests(at(2)).await.expect("pruned"), 2);
    assert_eq!(requests.prune_requests(at(2)).await.expect("pruned"), 0);
    assert_eq!(ask(&ledger, id, "c", at(3)).await, Ok((true, 3)));
    assert_eq!(ask(&ledger, id, "a", at(4)).await, Ok((false, 4)), "forgotten");
}
