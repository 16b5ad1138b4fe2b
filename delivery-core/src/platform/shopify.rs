//! Shopify: <https://shopify.dev/docs/apps/build/webhooks>.

use serde_json::Value;

use super::json::{is_true, list, object, own_by_sku, quantity, reference, text};
use super::signature::{Keys, base64, header};
use super::{
    Buyer, Cause, Event, Extent, Line, Notification, Platform, Received, Reference, References, Refund, Request, Sale,
    Secrets, Unauthentic, Unreadable,
};
use crate::order::Source;

/// Shopify's notifications of one store or app.
#[derive(Debug, Clone)]
pub struct Shopify {
    keys: Keys,
}

impl Shopify {
    /// Takes notifications that are signed with one of `secrets`, whose texts are the keys.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        Self { keys: secrets.as_text() }
    }
}

impl Platform for Shopify {
    fn name(&self) -> Source {
        Source::of("shopify")
    }

    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic> {
        let field = |name| header(request.headers, name);
        let signature = base64(field("x-shopify-hmac-sha256")?);
        let (topic, id) = (field("x-shopify-topic")?, field("x-shopify-webhook-id")?);
        field("x-shopify-shop-domain")?;
        field("x-shopify-api-version")?;
        if request.body.is_empty() {
            return Err(Unauthentic);
        }
        self.keys.verify(&[request.body], signature)?;
        let is_sample = field("x-shopify-test").is_ok_and(|value| value == "true");
        let order = object(request.body);
        let is_test = order.as_ref().is_ok_and(|order| is_true(order, "/test"));
        let events = if is_sample { order.map(|_| Vec::new()) } else { order.and_then(|order| events(topic, &order)) };
        Ok(Received::Notification(Notification {
            id: format!("{topic} {id}"),
            kind: topic.to_owned(),
            is_test,
            events,
        }))
    }
}

fn events(topic: &str, body: &Value) -> Result<Vec<Event>, Unreadable> {
    let event = match topic {
        "orders/paid" if text(body, "/financial_status") == Some("paid") => Some(Event::Paid(sale(body)?)),
        "orders/cancelled" if text(body, "/cancelled_at").is_some() => {
            Some(Event::Refunded(Refund::cancelled(reference(body, "/id").ok_or(Unreadable)?)))
        }
        "refunds/create" if is_refund(body) => Some(Event::Refunded(refund(body)?)),
        _ => None,
    };
    Ok(event.into_iter().collect())
}

/// The topic is not signed: the body must show that it is a refund.
fn is_refund(body: &Value) -> bool {
    body.pointer("/order_id").is_some() && body.pointer("/refund_line_items").is_some_and(Value::is_array)
}

fn sale(order: &Value) -> Result<Sale, Unreadable> {
    let addresses = ["/email", "/contact_email", "/customer/email"];
    let lines = list(order, "/line_items").iter().map(|item| Ok(line(item, quantity(item, "/quantity")?)));
    Ok(Sale {
        order: reference(order, "/id").ok_or(Unreadable)?,
        lines: lines.collect::<Result<_, _>>()?,
        buyer: Buyer::by_email(addresses.into_iter().find_map(|pointer| text(order, pointer))),
        references: References::default(),
    })
}

fn refund(refund: &Value) -> Result<Refund, Unreadable> {
    let of = Reference::Order(reference(refund, "/order_id").ok_or(Unreadable)?);
    let items = list(refund, "/refund_line_items").iter().map(|item| {
        let sold = item.pointer("/line_item").ok_or(Unreadable)?;
        Ok(line(sold, quantity(item, "/quantity")?))
    });
    let lines = items.collect::<Result<Vec<_>, _>>()?;
    let refund = reference(refund, "/id").ok_or(Unreadable)?;
    let extent = if lines.is_empty() { Extent::Partial { refund } } else { Extent::Lines { refund, lines } };
    Ok(Refund { of, extent, cause: Cause::Refund })
}

/// A line item, by its SKU, variant and product. Properties and attributes are the buyer's.
fn line(item: &Value, quantity: u32) -> Line {
    let sku = text(item, "/sku").map(str::to_owned);
    let [variant, product] = [("variant", "/variant_id"), ("product", "/product_id")]
        .map(|(kind, pointer)| reference(item, pointer).map(|id| format!("{kind}:{id}")));
    let names = [sku, variant, product].into_iter().flatten().collect();
    Line { id: reference(item, "/id"), names, own: own_by_sku(item, "/sku"), quantity }
}
