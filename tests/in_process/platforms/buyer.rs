//! What a buyer is told of a sale, and what is forgotten of a buyer.

use std::time::Duration;

use delivery_core::ledger::EventOutcome::{Ignored, Issued, NeedsAttention};
use delivery_core::platform::{Buyer, Event, Line, Links, Platform, Refund, Sale, Standing, SubscriptionEvent, Term};
use delivery_core::store::InboxQuery;

use super::shop::{Own, Shop, charge, charged, day, dispute, id, line, order, refunded, sale};

#[tokio::test]
async fn a_buyer_is_told_of_a_refund_that_revoked_a_key_and_of_nothing_else() {
    const BOUGHT: &str = "Your key for Guide";
    const REVOKED: &str = "Your key for Guide is no longer valid";
    let cancelled = || Event::Refunded(Refund::cancelled(id("A")));
    let part = || Event::Refunded(Refund::of(order("A"), false, None));
    let paid = || Event::Paid(sale("A", "guide"));
    for (events, subjects) in [
        (vec![paid(), refunded("A")], &[BOUGHT, REVOKED][..]),
        (vec![paid(), refunded("A"), refunded("A")], &[BOUGHT, REVOKED]),
        // Nothing was sold.
        (vec![refunded("A"), paid()], &[]),
        (vec![paid(), part()], &[BOUGHT]),
        (vec![paid(), part(), refunded("A")], &[BOUGHT, REVOKED]),
        (vec![paid(), cancelled()], &[BOUGHT]),
        (vec![paid(), Event::Disputed(dispute("A"))], &[BOUGHT]),
        (vec![paid(), Event::Disputed(dispute("A")), refunded("A")], &[BOUGHT, REVOKED]),
    ] {
        let shop = Shop::with_guide().await;
        for event in events {
            shop.tell(event).await;
            shop.sent().await;
        }
        let mut sent: Vec<String> = shop.mailer.accepted().into_iter().map(|message| message.subject).collect();
        sent.sort();
        assert_eq!(sent, subjects);
    }
}

#[tokio::test]
async fn events_of_a_person_who_was_erased_leave_nothing_when_they_come_again() {
    let shop = Shop::with_guide().await;
    let waits = Sale { lines: vec![line("mug")], ..sale("B", "") };
    let by_reference = Sale { buyer: Buyer { email: None, customer: Some(id("ctm_1")) }, ..sale("C", "guide") };
    let events = [
        ("evt_paid", Event::Paid(sale("A", "guide")), Issued),
        ("evt_waits", Event::Paid(waits), NeedsAttention),
        ("evt_nobody", Event::Paid(by_reference), NeedsAttention),
        // One of two things has a key, so the event waits for the other.
        ("evt_half", Event::Paid(Sale { lines: vec![line("guide"), line("mug")], ..sale("D", "") }), NeedsAttention),
    ];
    for (id, event, outcome) in &events {
        shop.clock.advance(Duration::from_mins(1));
        assert_eq!(shop.outcome_of(id, Ok(vec![event.clone()])).await, Some(*outcome), "{id}");
    }
    let erased = "ADA@example.com".parse().unwrap();
    shop.delivery.desk(&"alice".parse().unwrap()).erase(&erased).await.unwrap();
    // Apart in time, so that no limit is met.
    for (id, event, _) in &events {
        shop.clock.advance(Duration::from_mins(1));
        let again = shop.receive(id, Ok(vec![event.clone()])).await.unwrap();
        assert!(!again.is_new, "{id}");
    }
    // The same sales, as events that nobody knows: pruned, or made again by hand.
    shop.clock.advance(Duration::from_mins(1));
    assert_eq!(shop.outcome_of("evt_again", Ok(vec![events[0].1.clone()])).await, Some(Ignored));
    shop.clock.advance(Duration::from_mins(1));
    assert_eq!(shop.outcome_of("evt_half_again", Ok(vec![events[3].1.clone()])).await, Some(Ignored));
    assert_forgotten(&shop, 2).await;
}

/// No key shows that the buyer of these sales was erased. So the deals of the sales must show it.
#[tokio::test]
async fn a_sale_without_a_key_of_a_person_who_was_erased_leaves_nothing_when_it_comes_again() {
    let unmapped = || sale("A", "mug");
    let customer = Event::Customer { reference: id("ctm_1"), email: "ada@example.com".to_owned(), told_at: None };
    let by_reference = Sale { buyer: Buyer { email: None, customer: Some(id("ctm_1")) }, ..unmapped() };
    let may_fail = Event::Refunded(Refund { at: Some(day(0)), ..Refund::full(order("A")) });
    for (case, before, sold, is_test) in [
        ("not mapped", None, unmapped(), false),
        ("not paid yet", None, Sale { is_open: true, ..unmapped() }, false),
        ("of a subscription", None, Sale { lines: vec![line("mug")], ..charge("A", 0) }, false),
        ("by reference", Some(customer), by_reference, false),
        ("refunded before", Some(may_fail), sale("A", "guide"), false),
        ("dismissed", None, sale("A", "cup"), false),
        ("a test purchase", None, sale("A", "guide"), true),
    ] {
        let shop = Shop::with_guide().await;
        let alice = "alice".parse().unwrap();
        let desk = shop.delivery.desk(&alice);
        desk.dismiss_product(&Own.name(), &"cup".parse().unwrap()).await.unwrap();
        if let Some(event) = before {
            shop.tell(event).await;
        }
        let tell = async |sale: Sale| {
            let event = Event::Paid(sale);
            let outcome = if is_test { shop.tell_test(event).await } else { shop.tell(event).await };
            assert_ne!(outcome, Some(Issued), "{case}");
            shop.delivery.events(&InboxQuery::default()).await.unwrap().items.remove(0)
        };
        assert!(tell(sold.clone()).await.body.is_some(), "{case}");
        desk.erase(&"Ada@example.com".parse().unwrap()).await.unwrap();
        let again = tell(sold).await;
        assert_eq!((again.outcome, again.body, again.due_at), (Some(Ignored), None, None), "{case}");
        assert_forgotten(&shop, 0).await;
        let other = tell(Sale { buyer: Buyer::by_email(Some("bob@example.com")), ..sale("B", "mug") }).await;
        assert!(other.body.is_some(), "{case}: another sale");
    }
}

#[tokio::test]
async fn an_event_that_the_seller_must_hear_of_waits_after_an_erasure() {
    let alice = "alice".parse().unwrap();
    let ada = "ada@example.com".parse().unwrap();
    // A failed refund names nobody. The seller has the money, and the buyer has no key.
    let shop = Shop::with_guide().await;
    shop.tell(Event::Refunded(Refund { at: Some(day(0)), ..Refund::full(order("A")) })).await;
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(Ignored));
    shop.delivery.desk(&alice).erase(&ada).await.unwrap();
    assert_eq!(shop.tell(Event::Kept { of: order("A"), at: day(1) }).await, Some(NeedsAttention));
    // The address of the key was corrected before the wrong address was erased.
    let shop = Shop::with_guide().await;
    let desk = shop.delivery.desk(&alice);
    let both = Sale { lines: vec![line("guide"), line("mug")], ..sale("A", "guide") };
    assert_eq!(shop.tell(Event::Paid(both.clone())).await, Some(NeedsAttention));
    let key = shop.keys().await.remove(0);
    desk.resend(key.id(), Some("bob@example.com".parse().unwrap())).await.unwrap();
    desk.erase(&ada).await.unwrap();
    for is_rotated in [false, true] {
        let again = Sale { buyer: Buyer::by_email(Some("bob@example.com")), ..both.clone() };
        assert_eq!(shop.tell(Event::Paid(again)).await, Some(NeedsAttention), "{is_rotated}");
        // The platform still names the address that was erased.
        assert_eq!(shop.tell(Event::Paid(both.clone())).await, Some(Ignored), "{is_rotated}");
        desk.rotate(shop.keys().await.iter().find(|key| key.revoked_at().is_none()).unwrap().id()).await.unwrap();
    }
    // No event waited when the person was erased, and a successor of the key has the right address.
    let shop = Shop::with_guide().await;
    let desk = shop.delivery.desk(&alice);
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(Issued));
    let successor = desk.rotate(shop.keys().await.remove(0).id()).await.unwrap().key.id();
    desk.resend(successor, Some("bob@example.com".parse().unwrap())).await.unwrap();
    desk.erase(&ada).await.unwrap();
    assert_eq!(shop.tell(Event::Paid(both)).await, Some(Ignored));
}

/// An event of an erased person's subscription has no key to wait for: neither that of a product that is archived, nor
/// that of a charge that is disputed.
#[tokio::test]
async fn charges_of_a_person_who_was_erased_do_not_wait() {
    let shop = Shop::with_guide().await;
    let (alice, atlas) = ("alice".parse().unwrap(), shop.product("atlas").await.id());
    shop.product("video").await;
    let desk = shop.delivery.desk(&alice);
    assert_eq!(shop.tell(charged("A", 0)).await, Some(Issued));
    desk.erase(&"ada@example.com".parse().unwrap()).await.unwrap();
    let links = Links::of_subscription(Some(id("sub")));
    let changed = SubscriptionEvent::new(day(5), links, (Standing::Active, Term::Unsaid));
    shop.tell(Event::Subscription(SubscriptionEvent { lines: vec![line("atlas")], ..changed })).await;
    desk.archive_product(atlas).await.unwrap();
    let names_nothing = Sale { lines: Vec::new(), ..charge("B", 30) };
    assert_eq!(shop.tell(Event::Paid(names_nothing)).await, Some(Ignored));
    shop.tell(Event::Disputed(dispute("C"))).await;
    let period = Term::Period { from: day(60), until: day(90) };
    let other = Sale { lines: vec![Line { term: period, ..line("video") }], ..charge("C", 60) };
    assert_eq!(shop.tell(Event::Paid(other)).await, Some(Ignored));
    assert_forgotten(&shop, 1).await;
}

/// No event names Ada, and the keys are those of a person who was erased.
async fn assert_forgotten(shop: &Shop, keys: usize) {
    let listed = shop.delivery.events(&InboxQuery { limit: 9, ..InboxQuery::default() }).await.unwrap().items;
    for event in listed {
        let body = event.body.unwrap_or_default();
        assert!(!body.to_lowercase().contains("ada@example.com"), "{}: {body}", event.id.name);
    }
    assert_eq!(shop.keys().await.len(), keys);
    assert!(shop.keys().await.iter().all(|key| key.email().as_str().ends_with("@erased.invalid")));
}
