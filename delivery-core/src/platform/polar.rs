//! Polar: <https://polar.sh/docs/integrate/webhooks>.

use serde_json::Value;

use super::json::{object, own, quantity, reference, text};
use super::signature::{Keys, from_base64};
use super::standard::verified;
use super::{
    Buyer, Event, Line, Notification, Platform, Received, Reference, References, Refund, Renewal, Request, Sale,
    Secrets, Unauthentic, Unreadable,
};
use crate::order::Source;

/// Polar's notifications.
#[derive(Debug, Clone)]
pub struct Polar {
    keys: Keys,
}

impl Polar {
    /// Takes notifications that are signed with one of `secrets`. Polar has signed with the text of a secret, and signs with
    /// the bytes that follow `whsec_` in base64: either is taken.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        let keys = secrets.iter().flat_map(|secret| {
            let decoded = secret.strip_prefix("whsec_").and_then(from_base64);
            [Some(secret.as_bytes().to_vec()), decoded].into_iter().flatten()
        });
        Self { keys: Keys::new(keys) }
    }
}

impl Platform for Polar {
    fn name(&self) -> Source {
        Source::of("polar")
    }

    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic> {
        let id = verified(request, &self.keys, &["webhook"])?.to_owned();
        let body = object(request.body);
        let kind = body.as_ref().ok().and_then(|body| text(body, "/type")).unwrap_or_default().to_owned();
        let events = body.and_then(|body| events(&kind, &body));
        Ok(Received::Notification(Notification { id, events, kind, is_test: false }))
    }
}

fn events(kind: &str, body: &Value) -> Result<Vec<Event>, Unreadable> {
    let data = || body.pointer("/data").filter(|data| data.is_object()).ok_or(Unreadable);
    let event = match kind {
        "order.paid" => paid(data()?)?,
        "order.refunded" => {
            let of = Reference::Order(reference(data()?, "/id").ok_or(Unreadable)?);
            match text(data()?, "/status") {
                Some("refunded") => Some(Event::Refunded(Refund::full(of))),
                Some("partially_refunded") => {
                    Some(Event::Refunded(Refund::of(of, false, reference(data()?, "/refunded_amount"))))
                }
                _ => None,
            }
        }
        _ => None,
    };
    Ok(event.into_iter().collect())
}

fn paid(data: &Value) -> Result<Option<Event>, Unreadable> {
    let order = reference(data, "/id").ok_or(Unreadable)?;
    let names = ["/product_id", "/product_price_id"].map(|pointer| reference(data, pointer));
    let line = Line {
        id: None,
        names: names.into_iter().flatten().collect(),
        own: own(data, "/product/metadata/product_id"),
        quantity: quantity(data, "/seats")?,
    };
    let (lines, buyer) = (vec![line], Buyer::by_email(text(data, "/customer/email")));
    let subscription = reference(data, "/subscription_id");
    let references = References { subscription: subscription.clone(), ..References::default() };
    Ok(match text(data, "/billing_reason") {
        Some("subscription_cycle") => {
            let subscription = subscription.ok_or(Unreadable)?;
            Some(Event::Renewed(Renewal { charge: order, subscription, lines, buyer, references }))
        }
        // The price of a change in the middle of a period.
        Some("subscription_update") => None,
        _ => Some(Event::Paid(Sale { order, lines, buyer, references })),
    })
}
