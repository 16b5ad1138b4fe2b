//! Lemon Squeezy: <https://docs.lemonsqueezy.com/help/webhooks>.

use serde_json::Value;

use super::json::{id, is_true, needed, object, quantity, reference, text, time, units};
use super::signature::{Keys, digest, header, hex};
use super::{
    Buyer, ChargeRef, Event, Line, Links, Notification, Platform, Received, Refund, Request, Sale, Secrets, Standing,
    SubscriptionEvent, Term, Unauthentic, Unreadable,
};
use crate::order::{OrderId, Source};

/// Lemon Squeezy's notifications.
#[derive(Debug, Clone)]
pub struct LemonSqueezy {
    keys: Keys,
}

impl LemonSqueezy {
    /// Accepts notifications that are signed with one of `secrets`.
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
        // The header that names the event is not signed, so the name in the body is used.
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
    let number = || needed(body, "/data/id");
    // Invoices of subscriptions are numbered separately from orders, so an invoice and an order may have the same
    // number. The prefix distinguishes them.
    let charge = || format!("invoice:{}", number()?.as_str()).parse().map_err(|_| Unreadable);
    let shown = body.pointer("/data/attributes").ok_or(Unreadable);
    let is_paid = shown.is_ok_and(|shown| text(shown, "/status") == Some("paid"));
    let event = match (text(body, "/data/type").unwrap_or_default(), kind) {
        ("orders", "order_created") if is_paid => sold(number()?, shown?),
        ("orders", "order_refunded") => Some(Event::Refunded(refund(number()?, shown?))),
        ("subscription-invoices", "subscription_payment_success") => charged(charge()?, shown?)?,
        ("subscription-invoices", "subscription_payment_refunded") => {
            let (charge, shown) = (charge()?, shown?);
            Some(Event::Refunded(Refund { links: links(&charge, shown)?, ..refund(charge, shown) }))
        }
        ("subscriptions", _) if kind.starts_with("subscription_") => Some(subscription_event(number()?, shown?)?),
        _ => None,
    };
    Ok(event.into_iter().collect())
}

/// Reads an order, which has one item. Returns `None` if the item's quantity is 0.
fn sold(order: OrderId, shown: &Value) -> Option<Event> {
    let item = shown.pointer("/first_order_item").unwrap_or(&Value::Null);
    let line = Line { quantity: quantity(item, "/quantity")?, ..line(item) };
    Some(Event::Paid(Sale {
        at: time(shown, "/created_at"),
        total: units(shown, "/total", "/currency"),
        lines: vec![line],
        buyer: buyer(shown),
        ..Sale::new(order)
    }))
}

/// Reads an invoice of a subscription. The invoice names no product. Returns `None` for an unknown billing reason.
fn charged(order: OrderId, shown: &Value) -> Result<Option<Event>, Unreadable> {
    Ok(match text(shown, "/billing_reason") {
        Some("initial") => Some(Event::Linked(Links { order: Some(order.clone()), ..links(&order, shown)? })),
        Some("renewal" | "updated") => Some(Event::Paid(Sale {
            links: links(&order, shown)?,
            at: time(shown, "/created_at"),
            total: units(shown, "/total", "/currency"),
            buyer: buyer(shown),
            ..Sale::new(order)
        })),
        _ => None,
    })
}

/// Returns the platform's references to the charge of an invoice. The initial invoice is the payment of the order that
/// began the subscription. A later invoice belongs to no order, so its own number is one of the references.
fn links(charge: &OrderId, shown: &Value) -> Result<Links, Unreadable> {
    let is_first = text(shown, "/billing_reason") == Some("initial");
    let invoice = (!is_first).then(|| charge.clone());
    Ok(Links { invoice, is_first, ..Links::of_subscription(id(shown, "/subscription_id")?) })
}

/// Reads a refund of an order or charge. A partial refund is distinguished from earlier refunds by the sum refunded so
/// far.
fn refund(order: OrderId, shown: &Value) -> Refund {
    Refund::of(ChargeRef::Order(order), is_true(shown, "/refunded"), reference(shown, "/refunded_amount"))
}

/// Reads an event about a subscription itself, rather than about a charge. If the event has no time, only the link
/// between the subscription and the order that began it is read.
fn subscription_event(subscription: OrderId, shown: &Value) -> Result<Event, Unreadable> {
    let links = Links { order: id(shown, "/order_id")?, ..Links::of_subscription(Some(subscription)) };
    let Some(at) = time(shown, "/updated_at") else { return Ok(Event::Linked(links)) };
    let lines = Some(line(shown)).filter(|line| !line.names.is_empty()).into_iter().collect();
    Ok(Event::Subscription(SubscriptionEvent {
        lines,
        buyer: buyer(shown),
        ..SubscriptionEvent::new(at, links, standing(shown))
    }))
}

fn standing(shown: &Value) -> (Standing, Term) {
    let (status, until) = match text(shown, "/status").unwrap_or_default() {
        "on_trial" => (Standing::Trialing, "/trial_ends_at"),
        "active" => (Standing::Active, "/renews_at"),
        "cancelled" => (Standing::Leaving, "/ends_at"),
        "expired" => (Standing::Ended, "/ends_at"),
        // This includes `past_due`: there, `renews_at` is the time of the next attempt to charge, so it is ignored.
        _ => return (Standing::Unsaid, Term::Unsaid),
    };
    match time(shown, until) {
        Some(until) => (status, Term::Until(until)),
        None if status == Standing::Active => (status, Term::Unsaid),
        None => (Standing::Unsaid, Term::Unsaid),
    }
}

/// Reads the variant and product that an order's item or a subscription names, as a line of one piece.
fn line(item: &Value) -> Line {
    let named = |kind, pointer| reference(item, pointer).map(|id| format!("{kind}:{id}"));
    Line::named([named("variant", "/variant_id"), named("product", "/product_id")])
}

fn buyer(shown: &Value) -> Buyer {
    Buyer::by_email(text(shown, "/user_email"))
}
