//! Keys that a subscription renews: what buyers and sellers are told of them.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use delivery_core::delivery::{Builder, SubscriptionGrace};
use delivery_core::key::{Actor, Key};
use delivery_core::ledger::EventOutcome;
use delivery_core::look::Look;
use delivery_core::platform::{Buyer, Event, Line, Links, Notification, Platform, Sale, Term};
use delivery_core::store::{InboxQuery, KeyQuery, Subscribed};
use delivery_core::terms::{OwnTerms, Validity};
use delivery_testing::Shop;
use http::Method;
use serde_json::Value;

use super::shop::{Own, called, id, line};
use crate::calls::{Axum, Host, Staff};

const ADA: &str = "ada@example.com";
const BEN: &str = "ben@example.com";

/// Ada has subscribed to a guide, and Ben has bought it for 30 days.
async fn shop() -> Shop {
    let grace = SubscriptionGrace::new(5).unwrap();
    let staffed = |it: Builder| it.seller(Arc::new(Staff::default())).pages(Look::default());
    let shop = Shop::with(|it| staffed(it).platform(Own).subscription_grace(grace)).await;
    let terms = OwnTerms { validity: Validity::from_days(30).ok(), ..OwnTerms::default() };
    shop.delivery.add_product(called(&["guide"]).terms(terms)).await.unwrap();
    let subscription = Links::of_subscription(Some(id("sub_1")));
    sell(&shop, ADA, subscription, Term::Until(time("2026-12-21T10:00:00Z"))).await;
    sell(&shop, BEN, Links::default(), Term::Unsaid).await;
    shop
}

fn time(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

async fn sell(shop: &Shop, buyer: &str, links: Links, term: Term) {
    let sale = Sale {
        at: Some(shop.now()),
        lines: vec![Line { term, ..line("guide") }],
        buyer: Buyer::by_email(Some(buyer)),
        links,
        ..Sale::new(id(&format!("of {buyer}")))
    };
    assert_eq!(tell(shop, sale).await, Some(EventOutcome::Issued));
}

async fn tell(shop: &Shop, sale: Sale) -> Option<EventOutcome> {
    let (id, kind) = (format!("sale {}", sale.order), "sale".to_owned());
    let told = Notification { id, kind, is_test: false, events: Ok(vec![Event::Paid(sale)]) };
    shop.delivery.receive(&Own.name(), told).await.unwrap().event.outcome
}

/// The newest key of an address.
async fn key_of(shop: &Shop, buyer: &str) -> Key {
    let query = KeyQuery { email: buyer.parse().ok(), limit: 1, ..KeyQuery::default() };
    shop.delivery.keys(&query).await.unwrap().items.remove(0)
}

/// The e-mails that are due now: to whom, and what they say.
async fn sent(shop: &Shop) -> Vec<(String, String)> {
    let before = shop.mailer.accepted().len();
    let messages = shop.messages().await;
    messages.iter().skip(before).map(|message| (message.to.to_string(), message.text.clone())).collect()
}

#[tokio::test]
async fn the_email_of_a_subscription_names_no_date() {
    let shop = shop().await;
    for (buyer, text) in sent(&shop).await {
        let says = |sentence: &str| assert!(text.contains(sentence), "{buyer}: {text}");
        match buyer.as_str() {
            ADA => says("It is valid as long as your subscription runs."),
            _ => says("It is valid until 21 December 2026, 10:00 UTC."),
        }
    }
    assert_eq!(key_of(&shop, ADA).await.expires_at(), time("2026-12-26T10:00:00Z"), "with the days of grace");
}

#[tokio::test]
async fn the_seller_sees_the_subscription_of_a_key_and_of_its_successor() {
    let shop = shop().await;
    let host = Axum(delivery_axum::router(shop.delivery.clone()));
    let see = async |path: &str, key: &Key| {
        let staff = [("Cookie", "staff=alice".to_owned())];
        let (status, body) = host.ask(Method::GET, &format!("{path}?id={}", key.id()), &staff, "").await;
        assert_eq!(status, 200, "{body}");
        body
    };
    let subscribed = Subscribed { subscription: "sub_1".to_owned(), paid_until: Some(time("2026-12-21T10:00:00Z")) };
    let first = key_of(&shop, ADA).await;
    let successor = shop.delivery.desk(&"alice".parse().unwrap()).rotate(first.id()).await.unwrap().key;
    for (key, expected) in
        [(&first, Some(subscribed.clone())), (&successor, Some(subscribed)), (&key_of(&shop, BEN).await, None)]
    {
        assert_eq!(shop.delivery.subscription_of(key).await.unwrap(), expected);
        let shown: Value = serde_json::from_str(&see("/api/admin/key", key).await).unwrap();
        let (subscription, paid_until) = (shown["key"].get("subscription"), shown["key"].get("paid_until"));
        let says = expected.as_ref().map(|_| ("sub_1", "2026-12-21T10:00:00Z"));
        assert_eq!(subscription.and_then(Value::as_str).zip(paid_until.and_then(Value::as_str)), says);
        assert_eq!(subscription.is_some(), expected.is_some(), "absent where there is none");
        let page = see("/desk/key", key).await;
        for part in ["<bdi>sub_1</bdi>", "<dt>Paid until</dt><dd><time datetime=\"2026-12-21T10:00:00Z\">"] {
            assert_eq!(page.contains(part), expected.is_some(), "{part} in {page}");
        }
    }
}

#[tokio::test]
async fn a_charge_that_nothing_links_is_of_the_only_key_of_its_buyer() {
    use EventOutcome::{Issued, Renewed};
    let sale =
        |order: &str| Sale { lines: vec![line("guide")], buyer: Buyer::by_email(Some(BEN)), ..Sale::new(id(order)) };
    let of_subscription = |name: &str| Links::of_subscription(Some(id(name)));
    let again = |order: &str, name: &str| Sale { is_again: true, links: of_subscription(name), ..sale(order) };
    let shop = shop().await;
    assert_eq!(tell(&shop, again("renewal", "sub_2")).await, Some(Renewed));
    assert_eq!(tell(&shop, again("of another", "sub_3")).await, Some(Issued), "the key is of a subscription");
    // Which of several it is, nobody can tell.
    assert_eq!(tell(&shop, again("of a third", "sub_4")).await, Some(Issued));
}

#[tokio::test]
async fn a_charge_that_had_to_wait_is_of_the_only_key_of_its_buyer_too() {
    let shop = shop().await;
    let desk = Actor::admin();
    let desk = shop.delivery.desk(&desk);
    let product = key_of(&shop, BEN).await.product();
    desk.archive_product(product).await.unwrap();
    shop.clock.advance(Duration::from_hours(24 * 20));
    let links = Links::of_subscription(Some(id("sub_2")));
    let buyer = Buyer::by_email(Some(BEN));
    let sale = Sale { is_again: true, lines: vec![line("guide")], buyer, links, ..Sale::new(id("renewal")) };
    assert_eq!(tell(&shop, sale).await, Some(EventOutcome::NeedsAttention));
    desk.restore_product(product).await.unwrap();
    shop.delivery.maintenance().apply_events().await.unwrap();
    let events = shop.delivery.events(&InboxQuery::default()).await.unwrap().items;
    assert_eq!(events[0].outcome, Some(EventOutcome::Renewed));
    let keys = shop.delivery.keys(&KeyQuery { email: BEN.parse().ok(), ..KeyQuery::default() }).await.unwrap().items;
    assert_eq!(keys.len(), 1);
}

#[tokio::test]
async fn no_buyer_is_told_that_a_key_expires_which_a_subscription_renews() {
    let shop = shop().await;
    let successor =
        shop.delivery.desk(&"alice".parse().unwrap()).rotate(key_of(&shop, ADA).await.id()).await.unwrap().key;
    sent(&shop).await;
    // Both expire within 14 days.
    shop.clock.advance(Duration::from_hours(24 * 22));
    assert_eq!(shop.delivery.maintenance().notify_expiring().await.unwrap(), 2);
    let told: Vec<String> = sent(&shop).await.into_iter().map(|(buyer, _)| buyer).collect();
    assert_eq!(told, [BEN]);
    assert_eq!(shop.delivery.maintenance().notify_expiring().await.unwrap(), 0, "each is looked at once");
    assert!(shop.delivery.key(successor.id()).await.unwrap().is_some_and(|key| key.revoked_at().is_none()));
}
