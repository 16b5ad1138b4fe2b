//! Events of a platform that a store has received: sold, refunded, waiting for the seller, and an address.

use std::fmt::Debug;
use std::sync::Arc;

use chrono::TimeDelta;
use delivery_core::key::{KeyId, NewKey, Rules};
use delivery_core::ledger::{
    Amount, Bought, ChargeRef, Charged, Customer, EventId, Fetch, Handling, InboundEvent, InboxEvent, Links, NewSale,
    Offer, Refund, Report, RequestId,
};
use delivery_core::order::{OrderId, OrderRef, Source};
use delivery_core::store::{Backend, Inbox, InboxQuery, Ledger};

use super::sold::{KEYS, id, message, order};
use crate::fixtures::{by_admin, now};

/// Sales, each with a reference of its order and of its payment.
pub const SALES: u64 = 60;
/// Of them, refunded.
const REFUNDS: u64 = 10;
const WAITING: u64 = 5;

/// How many rows of the inbox, deals, references and customers there are.
pub const ROWS: [(&str, u64); 8] = [
    ("events of platforms", SALES + REFUNDS + WAITING + 1),
    ("deals", SALES),
    ("payments", SALES),
    ("references", 2 * SALES),
    ("customers", 1),
    ("secrets of platforms", 1),
    ("dismissed products", 1),
    ("requests", 1),
];

fn shop() -> Source {
    "paddle".parse().unwrap()
}

fn name(text: &str) -> OrderId {
    text.parse().unwrap()
}

fn inbound(event: &str, step: Handling) -> InboundEvent {
    let event = InboxEvent {
        number: 0,
        id: EventId { source: shop(), name: event.parse().unwrap() },
        kind: "transaction.completed".to_owned(),
        order: Some(name("№ 1")),
        body: Some("{\"ä\":1}".to_owned()),
        received_at: now(),
        outcome: None,
        reason: None,
        keys: Vec::new(),
        due_at: Some(now()),
        attempts: 0,
        version: 0,
    };
    let notices = Arc::new(|_| Ok(Vec::new()));
    InboundEvent { event, step: Some(step), at: now(), grace: TimeDelta::days(3), notices, by: None }
}

pub fn sold_id(index: u64) -> KeyId {
    id(KEYS + 1_000 + u128::from(index))
}

pub fn sale(index: u64) -> InboundEvent {
    let reference = name(&format!("sale {index}"));
    let sold = NewKey { id: sold_id(index), order: None, ..order(1) };
    let sold = sold.bought_with(OrderRef { source: shop(), id: reference.clone() });
    let line = Bought { names: vec!["pri_1".to_owned()], product: Some(sold.product), ..Bought::new("#0", 1) };
    let offer = Offer { product: sold.product, pieces: 1, sale: NewSale::new(sold, message(index.into())) };
    let charged = Charged {
        total: Amount::from_decimal("12.50", "EUR".parse().unwrap()),
        links: Links { payment: Some(name(&format!("payment {index}"))), ..Links::default() },
        lines: vec![line],
        offers: vec![offer],
        ..Charged::new(reference, now())
    };
    inbound(&format!("sold {index}"), Handling::Apply(vec![Report::Charged(charged)]))
}

pub fn refund(index: u64) -> InboundEvent {
    let of = ChargeRef::Payment(name(&format!("payment {index}")));
    let report = Report::Refunded(Refund::full(of));
    inbound(&format!("refunded {index}"), Handling::Apply(vec![report]))
}

/// Receives them, in this order.
pub async fn receive_events(store: &impl Ledger) {
    let waiting = |index: u64| inbound(&format!("waiting {index}"), Handling::Wait("no product".to_owned()));
    let customer =
        Customer { source: shop(), reference: name("ctm_1"), email: "a@example.com".parse().unwrap(), told_at: now() };
    let told = [inbound("told", Handling::Remember(customer))];
    let events = (0..SALES).map(sale).chain((0..REFUNDS).map(refund)).chain((0..WAITING).map(waiting)).chain(told);
    for event in events {
        assert!(store.receive(event).await.unwrap().is_new);
    }
    let office = store.office().unwrap();
    office.dismiss(&shop(), &"pri_mug".parse().unwrap(), true, by_admin()).await.unwrap();
    office.set_platform_secret(&shop(), Some(vec![0, 255, 39]), by_admin()).await.unwrap();
    // One use more, of a request that may come again.
    let fetch = Fetch { product: order(1).product, at: now(), request: RequestId::of(b"a"), rules: Rules::NONE };
    assert!(!store.fetch(sold_id(SALES - 1), fetch).await.unwrap().unwrap().unwrap().is_repeat);
}

/// A payment that the other store knew is found: what is refunded after a move revokes the key that was sold before it.
pub async fn refunds_are_found(store: &impl Ledger) {
    let refunded = store.receive(refund(SALES - 1)).await.unwrap();
    assert_eq!(refunded.changed.len(), 1);
    assert_eq!(refunded.event.keys, [sold_id(SALES - 1)]);
    // One that was received before is known.
    assert!(!store.receive(refund(0)).await.unwrap().is_new);
    assert!(store.receive(sale(SALES)).await.unwrap().is_new);
}

pub fn show(told: impl Debug) -> String {
    format!("{told:?}")
}

/// All that a store tells of its events.
pub async fn events(store: &impl Backend) -> Vec<String> {
    let inbox: &dyn Inbox = store.office().unwrap();
    let query = InboxQuery { limit: 1_000, ..InboxQuery::default() };
    let listed = inbox.events(&query).await.unwrap().items;
    let known = inbox.customer(&shop(), &name("ctm_1")).await.unwrap();
    let sealed = store.office().unwrap().platform_secrets().await.unwrap().into_iter().map(|secret| secret.sealed);
    listed.into_iter().map(show).chain([show(known)]).chain(sealed.map(show)).collect()
}
