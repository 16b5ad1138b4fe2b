//! WooCommerce: <https://woocommerce.com/document/webhooks/>.

use std::iter;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::json::{decimal, id, list, needed, object, own_by_sku, quantity, reference, text, time};
use super::signature::{Keys, base64, digest, header};
use super::{
    Buyer, ChargeRef, Event, Line, Links, Notification, Platform, Received, Refund, Request, Sale, Secrets, Standing,
    SubscriptionEvent, Term, Unauthentic, Unreadable,
};
use crate::order::{OrderId, Source};

/// The notifications of a shop with WooCommerce.
#[derive(Debug, Clone)]
pub struct WooCommerce {
    keys: Keys,
}

impl WooCommerce {
    /// Accepts notifications that are signed with one of `secrets`. Some versions of WooCommerce sign with the
    /// HTML-escaped secret, in which `&` is `&amp;`. A secret may be given in either form, and signatures made with
    /// either form are accepted.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        let keys = secrets.iter().flat_map(|secret| {
            let plain = unescaped(secret);
            [secret.to_owned(), escaped(&plain), plain].map(String::into_bytes)
        });
        Self { keys: Keys::new(keys) }
    }
}

impl Platform for WooCommerce {
    fn name(&self) -> Source {
        Source::of("woocommerce")
    }

    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic> {
        if is_ping(request) {
            return Ok(Received::Ping);
        }
        let signature = base64(header(request.headers, "x-wc-webhook-signature")?);
        self.keys.verify(&[request.body], signature)?;
        let kind = header(request.headers, "x-wc-webhook-topic").unwrap_or_default().to_owned();
        let events = object(request.body).and_then(|body| events(&kind, &body));
        let id = digest(&kind, request.body);
        Ok(Received::Notification(Notification { id, events, kind, is_test: false }))
    }
}

/// Returns whether the request only tests the connection. A shop sends such a test when the webhook is saved. The test
/// is an unsigned form that contains the number of the webhook.
fn is_ping(request: &Request<'_>) -> bool {
    let number = request.body.strip_prefix(b"webhook_id=");
    let is_number = number.is_some_and(|it| (1..=20).contains(&it.len()) && it.iter().all(u8::is_ascii_digit));
    is_number && !request.headers.contains_key("x-wc-webhook-signature")
}

/// The HTML entities that WordPress writes. `&amp;` comes last, so that the `&` that results from it is not decoded
/// again.
const ENTITIES: [(&str, &str); 5] = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#039;", "'"), ("&amp;", "&")];

fn unescaped(secret: &str) -> String {
    ENTITIES.into_iter().fold(secret.to_owned(), |text, (entity, character)| text.replace(entity, character))
}

fn escaped(secret: &str) -> String {
    let from_the_last = ENTITIES.into_iter().rev();
    from_the_last.fold(secret.to_owned(), |text, (entity, character)| text.replace(character, entity))
}

/// Reads the events of a notification. The topic is not signed, so the body must show whether it describes an order or
/// a subscription. The two have many fields in common, but only a subscription has a `billing_period`.
fn events(topic: &str, body: &Value) -> Result<Vec<Event>, Unreadable> {
    let is_subscription = body.pointer("/billing_period").is_some();
    match topic {
        "order.created" | "order.updated" | "order.restored" if !is_subscription => of_order(body),
        _ if topic.starts_with("subscription.") && is_subscription => Ok(vec![subscription_event(body)?]),
        _ => Ok(Vec::new()),
    }
}

fn of_order(order: &Value) -> Result<Vec<Event>, Unreadable> {
    let number = || needed(order, "/id");
    let is_paid = text(order, "/date_paid_gmt").is_some();
    Ok(match text(order, "/status") {
        Some("processing" | "completed") if is_paid => paid(order, number()?),
        Some("refunded") => vec![Event::Refunded(Refund::full(ChargeRef::Order(number()?)))],
        // A cancelled order that was never paid is ignored: it may be paid later.
        Some("cancelled") if is_paid => {
            vec![Event::Refunded(Refund { at: changed_at(order), ..Refund::cancelled(number()?) })]
        }
        _ => Vec::new(),
    })
}

fn paid(order: &Value, number: OrderId) -> Vec<Event> {
    let (lines, subscription) = (lines(order), subscription(order));
    if lines.is_empty() && subscription.is_none() {
        return Vec::new();
    }
    let refunds = list(order, "/refunds").len();
    let of = ChargeRef::Order(number.clone());
    let refunded = (refunds > 0).then(|| Event::Refunded(Refund::of(of, false, Some(refunds.to_string()))));
    let sale = Sale {
        at: time(order, "/date_paid_gmt"),
        stands_at: changed_at(order),
        total: decimal(order, "/total", "/currency"),
        is_again: subscription.is_some(),
        lines,
        buyer: Buyer::by_email(text(order, "/billing/email")),
        // The payment is left out: no event refers to an order by its payment, and a shop may write anything into that
        // field.
        links: Links::of_subscription(subscription),
        ..Sale::new(number)
    };
    iter::once(Event::Paid(sale)).chain(refunded).collect()
}

/// Returns when the order was last changed. If the order does not say, returns when it was paid.
fn changed_at(order: &Value) -> Option<DateTime<Utc>> {
    date(order, "date_modified").or_else(|| time(order, "/date_paid_gmt"))
}

/// Returns the subscription that an order renews or switches. It is read from the order's own metadata, which a buyer
/// cannot fill.
fn subscription(order: &Value) -> Option<OrderId> {
    let metadata = list(order, "/meta_data");
    ["_subscription_renewal", "_subscription_switch"].into_iter().find_map(|key| {
        metadata.iter().filter(|entry| text(entry, "/key") == Some(key)).find_map(|entry| number(entry, "/value"))
    })
}

fn subscription_event(subscription: &Value) -> Result<Event, Unreadable> {
    let order = number(subscription, "/parent_id");
    let links = Links { order, ..Links::of_subscription(Some(needed(subscription, "/id")?)) };
    let Some(at) = date(subscription, "date_modified") else { return Ok(Event::Linked(links)) };
    let end = date(subscription, "end_date");
    let (status, until) = match text(subscription, "/status") {
        Some("active") => (Standing::Active, date(subscription, "next_payment_date").or(end)),
        Some("pending-cancel") => (Standing::Leaving, end),
        Some("cancelled" | "expired" | "switched") => (Standing::Ended, end.or(Some(at))),
        _ => (Standing::Unsaid, None),
    };
    let term = until.map_or(Term::Unsaid, Term::Until);
    Ok(Event::Subscription(SubscriptionEvent {
        lines: lines(subscription),
        ..SubscriptionEvent::new(at, links, (status, term))
    }))
}

/// Reads a date in UTC. In the first version of the API, the name of the field lacks `_gmt`.
fn date(body: &Value, name: &str) -> Option<DateTime<Utc>> {
    time(body, &format!("/{name}_gmt")).or_else(|| time(body, &format!("/{name}")))
}

fn lines(body: &Value) -> Vec<Line> {
    list(body, "/line_items").iter().filter_map(line).collect()
}

/// Reads a line item as a line whose names are its SKU, variation and product. Returns `None` for an item whose
/// quantity is 0. Also returns `None` for an item that has none of these names, because a seller could not map the item
/// to a product. Ignores the item's metadata, which the buyer may have filled.
fn line(item: &Value) -> Option<Line> {
    let sku = text(item, "/sku").map(str::to_owned);
    let [variation, product] = [("variation", "/variation_id"), ("product", "/product_id")]
        .map(|(kind, pointer)| number(item, pointer).map(|id| format!("{kind}:{id}")));
    let line = Line {
        id: reference(item, "/id"),
        own: own_by_sku(item, "/sku"),
        quantity: quantity(item, "/quantity")?,
        ..Line::named([sku, variation, product])
    };
    (!line.names.is_empty()).then_some(line)
}

/// Returns the number of an object. Returns `None` if the value is missing or contains anything but digits. Also
/// returns `None` if the value is 0, which WooCommerce writes where there is no object.
fn number(value: &Value, pointer: &str) -> Option<OrderId> {
    id(value, pointer).ok()?.filter(|id| id.as_str() != "0" && id.as_str().bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use ::http::{HeaderMap, HeaderName};
    use data_encoding::BASE64;
    use hmac::{Hmac, KeyInit, Mac};
    use sha2::Sha256;

    use super::*;

    fn said(topic: &str, body: &str) -> Vec<Event> {
        events(topic, &object(body.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn an_order_is_no_subscription_and_a_subscription_no_order() {
        let order =
            r#"{"id":1,"status":"completed","date_paid_gmt":"2026-01-01T09:00:00","line_items":[{"product_id":22}]}"#;
        let subscription = r#"{"id":2,"parent_id":1,"status":"cancelled","date_paid_gmt":"2026-01-01T09:00:00",
            "date_modified_gmt":"2026-01-20T10:00:00","billing_period":"month","line_items":[{"product_id":22}]}"#;
        assert!(matches!(&said("order.created", order)[..], [Event::Paid(_)]));
        assert!(matches!(&said("subscription.updated", subscription)[..], [Event::Subscription(word)]
            if word.status == Standing::Ended && word.term == Term::Until(word.at)));
        assert!(said("subscription.updated", order).is_empty());
        assert!(said("order.updated", subscription).is_empty());
    }

    #[test]
    fn lines_without_a_name_are_no_sale() {
        let order = |lines: &str, key: &str| {
            let body = format!(
                r#"{{"id":1,"status":"completed","date_paid_gmt":"2026-01-01T09:00:00","line_items":[{lines}],
                "meta_data":[{{"key":"{key}","value":["x"]}},{{"key":"{key}","value":5001}}]}}"#
            );
            match &said("order.updated", &body)[..] {
                [Event::Paid(sale)] => Some((sale.lines.len(), sale.links.subscription.clone())),
                _ => None,
            }
        };
        let (tip, plan) = (r#"{"product_id":0,"sku":""}"#, r#"{"variation_id":23,"quantity":"2"}"#);
        assert_eq!(order(tip, "x"), None);
        assert_eq!(order(&format!("{tip},{plan}"), "x"), Some((1, None)));
        for key in ["_subscription_renewal", "_subscription_switch"] {
            assert_eq!(order(plan, key), Some((1, "5001".parse().ok())));
            assert_eq!(order(tip, key), Some((0, "5001".parse().ok())));
        }
    }

    #[test]
    fn a_secret_is_accepted_in_either_form() {
        for (stored, signs_with) in [("a&b", "a&amp;b"), ("a&amp;b", "a&b"), ("a&b", "a&b"), ("a&amp;b", "a&amp;b")] {
            let shop = WooCommerce::new(&Secrets::new([stored]).unwrap());
            let mut mac = Hmac::<Sha256>::new_from_slice(signs_with.as_bytes()).unwrap();
            mac.update(b"{}");
            let signature = BASE64.encode(&mac.finalize().into_bytes()).parse().unwrap();
            let headers = HeaderMap::from_iter([(HeaderName::from_static("x-wc-webhook-signature"), signature)]);
            let request = Request { headers: &headers, query: "", body: b"{}", now: DateTime::UNIX_EPOCH };
            assert!(shop.read(&request).is_ok(), "{stored} {signs_with}");
        }
    }

    #[test]
    fn entities_are_decoded_once() {
        assert_eq!(unescaped("a&amp;lt;b&lt;&gt;&quot;&#039;"), "a&lt;b<>\"'");
    }
}
