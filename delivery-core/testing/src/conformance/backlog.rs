//! The backlog: the messages that wait, and the messages that failed.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::fixtures::{Whole, e_mail, key, now, records, use_at};
use delivery_core::key::{Actor, KeyId, NewKey};
use delivery_core::ledger::{Addressee, MessageKind, NewSale, Notice, Outcome, Resend, Route, Successor};
use delivery_core::store::Backlog;

type Port = Arc<dyn Whole>;

fn at(minutes: i64) -> DateTime<Utc> {
    now() + TimeDelta::minutes(minutes)
}

/// Issues a key with its e-mail, `index` minutes after [`now`].
async fn issue(store: &Port, index: u8) -> KeyId {
    let granted = NewKey { issued_at: at(i64::from(index)), ..key(index, 1) };
    let sale = NewSale::new(granted, e_mail(&index.to_string()));
    store.issue(sale).await.expect("issued").into_key().id()
}

pub(super) async fn the_backlog_is_what_waits_and_what_failed(store: Port) {
    let backlog = async || records(&store).backlog().await.expect("counted");
    assert_eq!(backlog().await, Backlog::default());
    let mut sold = Vec::new();
    for index in 1..=5 {
        sold.push(issue(&store, index).await);
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
    let (heir, by, messages, withdrawn) = (key(6, 1), Actor::admin(), Vec::new(), Vec::new());
    let successor = Successor { id: heir.id, secret: heir.secret, at: at(7), by, messages, withdrawn };
    store.rotate(sold[1], successor).await.expect("rotated");
    assert_eq!(backlog().await, Backlog { unanswered: 1, ..failed }, "the successor's e-mail takes its place");
    let again = Resend { email: None, at: at(8), messages: e_mail("again"), corrected: Vec::new(), by: Actor::admin() };
    store.resend(sold[2], again).await.expect("queued").expect("known").expect("not revoked");
    assert_eq!(backlog().await, Backlog { queued: 4, unanswered: 0, ..failed }, "the e-mail was sent again");
    // The failed e-mails are queued as if they were new, so they are not the oldest.
    store.retry_messages(None, at(90)).await.expect("queued");
    assert_eq!(backlog().await, Backlog { queued: 6, oldest: Some(at(4)), ..Backlog::default() });
}
