//! What the inbox keeps of an event, in the words of this version or an earlier one.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

use crate::email::Email;
use crate::order::OrderId;
use crate::platform::{Buyer, Event, Line, Links, Sale};
use crate::product::{ProductId, RefName};

/// What the inbox keeps of an event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) is_test: bool,
    /// `None` if it cannot be read.
    #[serde(deserialize_with = "events")]
    pub(super) events: Option<Vec<Event>>,
    #[serde(default)]
    pub(super) added: Added,
}

/// What the seller adds to an event that waits: the buyer's address, where the platform has none that can be used, and the product
/// of lines that name none that is sold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Added {
    pub(super) email: Option<Email>,
    pub(super) product: Option<ProductId>,
}

impl Told {
    pub(super) fn new(is_test: bool, events: Option<Vec<Event>>) -> Self {
        Self { is_test, events, added: Added::default() }
    }

    /// Adds what the seller says, beside what was said before.
    pub(super) fn add(&mut self, Added { email, product }: Added) {
        self.added.email = email.or(self.added.email.take());
        self.added.product = product.or(self.added.product);
    }

    /// What its lines are called.
    pub(super) fn names(&self) -> BTreeSet<RefName> {
        let lines = self.events.iter().flatten().filter_map(|event| match event {
            Event::Paid(sale) => Some(&sale.lines),
            Event::Told(word) => Some(&word.lines),
            _ => None,
        });
        lines.flatten().flat_map(|line| &line.names).filter_map(|name| name.parse().ok()).collect()
    }
}

/// An event as this version writes it, or as an earlier one did.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Now(Event),
    Before(Before),
}

#[derive(Deserialize)]
enum Before {
    Renewed { charge: OrderId, subscription: OrderId, lines: Vec<Line>, buyer: Buyer, references: Links },
}

/// Events that wait, also those that an earlier version kept.
fn events<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Event>>, D::Error> {
    let stored = Option::<Vec<Stored>>::deserialize(deserializer)?;
    let read = |stored: Stored| match stored {
        Stored::Now(event) => event,
        Stored::Before(Before::Renewed { charge, subscription, lines, buyer, references }) => {
            let links = Links { subscription: Some(subscription), ..references };
            Event::Paid(Sale { lines, buyer, links, ..Sale::new(charge) })
        }
    };
    Ok(stored.map(|events| events.into_iter().map(read).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_that_an_earlier_version_kept_is_a_charge_of_its_subscription() {
        let told: Told = serde_json::from_str(
            r#"{"is_test":false,"events":[{"Renewed":{"charge":"in_2","subscription":"sub_1",
                "lines":[{"id":null,"names":["price_1"],"own":7,"quantity":1}],"buyer":{"email":"ada@example.com","customer":null},
                "references":{"order":null,"payment":"pi_2","invoice":null,"subscription":null}}},
                {"Refunded":{"of":{"Payment":"pi_1"},"extent":"Full","cause":"Refund"}}],"added":{"email":null,"product":7}}"#,
        )
        .unwrap();
        let line = Line { own: crate::product::ProductId::new(7).ok(), ..Line::named([Some("price_1".to_owned())]) };
        let id = |name: &str| name.parse::<OrderId>().unwrap();
        let charge = Event::Paid(Sale {
            lines: vec![line],
            buyer: Buyer::by_email(Some("ada@example.com")),
            links: Links { payment: Some(id("pi_2")), ..Links::of_subscription(Some(id("sub_1"))) },
            ..Sale::new(id("in_2"))
        });
        let written = serde_json::to_value(&told).unwrap();
        assert_eq!(written["events"][0], serde_json::to_value(charge).unwrap());
        assert_eq!(written["events"][1]["Refunded"]["extent"], "Full");
    }
}
