//! What events say, in the words of the vectors.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use delivery_core::platform::{
    Buyer, ChargeRef, Dispute, Event, Extent, Line, Links, Received, Recurrence, Refund, Returned, Sale, Standing,
    SubscriptionEvent, Term,
};
use delivery_core::product::ProductId;

/// What the events come to. A further charge of a subscription is a sale as the first.
pub fn action(received: &Received) -> &'static str {
    let Received::Notification(notification) = received else { return "ack_only" };
    let Ok(events) = &notification.events else { return "unreadable" };
    match events.as_slice() {
        [] => "ignore",
        [.., Event::Refunded(Refund { extent, .. })] if is_part(extent) => "partial_refund",
        [Event::Paid(sale)] => bought(sale),
        [Event::Refunded(_) | Event::Disputed(_)] => "revoke",
        [Event::Won(_)] => "restore",
        [Event::Subscription(word)] => action_of(word),
        [Event::Linked(links)] => linked(links),
        [Event::Customer { .. }] => "remember_customer",
        other => panic!("{other:?}"),
    }
}

/// Whether no piece was refunded, but a part of the money.
fn is_part(extent: &Extent) -> bool {
    match extent {
        Extent::Full => false,
        Extent::Partial { .. } => true,
        Extent::Lines { lines, .. } => lines.iter().all(|line| line.pieces == 0),
    }
}

fn bought(sale: &Sale) -> &'static str {
    let Sale { lines, buyer, .. } = sale;
    let is_over =
        |line: &Line| sale.links.subscription.is_some() && line.term.end().is_some_and(|it| Some(it) <= sale.at);
    // It is authorised only, or pays for what is over.
    if sale.is_open || (!lines.is_empty() && lines.iter().all(is_over)) {
        return "ignore";
    }
    let is_buyable = |line: &Line| line.own.is_some() || !line.names.is_empty();
    match &buyer.email {
        None if buyer.customer.is_some() => "needs_customer_lookup",
        Some(_) if lines.iter().all(is_buyable) => "issue",
        _ => "unmapped",
    }
}

fn action_of(word: &SubscriptionEvent) -> &'static str {
    match (word.status, word.term) {
        (Standing::Ended, _) => "end",
        (_, Term::Until(_) | Term::Every(_)) => "period",
        // A period that an active word names moves one that is paid.
        (_, Term::Period { .. } | Term::Unsaid | Term::Once) => "ignore",
    }
}

/// References that make an order a charge of a subscription tell a period, as that does. The first charge is such an order.
fn linked(links: &Links) -> &'static str {
    let is_charge = links.order.is_some() && links.subscription.is_some() && !links.is_first;
    if is_charge { "period" } else { "ignore" }
}

/// The texts that the events hold, by the names of the vectors.
pub fn facts(received: &Received) -> BTreeMap<&'static str, String> {
    let Received::Notification(notification) = received else { return BTreeMap::new() };
    let mut facts = BTreeMap::from([("event", notification.kind.clone()), ("test", notification.is_test.to_string())]);
    for event in notification.events.iter().flatten() {
        match event {
            Event::Paid(sale) => {
                concerns(&mut facts, &ChargeRef::Order(sale.order.clone()));
                names(&mut facts, &sale.links);
                is_by(&mut facts, &sale.buyer);
                facts.extend(sale.at.map(|at| ("charged_at", shown(at))));
                facts.extend(paid_until(sale).map(|until| ("paid_until", shown(until))));
            }
            Event::Subscription(word) => {
                names(&mut facts, &word.links);
                facts.extend(said(word));
            }
            Event::Refunded(Refund { of, links, .. }) => {
                names(&mut facts, links);
                concerns(&mut facts, of);
            }
            Event::Disputed(Dispute { of, .. }) | Event::Won(Dispute { of, .. }) => concerns(&mut facts, of),
            Event::Linked(links) => names(&mut facts, links),
            Event::Customer { reference, email, .. } => {
                facts.extend([("customer_ref", reference.to_string()), ("email", email.clone())]);
            }
            _ => {}
        }
    }
    facts
}

/// What a word says of times.
fn said(word: &SubscriptionEvent) -> Option<(&'static str, String)> {
    Some(match (word.status, word.term) {
        (Standing::Ended, Term::Until(at)) => ("ended_at", shown(at)),
        (_, Term::Until(at)) => ("paid_until", shown(at)),
        (_, Term::Period { from, until }) => ("period", [shown(from), shown(until)].join("/")),
        (_, Term::Every(recurrence)) => ("recurrence", iso_8601(recurrence)),
        (_, Term::Unsaid | Term::Once) => return None,
    })
}

/// Until when a sale is paid, by the first three rules and by itself alone.
fn paid_until(sale: &Sale) -> Option<DateTime<Utc>> {
    let ends = sale.lines.iter().filter_map(|line| match line.term {
        Term::Every(recurrence) => Some(recurrence.after(sale.at?)),
        term => term.end(),
    });
    ends.max().filter(|end| Some(*end) > sale.at)
}

fn concerns(facts: &mut BTreeMap<&'static str, String>, of: &ChargeRef) {
    let (kind, name) = match of {
        // Lemon Squeezy numbers invoices apart from orders.
        ChargeRef::Order(order) => ("order_id", order.as_str().trim_start_matches("invoice:")),
        ChargeRef::Payment(payment) => ("payment_intent", payment.as_str()),
    };
    facts.insert(kind, name.to_owned());
}

fn names(facts: &mut BTreeMap<&'static str, String>, links: &Links) {
    let Links { order, payment, subscription, .. } = links;
    let named = [("order_id", order), ("payment_intent", payment), ("subscription", subscription)];
    facts.extend(named.into_iter().filter_map(|(kind, name)| Some((kind, name.as_ref()?.to_string()))));
}

fn is_by(facts: &mut BTreeMap<&'static str, String>, buyer: &Buyer) {
    facts.extend(buyer.email.clone().map(|email| ("email", email)));
    facts.extend(buyer.customer.as_ref().map(|customer| ("customer_ref", customer.to_string())));
}

fn shown(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn iso_8601(recurrence: Recurrence) -> String {
    match recurrence {
        Recurrence::Days(days) if days.is_multiple_of(7) => format!("P{}W", days / 7),
        Recurrence::Days(days) => format!("P{days}D"),
        Recurrence::Months(months) if months.is_multiple_of(12) => format!("P{}Y", months / 12),
        Recurrence::Months(months) => format!("P{months}M"),
    }
}

/// What was bought, refunded, or subscribed to.
pub fn lines(received: &Received) -> Vec<Line> {
    let Received::Notification(notification) = received else { return Vec::new() };
    let lines = notification.events.iter().flatten().flat_map(|event| match event {
        Event::Paid(sale) => sale.lines.clone(),
        Event::Subscription(word) => word.lines.clone(),
        Event::Refunded(Refund { extent: Extent::Lines { lines, .. }, .. }) => lines.iter().map(returned).collect(),
        _ => Vec::new(),
    });
    lines.collect()
}

fn returned(Returned { line, name, pieces, amount }: &Returned) -> Line {
    let quantity = u32::try_from(*pieces).unwrap_or(u32::MAX);
    let own = name.strip_prefix("PROD-").and_then(|own| ProductId::new(own.parse().ok()?).ok());
    Line { id: line.clone(), own, quantity, amount: *amount, ..Line::named([Some(name.clone())]) }
}

/// Whether a line is known by `name`: bare, with its kind, or as a number of ours.
pub fn has(line: &Line, name: &str) -> bool {
    let is_own = line.own.is_some_and(|own| own.to_string() == name.trim_start_matches("PROD-"));
    is_own || line.names.iter().any(|known| known == name || known.ends_with(&format!(":{name}")))
}
