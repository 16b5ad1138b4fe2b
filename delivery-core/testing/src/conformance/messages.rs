//! The outbox of e-mails.

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::JoinSet;

use super::fixtures::{Port, at, e_mail, issue, key, now, revoke, sell, use_at};
use delivery_core::key::{Actor, Change};
use delivery_core::ledger::{
    Addressee, Edit, Lease, LeasedMessage, MessageId, MessageKind, Notice, Outcome, Recipient, Route,
};
use delivery_core::store::MAX_RETRY_DELAY;

/// Queues e-mails for keys issued a second apart.
async fn queue(ledger: &Port, count: u8) {
    for index in 1..=count {
        sell(ledger, key(index, 1), &format!("m{index}")).await;
    }
}

/// Leases messages for five minutes.
async fn claim(ledger: &Port, now: DateTime<Utc>, limit: usize) -> Vec<LeasedMessage> {
    ledger.claim_messages(now, now + TimeDelta::minutes(5), limit).await.expect("claimed")
}

async fn claim_one(ledger: &Port, now: DateTime<Utc>) -> LeasedMessage {
    let mut messages = claim(ledger, now, 10).await;
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}

fn route(number: u8) -> Route {
    Route::from_bytes([number; 16])
}

/// The mail server asked for another attempt, at this time.
fn retry(due: DateTime<Utc>) -> Outcome {
    Outcome::Retry { due, reason: "busy".to_owned(), route: Some(route(1)) }
}

/// The mail server refused the e-mail for good.
fn fail(at: DateTime<Utc>) -> Outcome {
    Outcome::Fail { at, reason: "no such user".to_owned(), route: route(1) }
}

async fn complete(ledger: &Port, lease: Lease, outcome: Outcome) {
    ledger.complete_message(lease, outcome).await.expect("completed");
}

pub(super) async fn messages_come_oldest_first_and_no_more_than_asked_for(ledger: Port) {
    assert!(claim(&ledger, at(1), 10).await.is_empty());
    queue(&ledger, 5).await;
    assert!(claim(&ledger, now(), 10).await.is_empty(), "none is due before its time");
    let names =
        |messages: &[LeasedMessage]| messages.iter().map(|l| l.message_id.as_str().to_owned()).collect::<Vec<_>>();
    let first = claim(&ledger, at(1), 2).await;
    assert_eq!(names(&first), ["m1@example.com", "m2@example.com"]);
    let rest = claim(&ledger, at(1), 10).await;
    assert_eq!(names(&rest), ["m3@example.com", "m4@example.com", "m5@example.com"]);
    let message = first.first().expect("claimed");
    assert_eq!((message.key.id(), message.attempt, message.queued_at), (key(1, 1).id, 1, key(1, 1).issued_at));
}

pub(super) async fn messages_come_by_the_time_at_which_they_are_due(ledger: Port) {
    queue(&ledger, 3).await;
    for (message, due) in claim(&ledger, at(1), 10).await.into_iter().zip([15, 20, 10]) {
        complete(&ledger, message.lease, Outcome::Postpone { due: at(due), reason: String::new() }).await;
    }
    let claimed = claim(&ledger, at(30), 2).await;
    let names: Vec<_> = claimed.iter().map(|message| message.message_id.as_str()).collect();
    assert_eq!(names, ["m3@example.com", "m1@example.com"]);
}

pub(super) async fn a_change_queues_its_messages_with_it_and_a_refused_one_queues_none(ledger: Port) {
    let id = issue(&ledger, key(1, 1)).await.id();
    let hook = |name: &str, kind| {
        let id = MessageId::new(format!("{name}@example.com")).expect("an id");
        vec![Notice { id, kind, to: Addressee::Webhook("crm".parse().expect("a name")) }]
    };
    let restore = Change::Restore { at: at(2), by: Actor::admin() };
    let mut used = e_mail("used");
    used.extend(hook("hook", MessageKind::KeyChanged));
    let steps = [
        (use_at(at(1)), used),
        (use_at(at(1)), e_mail("refused")),
        (restore.clone(), e_mail("nothing-to-restore")),
        (revoke(at(2), None), hook("revoked", MessageKind::KeyRevoked)),
        (revoke(at(2), None), hook("again", MessageKind::KeyRevoked)),
        (restore, hook("restored", MessageKind::KeyRestored)),
    ];
    for (change, messages) in steps {
        ledger.change(id, change, messages).await.expect("answered").expect("known").ok();
    }
    assert!(claim(&ledger, now(), 10).await.is_empty(), "none is due before its time");
    let claimed = claim(&ledger, at(3), 10).await;
    let told: Vec<_> = claimed.iter().map(|it| (it.message_id.as_str(), it.kind, it.recipient.to_string())).collect();
    let (webhook, buyer) = ("webhook:crm".to_owned(), key(1, 1).email.as_str().to_owned());
    let expected = [
        ("used@example.com", MessageKind::Purchase, buyer),
        ("hook@example.com", MessageKind::KeyChanged, webhook.clone()),
        ("revoked@example.com", MessageKind::KeyRevoked, webhook.clone()),
        ("restored@example.com", MessageKind::KeyRestored, webhook),
    ];
    assert_eq!(told, expected);
    assert!(claimed.iter().all(|message| message.key.id() == id));
    let hook = claimed.get(1).expect("claimed");
    complete(&ledger, hook.lease, fail(at(4))).await;
    let failed = ledger.failed_messages(10).await.expect("read");
    let failed: Vec<_> = failed.iter().map(|failed| (failed.kind, failed.recipient.clone())).collect();
    assert_eq!(failed, [(MessageKind::KeyChanged, Recipient::Webhook("crm".parse().expect("a name")))]);
}

pub(super) async fn a_message_is_claimed_by_one_of_many(ledger: Port) {
    queue(&ledger, 20).await;
    let mut workers = JoinSet::new();
    for _ in 0..20 {
        let ledger = ledger.clone();
        workers.spawn(async move { claim(&ledger, at(1), 3).await });
    }
    let mut claimed: Vec<_> = workers.join_all().await.into_iter().flatten().map(|l| l.lease.message).collect();
    claimed.sort_unstable();
    let all = claimed.len();
    claimed.dedup();
    assert_eq!((claimed.len(), all), (20, 20));
}

pub(super) async fn a_claimed_message_is_leased_until_its_time_is_over(ledger: Port) {
    queue(&ledger, 1).await;
    let first = claim_one(&ledger, at(1)).await;
    assert!(claim(&ledger, at(5), 10).await.is_empty());
    let second = claim_one(&ledger, at(6)).await;
    assert_eq!((second.attempt, &second.message_id), (2, &first.message_id));
}

pub(super) async fn a_sent_message_is_never_due_again(ledger: Port) {
    queue(&ledger, 1).await;
    let message = claim_one(&ledger, at(1)).await;
    complete(&ledger, message.lease, Outcome::Sent { at: at(1) }).await;
    assert!(claim(&ledger, at(60 * 24 * 365), 10).await.is_empty());
    assert!(ledger.failed_messages(10).await.expect("read").is_empty());
}

pub(super) async fn a_retried_message_is_due_at_its_time_with_its_attempts_counted(ledger: Port) {
    queue(&ledger, 1).await;
    for attempt in 1..=3 {
        let start = i64::from(attempt) * 10;
        let message = claim_one(&ledger, at(start)).await;
        assert_eq!((message.attempt, message.queued_at), (attempt, key(1, 1).issued_at));
        complete(&ledger, message.lease, retry(at(start + 9))).await;
        assert!(claim(&ledger, at(start + 8), 10).await.is_empty());
    }
}

pub(super) async fn a_released_message_is_due_at_once_and_its_attempt_not_counted(ledger: Port) {
    queue(&ledger, 1).await;
    for _ in 0..3 {
        let message = claim_one(&ledger, at(1)).await;
        assert_eq!(message.attempt, 1);
        complete(&ledger, message.lease, Outcome::Release).await;
    }
}

pub(super) async fn a_postponed_message_is_due_at_its_time_and_its_attempt_not_counted(ledger: Port) {
    queue(&ledger, 1).await;
    for round in 1..=3 {
        let message = claim_one(&ledger, at(round * 10)).await;
        assert_eq!(message.attempt, 1);
        let postpone = Outcome::Postpone { due: at(round * 10 + 9), reason: "not now".to_owned() };
        complete(&ledger, message.lease, postpone).await;
        assert!(claim(&ledger, at(round * 10 + 8), 10).await.is_empty());
    }
}

pub(super) async fn a_lease_settles_once_and_only_with_the_newest_lease(ledger: Port) {
    queue(&ledger, 1).await;
    let first = claim_one(&ledger, at(1)).await;
    let second = claim_one(&ledger, at(10)).await;
    complete(&ledger, first.lease, Outcome::Sent { at: at(10) }).await;
    assert_eq!(claim(&ledger, at(20), 10).await.len(), 1, "an old lease completes nothing");
    complete(&ledger, second.lease, Outcome::Sent { at: at(10) }).await;
    let third = claim_one(&ledger, at(30)).await;
    complete(&ledger, third.lease, retry(at(40))).await;
    complete(&ledger, third.lease, Outcome::Sent { at: at(30) }).await;
    assert_eq!(claim(&ledger, at(40), 10).await.len(), 1, "a completed lease is over");
}

pub(super) async fn a_failed_message_waits_for_the_seller(ledger: Port) {
    queue(&ledger, 2).await;
    let message = claim(&ledger, at(1), 1).await.remove(0);
    complete(&ledger, message.lease, fail(at(2))).await;
    assert_eq!(claim(&ledger, at(60), 10).await.len(), 1, "only the other e-mail is due");
    let failed = ledger.failed_messages(10).await.expect("read").remove(0);
    assert_eq!((failed.message, failed.attempts, failed.failed_at), (message.lease.message, 1, at(2)));
    assert_eq!((failed.reason.as_str(), failed.key.id()), ("no such user", key(1, 1).id));
    assert!(ledger.retry_message(failed.message, Edit::new(Actor::admin(), at(61))).await.expect("retried"));
    let again = ledger.retry_message(failed.message, Edit::new(Actor::admin(), at(61))).await.expect("answered");
    assert!(!again, "it is not failed any more");
    let again = claim(&ledger, at(61), 10).await.remove(0);
    assert_eq!((again.attempt, again.message_id), (1, message.message_id));
    assert_eq!(again.queued_at, at(61), "as if it were queued now");
    assert!(ledger.failed_messages(10).await.expect("read").is_empty());
}

pub(super) async fn failed_messages_are_in_the_order_in_which_they_failed(ledger: Port) {
    queue(&ledger, 3).await;
    let mut claimed = claim(&ledger, at(1), 10).await;
    claimed.rotate_left(1);
    let expected: Vec<_> = claimed.iter().map(|message| message.lease.message).collect();
    // The order is that of the failure times, although the clock was set back after the first failure.
    claimed.rotate_right(1);
    for (message, minute) in claimed.into_iter().zip([9, 2, 3]) {
        complete(&ledger, message.lease, fail(at(minute))).await;
    }
    let failed = ledger.failed_messages(10).await.expect("read");
    assert_eq!(failed.iter().map(|failed| failed.message).collect::<Vec<_>>(), expected);
    let first = ledger.failed_messages(1).await.expect("read").pop();
    assert_eq!(first.map(|failed| failed.message), expected.first().copied());
}

pub(super) async fn messages_that_failed_by_another_way_are_due_again(ledger: Port) {
    queue(&ledger, 3).await;
    for (message, way) in claim(&ledger, at(1), 3).await.into_iter().zip([1, 1, 2]) {
        let fail = Outcome::Fail { at: at(2), reason: "refused".to_owned(), route: route(way) };
        complete(&ledger, message.lease, fail).await;
    }
    assert_eq!(ledger.retry_messages(Some(route(1)), at(3)).await.expect("retried"), 1);
    assert_eq!(claim_one(&ledger, at(3)).await.attempt, 1, "as if it were new");
    let again = ledger.retry_messages(Some(route(1)), at(3)).await.expect("retried");
    assert_eq!(again, 0, "one is leased, and the others failed by this way");
    assert_eq!(ledger.retry_messages(None, at(3)).await.expect("retried"), 2, "whatever the way");
    assert_eq!(ledger.retry_messages(None, at(3)).await.expect("retried"), 0, "they have no way that they failed by");
    let messages = claim(&ledger, at(3), 10).await;
    assert_eq!(messages.len(), 2);
    // An e-mail that waits for its next attempt becomes due at once, and keeps its number of attempts.
    for message in messages {
        complete(&ledger, message.lease, retry(at(600))).await;
    }
    assert_eq!(ledger.retry_messages(Some(route(1)), at(4)).await.expect("answered"), 0, "they failed by this way");
    assert_eq!(ledger.retry_messages(Some(route(2)), at(4)).await.expect("made due"), 2);
    assert_eq!(ledger.retry_messages(Some(route(2)), at(4)).await.expect("answered"), 0, "they are due already");
    let messages = claim(&ledger, at(4), 10).await;
    assert_eq!(messages.iter().map(|message| message.attempt).collect::<Vec<_>>(), [2, 2]);
    // An e-mail that a mail server may have accepted keeps waiting. So does a postponed one, which is due soon anyway.
    let ends = [
        Outcome::Retry { due: at(600), reason: "no reply".to_owned(), route: None },
        Outcome::Postpone { due: at(60), reason: "away".to_owned() },
    ];
    for (message, end) in messages.into_iter().zip(ends) {
        complete(&ledger, message.lease, end).await;
    }
    for route in [None, Some(route(3))] {
        let retried = ledger.retry_messages(route, at(5)).await.expect("answered");
        assert_eq!(retried, 0, "neither has a way that it failed by");
    }
    assert!(claim(&ledger, at(5), 10).await.is_empty());
}

pub(super) async fn a_lease_is_renewed_as_long_as_it_is_held(ledger: Port) {
    queue(&ledger, 2).await;
    let messages = claim(&ledger, at(1), 10).await;
    let [first, second] = messages.as_slice() else { panic!("two e-mails") };
    ledger.renew_leases(&[first.lease], at(10)).await.expect("renewed");
    let other = claim_one(&ledger, at(7)).await;
    assert_eq!(other.message_id, second.message_id, "its lease is over");
    // Neither a lost lease nor a completed one can be renewed.
    ledger.renew_leases(&[second.lease], at(60)).await.expect("answered");
    complete(&ledger, first.lease, retry(at(8))).await;
    ledger.renew_leases(&[first.lease], at(60)).await.expect("answered");
    assert_eq!(claim_one(&ledger, at(8)).await.message_id, first.message_id);
    assert_eq!(claim_one(&ledger, at(12)).await.message_id, second.message_id);
}

/// A time far in the future may come from a server whose clock was a year ahead, or from a manual change in the
/// database.
pub(super) async fn a_time_that_no_clock_should_have_written_delays_no_message(ledger: Port) {
    let year = TimeDelta::days(365);
    // Queued a year ahead.
    let mut late = key(1, 1);
    late.issued_at += year;
    sell(&ledger, late, "late").await;
    let message = claim_one(&ledger, at(1)).await;
    assert_eq!(message.queued_at, at(1), "it counts as queued now");
    // Due a year ahead, and then exactly `MAX_RETRY_DELAY` ahead, which is the latest plausible time.
    complete(&ledger, message.lease, retry(at(1) + year)).await;
    let message = claim_one(&ledger, at(2)).await;
    complete(&ledger, message.lease, retry(at(2) + MAX_RETRY_DELAY)).await;
    assert!(claim(&ledger, at(3), 10).await.is_empty());
    // Leased for a year.
    let due = at(2) + MAX_RETRY_DELAY;
    let leased = ledger.claim_messages(due, due + year, 10).await.expect("claimed");
    assert_eq!(leased.len(), 1);
    claim_one(&ledger, due + TimeDelta::minutes(1)).await;
}
