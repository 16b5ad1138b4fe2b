//! Stripe: <https://docs.stripe.com/webhooks>.

use chrono::TimeDelta;
use serde_json::Value;

use super::json::{is_true, list, object, own, reference, text};
use super::signature::{Keys, digest, header, not_older, seconds, timed};
use super::{
    Buyer, Dispute, Event, Line, Notification, Platform, Received, Reference, References, Refund, Renewal, Request,
    Sale, Secrets, Unauthentic, Unreadable,
};
use crate::order::Source;

/// How old a signature may be: what Stripe's own libraries allow.
const TOLERANCE: TimeDelta = TimeDelta::seconds(300);

/// Stripe's events, signed with the secret of the endpoint, `whsec_…`.
#[derive(Debug, Clone)]
pub struct Stripe {
    keys: Keys,
}

impl Stripe {
    /// Takes events that are signed with one of `secrets`.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        Self { keys: secrets.as_text() }
    }
}

impl Platform for Stripe {
    fn name(&self) -> Source {
        Source::of("stripe")
    }

    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic> {
        let (timestamp, signatures) = timed(header(request.headers, "stripe-signature")?, ',', ["t", "v1"])?;
        not_older(seconds(timestamp)?, request.now, TOLERANCE)?;
        self.keys.verify(&[timestamp.as_bytes(), b".", request.body], signatures)?;
        Ok(Received::Notification(notification(request.body)))
    }
}

fn notification(body: &[u8]) -> Notification {
    let unreadable =
        || Notification { id: digest("", body), kind: String::new(), is_test: false, events: Err(Unreadable) };
    let Ok(event) = object(body) else { return unreadable() };
    let Some(id) = text(&event, "/id") else { return unreadable() };
    let kind = text(&event, "/type").unwrap_or_default().to_owned();
    let is_test = event.pointer("/livemode") == Some(&Value::Bool(false));
    Notification { id: id.to_owned(), events: events(&kind, &event), kind, is_test }
}

fn events(kind: &str, event: &Value) -> Result<Vec<Event>, Unreadable> {
    // The other kind of event names an object and does not show it.
    if text(event, "/object") != Some("event") {
        return Ok(Vec::new());
    }
    let shown = event.pointer("/data/object").ok_or(Unreadable)?;
    let is = |name| text(shown, "/object") == Some(name);
    let event = match kind {
        "checkout.session.completed" | "checkout.session.async_payment_succeeded" if is("checkout.session") => {
            let is_unpaid = text(shown, "/payment_status").ok_or(Unreadable)? == "unpaid";
            let is_setup = text(shown, "/mode") == Some("setup");
            if is_unpaid || is_setup { None } else { Some(Event::Paid(sale(shown)?)) }
        }
        "invoice.paid" if is("invoice") && text(shown, "/billing_reason") == Some("subscription_cycle") => {
            Some(Event::Renewed(renewal(shown)?))
        }
        "invoice_payment.paid" if is("invoice_payment") => {
            let (payment, invoice) = (reference(shown, "/payment/payment_intent"), reference(shown, "/invoice"));
            let references = References { payment, invoice, ..References::default() };
            let is_link = references.payment.is_some() && references.invoice.is_some();
            is_link.then_some(Event::Linked(references))
        }
        // A charge without a payment intent is of no session and no subscription.
        "charge.refunded" if is("charge") => {
            let (is_full, sum) = (is_true(shown, "/refunded"), reference(shown, "/amount_refunded"));
            payment(shown).map(|payment| Event::Refunded(Refund::of(payment, is_full, sum)))
        }
        "charge.dispute.created" if is("dispute") => dispute(shown).map(Event::Disputed),
        "charge.dispute.closed" if is("dispute") && text(shown, "/status") == Some("won") => {
            dispute(shown).map(Event::Restored)
        }
        _ => None,
    };
    Ok(event.into_iter().collect())
}

fn sale(session: &Value) -> Result<Sale, Unreadable> {
    let email = text(session, "/customer_details/email").or_else(|| text(session, "/customer_email"));
    let names = reference(session, "/payment_link").into_iter().collect();
    Ok(Sale {
        order: reference(session, "/id").ok_or(Unreadable)?,
        lines: vec![Line { id: None, names, own: own(session, "/metadata/product_id"), quantity: 1 }],
        buyer: Buyer::by_email(email),
        references: References {
            order: None,
            payment: reference(session, "/payment_intent"),
            invoice: reference(session, "/invoice"),
            subscription: reference(session, "/subscription"),
        },
    })
}

/// A further invoice of a subscription, which newer versions of the API name inside `parent`.
fn renewal(invoice: &Value) -> Result<Renewal, Unreadable> {
    let details = invoice.pointer("/parent/subscription_details").or_else(|| invoice.pointer("/subscription_details"));
    let details = details.unwrap_or(&Value::Null);
    let charge = reference(invoice, "/id").ok_or(Unreadable)?;
    let subscription = reference(details, "/subscription").or_else(|| reference(invoice, "/subscription"));
    let named = own(details, "/metadata/product_id");
    let lines = list(invoice, "/lines/data").first().map(|line| Line {
        id: None,
        names: Vec::new(),
        own: named.or_else(|| own(line, "/metadata/product_id")),
        quantity: 1,
    });
    Ok(Renewal {
        subscription: subscription.ok_or(Unreadable)?,
        lines: lines.into_iter().collect(),
        buyer: Buyer::by_email(text(invoice, "/customer_email")),
        references: References {
            payment: reference(invoice, "/payment_intent"),
            invoice: Some(charge.clone()),
            ..References::default()
        },
        charge,
    })
}

fn dispute(dispute: &Value) -> Option<Dispute> {
    Some(Dispute { of: payment(dispute)?, number: reference(dispute, "/id"), end: None })
}

fn payment(of: &Value) -> Option<Reference> {
    reference(of, "/payment_intent").map(Reference::Payment)
}
