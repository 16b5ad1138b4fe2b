//! Sign-ins at the desk, and buyers' requests for lost keys.

use chrono::{DateTime, TimeDelta, Utc};

use delivery_core::key::{KeyId, NewKey};
use delivery_core::ledger::{Action, MessageKind, Outcome, Recipient};
use delivery_core::order::Source;
use delivery_core::store::{AuditQuery, Ledger, LostKeys, LostScan, SignIn, SignInId, SignIns};

use super::fixtures::{Port, RACERS, alice, apply, at, edit, issue, key, revoke};
use super::{Case, cases};

cases![
    /// The promises of a store that keeps [`SignIns`](delivery_core::store::SignIns) and
    /// [`LostKeys`](delivery_core::store::LostKeys).
    PAGES: dyn Ledger, each_pages_case,
    a_session_is_found_until_it_is_ended,
    sessions_that_are_over_are_pruned,
    the_secret_of_a_platform_is_kept_replaced_and_removed,
    who_lost_keys_is_written_to_once_an_hour,
    an_unknown_address_gets_nothing_and_leaves_nothing,
    the_newest_key_that_is_not_revoked_says_whom_the_list_goes_to,
    requests_are_answered_in_order_and_so_many_at_once,
    requests_that_several_answer_are_answered_once,
];

fn sign_ins(ledger: &Port) -> &dyn SignIns {
    ledger.office().expect("sessions")
}

fn lost(ledger: &Port) -> &dyn LostKeys {
    ledger.office().expect("requests of those who lost keys")
}

fn signed_in(id: u8, expires_at: DateTime<Utc>) -> SignIn {
    SignIn { id: SignInId::from_bytes([id; 32]), actor: alice(), token: [id + 100; 32], expires_at }
}

/// Issues a key to this address.
async fn issue_to(ledger: &Port, index: u8, email: &str) -> KeyId {
    issue(ledger, NewKey { email: email.parse().expect("an address"), ..key(index, 3) }).await.id()
}

fn scan(now: DateTime<Utc>, limit: usize) -> LostScan {
    LostScan { now, limit, domain: "example.com".to_owned() }
}

async fn ask(ledger: &Port, email: &str, at: DateTime<Utc>) {
    lost(ledger).ask(&email.parse().expect("an address"), at).await.expect("kept");
}

/// Completes the e-mails that are due at this time, and returns their recipients and keys.
async fn sent(ledger: &Port, at: DateTime<Utc>) -> Vec<(String, KeyId)> {
    let due = ledger.claim_messages(at, at + TimeDelta::minutes(1), RACERS).await.expect("claimed");
    let mut facts = Vec::new();
    for message in due {
        assert_eq!(message.kind, MessageKind::Lost);
        let Recipient::Email(email) = message.recipient else { panic!("an e-mail") };
        ledger.complete_message(message.lease, Outcome::Sent { at }).await.expect("completed");
        facts.push((email.to_string(), message.key.id()));
    }
    facts
}

async fn a_session_is_found_until_it_is_ended(ledger: Port) {
    let (mine, other) = (signed_in(1, at(60)), signed_in(2, at(60)));
    for session in [&mine, &other] {
        assert_eq!(sign_ins(&ledger).signed_in(session.id).await.expect("read"), None);
        sign_ins(&ledger).sign_in(session.clone()).await.expect("kept");
    }
    assert_eq!(sign_ins(&ledger).signed_in(mine.id).await.expect("read"), Some(mine.clone()));
    sign_ins(&ledger).sign_out(mine.id).await.expect("ended");
    assert_eq!(sign_ins(&ledger).signed_in(mine.id).await.expect("read"), None);
    assert_eq!(sign_ins(&ledger).signed_in(other.id).await.expect("read"), Some(other));
    sign_ins(&ledger).sign_out(mine.id).await.expect("there is nothing to end");
}

async fn sessions_that_are_over_are_pruned(ledger: Port) {
    let (over, valid) = (signed_in(1, at(60)), signed_in(2, at(61)));
    for session in [&over, &valid] {
        sign_ins(&ledger).sign_in(session.clone()).await.expect("kept");
    }
    assert_eq!(sign_ins(&ledger).prune_sign_ins(at(60)).await.expect("pruned"), 0, "it ends then");
    assert_eq!(sign_ins(&ledger).prune_sign_ins(at(61)).await.expect("pruned"), 1);
    assert_eq!(sign_ins(&ledger).signed_in(over.id).await.expect("read"), None);
    assert_eq!(sign_ins(&ledger).signed_in(valid.id).await.expect("read"), Some(valid));
}

async fn the_secret_of_a_platform_is_kept_replaced_and_removed(ledger: Port) {
    let office = ledger.office().expect("secrets of platforms");
    let [stripe, paddle]: [Source; 2] = ["stripe", "paddle"].map(|name| name.parse().expect("a platform"));
    let all = async || {
        let mut all = office.platform_secrets().await.expect("read");
        all.sort_by(|one, other| one.source.as_str().cmp(other.source.as_str()));
        all.into_iter().map(|secret| (secret.source.to_string(), secret.sealed)).collect::<Vec<_>>()
    };
    assert!(all().await.is_empty());
    let steps = [(&stripe, Some(vec![0, 1, 255])), (&paddle, Some(vec![2])), (&stripe, Some(vec![3])), (&paddle, None)];
    for (source, sealed) in steps {
        office.set_platform_secret(source, sealed, edit()).await.expect("set");
    }
    office.set_platform_secret(&paddle, None, edit()).await.expect("there is nothing to remove");
    assert_eq!(all().await, [("stripe".to_owned(), vec![3])]);
    // A secret is replaced by its new encryption only if the stored one is still `from`. The audit log has no entry of
    // that.
    for (source, from, expected) in
        [(&stripe, vec![0, 1, 255], vec![3]), (&paddle, vec![2], vec![3]), (&stripe, vec![3], vec![4])]
    {
        office.reseal_platform_secret(source, &from, vec![4]).await.expect("resealed");
        assert_eq!(all().await, [("stripe".to_owned(), expected)]);
    }
    let query = AuditQuery { limit: 10, ..AuditQuery::default() };
    let log: Vec<Action> = office.audit(&query).await.expect("read").items.iter().map(|entry| entry.action).collect();
    let [set, removed] = [Action::PlatformSecretSet, Action::PlatformSecretRemoved];
    assert_eq!(log, [removed, set, set, set]);
}

async fn who_lost_keys_is_written_to_once_an_hour(ledger: Port) {
    let id = issue_to(&ledger, 1, "Ada@example.com").await;
    // An e-mail that a wrong clock has queued a year ahead silences nobody.
    for (minute, expected) in [(365 * 24 * 60, true), (0, true), (0, false), (59, false), (61, true), (62, false)] {
        ask(&ledger, "ADA@EXAMPLE.com", at(minute)).await;
        assert_eq!(lost(&ledger).answer_lost(scan(at(minute), 9)).await.expect("answered"), 1);
        let expected = if expected { vec![("Ada@example.com".to_owned(), id)] } else { Vec::new() };
        assert_eq!(sent(&ledger, at(minute)).await, expected, "after {minute} minutes");
    }
    assert_eq!(lost(&ledger).answer_lost(scan(at(200), 9)).await.expect("answered"), 0, "nobody asked");
}

async fn an_unknown_address_gets_nothing_and_leaves_nothing(ledger: Port) {
    issue_to(&ledger, 1, "ada@example.com").await;
    for email in ["bob@example.com", "da@example.com", "ada@example.co", "erased-1@erased.invalid"] {
        ask(&ledger, email, at(0)).await;
    }
    assert_eq!(lost(&ledger).answer_lost(scan(at(0), 9)).await.expect("answered"), 4);
    assert_eq!(sent(&ledger, at(1)).await, []);
    assert_eq!(lost(&ledger).answer_lost(scan(at(1), 9)).await.expect("answered"), 0);
}

async fn the_newest_key_that_is_not_revoked_says_whom_the_list_goes_to(ledger: Port) {
    let first = issue_to(&ledger, 1, "ada@example.com").await;
    let second = issue_to(&ledger, 2, "ADA@example.com").await;
    let third = issue_to(&ledger, 3, "Ada@example.com").await;
    for (minute, revoked, expected) in [
        (0, None, Some(("Ada@example.com", third))),
        (100, Some(third), Some(("ADA@example.com", second))),
        (200, Some(second), Some(("ada@example.com", first))),
        (300, Some(first), None),
    ] {
        if let Some(id) = revoked {
            apply(&ledger, id, revoke(at(minute), None)).await.expect("allowed");
        }
        ask(&ledger, "ada@example.com", at(minute)).await;
        assert_eq!(lost(&ledger).answer_lost(scan(at(minute), 9)).await.expect("answered"), 1);
        let expected: Vec<_> = expected.map(|(email, id)| (email.to_owned(), id)).into_iter().collect();
        assert_eq!(sent(&ledger, at(minute)).await, expected, "after {minute} minutes");
    }
}

async fn requests_are_answered_in_order_and_so_many_at_once(ledger: Port) {
    let ids = [issue_to(&ledger, 1, "a@example.com").await, issue_to(&ledger, 2, "b@example.com").await];
    for email in ["a@example.com", "nobody@example.com", "b@example.com"] {
        ask(&ledger, email, at(0)).await;
    }
    for (taken, expected) in
        [(2, vec![("a@example.com".to_owned(), ids[0])]), (1, vec![("b@example.com".to_owned(), ids[1])]), (0, vec![])]
    {
        assert_eq!(lost(&ledger).answer_lost(scan(at(0), 2)).await.expect("answered"), taken);
        assert_eq!(sent(&ledger, at(1)).await, expected);
    }
}

async fn requests_that_several_answer_are_answered_once(ledger: Port) {
    issue_to(&ledger, 1, "ada@example.com").await;
    for _ in 0..RACERS {
        ask(&ledger, "ada@example.com", at(0)).await;
    }
    let answer = |_| {
        let ledger = ledger.clone();
        tokio::spawn(async move { lost(&ledger).answer_lost(scan(at(0), 9)).await })
    };
    let mut all = 0;
    for answered in (0..RACERS / 4).map(answer).collect::<Vec<_>>() {
        all += answered.await.expect("no panic").expect("answered");
    }
    while let taken @ 1.. = lost(&ledger).answer_lost(scan(at(0), 9)).await.expect("answered") {
        all += taken;
    }
    assert_eq!(all, RACERS);
    assert_eq!(sent(&ledger, at(1)).await.len(), 1);
}
