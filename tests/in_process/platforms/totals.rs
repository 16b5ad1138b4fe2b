//! What was paid, as each platform says it in its own unit.

use std::collections::BTreeSet;

use delivery_core::order::OrderRef;
use delivery_core::platform::{Amount, Event, Platform, Received, Sale};

use super::shop::{Own, Shop, id, sale};
use super::{Expect, read, vectors};

/// The amounts of the sales in these vectors.
fn totals(platform: &str, text: &str) -> String {
    let accepted = vectors(text).into_iter().filter(|vector| vector.expect == Expect::Accept && !vector.optional);
    let mut totals = BTreeSet::new();
    for vector in accepted {
        let Ok(Received::Notification(notification)) = read(platform, &vector) else { continue };
        totals.extend(notification.events.iter().flatten().filter_map(|event| match event {
            Event::Paid(sale) => Some(sale.total.map_or("unsaid".to_owned(), |total| total.to_string())),
            _ => None,
        }));
    }
    totals.into_iter().collect::<Vec<_>>().join(", ")
}

macro_rules! said {
    ($platform:literal, $file:literal, $expected:literal) => {
        assert_eq!(totals($platform, include_str!(concat!("vectors/", $file, ".json"))), $expected, "{}", $file);
    };
}

#[test]
fn each_platform_says_what_was_paid() {
    said!("stripe", "stripe", "0.00 USD, 49.00 USD");
    said!("stripe", "subscriptions/stripe", "0.00 USD, 12.00 USD, 19.00 USD, 45.31 USD");
    said!("shopify", "shopify", "49.00 USD");
    said!("lemonsqueezy", "lemonsqueezy", "58.80 USD");
    said!("paddle", "paddle", "216.66 USD, 652.15 USD");
    said!("gumroad", "gumroad", "49.00 USD");
    said!("woocommerce", "woocommerce", "49.00 USD");
    said!("woocommerce", "subscriptions/woocommerce", "19.00 EUR");
    said!("polar", "polar", "0.00 USD, 58.80 USD");
    said!("standard", "standard", "49.00 USD, unsaid");
    said!("standard", "subscriptions/standard", "19.00 USD");
}

#[tokio::test]
async fn what_was_paid_is_known_of_a_sale_and_of_no_other() {
    let shop = Shop::with_guide().await;
    let total = Amount::from_decimal("12.50", "EUR".parse().unwrap());
    shop.tell(Event::Paid(Sale { total, ..sale("A", "guide") })).await;
    shop.tell(Event::Paid(sale("B", "guide"))).await;
    for (order, expected) in [("A", total), ("B", None), ("C", None)] {
        let order = OrderRef { source: Own.name(), id: id(order) };
        assert_eq!(shop.delivery.paid_for(&order).await.unwrap(), expected, "{order:?}");
    }
}
