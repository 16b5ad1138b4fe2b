//! The backlog: the messages that wait, and the messages that failed.

use super::fixtures::{WholePort, apply, at, e_mail, edit, key, records, revoke, rotate, sell, successor, use_at};
use delivery_core::key::{Actor, NewKey};
use delivery_core::ledger::{Addressee, MessageKind, Notice, Outcome, Resend, Route};
use delivery_core::store::Backlog;

pub(super) async fn a_failed_e_mail_about_which_nobody_can_do_anything_is_not_unanswered(store: WholePort) {
    let mut sold = Vec::new();
    for index in 1..=4 {
        let email = format!("buyer{index}@example.com").parse().expect("an address");
        sold.push(sell(&store, NewKey { email, ..key(index, 1) }, &index.to_string()).await);
    }
    let reminder = Notice { kind: MessageKind::Expiring, ..e_mail("reminder").remove(0) };
    store.change(sold[3], use_at(at(1)), vec![reminder]).await.expect("changed").expect("known").expect("granted");
    for (index, message) in store.claim_messages(at(5), at(15), 9).await.expect("claimed").iter().enumerate() {
        let failed = Outcome::Fail { at: at(6), reason: "no".to_owned(), route: Route::from_bytes([1; 16]) };
        let outcome = if index == 3 { Outcome::Sent { at: at(6) } } else { failed };
        store.complete_message(message.lease, outcome).await.expect("completed");
    }
    let backlog = async || records(&store).backlog().await.expect("counted");
    let failed = Backlog { failed: 4, unanswered: 3, ..Backlog::default() };
    assert_eq!(backlog().await, failed, "the buyer who is not reminded has a key");
    apply(&store, sold[0], revoke(at(7), None)).await.expect("allowed");
    assert_eq!(backlog().await, Backlog { unanswered: 2, ..failed }, "a revoked key is not sent");
    let (buyer, pseudonym) =
        ["buyer2@example.com", "erased-1@erased.invalid"].map(|it| it.parse().expect("an address")).into();
    records(&store).erase(&buyer, &pseudonym, edit()).await.expect("erased");
    assert_eq!(backlog().await.unanswered, 1, "an erased buyer gets nothing");
}

pub(super) async fn the_backlog_is_what_waits_and_what_failed(store: WholePort) {
    let backlog = async || records(&store).backlog().await.expect("counted");
    assert_eq!(backlog().await, Backlog::default());
    let mut sold = Vec::new();
    for index in 1..=5 {
        let granted = NewKey { issued_at: at(index.into()), ..key(index, 1) };
        sold.push(sell(&store, granted, &index.to_string()).await);
    }
    let all = Backlog { queued: 5, oldest: Some(at(1)), ..Backlog::default() };
    assert_eq!(backlog().await, all);
    let leased = store.claim_messages(at(5), at(15), 4).await.expect("claimed");
    assert_eq!(backlog().await, all, "what is being sent waits");
    let route = Route::from_bytes([1; 16]);
    let reason = || "no such mailbox".to_owned();
    let outcomes = [
        Outcome::Sent { at: at(6) },
        Outcome::Fail { at: at(6), reason: reason(), route },
        Outcome::Fail { at: at(6), reason: reason(), route },
        Outcome::Retry { due: at(60), reason: reason(), route: Some(route) },
    ];
    for (message, outcome) in leased.iter().zip(outcomes) {
        store.complete_message(message.lease, outcome).await.expect("completed");
    }
    let failed = Backlog { queued: 2, oldest: Some(at(4)), failed: 2, unanswered: 2, needs_attention: 0 };
    assert_eq!(backlog().await, failed);
    let id = "told@example.com".parse().expect("an id");
    let to = Addressee::Webhook("crm".parse().expect("a name"));
    let told = Notice { id, kind: MessageKind::KeyChanged, to };
    store.change(sold[2], use_at(at(7)), vec![told]).await.expect("changed").expect("known").expect("granted");
    let failed = Backlog { queued: 3, ..failed };
    assert_eq!(backlog().await, failed, "a webhook does not deliver the key");
    rotate(&store, sold[1], successor(key(6, 1).id, at(7), Actor::admin())).await;
    assert_eq!(backlog().await, Backlog { unanswered: 1, ..failed }, "the successor's e-mail takes its place");
    let again = Resend { email: None, at: at(8), messages: e_mail("again"), corrected: Vec::new(), by: Actor::admin() };
    store.resend(sold[2], again).await.expect("queued").expect("known").expect("not revoked");
    assert_eq!(backlog().await, Backlog { queued: 4, unanswered: 0, ..failed }, "the e-mail was sent again");
    // The failed e-mails are queued as if they were new, so they are not the oldest.
    store.retry_messages(None, at(90)).await.expect("queued");
    assert_eq!(backlog().await, Backlog { queued: 6, oldest: Some(at(4)), ..Backlog::default() });
}
