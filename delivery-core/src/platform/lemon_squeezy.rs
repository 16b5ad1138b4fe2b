//! Lemon Squeezy: <https://docs.lemonsqueezy.com/help/webhooks>.

use serde_json::Value;

use super::json::{is_true, object, quantity, reference, text, time};
use super::signature::{Keys, digest, header, hex};
use super::{
    Buyer, Event, Line, Notification, Platform, Received, Reference, References, Refund, Request, Sale, Secrets,
    Standing, Term, Unauthentic, Unreadable, Word,
};
use crate::order::Source;

/// Lemon Squeezy's notifications.
#[derive(Debug, Clone)]
pub struct LemonSqueezy {
    keys: Keys,
}

impl LemonSqueezy {
    /// Takes notifications that are signed with one of `secrets`.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        Self { keys: secrets.as_text() }
    }
}

impl Platform for LemonSqueezy {
    fn name(&self) -> Source {
        Source::of("lemonsqueezy")
    }

    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic> {
        let signature = hex(header(request.headers, "x-signature")?);
        self.keys.verify(&[request.body], signature)?;
        let body = object(request.body);
        // The header that names the event is not signed.
        let kind = body.as_ref().ok().and_then(|body| text(body, "/meta/event_name")).unwrap_or_default().to_owned();
        let is_test = |body: &Value| is_true(body, "/meta/test_mode") || is_true(body, "/data/attributes/test_mode");
        Ok(Received::Notification(Notification {
            id: digest(&kind, request.body),
            is_test: body.as_ref().is_ok_and(is_test),
            events: body.and_then(|body| events(&kind, &body)),
            kind,
        }))
    }
}

fn events(kind: &str, body: &Value) -> Result<Vec<Event>, Unreadable> {
    let id = || reference(body, "/data/id").ok_or(Unreadable);
    // Invoices of subscriptions are numbered apart from orders: an order may have the same number.
    let charge = || id().map(|invoice| format!("invoice:{invoice}"));
    let shown = body.pointer("/data/attributes").ok_or(Unreadable);
    let is_paid = shown.is_ok_and(|shown| text(shown, "/status") == Some("paid"));
    let event = match (text(body, "/data/type").unwrap_or_default(), kind) {
        ("orders", "order_created") if is_paid => sold(id()?, shown?),
        ("orders", "order_refunded") => Some(Event::Refunded(refund(id()?, shown?))),
        ("subscription-invoices", "subscription_payment_success") => charged(charge()?, shown?),
        ("subscription-invoices", "subscription_payment_refunded") => {
            let (charge, shown) = (charge()?, shown?);
            Some(Event::Refunded(Refund { references: references(&charge, shown), ..refund(charge, shown) }))
        }
        ("subscriptions", _) if kind.starts_with("subscription_") => Some(told(id()?, shown?)),
        _ => None,
    };
    Ok(event.into_iter().collect())
}

/// An order has one item.
fn sold(order: String, shown: &Value) -> Option<Event> {
    let item = shown.pointer("/first_order_item").unwrap_or(&Value::Null);
    let line = Line { quantity: quantity(item, "/quantity")?, ..line(item) };
    Some(Event::Paid(Sale {
        order,
        at: time(shown, "/created_at"),
        lines: vec![line],
        buyer: buyer(shown),
        references: References::default(),
        ..Sale::default()
    }))
}

/// An invoice of a subscription, which names no product.
fn charged(order: String, shown: &Value) -> Option<Event> {
    match text(shown, "/billing_reason")? {
        "initial" => Some(Event::Linked(References { order: Some(order.clone()), ..references(&order, shown) })),
        "renewal" | "updated" => Some(Event::Paid(Sale {
            references: references(&order, shown),
            order,
            at: time(shown, "/created_at"),
            lines: Vec::new(),
            buyer: buyer(shown),
            ..Sale::default()
        })),
        _ => None,
    }
}

/// What an invoice belongs to. The initial one is the order that began the subscription; another is of no order.
fn references(charge: &str, shown: &Value) -> References {
    let is_first = text(shown, "/billing_reason") == Some("initial");
    let invoice = (!is_first).then(|| charge.to_owned());
    References { invoice, subscription: reference(shown, "/subscription_id"), is_first, ..References::default() }
}

/// A refund of an order or charge: all of it, or a sum so far.
fn refund(order: String, shown: &Value) -> Refund {
    Refund::of(Reference::Order(order), is_true(shown, "/refunded"), reference(shown, "/refunded_amount"))
}

/// What is said of a subscription; without a time, no more than which order began it.
fn told(subscription: String, shown: &Value) -> Event {
    let (order, subscription) = (reference(shown, "/order_id"), Some(subscription));
    let references = References { order, subscription, ..References::default() };
    let Some(at) = time(shown, "/updated_at") else { return Event::Linked(references) };
    let lines = Some(line(shown)).filter(|line| !line.names.is_empty()).into_iter().collect();
    let (status, term) = standing(shown);
    Event::Told(Word { at, references, lines, buyer: buyer(shown), status, term })
}

fn standing(shown: &Value) -> (Standing, Term) {
    let (status, until) = match text(shown, "/status").unwrap_or_default() {
        "on_trial" => (Standing::Trialing, "/trial_ends_at"),
        "active" => (Standing::Active, "/renews_at"),
        "cancelled" => (Standing::Leaving, "/ends_at"),
        "expired" => (Standing::Ended, "/ends_at"),
        // While it is past due, `renews_at` is the next attempt to charge.
        _ => return (Standing::Unsaid, Term::Unsaid),
    };
    match time(shown, until) {
        Some(until) => (status, Term::Until(until)),
        None if status == Standing::Active => (status, Term::Unsaid),
        None => (Standing::Unsaid, Term::Unsaid),
    }
}

/// A piece of an item, or of what a subscription is of.
fn line(item: &Value) -> Line {
    let named = |kind, pointer| reference(item, pointer).map(|id| format!("{kind}:{id}"));
    Line::named([named("variant", "/variant_id"), named("product", "/product_id")])
}

fn buyer(shown: &Value) -> Buyer {
    Buyer::by_email(text(shown, "/user_email"))
}
