//! Paddle Billing: <https://developer.paddle.com/webhooks>.

use chrono::TimeDelta;
use serde_json::Value;

use super::json::{list, object, own, quantity, reference, text};
use super::signature::{Keys, digest, header, not_older, seconds, timed};
use super::{
    Buyer, Dispute, Event, Line, Notification, Platform, Received, Reference, References, Refund, Renewal, Request,
    Sale, Secrets, Unauthentic, Unreadable,
};
use crate::order::Source;

/// Paddle's notifications.
#[derive(Debug, Clone)]
pub struct Paddle {
    keys: Keys,
    tolerance: TimeDelta,
}

impl Paddle {
    /// How old a signature may be: what Paddle's own libraries allow.
    pub const TOLERANCE: TimeDelta = TimeDelta::seconds(5);

    /// Takes notifications that are signed with one of `secrets`, at most 5 seconds ago.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        Self { keys: secrets.as_text(), tolerance: Self::TOLERANCE }
    }

    /// Takes notifications that are older, in whole seconds: where clocks or queues are slower.
    #[must_use]
    pub fn tolerance(self, tolerance: TimeDelta) -> Self {
        Self { tolerance, ..self }
    }
}

impl Platform for Paddle {
    fn name(&self) -> Source {
        Source::of("paddle")
    }

    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic> {
        let (timestamp, signatures) = timed(header(request.headers, "paddle-signature")?, ';', ["ts", "h1"])?;
        not_older(seconds(timestamp)?, request.now, self.tolerance)?;
        self.keys.verify(&[timestamp.as_bytes(), b":", request.body], signatures)?;
        Ok(Received::Notification(notification(request.body)))
    }
}

fn notification(body: &[u8]) -> Notification {
    let read = object(body).ok().and_then(|event| {
        let (id, kind) = (text(&event, "/event_id")?.to_owned(), text(&event, "/event_type")?.to_owned());
        Some((id, kind, event))
    });
    let Some((id, kind, event)) = read else {
        // Its own example bodies have no identity, and say nothing.
        let events = object(body).map(|_| Vec::new());
        return Notification { id: digest("", body), kind: String::new(), is_test: false, events };
    };
    Notification { id, events: events(&kind, &event), kind, is_test: false }
}

fn events(kind: &str, event: &Value) -> Result<Vec<Event>, Unreadable> {
    let data = || event.pointer("/data").filter(|data| data.is_object()).ok_or(Unreadable);
    let event = match kind {
        // What a change of the card, or of the items within a period, comes to is no sale.
        "transaction.completed" if is_change(data()?) => None,
        "transaction.completed" => Some(transaction(data()?)?),
        "customer.created" | "customer.updated" => {
            let (data, email) = (data()?, text(data()?, "/email"));
            let reference = reference(data, "/id").ok_or(Unreadable)?;
            let told_at = text(event, "/occurred_at").and_then(|at| at.parse().ok());
            email.map(|email| Event::Customer { reference, email: email.to_owned(), told_at })
        }
        "adjustment.created" | "adjustment.updated" if text(data()?, "/status") == Some("approved") => {
            adjustment(data()?)?
        }
        _ => None,
    };
    Ok(event.into_iter().collect())
}

fn is_change(data: &Value) -> bool {
    matches!(text(data, "/origin"), Some("subscription_payment_method_change" | "subscription_update"))
}

fn transaction(data: &Value) -> Result<Event, Unreadable> {
    let order = reference(data, "/id").ok_or(Unreadable)?;
    let lines = list(data, "/items").iter().map(line).collect::<Result<_, _>>()?;
    let email = text(data, "/custom_data/email").map(str::to_owned);
    let buyer = Buyer { email, customer: reference(data, "/customer_id") };
    let (subscription, invoice) = (reference(data, "/subscription_id"), reference(data, "/invoice_id"));
    let references = References { invoice, subscription: subscription.clone(), ..References::default() };
    if text(data, "/origin") == Some("subscription_recurring") {
        let subscription = subscription.ok_or(Unreadable)?;
        return Ok(Event::Renewed(Renewal { charge: order, subscription, lines, buyer, references }));
    }
    Ok(Event::Paid(Sale { order, lines, buyer, references }))
}

/// An item, by its price and product. The transaction's own `custom_data` may be the buyer's.
fn line(item: &Value) -> Result<Line, Unreadable> {
    let names = ["/price/id", "/price/product_id"].map(|pointer| reference(item, pointer));
    let own =
        ["/price/custom_data/product_id", "/product/custom_data/product_id", "/price/product/custom_data/product_id"]
            .into_iter()
            .find_map(|pointer| own(item, pointer));
    Ok(Line { id: None, names: names.into_iter().flatten().collect(), own, quantity: quantity(item, "/quantity")? })
}

fn adjustment(data: &Value) -> Result<Option<Event>, Unreadable> {
    let of = Reference::Order(reference(data, "/transaction_id").ok_or(Unreadable)?);
    let is_full = text(data, "/type") == Some("full");
    Ok(match text(data, "/action") {
        Some("chargeback") if is_full => {
            Some(Event::Disputed(Dispute { of, number: reference(data, "/id"), end: None }))
        }
        Some("refund" | "chargeback") => Some(Event::Refunded(Refund::of(of, is_full, reference(data, "/id")))),
        // It does not name the chargeback. That of a part, which changed nothing, changes nothing.
        Some("chargeback_reverse") if is_full => {
            Some(Event::Restored(Dispute { of, number: None, end: reference(data, "/id") }))
        }
        _ => None,
    })
}
