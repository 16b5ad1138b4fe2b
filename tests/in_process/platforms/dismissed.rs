//! What the seller does not sell here is put aside, and taken back.

use delivery_core::key::Actor;
use delivery_core::ledger::EventOutcome::{Ignored, Issued, NeedsAttention, Renewed};
use delivery_core::platform::{Event, Platform, Sale, Standing, SubscriptionEvent, Term};
use delivery_core::store::InboxQuery;

use super::shop::{Own, Shop, charged, day, line, sale, word};

#[tokio::test]
async fn a_product_that_is_dismissed_needs_nobody_until_one_of_its_events_is_applied() {
    let shop = Shop::with_guide().await;
    let (alice, mug): (Actor, _) = ("alice".parse().unwrap(), "mug".parse().unwrap());
    let desk = shop.delivery.desk(&alice);
    let newest = async || shop.delivery.events(&InboxQuery::default()).await.unwrap().items.remove(0);
    assert_eq!(shop.tell(Event::Paid(sale("A", "mug"))).await, Some(NeedsAttention));
    for _ in 0..2 {
        desk.dismiss_product(&Own.name(), &mug).await.unwrap();
        shop.delivery.maintenance().apply_events().await.unwrap();
    }
    assert_eq!(shop.tell(Event::Paid(sale("B", "mug"))).await, Some(Ignored));
    assert_eq!(shop.reasons().await, [Some("dismissed".to_owned()), Some("dismissed".to_owned())]);
    // What else is sold is sold.
    let both = Sale { lines: vec![line("mug"), line("guide")], ..sale("C", "") };
    assert_eq!(shop.tell(Event::Paid(both)).await, Some(Issued));
    assert_eq!(shop.tell(Event::Paid(sale("D", "mug"))).await, Some(Ignored));
    let guide = shop.keys().await[0].product();
    assert!(desk.apply_event(newest().await.number, None, Some(guide)).await.unwrap());
    assert_eq!((shop.keys().await.len(), newest().await.outcome), (2, Some(Issued)));
    // The next one waits, and is dismissed alone.
    assert_eq!(shop.tell(Event::Paid(sale("E", "mug"))).await, Some(NeedsAttention));
    assert!(desk.dismiss_event(newest().await.number).await.unwrap());
    assert!(newest().await.is_dismissed());
    assert!(desk.apply_event(newest().await.number, None, None).await.unwrap());
    assert_eq!(newest().await.outcome, Some(NeedsAttention));
    assert!(!desk.dismiss_event(1).await.unwrap(), "there is no such event");
}

#[tokio::test]
async fn a_subscription_goes_on_although_its_product_is_archived_and_dismissed() {
    let shop = Shop::with_guide().await;
    let (alice, guide): (Actor, _) = ("alice".parse().unwrap(), "guide".parse().unwrap());
    let desk = shop.delivery.desk(&alice);
    assert_eq!(shop.tell(charged("A", 0)).await, Some(Issued));
    desk.archive_product(shop.keys().await[0].product()).await.unwrap();
    desk.dismiss_product(&Own.name(), &guide).await.unwrap();
    assert_eq!(shop.tell(charged("B", 30)).await, Some(Renewed));
    assert_eq!(shop.days().await, 60 + 3);
    // Nobody else gets it.
    assert_eq!(shop.tell(Event::Paid(sale("C", "guide"))).await, Some(Ignored));
    assert_eq!(shop.keys().await.len(), 1);
}

#[tokio::test]
async fn a_subscription_ends_although_the_plan_that_it_changed_to_is_dismissed() {
    let shop = Shop::with_guide().await;
    let alice: Actor = "alice".parse().unwrap();
    assert_eq!(shop.tell(charged("A", 0)).await, Some(Issued));
    shop.delivery.desk(&alice).dismiss_product(&Own.name(), &"mug".parse().unwrap()).await.unwrap();
    let Event::Subscription(ended) = word(5, Standing::Ended, Term::Until(day(5))) else { unreachable!("a word") };
    shop.tell(Event::Subscription(SubscriptionEvent { lines: vec![line("mug")], ..ended })).await;
    assert_eq!(shop.days().await, 5);
}

#[tokio::test]
async fn a_test_purchase_is_applied_once_and_only_by_hand() {
    let shop = Shop::with_guide().await;
    let alice: Actor = "alice".parse().unwrap();
    let desk = shop.delivery.desk(&alice);
    let newest = async || shop.delivery.events(&InboxQuery::default()).await.unwrap().items.remove(0);
    for name in ["guide", "mug"] {
        assert_eq!(shop.tell_test(Event::Paid(sale(name, name))).await, Some(Ignored));
        assert!(newest().await.is_test());
        shop.delivery.maintenance().apply_events().await.unwrap();
        assert_eq!(shop.keys().await.len(), 0, "{name}");
    }
    // One that names no product waits for the seller from then on, as another event does.
    let (mug, guide) =
        (newest().await.number, InboxQuery { before: Some(newest().await.number), ..InboxQuery::default() });
    let guide = shop.delivery.events(&guide).await.unwrap().items.remove(0).number;
    assert!(desk.apply_event(mug, None, None).await.unwrap());
    assert_eq!(newest().await.outcome, Some(NeedsAttention));
    shop.product("mug").await;
    shop.clock.advance(std::time::Duration::from_hours(1));
    shop.delivery.maintenance().apply_events().await.unwrap();
    assert_eq!((newest().await.outcome, shop.keys().await.len()), (Some(Issued), 1));
    for _ in 0..2 {
        assert!(desk.apply_event(guide, None, None).await.unwrap());
        assert_eq!(shop.keys().await.len(), 2, "what was applied is done");
    }
    assert_eq!(shop.sent().await, 2, "the buyer of a test gets the e-mail");
}
