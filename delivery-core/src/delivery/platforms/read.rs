//! What platforms say that needs no product, in the words of the store.

use chrono::{DateTime, Utc};

use super::offers::NO_ADDRESS;
use super::told::Added;
use crate::order::{OrderId, Source};
use crate::platform::{self, Event, Line, Reference, References, Unreadable};
use crate::store::{Cause, Customer, End, Extent, Handling, Links, Of, Report, Returned};

pub(super) fn remembered(
    source: &Source,
    reference: &str,
    (email, added): (&str, &Added),
    told_at: DateTime<Utc>,
) -> Handling {
    match (reference.parse(), email.parse().ok().or_else(|| added.email.clone())) {
        (Ok(reference), Some(email)) => {
            Handling::Remember(Customer { source: source.clone(), reference, email, told_at })
        }
        (Err(_), _) => Handling::Wait(Unreadable.to_string()),
        (_, None) => Handling::Wait(NO_ADDRESS.to_owned()),
    }
}

/// `None` for what changes nothing.
pub(super) fn without_products(event: &Event) -> Result<Option<Report>, Unreadable> {
    Ok(Some(match event {
        Event::Refunded(platform::Refund { of: concerned, references, extent, cause, at }) => Report::Refunded {
            of: of(concerned)?,
            links: links(references)?,
            extent: extent_of(extent),
            cause: cause_of(*cause),
            at: *at,
        },
        Event::Kept(platform::Refund { of: concerned, at: Some(at), .. }) => {
            Report::Kept { of: of(concerned)?, at: *at }
        }
        Event::Disputed(platform::Dispute { of: concerned, number, extent, .. }) => match extent_of(extent) {
            Extent::Full => disputed(concerned, number.as_deref(), Vec::new())?,
            Extent::Lines { lines, .. } => disputed(concerned, number.as_deref(), lines)?,
            extent @ Extent::Partial { .. } => {
                let (links, cause) = (Links::default(), Cause::Refund);
                Report::Refunded { of: of(concerned)?, links, extent, cause, at: None }
            }
        },
        // That of a part, which changed nothing, changes nothing.
        Event::Restored(platform::Dispute { extent: platform::Extent::Partial { .. }, .. }) => return Ok(None),
        Event::Restored(dispute) => {
            let end = match &dispute.end {
                Some(end) => End::Any(end.clone()),
                None => End::Of(dispute.number.clone().unwrap_or_default()),
            };
            Report::Won { of: of(&dispute.of)?, end }
        }
        Event::Linked(references) => Report::Linked(links(references)?),
        Event::Kept(_)
        | Event::Paid(_)
        | Event::Captured { .. }
        | Event::Told(_)
        | Event::Unshown { .. }
        | Event::Customer { .. } => {
            return Err(Unreadable);
        }
    }))
}

fn disputed(concerned: &Reference, number: Option<&str>, lines: Vec<Returned>) -> Result<Report, Unreadable> {
    Ok(Report::Disputed { of: of(concerned)?, dispute: number.unwrap_or_default().to_owned(), lines })
}

fn extent_of(extent: &platform::Extent) -> Extent {
    match extent {
        platform::Extent::Full => Extent::Full,
        platform::Extent::Partial { refund } => Extent::Partial { refund: refund.clone() },
        platform::Extent::Lines { refund, lines } => {
            let returned = |line: &Line| {
                let (id, name) = (line.id.clone(), line.names.first().cloned().unwrap_or_default());
                let (pieces, amount) = (line.quantity.into(), line.amount);
                (id.is_some() || !name.is_empty()).then_some(Returned { line: id, name, pieces, amount })
            };
            Extent::Lines { refund: refund.clone(), lines: lines.iter().filter_map(returned).collect() }
        }
    }
}

fn cause_of(cause: platform::Cause) -> Cause {
    match cause {
        platform::Cause::Refund => Cause::Refund,
        platform::Cause::Cancellation => Cause::Cancellation,
    }
}

fn of(reference: &Reference) -> Result<Of, Unreadable> {
    Ok(match reference {
        Reference::Order(order) => Of::Order(parsed(order)?),
        Reference::Payment(payment) => Of::Payment(parsed(payment)?),
    })
}

pub(super) fn links(references: &References) -> Result<Links, Unreadable> {
    let References { order, payment, invoice, subscription, is_first } = references;
    let read = |name: &Option<String>| name.as_deref().map(parsed).transpose();
    Ok(Links {
        order: read(order)?,
        payment: read(payment)?,
        invoice: read(invoice)?,
        subscription: read(subscription)?,
        is_first: *is_first,
    })
}

pub(super) fn parsed(name: &str) -> Result<OrderId, Unreadable> {
    name.parse().map_err(|_| Unreadable)
}
