//! WooCommerce: <https://woocommerce.com/document/webhooks/>.

use serde_json::Value;

use super::json::{list, object, own_by_sku, quantity, reference, text};
use super::signature::{Keys, base64, digest, header};
use super::{
    Buyer, Event, Line, Notification, Platform, Received, Reference, References, Refund, Request, Sale, Secrets,
    Unauthentic, Unreadable,
};
use crate::order::Source;

/// The notifications of a shop with WooCommerce.
#[derive(Debug, Clone)]
pub struct WooCommerce {
    keys: Keys,
}

impl WooCommerce {
    /// Takes notifications that are signed with one of `secrets`. Some versions sign with the secret as their HTML shows it,
    /// where `&` is `&amp;`: either is taken.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        let keys = secrets.iter().flat_map(|secret| {
            let decoded = unescaped(secret);
            let other = (decoded != secret).then(|| decoded.into_bytes());
            [Some(secret.as_bytes().to_vec()), other].into_iter().flatten()
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
        let events = object(request.body).and_then(|order| events(&kind, &order));
        let id = digest(&kind, request.body);
        Ok(Received::Notification(Notification { id, events, kind, is_test: false }))
    }
}

/// What a shop sends when the webhook is saved: a form with its number, unsigned.
fn is_ping(request: &Request<'_>) -> bool {
    let number = request.body.strip_prefix(b"webhook_id=");
    let is_number = number.is_some_and(|it| (1..=20).contains(&it.len()) && it.iter().all(u8::is_ascii_digit));
    is_number && !request.headers.contains_key("x-wc-webhook-signature")
}

/// The entities that WordPress makes, decoded once.
fn unescaped(secret: &str) -> String {
    const ENTITIES: [(&str, &str); 5] =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#039;", "'"), ("&amp;", "&")];
    // `&amp;` last: what it comes to is not decoded again.
    ENTITIES.into_iter().fold(secret.to_owned(), |text, (entity, character)| text.replace(entity, character))
}

fn events(topic: &str, order: &Value) -> Result<Vec<Event>, Unreadable> {
    if !matches!(topic, "order.created" | "order.updated" | "order.restored") {
        return Ok(Vec::new());
    }
    let id = || reference(order, "/id").ok_or(Unreadable);
    let is_paid = text(order, "/date_paid_gmt").is_some();
    Ok(match text(order, "/status") {
        Some("processing" | "completed") if is_paid => {
            let refunds = list(order, "/refunds").len();
            let partial = |id| Event::Refunded(Refund::of(Reference::Order(id), false, Some(refunds.to_string())));
            let refunded = if refunds == 0 { None } else { Some(partial(id()?)) };
            [Some(Event::Paid(sale(order)?)), refunded].into_iter().flatten().collect()
        }
        Some("refunded") => vec![Event::Refunded(Refund::full(Reference::Order(id()?)))],
        // One that was never paid may be paid later.
        Some("cancelled") if is_paid => vec![Event::Refunded(Refund::cancelled(id()?))],
        _ => Vec::new(),
    })
}

fn sale(order: &Value) -> Result<Sale, Unreadable> {
    Ok(Sale {
        order: reference(order, "/id").ok_or(Unreadable)?,
        lines: list(order, "/line_items").iter().map(line).collect::<Result<_, _>>()?,
        buyer: Buyer::by_email(text(order, "/billing/email")),
        // No event names a payment, and a shop may write what it likes there.
        references: References::default(),
    })
}

/// A line item, by its SKU, variation and product. Its metadata may be the buyer's.
fn line(item: &Value) -> Result<Line, Unreadable> {
    let sku = text(item, "/sku").map(str::to_owned);
    // 0 stands for none.
    let [variation, product] = [("variation", "/variation_id"), ("product", "/product_id")]
        .map(|(kind, pointer)| reference(item, pointer).filter(|id| id != "0").map(|id| format!("{kind}:{id}")));
    let names = [sku, variation, product].into_iter().flatten().collect();
    Ok(Line {
        id: reference(item, "/id"),
        names,
        own: own_by_sku(item, "/sku"),
        quantity: quantity(item, "/quantity")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_decoded_once() {
        for (secret, expected) in [
            ("a&amp;b", "a&b"),
            ("a&amp;lt;b", "a&lt;b"),
            ("&lt;&gt;&quot;&#039;", "<>\"'"),
            ("plain & simple", "plain & simple"),
        ] {
            assert_eq!(unescaped(secret), expected);
        }
    }
}
