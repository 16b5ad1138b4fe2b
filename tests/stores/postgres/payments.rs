//! What was paid, reported to two servers at once.

use delivery_core::key::Actor;
use delivery_core::ledger::Amount;
use delivery_core::order::Source;
use delivery_core::platform::{Buyer, Event, Line, Links, Notification, Sale};
use delivery_core::product::Refs;
use delivery_core::store::KeyQuery;
use delivery_testing::Shop;

use super::two_servers;
use crate::fixtures::facts;

/// A platform reports a checkout and its invoice as two sales, and a load balancer gives each to another server.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_checkout_and_its_invoice_at_once_are_one_key_and_one_payment() {
    const ROUNDS: u64 = 40;
    let [one, other] = two_servers().await;
    let source: Source = "own".parse().unwrap();
    let refs = Refs::new([(source.clone(), "course".parse().unwrap())]).unwrap();
    let course = one.delivery.add_product(facts("Course").refs(refs)).await.unwrap().id();
    let paid = Amount { units: 900, currency: "USD".parse().unwrap() };
    let tell = async |server: &Shop, order: String, round: u64, is_first: bool| {
        let named = |what: &str| format!("{what} {round}").parse().ok();
        let sale = Sale {
            total: Some(paid),
            lines: vec![Line::named([Some("course".to_owned())])],
            buyer: Buyer::by_email(Some("a@example.com")),
            links: Links { subscription: named("sub"), invoice: named("inv"), is_first, ..Links::default() },
            ..Sale::new(order.parse().unwrap())
        };
        let told =
            Notification { id: order, kind: "sale".to_owned(), is_test: false, events: Ok(vec![Event::Paid(sale)]) };
        server.delivery.receive(&source, told).await.unwrap();
    };
    for round in 0..ROUNDS {
        let checkout = tell(&one, format!("checkout {round}"), round, false);
        tokio::join!(checkout, tell(&other, format!("inv {round}"), round, true));
    }
    let figures = one.delivery.desk(&Actor::admin()).figures(2).await.unwrap();
    let (currencies, units): (Vec<_>, Vec<_>) =
        figures.revenue.iter().map(|(_, amount)| (amount.currency, amount.units)).unzip();
    assert!(currencies.iter().all(|currency| *currency == paid.currency), "{figures:?}");
    assert_eq!(units.into_iter().sum::<u64>(), ROUNDS * paid.units, "{figures:?}");
    let query = KeyQuery { product: Some(course), limit: 100, ..KeyQuery::default() };
    assert_eq!(one.delivery.keys(&query).await.unwrap().items.len() as u64, ROUNDS);
}
