//! The queue of letters.

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::JoinSet;

use super::ledger::{Port, key, message_id, now};
use crate::store::{FARTHEST, Letter, Outcome, Receipt, Route};

fn at(minutes: i64) -> DateTime<Utc> {
    now() + TimeDelta::minutes(minutes)
}

/// Queues letters for keys issued a second apart.
async fn queue(ledger: &Port, count: u8) {
    for index in 1..=count {
        ledger.issue(key(index, 1), Some(message_id(&format!("m{index}")))).await.expect("issued");
    }
}

/// Leases for five minutes.
async fn claim(ledger: &Port, now: DateTime<Utc>, limit: usize) -> Vec<Letter> {
    ledger.claim_letters(now, now + TimeDelta::minutes(5), limit).await.expect("claimed")
}

async fn claim_one(ledger: &Port, now: DateTime<Utc>) -> Letter {
    let mut letters = claim(ledger, now, 10).await;
    assert_eq!(letters.len(), 1);
    letters.remove(0)
}

fn route(number: u8) -> Route {
    Route::from_bytes([number; 16])
}

async fn settle(ledger: &Port, receipt: Receipt, outcome: Outcome) {
    ledger.settle_letter(receipt, outcome).await.expect("settled");
}

pub(super) async fn letters_come_oldest_first_and_no_more_than_asked_for(ledger: Port) {
    assert!(claim(&ledger, at(1), 10).await.is_empty());
    queue(&ledger, 5).await;
    assert!(claim(&ledger, now(), 10).await.is_empty(), "none is due before its time");
    let names = |letters: &[Letter]| letters.iter().map(|l| l.message_id.as_str().to_owned()).collect::<Vec<_>>();
    let first = claim(&ledger, at(1), 2).await;
    assert_eq!(names(&first), ["m1@example.com", "m2@example.com"]);
    let rest = claim(&ledger, at(1), 10).await;
    assert_eq!(names(&rest), ["m3@example.com", "m4@example.com", "m5@example.com"]);
    let letter = first.first().expect("claimed");
    assert_eq!((letter.key.id(), letter.attempt, letter.queued_at), (key(1, 1).id, 1, key(1, 1).issued_at));
}

pub(super) async fn a_letter_is_claimed_by_one_of_many(ledger: Port) {
    queue(&ledger, 20).await;
    let mut workers = JoinSet::new();
    for _ in 0..20 {
        let ledger = ledger.clone();
        workers.spawn(async move { claim(&ledger, at(1), 3).await });
    }
    let mut claimed: Vec<_> = workers.join_all().await.into_iter().flatten().map(|l| l.receipt.letter).collect();
    claimed.sort_unstable();
    let all = claimed.len();
    claimed.dedup();
    assert_eq!((claimed.len(), all), (20, 20));
}

pub(super) async fn a_claimed_letter_is_leased_until_its_time_is_over(ledger: Port) {
    queue(&ledger, 1).await;
    let first = claim_one(&ledger, at(1)).await;
    assert!(claim(&ledger, at(5), 10).await.is_empty());
    let second = claim_one(&ledger, at(6)).await;
    assert_eq!((second.attempt, &second.message_id), (2, &first.message_id));
}

pub(super) async fn a_sent_letter_is_never_due_again(ledger: Port) {
    queue(&ledger, 1).await;
    let letter = claim_one(&ledger, at(1)).await;
    settle(&ledger, letter.receipt, Outcome::Sent { at: at(1) }).await;
    assert!(claim(&ledger, at(60 * 24 * 365), 10).await.is_empty());
    assert!(ledger.parked_letters(10).await.expect("read").is_empty());
}

pub(super) async fn a_retried_letter_is_due_at_its_time_with_its_attempts_counted(ledger: Port) {
    queue(&ledger, 1).await;
    for attempt in 1..=3 {
        let start = i64::from(attempt) * 10;
        let letter = claim_one(&ledger, at(start)).await;
        assert_eq!((letter.attempt, letter.queued_at), (attempt, key(1, 1).issued_at));
        let retry = Outcome::Retry { due: at(start + 9), reason: "busy".to_owned(), route: Some(route(1)) };
        settle(&ledger, letter.receipt, retry).await;
        assert!(claim(&ledger, at(start + 8), 10).await.is_empty());
    }
}

pub(super) async fn a_released_letter_is_due_at_once_and_its_attempt_not_counted(ledger: Port) {
    queue(&ledger, 1).await;
    for _ in 0..3 {
        let letter = claim_one(&ledger, at(1)).await;
        assert_eq!(letter.attempt, 1);
        settle(&ledger, letter.receipt, Outcome::Release).await;
    }
}

pub(super) async fn a_postponed_letter_is_due_at_its_time_and_its_attempt_not_counted(ledger: Port) {
    queue(&ledger, 1).await;
    for round in 1..=3 {
        let letter = claim_one(&ledger, at(round * 10)).await;
        assert_eq!(letter.attempt, 1);
        let postpone = Outcome::Postpone { due: at(round * 10 + 9), reason: "not now".to_owned() };
        settle(&ledger, letter.receipt, postpone).await;
        assert!(claim(&ledger, at(round * 10 + 8), 10).await.is_empty());
    }
}

pub(super) async fn a_receipt_settles_once_and_only_with_the_newest_lease(ledger: Port) {
    queue(&ledger, 1).await;
    let first = claim_one(&ledger, at(1)).await;
    let second = claim_one(&ledger, at(10)).await;
    settle(&ledger, first.receipt, Outcome::Sent { at: at(10) }).await;
    assert_eq!(claim(&ledger, at(20), 10).await.len(), 1, "an old receipt settles nothing");
    settle(&ledger, second.receipt, Outcome::Sent { at: at(10) }).await;
    let third = claim_one(&ledger, at(30)).await;
    settle(&ledger, third.receipt, Outcome::Retry { due: at(40), reason: String::new(), route: Some(route(1)) }).await;
    settle(&ledger, third.receipt, Outcome::Sent { at: at(30) }).await;
    assert_eq!(claim(&ledger, at(40), 10).await.len(), 1, "a settled lease is over");
}

pub(super) async fn a_parked_letter_waits_for_the_seller(ledger: Port) {
    queue(&ledger, 2).await;
    let letter = claim(&ledger, at(1), 1).await.remove(0);
    settle(&ledger, letter.receipt, Outcome::Park { at: at(2), reason: "no such user".to_owned(), route: route(1) })
        .await;
    assert_eq!(claim(&ledger, at(60), 10).await.len(), 1, "only the other letter is due");
    let parked = ledger.parked_letters(10).await.expect("read").remove(0);
    assert_eq!((parked.letter, parked.attempts, parked.parked_at), (letter.receipt.letter, 1, at(2)));
    assert_eq!((parked.reason.as_str(), parked.key.id()), ("no such user", key(1, 1).id));
    assert!(ledger.unpark_letter(parked.letter, at(61)).await.expect("unparked"));
    assert!(!ledger.unpark_letter(parked.letter, at(61)).await.expect("answered"), "it is not parked any more");
    let again = claim(&ledger, at(61), 10).await.remove(0);
    assert_eq!((again.attempt, again.message_id), (1, letter.message_id));
    assert!(ledger.parked_letters(10).await.expect("read").is_empty());
}

pub(super) async fn letters_that_failed_by_another_way_are_due_again(ledger: Port) {
    queue(&ledger, 3).await;
    for (letter, way) in claim(&ledger, at(1), 3).await.into_iter().zip([1, 1, 2]) {
        let park = Outcome::Park { at: at(2), reason: "refused".to_owned(), route: route(way) };
        settle(&ledger, letter.receipt, park).await;
    }
    assert_eq!(ledger.unpark_letters(Some(route(1)), at(3)).await.expect("unparked"), 1);
    assert_eq!(claim_one(&ledger, at(3)).await.attempt, 1, "as if it were new");
    assert_eq!(ledger.unpark_letters(Some(route(1)), at(3)).await.expect("unparked"), 0);
    assert_eq!(ledger.unpark_letters(None, at(3)).await.expect("unparked"), 2, "whatever the way");
    let letters = claim(&ledger, at(3), 10).await;
    assert_eq!(letters.len(), 2);
    // One that still waits need wait no longer; its attempts count.
    for letter in letters {
        let retry = Outcome::Retry { due: at(600), reason: "refused".to_owned(), route: Some(route(1)) };
        settle(&ledger, letter.receipt, retry).await;
    }
    assert_eq!(ledger.unpark_letters(Some(route(1)), at(4)).await.expect("answered"), 0);
    assert_eq!(ledger.unpark_letters(Some(route(2)), at(4)).await.expect("hastened"), 2);
    let letters = claim(&ledger, at(4), 10).await;
    assert_eq!(letters.iter().map(|letter| letter.attempt).collect::<Vec<_>>(), [2, 2]);
    // One that a mail server may have taken waits, and one that was not tried is due soon anyway.
    let ends = [
        Outcome::Retry { due: at(600), reason: "no reply".to_owned(), route: None },
        Outcome::Postpone { due: at(60), reason: "away".to_owned() },
    ];
    for (letter, end) in letters.into_iter().zip(ends) {
        settle(&ledger, letter.receipt, end).await;
    }
    for route in [None, Some(route(3))] {
        assert_eq!(ledger.unpark_letters(route, at(5)).await.expect("answered"), 0);
    }
    assert!(claim(&ledger, at(5), 10).await.is_empty());
}

pub(super) async fn a_lease_is_renewed_as_long_as_it_is_held(ledger: Port) {
    queue(&ledger, 2).await;
    let letters = claim(&ledger, at(1), 10).await;
    let [first, second] = letters.as_slice() else { panic!("two letters") };
    ledger.renew_letters(&[first.receipt], at(10)).await.expect("renewed");
    let other = claim_one(&ledger, at(7)).await;
    assert_eq!(other.message_id, second.message_id, "its lease is over");
    // Whoever lost a lease renews nothing, and neither does one who has settled.
    ledger.renew_letters(&[second.receipt], at(60)).await.expect("answered");
    settle(&ledger, first.receipt, Outcome::Retry { due: at(8), reason: "busy".to_owned(), route: Some(route(1)) })
        .await;
    ledger.renew_letters(&[first.receipt], at(60)).await.expect("answered");
    assert_eq!(claim_one(&ledger, at(8)).await.message_id, first.message_id);
    assert_eq!(claim_one(&ledger, at(12)).await.message_id, second.message_id);
}

/// Whatever wrote it: a server whose clock was a year ahead, or the host's own hand.
pub(super) async fn a_time_that_no_clock_should_have_written_delays_no_letter(ledger: Port) {
    let year = TimeDelta::days(365);
    // Queued a year ahead.
    let mut late = key(1, 1);
    late.issued_at += year;
    ledger.issue(late, Some(message_id("late"))).await.expect("issued");
    let letter = claim_one(&ledger, at(1)).await;
    assert_eq!(letter.queued_at, at(1), "it counts as queued now");
    // Due a year ahead, and at the farthest that is believed.
    settle(
        &ledger,
        letter.receipt,
        Outcome::Retry { due: at(1) + year, reason: "busy".to_owned(), route: Some(route(1)) },
    )
    .await;
    let letter = claim_one(&ledger, at(2)).await;
    settle(
        &ledger,
        letter.receipt,
        Outcome::Retry { due: at(2) + FARTHEST, reason: "busy".to_owned(), route: Some(route(1)) },
    )
    .await;
    assert!(claim(&ledger, at(3), 10).await.is_empty());
    // Leased for a year.
    let due = at(2) + FARTHEST;
    let leased = ledger.claim_letters(due, due + year, 10).await.expect("claimed");
    assert_eq!(leased.len(), 1);
    assert_eq!(
        ledger
            .claim_letters(due + TimeDelta::minutes(1), due + TimeDelta::minutes(2), 10)
            .await
            .expect("claimed")
            .len(),
        1
    );
}
