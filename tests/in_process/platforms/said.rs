//! What events say, in the words of the vectors.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use delivery_core::platform::{
    Buyer, Dispute, Event, Extent, Line, Received, Recurrence, Reference, References, Refund, Sale, Standing, Term,
    Word,
};

/// What the events come to. A further charge of a subscription is a sale as the first.
pub fn action(received: &Received) -> &'static str {
    let Received::Notification(notification) = received else { return "ack_only" };
    let Ok(events) = &notification.events else { return "unreadable" };
    match events.as_slice() {
        [] => "ignore",
        [.., Event::Refunded(Refund { extent, .. })] if is_part(extent) => "partial_refund",
        [Event::Paid(sale)] => bought(sale),
        [Event::Refunded(_) | Event::Disputed(_)] => "revoke",
        [Event::Restored(_)] => "restore",
        [Event::Told(word)] => told(word),
        [Event::Linked(references)] => linked(references),
        [Event::Customer { .. }] => "remember_customer",
        other => panic!("{other:?}"),
    }
}

/// Whether no piece was refunded, but a part of the money.
fn is_part(extent: &Extent) -> bool {
    match extent {
        Extent::Full => false,
        Extent::Partial { .. } => true,
        Extent::Lines { lines, .. } => lines.iter().all(|line| line.quantity == 0),
    }
}

fn bought(sale: &Sale) -> &'static str {
    let Sale { lines, buyer, .. } = sale;
    let is_over =
        |line: &Line| sale.references.subscription.is_some() && until(line.term).is_some_and(|it| Some(it) <= sale.at);
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

fn told(word: &Word) -> &'static str {
    match (word.status, word.term) {
        (Standing::Ended, _) => "end",
        (_, Term::Until(_) | Term::Every(_)) => "period",
        // A period that an active word names moves one that is paid.
        (_, Term::Period { .. } | Term::Unsaid | Term::Once) => "ignore",
    }
}

/// References that make an order a charge of a subscription tell a period, as that does. The first charge is such an order.
fn linked(references: &References) -> &'static str {
    let is_charge = references.order.is_some() && references.subscription.is_some() && !references.is_first;
    if is_charge { "period" } else { "ignore" }
}

/// The texts that the events hold, by the names of the vectors.
pub fn facts(received: &Received) -> BTreeMap<&'static str, String> {
    let Received::Notification(notification) = received else { return BTreeMap::new() };
    let mut facts = BTreeMap::from([("event", notification.kind.clone()), ("test", notification.is_test.to_string())]);
    for event in notification.events.iter().flatten() {
        match event {
            Event::Paid(sale) => {
                concerns(&mut facts, &Reference::Order(sale.order.clone()));
                names(&mut facts, &sale.references);
                is_by(&mut facts, &sale.buyer);
                facts.extend(sale.at.map(|at| ("charged_at", shown(at))));
                facts.extend(paid_until(sale).map(|until| ("paid_until", shown(until))));
            }
            Event::Told(word) => {
                names(&mut facts, &word.references);
                facts.extend(said(word));
            }
            Event::Refunded(Refund { of, references, .. }) => {
                names(&mut facts, references);
                concerns(&mut facts, of);
            }
            Event::Disputed(Dispute { of, .. }) | Event::Restored(Dispute { of, .. }) => concerns(&mut facts, of),
            Event::Linked(references) => names(&mut facts, references),
            Event::Customer { reference, email, .. } => {
                facts.extend([("customer_ref", reference.clone()), ("email", email.clone())]);
            }
            _ => {}
        }
    }
    facts
}

/// What a word says of times.
fn said(word: &Word) -> Option<(&'static str, String)> {
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
        term => until(term),
    });
    ends.max().filter(|end| Some(*end) > sale.at)
}

fn until(term: Term) -> Option<DateTime<Utc>> {
    match term {
        Term::Until(until) | Term::Period { until, .. } => Some(until),
        Term::Unsaid | Term::Every(_) | Term::Once => None,
    }
}

fn concerns(facts: &mut BTreeMap<&'static str, String>, of: &Reference) {
    let (kind, name) = match of {
        // Lemon Squeezy numbers invoices apart from orders.
        Reference::Order(order) => ("order_id", order.trim_start_matches("invoice:")),
        Reference::Payment(payment) => ("payment_intent", payment.as_str()),
    };
    facts.insert(kind, name.to_owned());
}

fn names(facts: &mut BTreeMap<&'static str, String>, references: &References) {
    let References { order, payment, subscription, .. } = references.clone();
    let named = [("order_id", order), ("payment_intent", payment), ("subscription", subscription)];
    facts.extend(named.into_iter().filter_map(|(kind, name)| Some((kind, name?))));
}

fn is_by(facts: &mut BTreeMap<&'static str, String>, buyer: &Buyer) {
    let named = [("email", &buyer.email), ("customer_ref", &buyer.customer)];
    facts.extend(named.into_iter().filter_map(|(kind, name)| Some((kind, name.clone()?))));
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
        Event::Told(word) => word.lines.clone(),
        Event::Refunded(Refund { extent: Extent::Lines { lines, .. }, .. }) => lines.clone(),
        _ => Vec::new(),
    });
    lines.collect()
}

/// Whether a line is known by `name`: bare, with its kind, or as a number of ours.
pub fn has(line: &Line, name: &str) -> bool {
    let is_own = line.own.is_some_and(|own| own.to_string() == name.trim_start_matches("PROD-"));
    is_own || line.names.iter().any(|known| known == name || known.ends_with(&format!(":{name}")))
}
