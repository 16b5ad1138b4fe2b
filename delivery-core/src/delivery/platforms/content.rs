//! The content of an event in the inbox: what the platform's notification says, and what the seller has added.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::email::Email;
#[cfg(feature = "pages")]
use crate::ledger::Amount;
use crate::platform::{Event, Line};
use crate::product::{ProductId, RefName};

/// The content of an event in the inbox: what the platform's notification says, and what the seller has added.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct EventContent {
    pub(super) is_test: bool,
    /// `None` if the notification could not be read.
    pub(super) events: Option<Vec<Event>>,
    #[serde(default)]
    pub(super) added: Added,
}

/// What the seller adds to an event. The address is used if the platform gave no usable address of the buyer. The
/// product is used for lines of the order that name no product that is sold here.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Added {
    pub(super) email: Option<Email>,
    pub(super) product: Option<ProductId>,
}

impl EventContent {
    pub(super) fn new(is_test: bool, events: Option<Vec<Event>>) -> Self {
        Self { is_test, events, added: Added::default() }
    }

    /// Adds what the seller says about the event. If a value is `None`, the value that the seller added before stays.
    pub(super) fn add(&mut self, Added { email, product }: Added) {
        self.added.email = email.or(self.added.email.take());
        self.added.product = product.or(self.added.product);
    }

    /// Removes the amounts of an event about a test purchase, so that they are not counted as revenue.
    pub(super) fn drop_totals_of_tests(&mut self) {
        for event in self.events.iter_mut().flatten().filter(|_| self.is_test) {
            match event {
                Event::Paid(sale) => sale.total = None,
                Event::Captured { total, .. } => *total = None,
                _ => {}
            }
        }
    }

    /// Returns the buyer's e-mail address, which may be invalid; `None` if the platform sent none.
    #[cfg(feature = "pages")]
    fn buyer(&self) -> Option<&str> {
        self.events.iter().flatten().find_map(|event| match event {
            Event::Paid(sale) => sale.buyer.email.as_deref(),
            Event::Subscription(word) => word.buyer.email.as_deref(),
            Event::Captured { buyer, .. } => buyer.email.as_deref(),
            _ => None,
        })
    }

    /// Returns the platform's names for what was bought.
    pub(super) fn names(&self) -> BTreeSet<RefName> {
        self.lines().flat_map(|line| &line.names).filter_map(|name| name.parse().ok()).collect()
    }

    /// Returns the lines of the order: each names what was bought, and how many pieces.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Line> {
        let lines = self.events.iter().flatten().filter_map(|event| match event {
            Event::Paid(sale) => Some(&sale.lines),
            Event::Subscription(word) => Some(&word.lines),
            _ => None,
        });
        lines.flatten()
    }
}

/// What an event of the inbox says, for the page that shows it.
#[cfg(feature = "pages")]
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// The platform's names for what was bought.
    pub(crate) names: BTreeSet<RefName>,
    /// The buyer's e-mail address, which may be invalid; `None` if the platform sent none.
    pub(crate) buyer: Option<String>,
    /// The amount of a sale, which may be only authorised. `None` if the event is about something else, or reports no
    /// amount.
    pub(crate) total: Option<Amount>,
}

#[cfg(feature = "pages")]
impl Said {
    /// Reads what an event says. Returns an empty value if the event's content cannot be read, or has been deleted.
    pub(crate) fn by(event: &crate::ledger::InboxEvent) -> Self {
        let content: Option<EventContent> = event.body.as_deref().and_then(|body| serde_json::from_str(body).ok());
        let said = |content: EventContent| Self {
            names: content.names(),
            buyer: content.buyer().map(str::to_owned),
            total: content.events.iter().flatten().find_map(|event| match event {
                Event::Paid(sale) => sale.total,
                Event::Captured { total, .. } => *total,
                _ => None,
            }),
        };
        content.map(said).unwrap_or_default()
    }
}
