//! Paddle Billing: <https://developer.paddle.com/webhooks>.

use chrono::TimeDelta;
use serde_json::Value;

use super::json::{id, list, needed, object, own, period, quantity, reference, text, time, units, until};
use super::signature::{Keys, digest, header, not_older, seconds, timed};
use super::{
    Buyer, ChargeRef, Dispute, Event, Extent, Line, Links, Notification, Platform, Received, Refund, Request, Returned,
    Sale, Secrets, Standing, SubscriptionEvent, Term, Unauthentic, Unreadable,
};
use crate::order::{OrderId, Source};

/// Paddle's notifications.
#[derive(Debug, Clone)]
pub struct Paddle {
    keys: Keys,
    tolerance: TimeDelta,
}

impl Paddle {
    /// The maximum age of a signature that Paddle's own libraries allow.
    pub const TOLERANCE: TimeDelta = TimeDelta::seconds(5);

    /// Accepts notifications that were signed with one of `secrets` at most 5 seconds ago.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        Self { keys: secrets.as_text(), tolerance: Self::TOLERANCE }
    }

    /// Sets the maximum age of a signature. Fractions of a second are ignored. Set a longer age if the host's clock is
    /// fast, or if requests wait in a queue.
    #[must_use]
    pub fn tolerance(self, tolerance: TimeDelta) -> Self {
        Self { tolerance, ..self }
    }
}

impl Platform for Paddle {
    fn name(&self) -> Source {
        Source::of("paddle")
    }

    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic> {
        let (timestamp, signatures) = timed(header(request.headers, "paddle-signature")?, ';', ["ts", "h1"])?;
        not_older(seconds(timestamp)?, request.now, self.tolerance)?;
        self.keys.verify(&[timestamp.as_bytes(), b":", request.body], signatures)?;
        Ok(Received::Notification(notification(request.body)))
    }
}

fn notification(body: &[u8]) -> Notification {
    let read = object(body).ok().and_then(|event| {
        let (id, kind) = (text(&event, "/event_id")?.to_owned(), text(&event, "/event_type")?.to_owned());
        Some((id, kind, event))
    });
    let Some((id, kind, event)) = read else {
        // A readable body without an id or a type is one of Paddle's own examples, which have no effect.
        let events = object(body).map(|_| Vec::new());
        return Notification { id: digest("", body), kind: String::new(), is_test: false, events };
    };
    Notification { id, events: events(&kind, &event), kind, is_test: false }
}

fn events(kind: &str, event: &Value) -> Result<Vec<Event>, Unreadable> {
    let data = || event.pointer("/data").filter(|data| data.is_object()).ok_or(Unreadable);
    let event = match kind {
        "transaction.completed" => transaction(event, data()?)?,
        "subscription.created" => subscription_event(event, data()?, id(data()?, "/transaction_id")?)?,
        kind if kind.starts_with("subscription.") => subscription_event(event, data()?, None)?,
        "customer.created" | "customer.updated" => {
            let (data, email) = (data()?, text(data()?, "/email"));
            let reference = needed(data, "/id")?;
            let told_at = text(event, "/occurred_at").and_then(|at| at.parse().ok());
            email.map(|email| Event::Customer { reference, email: email.to_owned(), told_at })
        }
        "adjustment.created" | "adjustment.updated" if text(data()?, "/status") == Some("approved") => {
            adjustment(data()?)?
        }
        _ => None,
    };
    Ok(event.into_iter().collect())
}

fn transaction(event: &Value, data: &Value) -> Result<Option<Event>, Unreadable> {
    let is_extra = match text(data, "/origin") {
        Some("subscription_payment_method_change") => return Ok(None),
        Some("subscription_charge") => true,
        // A transaction of an unknown origin counts as a sale too, because an unneeded key does less harm than a
        // payment without a key.
        _ => false,
    };
    let order = needed(data, "/id")?;
    let items = list(data, "/items");
    let lines = lines(data, items, is_extra);
    if lines.is_empty() && !items.is_empty() {
        // None of the items sells anything, for example because all are credits. A sale without lines would count as a
        // sale of everything that the subscription includes.
        return Ok(None);
    }
    let email = text(data, "/custom_data/email").map(str::to_owned);
    let buyer = Buyer { email, customer: id(data, "/customer_id")? };
    let links = Links { invoice: id(data, "/invoice_id")?, ..Links::of_subscription(id(data, "/subscription_id")?) };
    let at = time(data, "/billed_at").or_else(|| time(event, "/occurred_at"));
    let total = units(data, "/details/totals/grand_total", "/currency_code");
    Ok(Some(Event::Paid(Sale { at, total, lines, buyer, links, ..Sale::new(order) })))
}

/// Reads the lines that a transaction sells. A credit, which is a charge with a negative total, sells nothing.
fn lines(data: &Value, items: &[Value], is_extra: bool) -> Vec<Line> {
    let paid = period(data, ["/billing_period/starts_at", "/billing_period/ends_at"])
        .unwrap_or_else(|| until(data, "/billing_period/ends_at"));
    let has_plan = items.iter().any(recurs);
    let mut charges: Vec<&Value> = list(data, "/details/line_items").iter().collect();
    let lines = items.iter().filter_map(|item| {
        let charge = take_charge(&mut charges, item);
        if charge.is_some_and(is_credit) {
            return None;
        }
        let is_once = is_extra || (has_plan && !recurs(item));
        line(item, charge, if is_once { Term::Once } else { paid })
    });
    lines.collect()
}

/// Finds the charge that belongs to an item, removes it from `charges` and returns it. The charge has the same price as
/// the item. If several charges have this price, those with the same number of pieces as the item are preferred. Among
/// those, a charge is preferred to a credit, whose total is negative.
fn take_charge<'v>(charges: &mut Vec<&'v Value>, item: &Value) -> Option<&'v Value> {
    let price = price(item)?;
    let differs = |charge: &Value| (charge.pointer("/quantity") != item.pointer("/quantity"), is_credit(charge));
    let of_price = charges.iter().enumerate().filter(|(_, charge)| text(charge, "/price_id") == Some(price));
    let index = of_price.min_by_key(|(_, charge)| differs(charge)).map(|(index, _)| index)?;
    Some(charges.remove(index))
}

fn is_credit(charge: &Value) -> bool {
    money(charge, "/totals/total").is_some_and(i64::is_negative)
}

/// Returns whether the item is charged repeatedly.
fn recurs(item: &Value) -> bool {
    item.pointer("/price/billing_cycle").is_some_and(Value::is_object)
}

fn price(item: &Value) -> Option<&str> {
    text(item, "/price/id").or_else(|| text(item, "/price_id"))
}

/// Reads an item as a line whose names are the ids of the item's price and product. Returns `None` if the quantity is
/// 0. Ignores the transaction's own `custom_data`, which the buyer may have filled.
fn line(item: &Value, charge: Option<&Value>, term: Term) -> Option<Line> {
    let names = [price(item).map(str::to_owned), reference(item, "/price/product_id")];
    let sellers = [
        (Some(item), "/price/custom_data/product_id"),
        (Some(item), "/product/custom_data/product_id"),
        (Some(item), "/price/product/custom_data/product_id"),
        (charge, "/product/custom_data/product_id"),
    ];
    Some(Line {
        id: charge.and_then(|charge| reference(charge, "/id")),
        own: sellers.into_iter().find_map(|(object, pointer)| own(object?, pointer)),
        quantity: quantity(item, "/quantity")?,
        amount: charge.and_then(|charge| amount(charge, "/totals/total")),
        term,
        ..Line::named(names)
    })
}

/// Reads an event about a subscription itself, rather than about a charge. `order` is the transaction that began the
/// subscription, if the event names that transaction.
fn subscription_event(event: &Value, data: &Value, order: Option<OrderId>) -> Result<Option<Event>, Unreadable> {
    let period =
        period(data, ["/current_billing_period/starts_at", "/current_billing_period/ends_at"]).unwrap_or_default();
    let standing = match (text(data, "/status"), time(data, "/canceled_at")) {
        (Some("trialing"), _) => (Standing::Trialing, until(data, "/current_billing_period/ends_at")),
        (Some("active"), _) => (Standing::Active, period),
        (Some("canceled"), Some(canceled_at)) => (Standing::Ended, Term::Until(canceled_at)),
        _ if order.is_none() => return Ok(None),
        _ => (Standing::Unsaid, period),
    };
    let at = time(event, "/occurred_at").ok_or(Unreadable)?;
    let links = Links { order, ..Links::of_subscription(Some(needed(data, "/id")?)) };
    let items = list(data, "/items");
    let has_plan = items.iter().any(recurs);
    let plan = items.iter().filter(|item| !has_plan || recurs(item));
    let lines = plan.filter_map(|item| line(item, None, Term::Unsaid)).collect();
    Ok(Some(Event::Subscription(SubscriptionEvent { lines, ..SubscriptionEvent::new(at, links, standing) })))
}

fn adjustment(data: &Value) -> Result<Option<Event>, Unreadable> {
    let of = || needed(data, "/transaction_id").map(ChargeRef::Order);
    let (number, extent) = (reference(data, "/id"), extent(data));
    Ok(match text(data, "/action") {
        Some("refund") => Some(Event::Refunded(Refund { extent, ..Refund::full(of()?) })),
        Some("chargeback") => Some(Event::Disputed(Dispute { number, extent, ..Dispute::from(of()?) })),
        // A reversal has a number of its own, and does not name the chargeback that it reverses.
        Some("chargeback_reverse") => Some(Event::Won(Dispute { end: number, extent, ..Dispute::from(of()?) })),
        _ => None,
    })
}

fn extent(data: &Value) -> Extent {
    let refund = reference(data, "/id").unwrap_or_default();
    let items = list(data, "/items");
    match text(data, "/type") {
        Some("full") => Extent::Full,
        _ if items.is_empty() => Extent::Partial { refund },
        _ => Extent::Lines { refund, lines: items.iter().filter_map(returned).collect() },
    }
}

/// Reads a refunded item. A full refund of an item returns all its pieces. A partial refund returns money but no
/// pieces.
fn returned(item: &Value) -> Option<Returned> {
    let pieces = if text(item, "/type") == Some("full") { u32::MAX.into() } else { 0 };
    let amount = amount(item, "/totals/total").or_else(|| amount(item, "/amount"));
    Some(Returned { line: Some(reference(item, "/item_id")?), name: String::new(), pieces, amount })
}

fn money(value: &Value, pointer: &str) -> Option<i64> {
    reference(value, pointer)?.parse().ok()
}

fn amount(value: &Value, pointer: &str) -> Option<u64> {
    u64::try_from(money(value, pointer)?).ok()
}
