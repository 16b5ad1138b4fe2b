//! The events that platforms report.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::ledger::{Amount, ChargeRef, Dispute, Links, Refund, Standing, Term};
use crate::order::OrderId;
use crate::product::ProductId;

/// An event that a platform reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// An order was paid, or a subscription was charged. If [`Sale::is_open`] is set, the order is not paid yet.
    Paid(Sale),
    /// A payment was captured. Until then it was only authorised, and its order was reported as [open](Sale::is_open).
    Captured {
        /// The payment.
        payment: OrderId,
        /// When the payment was captured, in whole seconds.
        at: DateTime<Utc>,
        /// The amount that was captured, which may be less than was authorised; `None` if the platform does not say.
        #[serde(default)]
        total: Option<Amount>,
        /// What this event reports about the buyer.
        buyer: Buyer,
    },
    /// Something was sold, but the notification does not say what. The notification waits until the seller handles it.
    Unshown {
        /// What the seller can do, so that later notifications say what was sold.
        advice: String,
    },
    /// A statement about a subscription itself, for example that the subscription has ended.
    #[serde(rename = "Told")]
    Subscription(SubscriptionEvent),
    /// A payment was refunded, or an order was cancelled.
    Refunded(Refund),
    /// A refund failed: the seller keeps the money.
    Kept {
        /// The charge whose refund failed.
        of: ChargeRef,
        /// When the refund failed.
        at: DateTime<Utc>,
    },
    /// A dispute was opened: the buyer's bank took a payment back, or is about to.
    Disputed(Dispute),
    /// The seller won a dispute and keeps the money.
    #[serde(rename = "Restored")]
    Won(Dispute),
    /// Several references of the platform, such as the ids of an order and of a subscription, belong to the same sale.
    Linked(Links),
    /// The e-mail address of a customer. This event must be the only one of its notification. A notification that
    /// contains other events too waits until the seller handles it.
    Customer {
        /// The platform's own reference to the customer.
        reference: OrderId,
        /// The e-mail address.
        email: String,
        /// When the customer had the address. If this is `None`, because the platform does not say, the time of receipt
        /// counts. A stored address with a later time is not replaced.
        told_at: Option<DateTime<Utc>>,
    },
}

/// An order, or a charge of the subscription that `links` names. It is paid, unless [`is_open`](Self::is_open) is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Sale {
    /// The platform's id of the order or charge.
    pub order: OrderId,
    /// When the order or charge was paid, in whole seconds; `None` if the platform does not say. The time of receipt
    /// then counts. Ignored if [`is_open`](Self::is_open) is set.
    #[serde(default)]
    pub at: Option<DateTime<Utc>>,
    /// When the platform reported the order as valid. Set only if the platform may also report that the order is no
    /// longer valid. The newest of these reports counts.
    #[serde(default)]
    pub stands_at: Option<DateTime<Utc>>,
    /// Whether the order is not paid yet: the payment is only authorised, or is still pending. The order is paid once
    /// the payment is [captured](Event::Captured), or once the order is reported again without this flag.
    #[serde(default)]
    pub is_open: bool,
    /// Whether this is a later charge of a subscription that began with another order. If only later charges of the
    /// subscription are known, and the buyer has exactly one key for the product, the order of that key counts as the
    /// order that began the subscription.
    #[serde(default)]
    pub is_again: bool,
    /// The amount of the order or charge, with taxes; `None` if the platform does not say. It is only shown to the
    /// seller, and has no effect on keys.
    #[serde(default)]
    pub total: Option<Amount>,
    /// What was bought. Empty if the platform does not say. The sale then counts as a sale of everything that the
    /// subscription includes.
    pub lines: Vec<Line>,
    /// The platform's ids of the refunds that were made before this report. Set only if the refunded pieces are already
    /// subtracted from the quantities of the lines.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub early: BTreeSet<String>,
    /// The buyer.
    pub buyer: Buyer,
    /// The platform's other references to the sale. Other events may name the sale by one of these references.
    pub links: Links,
}

/// A platform's statement about a subscription itself, rather than about a charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct SubscriptionEvent {
    /// When the statement was true, by the platform's clock, in whole seconds.
    pub at: DateTime<Utc>,
    /// The subscription, and the order that began it if the statement names that order.
    pub links: Links,
    /// What the subscription is for. Empty if the platform does not say, or if the statement is about the whole
    /// subscription.
    pub lines: Vec<Line>,
    /// The subscriber. Needed only if the charges of the subscription name no product. Keys are then issued for the
    /// `lines` of this statement.
    pub buyer: Buyer,
    /// The status of the subscription.
    pub status: Standing,
    /// The time that the statement names, such as the end of the paid period.
    pub term: Term,
}

/// A line of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Line {
    /// The platform's id of the line within the order; `None` if the platform has no such ids. The id must be the same
    /// in every event about the order and in refunds of the line. Without ids, a line is identified by its position in
    /// the event. So if an order of several products can arrive as several events, set the id, for example to the name
    /// of the product.
    pub id: Option<String>,
    /// The platform's names for what was bought, the most specific first. A seller may have mapped one of these names
    /// to a product.
    pub names: Vec<String>,
    /// The id of a product of this service, from a field that only the seller can set. It counts only if none of
    /// `names` is mapped to a product.
    pub own: Option<ProductId>,
    /// The number of pieces, 1 or more; 0 if the platform did not send a valid whole number. A line with 0 pieces waits
    /// for the seller.
    pub quantity: u32,
    /// The amount at which the line is fully refunded, in the unit in which the platform counts refunds: the smallest
    /// unit of the currency, or pieces. `None` if the platform does not report partial refunds of lines.
    #[serde(default)]
    pub amount: Option<u64>,
    /// The time for which the line pays.
    #[serde(default)]
    pub term: Term,
}

/// The buyer of an order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "adapters build it")]
pub struct Buyer {
    /// The e-mail address as the platform sent it, not validated; `None` if there is none.
    pub email: Option<String>,
    /// The platform's own reference to the customer. Set if the platform sends the customer's address in a separate
    /// [event](Event::Customer). That address takes precedence over `email`.
    pub customer: Option<OrderId>,
}

impl Event {
    /// Returns the order, charge, payment or subscription that the event is about; `None` if it names none of these.
    pub(crate) fn concerns(&self) -> Option<&OrderId> {
        match self {
            Self::Paid(sale) => Some(&sale.order),
            Self::Captured { payment, .. } => Some(payment),
            Self::Subscription(SubscriptionEvent { links, .. }) => links.subscription.as_ref().or(links.order.as_ref()),
            Self::Refunded(Refund { of, .. })
            | Self::Kept { of, .. }
            | Self::Disputed(Dispute { of, .. })
            | Self::Won(Dispute { of, .. }) => Some(of.id()),
            Self::Linked(links) => links.order.as_ref().or(links.payment.as_ref()),
            Self::Customer { .. } | Self::Unshown { .. } => None,
        }
    }
}

impl Sale {
    /// Returns a sale of which only the order is known.
    #[must_use]
    pub fn new(order: OrderId) -> Self {
        Self {
            order,
            at: None,
            stands_at: None,
            is_open: false,
            is_again: false,
            total: None,
            lines: Vec::new(),
            early: BTreeSet::new(),
            buyer: Buyer::default(),
            links: Links::default(),
        }
    }
}

impl SubscriptionEvent {
    /// Returns a statement that is about a whole subscription and does not name the subscriber.
    #[must_use]
    pub fn new(at: DateTime<Utc>, links: Links, (status, term): (Standing, Term)) -> Self {
        Self { at, links, lines: Vec::new(), buyer: Buyer::default(), status, term }
    }
}

impl Line {
    /// Returns a line of one piece with those of `names` that are not `None`. The line pays for no particular time.
    #[must_use]
    pub fn named(names: impl IntoIterator<Item = Option<String>>) -> Self {
        let names = names.into_iter().flatten().collect();
        Self { id: None, names, own: None, quantity: 1, amount: None, term: Term::Unsaid }
    }
}

impl Buyer {
    /// Returns a buyer of whom at most the e-mail address is known.
    #[must_use]
    pub fn by_email(email: Option<&str>) -> Self {
        Self { email: email.map(str::to_owned), customer: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{ReferenceKind, sales_named};

    #[test]
    fn the_references_of_an_event_are_found_in_its_stored_form() {
        use ReferenceKind::{Invoice, Order, Payment, Subscription};
        let id = |name: &str| Some(name.parse().unwrap());
        let of_sub = Links::of_subscription(id("sub"));
        let links = Links { payment: id("pi"), invoice: id("in"), ..of_sub };
        let sale = Sale { links: links.clone(), ..Sale::new("A".parse().unwrap()) };
        let (at, buyer) = (DateTime::UNIX_EPOCH, Buyer { email: None, customer: id("ctm") });
        let links = Links { order: id("A"), ..links };
        let subscription = SubscriptionEvent::new(at, links, (Standing::Active, Term::Unsaid));
        let captured = Event::Captured { payment: "pi".parse().unwrap(), at, total: None, buyer };
        let all = [(Order, "A"), (Payment, "pi"), (Invoice, "in"), (Subscription, "sub")];
        for (event, expected) in
            [(Event::Paid(sale), &all[..]), (Event::Subscription(subscription), &all), (captured, &[(Payment, "pi")])]
        {
            let found = sales_named(&serde_json::to_string(&[event]).unwrap());
            let found: Vec<_> = found.iter().map(|(kind, name)| (*kind, name.as_str())).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_event_is_stored_under_the_name_that_earlier_versions_read() {
        let links = Links::of_subscription("sub_1".parse().ok());
        let ended = SubscriptionEvent::new(DateTime::UNIX_EPOCH, links, (Standing::Ended, Term::Unsaid));
        let dispute = Dispute::from(ChargeRef::Order("1001".parse().unwrap()));
        for (event, name) in [(Event::Subscription(ended), "Told"), (Event::Won(dispute), "Restored")] {
            let stored = serde_json::to_value(&event).unwrap();
            assert!(stored.as_object().unwrap().keys().eq([name]), "{stored}");
            assert_eq!(serde_json::from_value::<Event>(stored).unwrap(), event);
        }
    }
}
