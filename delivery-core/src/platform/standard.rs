//! Requests that are signed according to the [Standard Webhooks](https://www.standardwebhooks.com) specification. Svix
//! signs in the same way.

use chrono::{DateTime, TimeDelta, Utc};
use http::HeaderMap;
use serde_json::Value;

use super::json::{decimal, id, is_true, needed, object, own, quantity, reference, text, time, units};
use super::signature::{Keys, base64, from_base64, header, not_older, seconds};
use super::{
    Buyer, ChargeRef, Event, Line, Links, Notification, Platform, Received, Refund, Request, Sale, Secrets, Standing,
    SubscriptionEvent, Term, Unauthentic, Unreadable,
};
use crate::order::{OrderId, Source};
use crate::text::Invalid;

/// How far the time of a signature may be in the past or the future. The specification's own libraries allow the same.
const TOLERANCE: TimeDelta = TimeDelta::seconds(300);

/// The notifications `order.paid`, `order.refunded` and `subscription.ended` of any system that signs according to
/// Standard Webhooks.
#[derive(Debug, Clone)]
pub struct Standard {
    keys: Keys,
}

impl Standard {
    /// Accepts requests that are signed with one of `secrets`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if a secret is not base64 with or without the prefix `whsec_`.
    pub fn new(secrets: &Secrets) -> Result<Self, Invalid> {
        let keys: Option<Vec<_>> = secrets.iter().map(from_base64).collect();
        let keys = keys.ok_or(Invalid::expected("must be base64, after whsec_ or without it"))?;
        Ok(Self { keys: Keys::new(keys) })
    }
}

impl Platform for Standard {
    fn name(&self) -> Source {
        Source::of("standard")
    }

    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic> {
        let id = verified(request, &self.keys, &["webhook", "svix"])?.to_owned();
        let body = object(request.body);
        let kind = body.as_ref().ok().and_then(|body| text(body, "/type")).unwrap_or_default().to_owned();
        Ok(Received::Notification(Notification {
            id,
            is_test: body.as_ref().is_ok_and(|body| is_true(body, "/data/test") || is_true(body, "/test")),
            events: body.and_then(|body| events(&kind, &body)),
            kind,
        }))
    }
}

/// Verifies a request's signature and returns the request's id. Each of `families` is the prefix of three header
/// fields: `webhook`, for example, stands for `webhook-id`, `webhook-timestamp` and `webhook-signature`. The first
/// family whose three fields are all present is read.
pub(super) fn verified<'r>(request: &Request<'r>, keys: &Keys, families: &[&str]) -> Result<&'r str, Unauthentic> {
    let family = families.iter().find_map(|family| set(request.headers, family).ok());
    let [id, timestamp, signature] = family.ok_or(Unauthentic)?;
    let signed = seconds(timestamp)?;
    not_older(signed, request.now, TOLERANCE)?;
    not_older(request.now, signed, TOLERANCE)?;
    let signatures = signature.split(' ').filter_map(|entry| entry.strip_prefix("v1,")).filter_map(base64);
    keys.verify(&[id.as_bytes(), b".", timestamp.as_bytes(), b".", request.body], signatures)?;
    Ok(id)
}

fn set<'r>(headers: &'r HeaderMap, family: &str) -> Result<[&'r str; 3], Unauthentic> {
    let field = |name| header(headers, &format!("{family}-{name}"));
    Ok([field("id")?, field("timestamp")?, field("signature")?])
}

fn events(kind: &str, body: &Value) -> Result<Vec<Event>, Unreadable> {
    let data = body.pointer("/data").filter(|data| data.is_object()).ok_or(Unreadable);
    let order = |data| needed(data, "/order_id");
    let event = match kind {
        "order.paid" => paid(order(data?)?, time(body, "/timestamp"), data?)?,
        "order.refunded" => Some(Event::Refunded(Refund::full(ChargeRef::Order(order(data?)?)))),
        "subscription.ended" => Some(Event::Subscription(ended(time(body, "/timestamp"), data?)?)),
        _ => None,
    };
    Ok(event.into_iter().collect())
}

fn paid(order: OrderId, at: Option<DateTime<Utc>>, data: &Value) -> Result<Option<Event>, Unreadable> {
    let subscription = id(data, "/subscription_id")?;
    let until = subscription.as_ref().and_then(|_| time(data, "/paid_until"));
    let Some(quantity) = quantity(data, "/quantity") else { return Ok(None) };
    let line = Line {
        // An event has one product, so an order of several products arrives as several events.
        id: reference(data, "/product_id"),
        own: own(data, "/product_id"),
        quantity,
        term: until.map_or(Term::Unsaid, Term::Until),
        ..Line::named([reference(data, "/product_id")])
    };
    Ok(Some(Event::Paid(Sale {
        at,
        total: units(data, "/amount_total", "/currency").or_else(|| decimal(data, "/total", "/currency")),
        lines: vec![line],
        buyer: Buyer::by_email(text(data, "/customer_email")),
        links: Links::of_subscription(subscription),
        ..Sale::new(order)
    })))
}

fn ended(at: Option<DateTime<Utc>>, data: &Value) -> Result<SubscriptionEvent, Unreadable> {
    let subscription = needed(data, "/subscription_id")?;
    let ended_at = time(data, "/ended_at").ok_or(Unreadable)?;
    let links = Links::of_subscription(Some(subscription));
    Ok(SubscriptionEvent::new(at.unwrap_or(ended_at), links, (Standing::Ended, Term::Until(ended_at))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_paid_is_a_number_of_units_or_a_decimal() {
        for (data, expected) in [
            (json!({ "amount_total": 1250, "currency": "eur" }), Some("12.50 EUR")),
            (json!({ "amount_total": "1250", "currency": "JPY" }), Some("1250 JPY")),
            (json!({ "total": "12.50", "currency": "EUR" }), Some("12.50 EUR")),
            (json!({ "amount_total": 1250 }), None),
        ] {
            let Ok(Some(Event::Paid(sale))) = paid("A-1".parse().unwrap(), None, &data) else { panic!("{data}") };
            assert_eq!(sale.total.map(|total| total.to_string()).as_deref(), expected, "{data}");
        }
    }

    #[test]
    fn two_products_of_an_order_are_two_lines_of_it() {
        let line = |product: &str| {
            let data = json!({ "product_id": product });
            let Ok(Some(Event::Paid(sale))) = paid("A-1".parse().unwrap(), None, &data) else { panic!("{data}") };
            sale.lines[0].id.clone().expect("a line that is known again")
        };
        assert_eq!(line("guide"), line("guide"));
        assert_ne!(line("guide"), line("map"));
    }
}
