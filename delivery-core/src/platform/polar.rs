//! Polar: <https://polar.sh/docs/integrate/webhooks>.

use serde_json::Value;

use super::json::{id, list, needed, object, own, period, quantity, reference, text, time, units, until};
use super::signature::{Keys, from_base64};
use super::standard::verified;
use super::{
    Buyer, ChargeRef, Event, Line, Links, Notification, Platform, Received, Refund, Request, Sale, Secrets, Standing,
    SubscriptionEvent, Term, Unauthentic, Unreadable,
};
use crate::order::Source;

/// The billing reason of orders that bill usage, which do not count as sales. All other orders count as sales, even if
/// their reason is unknown: an unneeded key does less harm than a payment without a key.
const USAGE: &str = "subscription_meter_cycle";

/// Polar's notifications.
#[derive(Debug, Clone)]
pub struct Polar {
    keys: Keys,
}

impl Polar {
    /// Accepts notifications that are signed with one of `secrets`. Polar used to sign with the text of a secret, and
    /// now signs with the bytes that the base64 after `whsec_` encodes. Both kinds of signature are accepted.
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
            let of = ChargeRef::Order(needed(data()?, "/id")?);
            match text(data()?, "/status") {
                Some("refunded") => Some(Event::Refunded(Refund::full(of))),
                Some("partially_refunded") => {
                    Some(Event::Refunded(Refund::of(of, false, reference(data()?, "/refunded_amount"))))
                }
                _ => None,
            }
        }
        // `subscription.cycled` is ignored: Polar sends it before it charges the buyer, so the charge may still fail.
        kind if kind.starts_with("subscription.") && kind != "subscription.cycled" => {
            subscription_event(body, data()?)?
        }
        _ => None,
    };
    Ok(event.into_iter().collect())
}

fn paid(data: &Value) -> Result<Option<Event>, Unreadable> {
    if text(data, "/billing_reason") == Some(USAGE) {
        return Ok(None);
    }
    let order = needed(data, "/id")?;
    let names = ["/product_id", "/product_price_id"].map(|pointer| reference(data, pointer));
    let links = Links::of_subscription(id(data, "/subscription_id")?);
    let term = period(data, ["/subscription/current_period_start", "/subscription/current_period_end"])
        .unwrap_or_else(|| until(data, "/subscription/current_period_end"));
    Ok(line(data, names).map(|line| {
        Event::Paid(Sale {
            at: time(data, "/created_at"),
            total: units(data, "/total_amount", "/currency"),
            lines: vec![Line { term, ..line }],
            buyer: Buyer::by_email(text(data, "/customer/email")),
            links,
            ..Sale::new(order)
        })
    }))
}

/// Reads an event about a subscription itself, rather than about a charge. `ends_at` and `canceled_at` are ignored,
/// because they only announce the end of the subscription.
fn subscription_event(body: &Value, data: &Value) -> Result<Option<Event>, Unreadable> {
    let standing = match (text(data, "/status"), time(data, "/ended_at")) {
        (Some("trialing"), _) => (Standing::Trialing, until(data, "/trial_end")),
        (Some("active"), _) => {
            (Standing::Active, period(data, ["/current_period_start", "/current_period_end"]).unwrap_or_default())
        }
        (Some("canceled"), Some(ended_at)) => (Standing::Ended, Term::Until(ended_at)),
        _ => return Ok(None),
    };
    let at = time(body, "/timestamp").ok_or(Unreadable)?;
    let links = Links::of_subscription(Some(needed(data, "/id")?));
    let prices = list(data, "/prices").iter().map(|price| reference(price, "/id"));
    let lines = line(data, [reference(data, "/product_id")].into_iter().chain(prices)).into_iter().collect();
    Ok(Some(Event::Subscription(SubscriptionEvent { lines, ..SubscriptionEvent::new(at, links, standing) })))
}

/// Reads the product of an order or a subscription. Ignores the `metadata` of the order or subscription itself, which
/// the buyer may have filled.
fn line(data: &Value, names: impl IntoIterator<Item = Option<String>>) -> Option<Line> {
    let own = own(data, "/product/metadata/product_id");
    Some(Line { own, quantity: quantity(data, "/seats")?, ..Line::named(names) })
}
