//! The content of an event in the inbox, as this version or an earlier one wrote it.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

use crate::email::Email;
use crate::order::OrderId;
use crate::platform::{Buyer, Event, Line, Links, Sale};
use crate::product::{ProductId, RefName};

/// The content of an event in the inbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) is_test: bool,
    /// `None` if the notification could not be read.
    #[serde(deserialize_with = "events")]
    pub(super) events: Option<Vec<Event>>,
    #[serde(default)]
    pub(super) added: Added,
}

/// What the seller adds to a waiting event: the buyer's address, if the platform gave no usable one, and the product
/// of lines that name no product that is sold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Added {
    pub(super) email: Option<Email>,
    pub(super) product: Option<ProductId>,
}

impl Told {
    pub(super) fn new(is_test: bool, events: Option<Vec<Event>>) -> Self {
        Self { is_test, events, added: Added::default() }
    }

    /// Adds what the seller says. A value that is `None` leaves what the seller added before.
    pub(super) fn add(&mut self, Added { email, product }: Added) {
        self.added.email = email.or(self.added.email.take());
        self.added.product = product.or(self.added.product);
    }

    /// Returns the platform's names for what was bought.
    pub(super) fn names(&self) -> BTreeSet<RefName> {
        let lines = self.events.iter().flatten().filter_map(|event| match event {
            Event::Paid(sale) => Some(&sale.lines),
            Event::Told(word) => Some(&word.lines),
            _ => None,
        });
        lines.flatten().flat_map(|line| &line.names).filter_map(|name| name.parse().ok()).collect()
    }
}

/// An event as this version or an earlier one wrote it.
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

/// Reads events as this version or an earlier one wrote them.
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
    use crate::platform::{ChargeRef, Dispute, Extent, Refund, Returned, Standing, Term, Word};

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

    /// Events were written like this while platforms had their own names for what the ledger knows.
    #[test]
    fn events_by_their_former_names_are_read() {
        const NONE: &str = r#""order":null,"payment":null,"invoice":null,"is_first":false"#;
        let id = |name: &str| name.parse::<OrderId>().unwrap();
        let (of, links) = (ChargeRef::Order(id("o")), Links::of_subscription(Some(id("s"))));
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let returned = Returned { line: None, name: "a".to_owned(), pieces: 2, amount: Some(5) };
        let extent = Extent::Lines { refund: "r".to_owned(), lines: vec![returned] };
        let references = format!(r#""references":{{{NONE},"subscription":"s"}}"#);
        let line = r#"{"id":null,"names":["a","b"],"own":null,"quantity":2,"amount":5,"term":"unsaid"}"#;
        for (stored, event) in [
            (
                format!(
                    r#"{{"Paid":{{"order":"o","at":null,"stands_at":null,"is_open":false,"is_again":false,"lines":[],
                    "buyer":{{"email":null,"customer":"c"}},{references}}}}}"#
                ),
                Event::Paid(Sale {
                    links: links.clone(),
                    buyer: Buyer { email: None, customer: Some(id("c")) },
                    ..Sale::new(id("o"))
                }),
            ),
            (
                format!(
                    r#"{{"Told":{{"at":"2026-01-01T00:00:00Z",{references},"lines":[],"buyer":{{"email":null,"customer":null}},
                    "status":"active","term":"unsaid"}}}}"#
                ),
                Event::Told(Word::new(at, links.clone(), (Standing::Active, Term::Unsaid))),
            ),
            (
                format!(
                    r#"{{"Refunded":{{"of":{{"Order":"o"}},{references},"extent":{{"Lines":{{"refund":"r","lines":[{line}]}}}},
                    "cause":"Refund","at":null}}}}"#
                ),
                Event::Refunded(Refund { links: links.clone(), extent, ..Refund::full(of.clone()) }),
            ),
            (
                format!(
                    r#"{{"Kept":{{"of":{{"Order":"o"}},{references},"extent":"Full","cause":"Refund",
                    "at":"2026-01-01T00:00:00Z"}}}}"#
                ),
                Event::Kept { of: of.clone(), at },
            ),
            (
                r#"{"Disputed":{"of":{"Order":"o"},"number":"d","end":null,"extent":"Full"}}"#.to_owned(),
                Event::Disputed(Dispute { number: Some("d".to_owned()), ..Dispute::from(of) }),
            ),
            (format!(r#"{{"Linked":{{{NONE},"subscription":"s"}}}}"#), Event::Linked(links)),
        ] {
            let told: Told = serde_json::from_str(&format!(r#"{{"is_test":false,"events":[{stored}]}}"#)).unwrap();
            assert_eq!(told.events, Some(vec![event]), "{stored}");
        }
    }
}
