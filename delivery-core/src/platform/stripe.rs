//! Stripe: <https://docs.stripe.com/webhooks>.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::json::{id, is_true, list, needed, object, own, reference, text};
use super::signature::{Keys, digest, header, not_older, seconds, timed};
use super::{
    Amount, Buyer, ChargeRef, Dispute, Event, Line, Links, Notification, Platform, Received, Refund, Request, Sale,
    Secrets, Standing, SubscriptionEvent, Term, Unauthentic, Unreadable, json,
};
use crate::order::{OrderId, Source};
use crate::product::ProductId;

/// The maximum age of a signature that Stripe's own libraries allow.
const TOLERANCE: TimeDelta = TimeDelta::seconds(300);

/// Stripe's events, signed with the secret of the endpoint, `whsec_…`.
#[derive(Debug, Clone)]
pub struct Stripe {
    keys: Keys,
}

impl Stripe {
    /// Accepts events that are signed with one of `secrets`.
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
    // A thin event names an object but does not contain it.
    if text(event, "/object") != Some("event") {
        let advice = || "it does not show what was sold: send snapshot events".to_owned();
        return Ok(is_thin_sale(kind).then(|| Event::Unshown { advice: advice() }).into_iter().collect());
    }
    let shown = event.pointer("/data/object").ok_or(Unreadable)?;
    let at = json::seconds(event, "/created");
    let is = |name| text(shown, "/object") == Some(name);
    let event = match kind {
        "checkout.session.completed" | "checkout.session.async_payment_succeeded" if is("checkout.session") => {
            session(shown, at)?
        }
        "charge.captured" if is("charge") => captured(shown, at)?,
        "invoice.paid" if is("invoice") => invoice(shown, at)?,
        "invoice_payment.paid" if is("invoice_payment") => {
            link(id(shown, "/payment/payment_intent")?, id(shown, "/invoice")?)
        }
        // A charge with neither a payment intent nor an invoice belongs to no checkout session and no subscription. Its
        // refund is therefore ignored.
        "charge.refunded" if is("charge") => {
            let invoice = id(shown, "/invoice")?;
            let of = payment(shown)?.or_else(|| invoice.clone().map(ChargeRef::Order));
            of.map(|of| Event::Refunded(refund(of, invoice, shown, at)))
        }
        "refund.failed" | "refund.updated" | "charge.refund.updated" if is("refund") && has_failed(kind, event) => {
            match payment(shown)? {
                Some(of) => Some(Event::Kept { of, at: at.ok_or(Unreadable)? }),
                None => None,
            }
        }
        "charge.dispute.closed" if is("dispute") && text(shown, "/status") == Some("won") => {
            dispute(shown)?.map(Event::Won)
        }
        // If an inquiry becomes a dispute, Stripe keeps the same object. `charge.dispute.created` has then reported
        // only the inquiry, so later events about the object are read as well.
        "charge.dispute.created"
        | "charge.dispute.updated"
        | "charge.dispute.funds_withdrawn"
        | "charge.dispute.closed"
            if is("dispute") && takes_money(shown) =>
        {
            dispute(shown)?.map(Event::Disputed)
        }
        _ if kind.starts_with("customer.subscription.") && is("subscription") => subscription_event(shown, at)?,
        _ => None,
    };
    Ok(event.into_iter().collect())
}

fn is_thin_sale(kind: &str) -> bool {
    let shown = kind.strip_prefix("v1.").unwrap_or_default();
    shown.starts_with("checkout.") || matches!(shown, "invoice.paid" | "charge.captured")
}

/// Reads what a checkout session sells. An unpaid session is read too, because its payment may be captured later, and
/// the event that reports the capture does not say what was sold.
fn session(session: &Value, at: Option<DateTime<Utc>>) -> Result<Option<Event>, Unreadable> {
    if text(session, "/mode") == Some("setup") {
        return Ok(None);
    }
    let is_unpaid = text(session, "/payment_status").ok_or(Unreadable)? == "unpaid";
    let links = Links {
        payment: id(session, "/payment_intent")?,
        invoice: id(session, "/invoice")?,
        ..Links::of_subscription(id(session, "/subscription")?)
    };
    // An unpaid session without a payment is ignored, because no later capture could be matched to it. An unpaid
    // session that begins a subscription is ignored, because invoices report the charges of subscriptions.
    if is_unpaid && (links.payment.is_none() || links.subscription.is_some()) {
        return Ok(None);
    }
    let order = needed(session, "/id")?;
    let names = [reference(session, "/payment_link")];
    let lines = vec![Line { own: own(session, "/metadata/product_id"), ..Line::named(names) }];
    let email = text(session, "/customer_details/email").or_else(|| text(session, "/customer_email"));
    let buyer = Buyer::by_email(email);
    let total = total(session, "/amount_total");
    Ok(Some(Event::Paid(Sale { at, is_open: is_unpaid, total, lines, buyer, links, ..Sale::new(order) })))
}

/// Reads an amount. Stripe sends ISK and UGX in hundredths, although [`Amount`] counts these currencies in whole units.
/// Stripe sends MGA in whole units, although [`Amount`] counts it in hundredths. See
/// <https://docs.stripe.com/currencies>.
fn total(shown: &Value, pointer: &str) -> Option<Amount> {
    let Amount { units, currency } = json::units(shown, pointer, "/currency")?;
    Amount::new(
        match currency.as_str() {
            "ISK" | "UGX" => units / 100,
            "MGA" => units.saturating_mul(100),
            _ => units,
        },
        currency,
    )
}

/// Reads the capture of a payment that was only authorised until then. What was sold has already been read from the
/// payment's checkout session.
fn captured(charge: &Value, at: Option<DateTime<Utc>>) -> Result<Option<Event>, Unreadable> {
    let payment = id(charge, "/payment_intent")?.filter(|_| is_true(charge, "/captured"));
    let email = text(charge, "/billing_details/email").or_else(|| text(charge, "/receipt_email"));
    let (total, buyer) = (total(charge, "/amount_captured"), Buyer::by_email(email));
    Ok(payment.zip(at).map(|(payment, at)| Event::Captured { payment, at, total, buyer }))
}

/// Reads an invoice that charges a subscription. Newer versions of the API name the subscription inside `parent`. An
/// invoice that has lines, but only credits, usage and one-time items, is not a charge of the subscription.
fn invoice(invoice: &Value, at: Option<DateTime<Utc>>) -> Result<Option<Event>, Unreadable> {
    let (newer, older) = (id(invoice, "/parent/subscription_details/subscription")?, id(invoice, "/subscription")?);
    let Some(subscription) = newer.or(older) else { return Ok(None) };
    let order = needed(invoice, "/id")?;
    let at = json::seconds(invoice, "/status_transitions/paid_at").or(at);
    let payment = id(invoice, "/payment_intent")?;
    let is_first = text(invoice, "/billing_reason") == Some("subscription_create");
    let shown = list(invoice, "/lines/data");
    let plan = plan(invoice);
    let mut lines = shown.iter().filter_map(|it| line(it, plan, at)).fold(Vec::new(), joined);
    if !shown.is_empty() && lines.iter().all(|line| line.term == Term::Once) {
        // The first invoice may belong to a checkout session. Linking the payment to the invoice also links the payment
        // to that session.
        return Ok(if is_first { link(payment, Some(order)) } else { None });
    }
    lines.retain(|line| !line.names.is_empty() || line.own.is_some() || line.term.end().is_some());
    let buyer = Buyer::by_email(text(invoice, "/customer_email"));
    let links = Links { payment, invoice: Some(order.clone()), is_first, ..Links::of_subscription(Some(subscription)) };
    let total = total(invoice, "/amount_paid");
    Ok(Some(Event::Paid(Sale { at, total, lines, buyer, links, ..Sale::new(order) })))
}

/// Returns the product that the seller has set in the metadata of the subscription as a whole. It applies to recurring
/// lines that name no product of their own.
fn plan(invoice: &Value) -> Option<ProductId> {
    ["/parent/subscription_details/metadata/product_id", "/subscription_details/metadata/product_id"]
        .into_iter()
        .find_map(|pointer| own(invoice, pointer))
}

/// Reads what a line of an invoice sells. Returns `None` for a line that sells nothing:
///
/// - a credit
/// - a line for which `term` returns `None`
/// - a line whose period was already over at `at`, the time at which the invoice was paid. Such a line bills usage,
///   because only usage is billed after its period.
fn line(line: &Value, plan: Option<ProductId>, at: Option<DateTime<Utc>>) -> Option<Line> {
    let is_credit = reference(line, "/amount").is_some_and(|amount| amount.starts_with('-'));
    let term = term(line)?;
    let is_over = term.end().zip(at).is_some_and(|(until, at)| until <= at);
    let names = ["/pricing/price_details/price", "/pricing/price_details/product", "/price/id", "/price/product"];
    let own = own(line, "/metadata/product_id").or(plan.filter(|_| term != Term::Once));
    let line = Line { own, term, ..Line::named(names.map(|pointer| reference(line, pointer))) };
    (!is_credit && !is_over).then_some(line)
}

/// Returns the time that a line of an invoice pays for. It depends on the kind of the line, which API versions before
/// 2025-03-31 name in the line's field `type`:
///
/// - A line of the subscription pays for the line's period.
/// - An item that was added to the invoice is paid once, because its period may be anything. But if the item is a
///   proration of the subscription, it pays for its period.
/// - Lines of other kinds sell nothing. The result is `None`.
fn term(line: &Value) -> Option<Term> {
    match text(line, "/parent/type").or_else(|| text(line, "/type")) {
        None => Some(Term::Unsaid),
        Some("subscription_item_details" | "subscription") => Some(period(line)),
        Some("invoice_item_details" | "invoiceitem") if is_proration(line) => Some(period(line)),
        Some("invoice_item_details" | "invoiceitem") => Some(Term::Once),
        Some(_) => None,
    }
}

fn is_proration(line: &Value) -> bool {
    let item = line.pointer("/parent/invoice_item_details").unwrap_or(line);
    is_true(item, "/proration") && reference(item, "/subscription").is_some()
}

fn period(line: &Value) -> Term {
    match (json::seconds(line, "/period/start"), json::seconds(line, "/period/end")) {
        (Some(from), Some(until)) => Term::Period { from, until },
        (None, Some(until)) => Term::Until(until),
        (_, None) => Term::Unsaid,
    }
}

/// Adds a line to the lines of a sale. Several lines with the same price, for example one line for each tier of the
/// price, become a single line. Its term is the latest-ending term of these lines.
fn joined(mut lines: Vec<Line>, line: Line) -> Vec<Line> {
    match lines.iter_mut().find(|known| is_same(known, &line)) {
        Some(known) if known.term.end() < line.term.end() => known.term = line.term,
        Some(_) => {}
        None => lines.push(line),
    }
    lines
}

fn is_same(one: &Line, other: &Line) -> bool {
    let is_once = |line: &Line| line.term == Term::Once;
    one.names == other.names && one.own == other.own && is_once(one) == is_once(other)
}

/// Reads an event about a subscription itself, rather than about a charge: the subscription is on trial or has ended.
/// `current_period_end` is ignored, because Stripe moves it before the period is paid.
fn subscription_event(subscription: &Value, at: Option<DateTime<Utc>>) -> Result<Option<Event>, Unreadable> {
    let (status, until) = match text(subscription, "/status") {
        Some("trialing") => (Standing::Trialing, "/trial_end"),
        Some("canceled" | "incomplete_expired") => (Standing::Ended, "/ended_at"),
        _ => return Ok(None),
    };
    let Some(until) = json::seconds(subscription, until) else { return Ok(None) };
    let at = at.ok_or(Unreadable)?;
    let links = Links::of_subscription(Some(needed(subscription, "/id")?));
    Ok(Some(Event::Subscription(SubscriptionEvent::new(at, links, (status, Term::Until(until))))))
}

/// Links a payment to its invoice. This also links the payment to the checkout session that names the invoice.
fn link(payment: Option<OrderId>, invoice: Option<OrderId>) -> Option<Event> {
    let is_link = payment.is_some() && invoice.is_some();
    is_link.then_some(Event::Linked(Links { payment, invoice, ..Links::default() }))
}

/// Reads how much of a charge was refunded. In API versions before 2025-03-31, a charge also names its invoice.
fn refund(of: ChargeRef, invoice: Option<OrderId>, charge: &Value, at: Option<DateTime<Utc>>) -> Refund {
    let links = Links { invoice, ..Links::default() };
    let sum = reference(charge, "/amount_refunded");
    Refund { links, at, ..Refund::of(of, is_true(charge, "/refunded"), sum) }
}

/// Returns whether this event reports that a refund failed. In API versions before 2024-10-28, only an update of the
/// refund's status reports a failure. An update of another field of the refund shows the same status again and does not
/// count.
fn has_failed(kind: &str, event: &Value) -> bool {
    let before = event.pointer("/data/previous_attributes");
    let is_change = before.is_none_or(|before| before.get("status").is_some());
    let is_failed = matches!(text(event, "/data/object/status"), Some("failed" | "canceled"));
    kind == "refund.failed" || (is_change && is_failed)
}

/// Returns whether a dispute takes the seller's money: it is more than an inquiry, and the seller has not won it.
fn takes_money(dispute: &Value) -> bool {
    text(dispute, "/status").is_none_or(|status| !status.starts_with("warning_") && status != "won")
}

fn dispute(dispute: &Value) -> Result<Option<Dispute>, Unreadable> {
    let (number, is_lost) = (reference(dispute, "/id"), text(dispute, "/status") == Some("lost"));
    Ok(payment(dispute)?.map(|of| Dispute { number, is_lost, ..Dispute::from(of) }))
}

fn payment(of: &Value) -> Result<Option<ChargeRef>, Unreadable> {
    Ok(id(of, "/payment_intent")?.map(ChargeRef::Payment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_in_the_unit_of_their_currency() {
        for (units, currency, shown) in [
            (1250, "eur", "12.50 EUR"),
            (1250, "jpy", "1250 JPY"),
            (1250, "kwd", "1.250 KWD"),
            (50_000, "isk", "500 ISK"),
            (50_000, "ugx", "500 UGX"),
            (500, "mga", "500.00 MGA"),
        ] {
            let session = serde_json::json!({ "amount_total": units, "currency": currency });
            assert_eq!(total(&session, "/amount_total").unwrap().to_string(), shown);
        }
    }
}
