//! What waits is applied when what it waited for is there.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::TimeDelta;
use delivery_core::Clock;
use delivery_core::key::Key;
use delivery_core::ledger::EventOutcome::{self, Ignored, Issued, NeedsAttention, Remembered, Revoked};
use delivery_core::platform::{Buyer, ChargeRef, Event, Line, Links, Refund, Sale};
use delivery_core::product::{Product, ProductId};
use delivery_core::store::{InboxQuery, StoreError};
use delivery_core::terms::MAX_USES;
use delivery_testing::Fault;

use super::shop::{Shop, called, day, id, line, sale};
use crate::calls::uses;

#[tokio::test]
async fn a_sale_whose_product_is_mapped_later_is_a_key_then() {
    let shop = Shop::open();
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(NeedsAttention));
    assert_eq!(shop.reasons().await, [Some("no product has the reference guide".to_owned())]);
    assert_eq!(shop.delivery.maintenance().apply_events().await.unwrap(), 0, "nothing has changed");
    shop.product("atlas").await;
    assert_eq!((shop.delivery.maintenance().apply_events().await.unwrap(), shop.keys().await.len()), (1, 0));
    let guide = shop.product("guide").await;
    assert_eq!(shop.delivery.maintenance().apply_events().await.unwrap(), 1);
    assert_eq!((shop.keys().await[0].product(), shop.sent().await), (guide.id(), 1));
    assert_eq!(shop.reasons().await, [None]);
    assert_eq!(shop.delivery.maintenance().apply_events().await.unwrap(), 0, "it is done");
}

#[tokio::test]
async fn lines_that_are_mapped_are_issued_while_others_wait() {
    let shop = Shop::open();
    let guide = shop.product("guide").await;
    let both = Sale { lines: vec![line("guide"), line("atlas"), line("guide")], ..sale("A", "") };
    assert_eq!(shop.tell(Event::Paid(both)).await, Some(NeedsAttention));
    assert_eq!((shop.keys().await.len(), shop.keys().await[0].product()), (1, guide.id()));
    shop.product("atlas").await;
    shop.delivery.maintenance().apply_events().await.unwrap();
    assert_eq!((shop.keys().await.len(), shop.sent().await), (2, 2));
}

#[tokio::test]
async fn lines_of_one_product_add_up_also_when_one_is_mapped_later() {
    let shop = Shop::open();
    let guide = shop.limited("guide", 5).await;
    let [one, two] = [1, 2].map(|quantity| Line { quantity, ..line(if quantity == 1 { "guide" } else { "second" }) });
    let both = Sale { lines: vec![one, two], ..sale("A", "") };
    assert_eq!(shop.tell(Event::Paid(both)).await, Some(NeedsAttention));
    let limit = async || shop.keys().await.iter().map(|key| key.state().limit.as_count()).collect::<Vec<_>>();
    assert_eq!(limit().await, [5]);
    shop.delivery.update_product(guide.id(), called(&["guide", "second"]).terms(uses(5))).await.unwrap();
    shop.delivery.maintenance().apply_events().await.unwrap();
    assert_eq!((limit().await, shop.sent().await), (vec![15], 1));
    assert_eq!(shop.reasons().await, [None]);
    // More than a key can have.
    let many = Line { quantity: u32::MAX, ..line("third") };
    let both = Sale { lines: vec![line("guide"), many], ..sale("B", "") };
    assert_eq!(shop.tell(Event::Paid(both)).await, Some(NeedsAttention));
    assert_eq!(limit().await, [5, 15]);
    let facts = called(&["guide", "second", "third"]).terms(uses(5));
    shop.delivery.update_product(guide.id(), facts).await.unwrap();
    shop.delivery.maintenance().apply_events().await.unwrap();
    assert_eq!(limit().await, [i64::from(MAX_USES), 15]);
}

#[tokio::test]
async fn an_order_that_was_served_stays_served_when_its_line_is_mapped_anew_or_to_nothing() {
    let shop = Shop::open();
    let guide = shop.product("guide").await;
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(Issued));
    let atlas = shop.product("atlas").await;
    shop.delivery.update_product(guide.id(), called(&[])).await.unwrap();
    shop.delivery.update_product(atlas.id(), called(&["guide"])).await.unwrap();
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(Ignored));
    shop.delivery.update_product(atlas.id(), called(&[])).await.unwrap();
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(Ignored), "mapped to nothing");
    assert_eq!((shop.keys().await.len(), shop.sent().await), (1, 1));
}

#[tokio::test]
async fn a_sale_waits_for_its_address_however_long_it_takes() {
    let shop = Shop::with_guide().await;
    let buyer = Buyer { email: None, customer: Some(id("ctm_1")) };
    assert_eq!(shop.tell(Event::Paid(Sale { buyer, ..sale("A", "guide") })).await, Some(NeedsAttention));
    // Tries the event whenever it is due, and returns how often that was.
    let tried_in = async |hours| {
        let mut tried = 0;
        for _ in 0..hours {
            shop.clock.advance(Duration::from_hours(1));
            tried += shop.delivery.maintenance().apply_events().await.unwrap();
        }
        tried
    };
    assert_eq!(tried_in(3 * 24).await, 28, "every hour on the first day, then every twelve");
    assert_eq!(tried_in(3 * 24).await, 6, "every twelve hours from then on");
    assert_eq!(shop.keys().await, []);
    let told = Event::Customer { reference: id("ctm_1"), email: "ada@example.com".to_owned(), told_at: None };
    assert_eq!(shop.tell(told).await, Some(Remembered));
    shop.delivery.maintenance().apply_events().await.unwrap();
    assert_eq!(shop.keys().await[0].email().as_str(), "ada@example.com");
}

#[tokio::test]
async fn products_that_are_unknown_or_not_named_need_attention() {
    let shop = Shop::with_guide().await;
    let unknown = Line { own: ProductId::new(99).ok(), ..line("atlas") };
    for (lines, reason) in [
        (vec![unknown], "there is no product 99"),
        (vec![Line { names: Vec::new(), ..line("") }], "no product has the reference a line without a name"),
        (vec![], "it names no product"),
    ] {
        assert_eq!(shop.tell(Event::Paid(Sale { lines, ..sale("A", "") })).await, Some(NeedsAttention));
        assert_eq!(shop.reasons().await[0].as_deref(), Some(reason));
    }
    let nobody = Buyer::by_email(Some("Ada <ada@example.com>"));
    assert_eq!(shop.tell(Event::Paid(Sale { buyer: nobody, ..sale("B", "guide") })).await, Some(NeedsAttention));
    assert_eq!(shop.keys().await, []);
}

/// What the seller adds to the event that waits.
async fn apply(
    shop: &Shop,
    email: Option<&str>,
    product: Option<&Product>,
) -> Result<bool, delivery_core::delivery::Error> {
    let waits = InboxQuery { outcome: Some(NeedsAttention), limit: 9, ..InboxQuery::default() };
    let event = shop.delivery.events(&waits).await.unwrap().items.remove(0).number;
    let (alice, email) = ("alice".parse().unwrap(), email.map(|email| email.parse().unwrap()));
    shop.delivery.desk(&alice).apply_event(event, email, product.map(Product::id)).await
}

#[tokio::test]
async fn what_the_seller_adds_fills_in_what_is_missing_and_no_more() {
    let shop = Shop::open();
    let (guide, mug) = (shop.limited("guide", 5).await, shop.limited("other", 7).await);
    // Of two lines one is mapped; the product is for the other, and the address is the platform's.
    let both = Sale { lines: vec![line("guide"), line("mug")], ..sale("A", "") };
    assert_eq!(shop.tell(Event::Paid(both)).await, Some(NeedsAttention));
    assert!(apply(&shop, Some("eve@example.com"), Some(&mug)).await.unwrap());
    let facts = |key: &Key| (key.product(), key.limit().as_count(), key.email().to_string());
    // Keys of one moment are in no particular order.
    let sold: BTreeSet<_> = shop.keys().await.iter().map(facts).collect();
    let ada = || "ada@example.com".to_owned();
    assert_eq!(sold, BTreeSet::from([(mug.id(), 7, ada()), (guide.id(), 5, ada())]));
    assert_eq!(shop.reasons().await, [None]);
}

#[tokio::test]
async fn what_the_seller_adds_is_kept_while_something_else_is_missing() {
    let shop = Shop::open();
    let guide = shop.product("guide").await;
    let buyer = Buyer::by_email(None);
    assert_eq!(shop.tell(Event::Paid(Sale { buyer, ..sale("A", "mug") })).await, Some(NeedsAttention));
    assert!(apply(&shop, None, Some(&guide)).await.unwrap());
    assert_eq!(shop.keys().await, [], "nobody to send it to");
    assert!(apply(&shop, Some("eve@example.com"), None).await.unwrap());
    assert_eq!(shop.keys().await[0].email().as_str(), "eve@example.com");
}

#[tokio::test]
async fn what_the_seller_adds_takes_no_place_of_what_was_sold_and_archived() {
    let shop = Shop::open();
    let (guide, mug) = (shop.limited("guide", 5).await, shop.limited("other", 7).await);
    let both = Sale { lines: vec![line("guide"), line("mug")], ..sale("A", "") };
    assert_eq!(shop.tell(Event::Paid(both)).await, Some(NeedsAttention));
    let alice = "alice".parse().unwrap();
    shop.delivery.desk(&alice).archive_product(guide.id()).await.unwrap();
    assert!(apply(&shop, None, Some(&mug)).await.unwrap());
    let sold = async || -> BTreeSet<_> {
        shop.keys().await.iter().map(|key| (key.product(), key.limit().as_count())).collect()
    };
    assert_eq!(sold().await, BTreeSet::from([(guide.id(), 5), (mug.id(), 7)]));
    assert_eq!(shop.reasons().await[0], None);
    // Where nothing else is missing, it takes the place of a product that is archived.
    assert_eq!(shop.tell(Event::Paid(sale("B", "guide"))).await, Some(NeedsAttention));
    assert!(apply(&shop, None, Some(&mug)).await.unwrap());
    assert_eq!((shop.keys().await.len(), sold().await.len()), (3, 2));
}

#[tokio::test]
async fn sellers_who_add_something_at_once_lose_nothing() {
    let shop = Shop::open();
    let guide = shop.product("guide").await;
    let buyer = Buyer::by_email(None);
    assert_eq!(shop.tell(Event::Paid(Sale { buyer, ..sale("A", "mug") })).await, Some(NeedsAttention));
    let (product, email) = tokio::join!(apply(&shop, None, Some(&guide)), apply(&shop, Some("eve@example.com"), None));
    assert!(product.unwrap() && email.unwrap());
    assert_eq!(shop.keys().await[0].email().as_str(), "eve@example.com");
}

#[tokio::test]
async fn a_sale_whose_refund_came_first_and_failed_can_be_applied() {
    let shop = Shop::with_guide().await;
    let refunded = |at| Event::Refunded(Refund { at: Some(at), ..Refund::full(ChargeRef::Order(id("A"))) });
    let now = shop.clock.now();
    assert_eq!(shop.tell(refunded(now)).await, Some(Revoked));
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(Ignored));
    let alice = "alice".parse().unwrap();
    let apply = async |outcome: EventOutcome| {
        let query = InboxQuery { outcome: Some(outcome), limit: 9, ..InboxQuery::default() };
        let number = shop.delivery.events(&query).await.unwrap().items.remove(0).number;
        assert!(shop.delivery.desk(&alice).apply_event(number, None, None).await.unwrap());
        shop.keys().await.len()
    };
    assert_eq!(apply(Ignored).await, 0, "the refund may still be made");
    let failed = Event::Kept { of: ChargeRef::Order(id("A")), at: now + TimeDelta::days(1) };
    assert_eq!(shop.tell(failed).await, Some(NeedsAttention));
    assert_eq!(apply(Ignored).await, 1);
    assert_eq!(apply(NeedsAttention).await, 1);
    assert_eq!(shop.reasons().await[..2], [None, None], "nothing waits any more");
}

#[tokio::test]
async fn the_address_of_a_customer_can_be_added() {
    let shop = Shop::with_guide().await;
    let told = Event::Customer { reference: id("ctm_1"), email: "nobody".to_owned(), told_at: None };
    assert_eq!(shop.tell(told).await, Some(NeedsAttention));
    assert!(apply(&shop, Some("ada@example.com"), None).await.unwrap());
    let buyer = Buyer { email: None, customer: Some(id("ctm_1")) };
    assert_eq!(shop.tell(Event::Paid(Sale { buyer, ..sale("A", "guide") })).await, Some(Issued));
    assert_eq!(shop.keys().await[0].email().as_str(), "ada@example.com");
}

#[tokio::test]
async fn the_seller_is_told_that_nothing_was_applied() {
    let shop = Shop::open();
    let guide = shop.product("guide").await;
    assert_eq!(shop.tell(Event::Paid(sale("A", "mug"))).await, Some(NeedsAttention));
    // The list of events is read, and then the name cannot be.
    shop.store.then(Fault::None);
    shop.store.then(Fault::None);
    shop.store.then(Fault::Before(StoreError::unavailable("switched off")));
    assert!(apply(&shop, None, Some(&guide)).await.is_err());
    assert_eq!(shop.keys().await, []);
    assert!(apply(&shop, None, Some(&guide)).await.unwrap());
    assert_eq!(shop.keys().await.len(), 1);
}

#[tokio::test]
async fn an_archived_product_is_sold_to_nobody() {
    let shop = Shop::open();
    let guide = shop.product("guide").await;
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(Issued));
    shop.delivery.desk(&"alice".parse().unwrap()).archive_product(guide.id()).await.unwrap();
    assert_eq!(shop.tell(Event::Paid(sale("B", "guide"))).await, Some(NeedsAttention));
    assert_eq!(shop.reasons().await[0].as_deref(), Some("product 1 is archived"));
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(Ignored), "the first order has its key");
    assert_eq!(shop.keys().await.len(), 1);
}

#[tokio::test]
async fn a_payment_that_is_captured_after_its_product_was_archived_says_so() {
    let shop = Shop::open();
    let guide = shop.product("guide").await;
    let links = Links { payment: Some(id("pi_1")), ..Links::default() };
    let open = Sale { is_open: true, links, ..sale("A", "guide") };
    assert_eq!(shop.tell(Event::Paid(open)).await, Some(Ignored));
    let alice = "alice".parse().unwrap();
    shop.delivery.desk(&alice).archive_product(guide.id()).await.unwrap();
    let buyer = Buyer::by_email(Some("ada@example.com"));
    let captured = Event::Captured { payment: id("pi_1"), at: day(0), total: None, buyer };
    assert_eq!(shop.tell(captured).await, Some(NeedsAttention));
    assert_eq!(shop.reasons().await[0].as_deref(), Some("product 1 is archived"));
    shop.delivery.desk(&alice).restore_product(guide.id()).await.unwrap();
    shop.delivery.maintenance().apply_events().await.unwrap();
    assert_eq!(shop.keys().await.len(), 1);
}

#[tokio::test]
async fn events_beyond_the_limit_are_kept_and_applied_later() {
    let shop = Shop::with_guide().await;
    let event = |number: u32| Ok(vec![Event::Paid(sale(&number.to_string(), "guide"))]);
    // A copy does not count.
    for number in [1, 1, 1, 2, 3] {
        assert_eq!(shop.outcome_of(&number.to_string(), event(number)).await, Some(Issued));
    }
    for number in 4..=70 {
        assert_eq!(shop.outcome_of(&number.to_string(), event(number)).await, None);
    }
    assert_eq!(shop.keys().await.len(), 3);
    shop.clock.advance(Duration::from_secs(20));
    assert_eq!(shop.delivery.maintenance().apply_events().await.unwrap(), 67);
    assert_eq!((shop.keys().await.len(), shop.sent().await), (70, 70));
    shop.clock.advance(Duration::from_mins(1));
    assert_eq!(shop.outcome_of("71", event(71)).await, Some(Issued));
}

#[tokio::test]
async fn what_cannot_be_applied_is_kept_and_what_cannot_be_kept_is_refused() {
    let shop = Shop::with_guide().await;
    let event = || Ok(vec![Event::Paid(sale("A", "guide"))]);
    shop.outcome_of("evt_0", Ok(vec![])).await;
    shop.store.then(Fault::None);
    // The product's name and the product are found, and then the store refuses.
    shop.store.then(Fault::None);
    shop.store.then(Fault::Before(StoreError::Conflict { source: None }));
    assert_eq!(shop.outcome_of("evt_1", event()).await, None);
    shop.store.otherwise(Fault::Before(StoreError::unavailable("switched off")));
    assert!(shop.receive("evt_2", event()).await.is_err());
    shop.store.heal();
    shop.clock.advance(Duration::from_secs(20));
    assert_eq!((shop.delivery.maintenance().apply_events().await.unwrap(), shop.keys().await.len()), (1, 1));
}

#[tokio::test]
async fn a_lost_answer_of_the_store_is_found_out_before_the_platform_is_answered() {
    let shop = Shop::with_guide().await;
    shop.outcome_of("evt_0", Ok(vec![])).await;
    for _ in 0..2 {
        shop.store.then(Fault::None);
    }
    shop.store.then(Fault::After(StoreError::Unknown { source: None }));
    assert_eq!(shop.outcome_of("evt_1", Ok(vec![Event::Paid(sale("A", "guide"))])).await, Some(Issued));
    assert_eq!((shop.keys().await.len(), shop.sent().await), (1, 1));
}

#[tokio::test]
async fn a_catalog_that_panics_loses_no_event() {
    let shop = Shop::with_guide().await;
    shop.outcome_of("evt_0", Ok(vec![])).await;
    for order in ["A", "B"] {
        shop.store.then(Fault::Panic);
        assert_eq!(shop.outcome_of(order, Ok(vec![Event::Paid(sale(order, "guide"))])).await, None);
    }
    shop.clock.advance(Duration::from_secs(20));
    // The worker finds both, and goes on after the first.
    shop.store.then(Fault::None);
    shop.store.then(Fault::Panic);
    assert_eq!((shop.delivery.maintenance().apply_events().await.unwrap(), shop.keys().await.len()), (2, 1));
    shop.clock.advance(Duration::from_mins(2));
    assert_eq!((shop.delivery.maintenance().apply_events().await.unwrap(), shop.keys().await.len()), (1, 2));
    // If it goes on, the seller sees the event, which is applied once the catalog answers.
    shop.store.then(Fault::Panic);
    assert_eq!(shop.outcome_of("C", Ok(vec![Event::Paid(sale("C", "guide"))])).await, None);
    for _ in 0..30 {
        shop.clock.advance(Duration::from_mins(2));
        shop.store.then(Fault::None);
        shop.store.then(Fault::Panic);
        assert_eq!(shop.delivery.maintenance().apply_events().await.unwrap(), 1);
    }
    assert_eq!(shop.reasons().await[0].as_deref(), Some("its products cannot be looked up"));
    shop.clock.advance(Duration::from_hours(1));
    assert_eq!((shop.delivery.maintenance().apply_events().await.unwrap(), shop.keys().await.len()), (1, 3));
}

#[tokio::test]
async fn names_that_no_database_takes_are_kept_all_the_same() {
    let shop = Shop::with_guide().await;
    let long = "x".repeat(10_000);
    assert_eq!(shop.outcome_of(&long, Ok(vec![Event::Paid(sale("A", "guide"))])).await, Some(Issued));
    assert_eq!(shop.outcome_of("evt\0", Ok(vec![Event::Paid(sale("B", "guide"))])).await, Some(Issued));
    shop.clock.advance(Duration::from_mins(2));
    assert_eq!(
        shop.outcome_of("evt_4", Ok(vec![Event::Paid(sale("C", &format!("{long}\0")))])).await,
        Some(NeedsAttention)
    );
    assert!(shop.reasons().await.iter().flatten().all(|reason| reason.len() < 200));
}
