//! Cookies with [tickets](crate::key::Ticket). There is a cookie for each product that a buyer has opened, and for each
//! key that a buyer has entered.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{PageRequest, base};
use crate::delivery::{Delivery, Opened};
use crate::http::Reply;
use crate::key::{Key, KeyId, Ticket, TicketFor};
use crate::product::ObjectName;

/// How long a buyer can view a product after opening it, unless the key expires earlier. The page with the opened
/// product displays the time at which this ends.
pub(super) const DAY: Duration = Duration::from_hours(24);

/// How long a buyer can go back to the page with the state of a key after entering the key.
const HOUR: Duration = Duration::from_hours(1);
/// A key that the buyer has entered in this browser.
pub(super) struct EnteredKey {
    pub(super) key: KeyId,
    /// The id of the request that opens the product. It stays the same when the page is reloaded, so that opening the
    /// product twice counts one use.
    pub(super) request_id: String,
}

/// Returns a redirect to the page with the state of a key, and sets the cookie that this page needs. The URL of this
/// page reveals nothing about the key.
pub(super) fn lead_to_state(request: &PageRequest<'_>, key: &Key) -> Reply {
    let mut random = [0; 16];
    request.delivery.inner.entropy.fill(&mut random);
    let ticket = Delivery::ticket_for(key, ObjectName::from_bytes(random), request.delivery.now(), HOUR);
    let text = ticket.text(&request.delivery.inner.keyring, TicketFor::State);
    let name = short(request, key.id());
    let reply = request.go_to(&format!("/key?id={name}"));
    // The form that was submitted may be on another site, such as a mail program on the web. After such a form,
    // browsers send a `Lax` cookie with the redirected request, but not a `Strict` one.
    reply.cookie(&request.cookie_of_buyer(&format!("asked-{name}"), &text, (HOUR.as_secs(), "Lax")))
}

/// Returns the key with this [`short`] name, if it was entered in this browser less than an hour ago and has not
/// expired.
pub(super) fn entered_key(request: &PageRequest<'_>, name: &str) -> Option<EnteredKey> {
    let ticket = request.text_of_buyer(&format!("asked-{name}"))?;
    let ticket = Ticket::verify(&request.delivery.inner.keyring, TicketFor::State, ticket)?;
    let is_its = short_names(request, ticket.key).any(|short| short == name) && ticket.ends_at > request.delivery.now();
    let request_id = || data_encoding::BASE64URL_NOPAD.encode(&ticket.object.to_bytes());
    is_its.then(|| EnteredKey { key: ticket.key, request_id: request_id() })
}

/// Returns a redirect to the page that shows the opened product, and sets the cookie that this page needs.
pub(super) fn lead_to(request: &PageRequest<'_>, opened: &Opened) -> Reply {
    let ticket = Delivery::ticket_for(&opened.key, object(), opened.at, DAY);
    let text = ticket.text(&request.delivery.inner.keyring, TicketFor::Page);
    let name = short(request, opened.key.id());
    let reply = request.go_to(&format!("/key/opened?id={name}"));
    reply.cookie(&request.cookie_of_buyer(&format!("opened-{name}"), &text, (DAY.as_secs(), "Strict")))
}

/// Returns the address of the page that shows an opened product, and when the page stops showing it. `key` is the key
/// with which this browser opened the product. Returns `None` if this browser opened no product with the key, or if the
/// page does not show the product any more.
pub(super) fn open_until(request: &PageRequest<'_>, key: KeyId) -> Option<(String, DateTime<Utc>)> {
    let keyring = &request.delivery.inner.keyring;
    short_names(request, key).find_map(|name| {
        let ticket = Ticket::verify(keyring, TicketFor::Page, request.text_of_buyer(&format!("opened-{name}"))?)?;
        let is_open = ticket.key == key && ticket.ends_at > request.delivery.now();
        is_open.then(|| (format!("{}/key/opened?id={name}", base(request.delivery)), ticket.ends_at))
    })
}

/// Returns the short name of a key, which is used in URLs and in the names of cookies. The short name reveals nothing
/// about the key.
fn short(request: &PageRequest<'_>, key: KeyId) -> String {
    short_names(request, key).next().unwrap_or_default()
}

/// Returns the [`short`] names of a key: one for each signing secret, newest first.
pub(super) fn short_names(request: &PageRequest<'_>, key: KeyId) -> impl Iterator<Item = String> {
    let names = request.macs("opened page", key.as_bytes());
    names.map(|mac| data_encoding::BASE64URL_NOPAD.encode(mac.split_at(6).0)).collect::<Vec<_>>().into_iter()
}

/// Returns the object name in tickets for the page that shows an opened product. In tickets for files, this name
/// identifies the file. Here it is always the same.
fn object() -> ObjectName {
    ObjectName::from_bytes([0; 16])
}
