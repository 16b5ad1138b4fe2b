//! Turns a notification (the content of a platform's webhook request) into an event of the inbox.

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use sha2::{Digest, Sha256};

use super::content::EventContent;
use crate::delivery::Error;
use crate::email::Email;
use crate::ledger::{EventId, InboxEvent};
use crate::order::Source;
use crate::platform::{Event, Notification};
use crate::store::StoreError;

/// How long after its receipt the worker applies an event that was not applied at once.
const LATER: TimeDelta = TimeDelta::seconds(15);

/// Converts a notification to an event of the inbox. The event contains what was read from the platform's bytes, but
/// not the bytes themselves.
pub(super) fn kept(source: &Source, notification: &Notification, now: DateTime<Utc>) -> Result<InboxEvent, Error> {
    let Notification { id, kind, is_test, events } = notification;
    // An id that is not valid as the name of an event is replaced by its digest.
    let digest = || data_encoding::HEXLOWER.encode(&Sha256::digest(id));
    let name = id.parse().or_else(|_| digest().parse());
    let name = name.map_err(|error| StoreError::corrupt_because("the name of an event", error))?;
    let kind: String = kind.chars().filter(|c| !c.is_control()).take(100).collect();
    let content = events.as_ref().ok().map(|events| {
        let mut events = events.clone();
        events.iter_mut().for_each(write_alike);
        EventContent::new(*is_test, Some(events))
    });
    let body = content.map(|content| serde_json::to_string(&content)).transpose();
    Ok(InboxEvent {
        number: 0,
        id: EventId { source: source.clone(), name },
        kind,
        order: events.iter().flatten().find_map(Event::concerns).cloned(),
        body: body.map_err(|error| StoreError::corrupt_because("an event that is no JSON", error))?,
        received_at: now.trunc_subsecs(3),
        outcome: None,
        reason: None,
        keys: Vec::new(),
        due_at: now.checked_add_signed(LATER).map(|at| at.trunc_subsecs(3)),
        attempts: 0,
        version: 0,
    })
}

/// Rewrites the e-mail address of an event into the form that all stored addresses have, so that it can be found and
/// erased.
fn write_alike(event: &mut Event) {
    let email = match event {
        Event::Paid(sale) => sale.buyer.email.as_mut(),
        Event::Subscription(word) => word.buyer.email.as_mut(),
        Event::Captured { buyer, .. } => buyer.email.as_mut(),
        Event::Customer { email, .. } => Some(email),
        _ => None,
    };
    if let Some(email) = email
        && let Ok(address) = email.parse::<Email>()
    {
        address.as_str().clone_into(email);
    }
}
