//! What a browser has opened, and the keys about which it has asked: tickets in cookies.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{PageRequest, base};
use crate::delivery::{Delivery, Opened};
use crate::http::Reply;
use crate::key::{Key, KeyId, Ticket, TicketFor};
use crate::product::ObjectName;

/// How long a buyer sees what was opened, as the page says.
pub(super) const DAY: Duration = Duration::from_hours(24);

/// How long a buyer can go back to the page with the state of a key.
const HOUR: Duration = Duration::from_hours(1);
/// A key about which this browser has asked.
pub(super) struct Asked {
    pub(super) key: KeyId,
    /// The id of the request that opens it. It stays the same when the page is loaded again, so that opening it twice counts
    /// one use.
    pub(super) request: String,
}

/// Returns the reply that leads to the page with the state of a key. Its address tells nothing about the key.
pub(super) fn lead_to_state(visit: &PageRequest<'_>, key: &Key) -> Reply {
    let mut random = [0; 16];
    visit.delivery.inner.entropy.fill(&mut random);
    let ticket = Delivery::ticket_for(key, ObjectName::from_bytes(random), visit.delivery.now(), HOUR);
    let text = ticket.text(&visit.delivery.inner.keyring, TicketFor::State);
    let name = short(visit, key.id());
    let reply = visit.go_to(&format!("/key?id={name}"));
    // Mail programs on the web may hold the form that led here.
    reply.cookie(&visit.cookie_of_buyer(&format!("asked-{name}"), &text, (HOUR.as_secs(), "Lax")))
}

/// Returns the key about which this browser has asked under this name, if that was less than an hour ago.
pub(super) fn asked_about(visit: &PageRequest<'_>, name: &str) -> Option<Asked> {
    let ticket = visit.text_of_buyer(&format!("asked-{name}"))?;
    let ticket = Ticket::verify(&visit.delivery.inner.keyring, TicketFor::State, ticket)?;
    let is_its = short(visit, ticket.key) == name && ticket.ends_at > visit.delivery.now();
    let request = || data_encoding::BASE64URL_NOPAD.encode(&ticket.object.to_bytes());
    is_its.then(|| Asked { key: ticket.key, request: request() })
}

/// Returns the reply that leads to the page of what was opened.
pub(super) fn lead_to(visit: &PageRequest<'_>, opened: &Opened) -> Reply {
    let ticket = Delivery::ticket_for(&opened.key, object(), opened.at, DAY);
    let text = ticket.text(&visit.delivery.inner.keyring, TicketFor::Page);
    let name = short(visit, opened.key.id());
    let reply = visit.go_to(&format!("/key/opened?id={name}"));
    reply.cookie(&visit.cookie_of_buyer(&format!("opened-{name}"), &text, (DAY.as_secs(), "Strict")))
}

/// Returns the page of what this browser has opened with a key, and until when it is shown, if it is.
pub(super) fn open_until(visit: &PageRequest<'_>, key: KeyId) -> Option<(String, DateTime<Utc>)> {
    let name = short(visit, key);
    let keyring = &visit.delivery.inner.keyring;
    let ticket = Ticket::verify(keyring, TicketFor::Page, visit.text_of_buyer(&format!("opened-{name}"))?)?;
    let is_open = ticket.key == key && ticket.ends_at > visit.delivery.now();
    is_open.then(|| (format!("{}/key/opened?id={name}", base(visit.delivery)), ticket.ends_at))
}

/// Returns the name of a key in the addresses of this page, and in the name of its cookie. It tells nothing about the key.
pub(super) fn short(visit: &PageRequest<'_>, key: KeyId) -> String {
    let mac = visit.mac("opened page", key.as_bytes());
    data_encoding::BASE64URL_NOPAD.encode(mac.first_chunk::<6>().unwrap_or(&[0; 6]))
}

/// The tickets of this page are for the whole product.
fn object() -> ObjectName {
    ObjectName::from_bytes([0; 16])
}
