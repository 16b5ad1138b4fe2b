//! Shared set-up for the cases about events: a shop on a platform, its reports of sales and refunds, and queries of
//! what the store keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::TimeDelta;
use tokio::task::JoinSet;

use super::fixtures::{Port, at, key, now};
use delivery_core::key::{Key, KeyId, NewKey};
use delivery_core::ledger::{
    Bought, ChargeRef, Charged, EventId, EventOutcome, Handling, InboundEvent, InboxEvent, Links, MessageId, NewSale,
    Notice, Offer, Received, Refund, Report,
};
use delivery_core::order::{OrderId, OrderRef, Source};
use delivery_core::store::{Inbox, InboxQuery, KeyQuery};

pub(super) fn shop() -> Source {
    "stripe".parse().expect("a platform")
}

pub(super) fn name(text: &str) -> OrderId {
    text.parse().expect("a reference")
}

pub(super) fn inbox_event(event: &str) -> InboxEvent {
    InboxEvent {
        number: 0,
        id: EventId { source: shop(), name: event.parse().expect("a name") },
        kind: "orders/paid".to_owned(),
        order: Some(name("A")),
        body: Some("{\"ä\":\"\\u0000'\"}".to_owned()),
        received_at: now(),
        outcome: None,
        reason: None,
        keys: Vec::new(),
        due_at: Some(now() + TimeDelta::seconds(15)),
        attempts: 0,
        version: 0,
    }
}

pub(super) fn inbound(event: &str, step: Option<Handling>) -> InboundEvent {
    let notices = Arc::new(|_| Ok(Vec::new()));
    InboundEvent { event: inbox_event(event), step, at: now(), grace: TimeDelta::days(3), notices, by: None }
}

/// Returns an event that waits for this reason.
pub(super) fn waits(event: &str, reason: &str) -> InboundEvent {
    inbound(event, Some(Handling::Wait(reason.to_owned())))
}

/// Returns an event that reports this.
pub(super) fn reported(event: &str, report: Report) -> InboundEvent {
    inbound(event, Some(Handling::Apply(vec![report])))
}

pub(super) async fn receive(ledger: &Port, inbound: InboundEvent) -> Received {
    ledger.receive(inbound).await.expect("received")
}

/// Receives events, each in a task of its own.
pub(super) async fn receive_at_once(ledger: &Port, events: impl IntoIterator<Item = InboundEvent>) -> Vec<Received> {
    let mut racing = JoinSet::new();
    for event in events {
        let ledger = ledger.clone();
        racing.spawn(async move { receive(&ledger, event).await });
    }
    racing.join_all().await
}

pub(super) fn inbox(ledger: &Port) -> &dyn Inbox {
    ledger.office().expect("an inbox")
}

pub(super) async fn keys(ledger: &Port) -> Vec<Key> {
    ledger.search(&KeyQuery { limit: 100, ..KeyQuery::default() }).await.expect("found").items
}

pub(super) async fn messages(ledger: &Port) -> usize {
    ledger.claim_messages(at(60), at(120), 100).await.expect("claimed").len()
}

pub(super) async fn all(ledger: &Port, outcome: Option<EventOutcome>) -> Vec<InboxEvent> {
    let query = InboxQuery { outcome, limit: 1000, ..InboxQuery::default() };
    inbox(ledger).events(&query).await.expect("listed").items
}

pub(super) fn paid(event: &str, order: &str, links: Links) -> InboundEvent {
    reported(event, Report::Charged(charged(order, links)))
}

/// Returns a charge for one piece of the first product, for no particular period.
pub(super) fn charged(order: &str, links: Links) -> Charged {
    let reference = OrderRef { source: shop(), id: name(order) };
    let sold = NewKey { id: another(), order: Some(reference), ..key(1, 3) };
    let id = MessageId::new(format!("{}@shop.example", sold.id)).expect("an id");
    let sale = NewSale::new(sold, vec![Notice::purchase(id)]);
    let product = sale.key.product;
    let line = Bought { names: vec!["plink_1".to_owned()], product: Some(product), ..Bought::new("#0", 1) };
    let offer = Offer { product, pieces: 1, sale };
    Charged { links, lines: vec![line], offers: vec![offer], ..Charged::new(name(order), now()) }
}

/// Returns a new id each time, because each offer is a key of its own, as in a real service.
pub(super) fn another() -> KeyId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    KeyId::from_bytes(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
}

pub(super) fn refunded(event: &str, of: ChargeRef) -> InboundEvent {
    reported(event, Report::Refunded(Refund::full(of)))
}
