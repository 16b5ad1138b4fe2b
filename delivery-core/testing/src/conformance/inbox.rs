//! Events of commerce platforms: received once, applied with their keys in one commit, kept while they wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::TimeDelta;
use tokio::task::JoinSet;

use super::fixtures::{Port, RACERS, key, now};
use super::{Case, cases};
use delivery_core::key::{Actor, Key, KeyId, NewKey, Status};
use delivery_core::order::{OrderId, OrderRef, Source};
use delivery_core::store::{
    Action, AuditQuery, Cause, Charged, Customer, Entry, EventId, EventOutcome, Extent, Handling, Inbox, InboxQuery,
    KeyQuery, Ledger, Links, MessageId, Notice, Of, Offer, Receipt, Received, Report, Sale, Successor,
};

cases![
    /// What a [`Ledger`] promises that has an [`Inbox`].
    INBOX: dyn Ledger, each_inbox_case,
    an_event_is_received_once_however_many_calls_race,
    an_event_is_listed_with_what_it_came_to,
    a_sale_is_found_by_each_of_its_references,
    a_sale_and_its_refund_that_race_leave_no_valid_key,
    a_refund_revokes_the_key_that_took_the_place_of_the_one_sold,
    an_event_that_waits_is_leased_to_one_and_applied_once,
    an_event_that_waits_for_the_seller_is_due_when_it_is_retried,
    events_that_are_done_are_pruned_and_what_they_came_to_stays,
    the_address_of_a_customer_is_the_last_that_was_told,
];

fn shop() -> Source {
    "stripe".parse().expect("a platform")
}

fn name(text: &str) -> OrderId {
    text.parse().expect("a reference")
}

fn entry(event: &str) -> Entry {
    Entry {
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

fn receipt(event: &str, step: Option<Handling>) -> Receipt {
    Receipt { entry: entry(event), is_kept: false, step, at: now(), notices: Arc::new(|_| Ok(Vec::new())), by: None }
}

fn paid(event: &str, order: &str, links: Links) -> Receipt {
    let reference = OrderRef { source: shop(), id: name(order) };
    let sold = NewKey { id: another(), order: Some(reference), ..key(1, 3) };
    let id = MessageId::new(format!("{}@shop.example", sold.id)).expect("an id");
    let sale = Sale::new(sold, vec![Notice::purchase(id)]);
    let offer =
        Offer { product: sale.key.product, names: Vec::new(), lines: vec!["plink_1".to_owned()], pieces: 1, sale };
    let charged = Charged {
        order: name(order),
        links,
        is_renewal: false,
        offers: vec![offer],
        unmapped: Vec::new(),
        missing: None,
    };
    receipt(event, Some(Handling::Apply(vec![Report::Charged(charged)])))
}

/// Each offer is another key, as those that a service makes.
fn another() -> KeyId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    KeyId::from_bytes(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
}

fn refunded(event: &str, of: Of) -> Receipt {
    let report = Report::Refunded { of, extent: Extent::Full, cause: Cause::Refund };
    receipt(event, Some(Handling::Apply(vec![report])))
}

async fn receive(ledger: &Port, receipt: Receipt) -> Received {
    ledger.receive(receipt).await.expect("received")
}

fn inbox(ledger: &Port) -> &dyn Inbox {
    ledger.inbox().expect("an inbox")
}

async fn keys(ledger: &Port) -> Vec<Key> {
    ledger.search(&KeyQuery { limit: 100, ..KeyQuery::default() }).await.expect("found").items
}

async fn messages(ledger: &Port) -> usize {
    ledger.claim_messages(now() + TimeDelta::hours(1), now() + TimeDelta::hours(2), 100).await.expect("claimed").len()
}

async fn all(ledger: &Port, outcome: Option<EventOutcome>) -> Vec<Entry> {
    let query = InboxQuery { outcome, before: None, limit: 1000 };
    inbox(ledger).entries(&query).await.expect("listed").items
}

async fn an_event_is_received_once_however_many_calls_race(ledger: Port) {
    let mut racing = JoinSet::new();
    for _ in 0..RACERS {
        let ledger = ledger.clone();
        racing.spawn(async move { receive(&ledger, paid("evt_1", "A", Links::default())).await });
    }
    let received = racing.join_all().await;
    assert_eq!(received.iter().filter(|received| received.is_new).count(), 1);
    assert_eq!(received.iter().map(|received| received.issued.len()).sum::<usize>(), 1);
    // Another event tells of the same order.
    let again = receive(&ledger, paid("evt_2", "A", Links::default())).await;
    assert_eq!((again.is_new, again.entry.outcome), (true, Some(EventOutcome::Ignored)));
    assert_eq!((keys(&ledger).await.len(), messages(&ledger).await, all(&ledger, None).await.len()), (1, 1, 2));
}

async fn an_event_is_listed_with_what_it_came_to(ledger: Port) {
    let sold = receive(&ledger, paid("evt_1", "A", Links::default())).await;
    let id = sold.issued.first().expect("a key").id();
    let refund = receive(&ledger, refunded("evt_2", Of::Order(name("A")))).await;
    receive(&ledger, receipt("evt_3", Some(Handling::Wait("no product".to_owned())))).await;
    receive(&ledger, receipt("evt_4", Some(Handling::Ignore("nothing".to_owned())))).await;
    receive(&ledger, receipt("evt_5", None)).await;
    let listed = all(&ledger, None).await;
    let told =
        |entry: &Entry| (entry.id.name.as_str().to_owned(), entry.outcome, entry.reason.clone(), entry.keys.clone());
    let expected = [
        ("evt_5", None, None, vec![]),
        ("evt_4", Some(EventOutcome::Ignored), Some("nothing"), vec![]),
        ("evt_3", Some(EventOutcome::NeedsAttention), Some("no product"), vec![]),
        ("evt_2", Some(EventOutcome::Revoked), None, vec![id]),
        ("evt_1", Some(EventOutcome::Issued), None, vec![id]),
    ]
    .map(|(event, outcome, reason, keys)| (event.to_owned(), outcome, reason.map(str::to_owned), keys));
    assert_eq!(listed.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!(refund.changed.len(), 1);
    let Entry { kind, order, body, received_at, .. } = entry("evt");
    for found in &listed {
        assert_eq!((&found.kind, &found.order, found.received_at), (&kind, &order, received_at));
        let waits = matches!(found.outcome, None | Some(EventOutcome::NeedsAttention));
        assert_eq!((found.due_at.is_some(), &found.body), (waits, if waits { &body } else { &None }));
    }
    assert_eq!(all(&ledger, Some(EventOutcome::Revoked)).await, [listed[3].clone()]);
    if let Some(records) = ledger.records() {
        assert_eq!(records.backlog().await.expect("counted").needs_attention, 1);
    }
    let mut pages = Vec::new();
    let mut query = InboxQuery { limit: 2, ..InboxQuery::default() };
    loop {
        let page = inbox(&ledger).entries(&query).await.expect("listed");
        pages.extend(page.items);
        query.before = page.next;
        if query.before.is_none() {
            break;
        }
    }
    assert_eq!(pages, listed);
}

async fn a_sale_is_found_by_each_of_its_references(ledger: Port) {
    let links = |payment: &str, invoice: &str| Links {
        payment: Some(name(payment)).filter(|it| it.as_str() != "-"),
        invoice: Some(name(invoice)).filter(|it| it.as_str() != "-"),
        ..Links::default()
    };
    let linked = |event: &str, links: Links| receipt(event, Some(Handling::Apply(vec![Report::Linked(links)])));
    // By its payment, before and after; and by a payment that an invoice leads to, in both orders.
    receive(&ledger, paid("a1", "A", links("pi_a", "-"))).await;
    receive(&ledger, refunded("a2", Of::Payment(name("pi_a")))).await;
    receive(&ledger, refunded("b1", Of::Payment(name("pi_b")))).await;
    let late = receive(&ledger, paid("b2", "B", links("pi_b", "-"))).await;
    assert_eq!((late.issued.len(), late.entry.outcome), (0, Some(EventOutcome::Ignored)));
    receive(&ledger, paid("c1", "C", links("-", "in_c"))).await;
    receive(&ledger, refunded("c2", Of::Payment(name("pi_c")))).await;
    receive(&ledger, linked("c3", links("pi_c", "in_c"))).await;
    receive(&ledger, linked("d1", links("pi_d", "in_d"))).await;
    receive(&ledger, paid("d2", "D", links("-", "in_d"))).await;
    receive(&ledger, refunded("d3", Of::Payment(name("pi_d")))).await;
    // Deals that turned out to be one are found by all that led to either.
    receive(&ledger, refunded("c4", Of::Order(name("C")))).await;
    receive(&ledger, refunded("c5", Of::Payment(name("pi_c")))).await;
    let sold = keys(&ledger).await;
    assert_eq!(sold.len(), 3);
    assert!(sold.iter().all(|key| key.status(now()) == Status::Revoked), "{sold:?}");
    receive(&ledger, paid("e1", "E", Links::default())).await;
    assert_eq!(keys(&ledger).await.iter().filter(|key| key.status(now()) == Status::Valid).count(), 1);
}

async fn a_sale_and_its_refund_that_race_leave_no_valid_key(ledger: Port) {
    for round in 0..16 {
        let (order, payment) = (format!("order {round}"), format!("pi {round}"));
        let links = Links { payment: Some(name(&payment)), ..Links::default() };
        let events = [
            paid(&format!("sale {round}"), &order, links),
            refunded(&format!("refund {round}"), Of::Payment(name(&payment))),
            refunded(&format!("cancelled {round}"), Of::Order(name(&order))),
        ];
        let mut racing = JoinSet::new();
        for event in events {
            let ledger = ledger.clone();
            racing.spawn(async move { receive(&ledger, event).await });
        }
        racing.join_all().await;
    }
    let valid = keys(&ledger).await.into_iter().filter(|key| key.status(now()) == Status::Valid);
    assert_eq!(valid.count(), 0);
}

async fn a_refund_revokes_the_key_that_took_the_place_of_the_one_sold(ledger: Port) {
    let sold = receive(&ledger, paid("evt_1", "A", Links::default())).await.issued.remove(0);
    let mut last = sold.id();
    for _ in 0..2 {
        let (id, secret, at, by) = (another(), sold.granted().secret, now(), Actor::admin());
        let successor = Successor { id, secret, at, by, messages: Vec::new(), withdrawn: Vec::new() };
        let rotated = ledger.rotate(last, successor).await.expect("rotated").expect("known").expect("not revoked");
        last = rotated.into_key().id();
    }
    let refund = receive(&ledger, refunded("evt_2", Of::Order(name("A")))).await;
    assert_eq!(refund.entry.keys, [last]);
    assert!(ledger.find(last).await.expect("found").expect("known").revoked_at().is_some());
    assert_eq!(keys(&ledger).await.len(), 3);
}

async fn an_event_that_waits_is_leased_to_one_and_applied_once(ledger: Port) {
    receive(&ledger, receipt("evt_1", None)).await;
    let claim = async |after: i64| {
        let at = now() + TimeDelta::seconds(after);
        inbox(&ledger).claim_entries(at, at + TimeDelta::minutes(1), 10).await.expect("claimed")
    };
    assert_eq!(claim(14).await, []);
    let [claimed] = &claim(15).await[..] else { panic!("an event is due") };
    assert_eq!((claimed.id.name.as_str(), claimed.attempts), ("evt_1", 1));
    assert_eq!(claim(16).await, [], "it is leased");
    let [again] = &claim(76).await[..] else { panic!("the lease is over") };
    assert_eq!(again.attempts, 2);
    // Both of them apply it.
    for claimed in [claimed, again] {
        let sale = paid("evt_1", "A", Links::default());
        let applied = receive(&ledger, Receipt { entry: claimed.clone(), is_kept: true, ..sale }).await;
        assert!(!applied.is_new);
        assert_eq!(applied.entry.outcome, Some(EventOutcome::Issued));
    }
    assert_eq!((keys(&ledger).await.len(), messages(&ledger).await), (1, 1));
    assert_eq!(claim(3600).await, [], "it is done");
}

async fn an_event_that_waits_for_the_seller_is_due_when_it_is_retried(ledger: Port) {
    receive(&ledger, receipt("evt_1", Some(Handling::Wait("no product".to_owned())))).await;
    receive(&ledger, receipt("evt_2", Some(Handling::Ignore("nothing".to_owned())))).await;
    let claim = async || inbox(&ledger).claim_entries(now(), now() + TimeDelta::minutes(1), 10).await.expect("claimed");
    assert_eq!(claim().await, []);
    let other: Source = "paddle".parse().expect("a platform");
    assert_eq!(inbox(&ledger).retry_entries(Some(&other), None, now()).await.expect("retried"), 0);
    assert_eq!(inbox(&ledger).retry_entries(Some(&shop()), Some(now()), now()).await.expect("retried"), 1);
    assert_eq!(claim().await.len(), 1);
    let later = now() + TimeDelta::milliseconds(1);
    assert_eq!(inbox(&ledger).retry_entries(None, Some(later), now()).await.expect("retried"), 0, "it is older");
    assert_eq!(
        inbox(&ledger).retry_entries(None, None, now()).await.expect("retried"),
        1,
        "whoever leased it is too late"
    );
    let [claimed] = &claim().await[..] else { panic!("it is due") };
    assert_eq!(inbox(&ledger).retry_entries(None, None, now()).await.expect("retried"), 1, "while it is looked at");
    let late = receipt("evt_1", Some(Handling::Wait("no product".to_owned())));
    receive(&ledger, Receipt { entry: claimed.clone(), is_kept: true, ..late }).await;
    let [claimed] = &claim().await[..] else { panic!("it stays due") };
    // The seller adds something to what it says, and it waits all the same; then it is applied.
    let by: Option<Actor> = "alice".parse().ok();
    let entry = Entry { body: Some("with more".to_owned()), ..claimed.clone() };
    let wait = receipt("evt_1", Some(Handling::Wait("no address".to_owned())));
    let adds = Receipt { entry, is_kept: true, by: by.clone(), ..wait };
    let waits = receive(&ledger, adds.clone()).await.entry;
    assert_eq!((waits.body.as_deref(), waits.due_at.is_some()), (Some("with more"), true));
    // Somebody who read it before that is to read it again.
    let other = Entry { body: Some("with something else".to_owned()), ..adds.entry.clone() };
    let late = receive(&ledger, Receipt { entry: other, ..adds.clone() }).await;
    assert_eq!((late.is_outdated, late.entry.body.as_deref()), (true, Some("with more")));
    let read =
        async || all(&ledger, None).await.into_iter().find(|it| it.id.name == waits.id.name).expect("it is there");
    // Whoever adds nothing to what waits all the same has done nothing.
    let nothing = receive(&ledger, Receipt { entry: read().await, ..adds }).await;
    assert!(!nothing.is_outdated);
    let sale = paid("evt_1", "A", Links::default());
    let applied = Receipt { entry: read().await, is_kept: true, by: by.clone(), ..sale };
    assert_eq!(receive(&ledger, applied).await.issued.len(), 1);
    if let Some(records) = ledger.records() {
        let audit = records.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.expect("read").items;
        let said: Vec<_> =
            audit.iter().map(|entry| (entry.action, Some(entry.actor.clone()), entry.detail.as_deref())).collect();
        let once = (Action::EventApplied, by, Some("stripe evt_1"));
        assert_eq!(said, [once.clone(), once]);
    }
    assert_eq!(inbox(&ledger).retry_entries(None, None, now()).await.expect("retried"), 0);
}

async fn events_that_are_done_are_pruned_and_what_they_came_to_stays(ledger: Port) {
    receive(&ledger, paid("evt_1", "A", Links::default())).await;
    receive(&ledger, refunded("evt_2", Of::Order(name("A")))).await;
    receive(&ledger, receipt("evt_3", Some(Handling::Wait("no product".to_owned())))).await;
    assert_eq!(inbox(&ledger).prune_inbox(now()).await.expect("pruned"), 0);
    let later = now() + TimeDelta::milliseconds(1);
    assert_eq!(inbox(&ledger).prune_inbox(later).await.expect("pruned"), 2);
    assert_eq!(all(&ledger, None).await.len(), 1, "it waits for the seller");
    let before = keys(&ledger).await;
    for copy in [paid("evt_1", "A", Links::default()), refunded("evt_2", Of::Order(name("A")))] {
        let received = receive(&ledger, copy).await;
        assert_eq!((received.is_new, received.issued.len(), received.changed.len()), (true, 0, 0));
    }
    assert_eq!(keys(&ledger).await, before);
    assert_eq!(messages(&ledger).await, 1);
}

async fn the_address_of_a_customer_is_the_last_that_was_told(ledger: Port) {
    let known = async || inbox(&ledger).customer(&shop(), &name("ctm_1")).await.expect("answered");
    assert_eq!(known().await, None);
    // An address that was told late does not replace one that is newer.
    for (event, email, second, expected) in [
        ("evt_1", "old@example.com", 1, "old@example.com"),
        ("evt_2", "new@example.com", 2, "new@example.com"),
        ("evt_3", "old@example.com", 1, "new@example.com"),
        ("evt_4", "same@example.com", 2, "same@example.com"),
    ] {
        let email = email.parse().expect("an address");
        let told_at = now() + TimeDelta::seconds(second);
        let customer = Customer { source: shop(), reference: name("ctm_1"), email, told_at };
        let received = receive(&ledger, receipt(event, Some(Handling::Remember(customer)))).await;
        assert_eq!(received.entry.outcome, Some(EventOutcome::Remembered));
        assert_eq!(known().await, expected.parse().ok());
    }
    assert_eq!(inbox(&ledger).customer(&shop(), &name("ctm_2")).await.expect("answered"), None);
    let other = "paddle".parse().expect("a platform");
    assert_eq!(inbox(&ledger).customer(&other, &name("ctm_1")).await.expect("answered"), None);
}
