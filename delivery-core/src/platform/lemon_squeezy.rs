//! Lemon Squeezy: <https://docs.lemonsqueezy.com/help/webhooks>.

use serde_json::Value;

use super::json::{is_true, object, quantity, reference, text};
use super::signature::{Keys, digest, header, hex};
use super::{
    Buyer, Event, Line, Notification, Platform, Received, Reference, References, Refund, Renewal, Request, Sale,
    Secrets, Unauthentic, Unreadable,
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
        Ok(Received::Notification(Notification {
            id: digest(&kind, request.body),
            is_test: body.as_ref().is_ok_and(|body| is_true(body, "/meta/test_mode")),
            events: body.and_then(|body| events(&kind, &body)),
            kind,
        }))
    }
}

fn events(kind: &str, body: &Value) -> Result<Vec<Event>, Unreadable> {
    let shown = body.pointer("/data/attributes");
    let read = || Ok((reference(body, "/data/id").ok_or(Unreadable)?, shown.ok_or(Unreadable)?));
    let is = |name| text(body, "/data/type") == Some(name);
    let says = |field, value| shown.and_then(|shown| text(shown, field)) == Some(value);
    let event = match kind {
        "order_created" if is("orders") && says("/status", "paid") => {
            let (order, shown) = read()?;
            let item = shown.pointer("/first_order_item").ok_or(Unreadable)?;
            let buyer = Buyer::by_email(text(shown, "/user_email"));
            Some(Event::Paid(Sale { order, lines: vec![line(item)?], buyer, references: References::default() }))
        }
        "order_refunded" if is("orders") => {
            let (order, shown) = read()?;
            Some(Event::Refunded(refund(order, shown)))
        }
        // An order does not name the subscription that it began.
        "subscription_created" if is("subscriptions") => {
            let (subscription, shown) = read()?;
            let order = reference(shown, "/order_id").ok_or(Unreadable)?;
            let (order, subscription) = (Some(order), Some(subscription));
            Some(Event::Linked(References { order, subscription, ..References::default() }))
        }
        "subscription_payment_success" if is("subscription-invoices") && says("/billing_reason", "renewal") => {
            let (invoice, shown) = read()?;
            Some(Event::Renewed(Renewal {
                charge: charge(&invoice),
                subscription: reference(shown, "/subscription_id").ok_or(Unreadable)?,
                lines: Vec::new(),
                buyer: Buyer::by_email(text(shown, "/user_email")),
                references: References::default(),
            }))
        }
        "subscription_payment_refunded" if is("subscription-invoices") => {
            let (invoice, shown) = read()?;
            Some(Event::Refunded(refund(charge(&invoice), shown)))
        }
        _ => None,
    };
    Ok(event.into_iter().collect())
}

/// A refund of an order or charge: all of it, or a sum so far.
fn refund(order: String, shown: &Value) -> Refund {
    Refund::of(Reference::Order(order), is_true(shown, "/refunded"), reference(shown, "/refunded_amount"))
}

/// A further charge. Invoices of subscriptions are numbered apart from orders: an order may have the same number.
fn charge(invoice: &str) -> String {
    format!("invoice:{invoice}")
}

/// An item, by its variant and product.
fn line(item: &Value) -> Result<Line, Unreadable> {
    let names = [("variant", "/variant_id"), ("product", "/product_id")]
        .map(|(kind, pointer)| reference(item, pointer).map(|id| format!("{kind}:{id}")));
    Ok(Line {
        id: None,
        names: names.into_iter().flatten().collect(),
        own: None,
        quantity: quantity(item, "/quantity")?,
    })
}
