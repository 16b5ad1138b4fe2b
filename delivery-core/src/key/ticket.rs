//! Tickets: proofs that somebody had a key, or opened a product with a key. A link to a file contains a ticket.
//!
//! The text of a ticket is 86 characters of URL-safe base64. These are 64 bytes:
//!
//! ```text
//! key id      16 bytes
//! product      8 bytes
//! object      16 bytes   identifies a file, for example
//! expiry       8 bytes   seconds since 1970
//! tag         16 bytes   HMAC-SHA-256 over the bytes before it, truncated to 128 bits
//! ```
//!
//! The key of the HMAC depends on the purpose of the ticket. A ticket contains neither its purpose nor the text of the
//! buyer's key, and is not stored. Decoding is strict, so a ticket has exactly one text.

use chrono::{DateTime, Utc};
use data_encoding::BASE64URL_NOPAD;
use subtle::ConstantTimeEq;

use super::{KeyId, Keyring};
use crate::product::{ObjectName, ProductId};

const SIGNED: usize = 48;
const TAG: usize = 16;

/// What a ticket is for. A ticket for one purpose is not valid for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TicketFor {
    /// A file that this service stores.
    #[cfg_attr(not(any(test, feature = "files")), expect(dead_code, reason = "only tickets for files have it"))]
    File,
    /// An object of the host application, such as a file, identified by its name.
    Host,
    /// The page that shows an opened product.
    #[cfg_attr(not(feature = "pages"), expect(dead_code, reason = "only tickets for pages have it"))]
    Page,
    /// The page that shows the state of a key.
    #[cfg_attr(not(feature = "pages"), expect(dead_code, reason = "only tickets for pages have it"))]
    State,
}

/// The content of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) key: KeyId,
    pub(crate) product: ProductId,
    pub(crate) object: ObjectName,
    /// When the ticket expires, in whole seconds.
    pub(crate) ends_at: DateTime<Utc>,
}

impl TicketFor {
    fn label(self) -> &'static str {
        match self {
            Self::File => "ticket for a file",
            Self::Host => "ticket for the host",
            Self::Page => "ticket for an opened page",
            Self::State => "ticket for the state of a key",
        }
    }
}

impl Ticket {
    /// Returns the text of the ticket.
    pub(crate) fn text(&self, keyring: &Keyring, purpose: TicketFor) -> String {
        let mut bytes = Vec::with_capacity(SIGNED + TAG);
        bytes.extend(self.key.as_bytes());
        bytes.extend(self.product.get().to_be_bytes());
        bytes.extend(self.object.to_bytes());
        bytes.extend(self.ends_at.timestamp().to_be_bytes());
        let mac = keyring.mac(purpose.label(), &bytes);
        bytes.extend(tag(&mac));
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// Reads a ticket that this keyring signed for this purpose. Returns `None` for any other text. Does not check
    /// whether the ticket has expired.
    pub(crate) fn verify(keyring: &Keyring, purpose: TicketFor, text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (signed, signature) = bytes.split_at_checked(SIGNED)?;
        if !keyring.macs(purpose.label(), signed).any(|mac| bool::from(tag(&mac).ct_eq(signature))) {
            return None;
        }
        let (key, rest) = signed.split_first_chunk()?;
        let (product, rest) = rest.split_first_chunk()?;
        let (object, rest) = rest.split_first_chunk()?;
        Some(Self {
            key: KeyId::from_bytes(*key),
            product: ProductId::new(i64::from_be_bytes(*product)).ok()?,
            object: ObjectName::from_bytes(*object),
            ends_at: DateTime::from_timestamp(i64::from_be_bytes(rest.try_into().ok()?), 0)?,
        })
    }
}

fn tag(mac: &[u8; 32]) -> &[u8] {
    mac.split_at(TAG).0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            key: KeyId::from_bytes([7; 16]),
            product: ProductId::new(1).unwrap(),
            object: ObjectName::from_bytes([9; 16]),
            ends_at: DateTime::from_timestamp(1_795_255_200, 0).unwrap(),
        }
    }

    #[test]
    fn a_ticket_is_read_as_it_was_made() {
        let keyring: Keyring = "a signing secret".parse().unwrap();
        let text = ticket().text(&keyring, TicketFor::File);
        assert_eq!(text.len(), 86);
        assert_eq!(Ticket::verify(&keyring, TicketFor::File, &text), Some(ticket()));
        // A server that also has a newer secret reads the ticket. Servers read each other's tickets even if they list
        // the two secrets in different orders.
        for secrets in ["a newer signing secret,a signing secret", "a signing secret,a newer signing secret"] {
            let newer: Keyring = secrets.parse().unwrap();
            assert_eq!(Ticket::verify(&newer, TicketFor::File, &text), Some(ticket()), "{secrets}");
            let other: Keyring = "a signing secret,a newer signing secret".parse().unwrap();
            let text = ticket().text(&newer, TicketFor::File);
            assert_eq!(Ticket::verify(&other, TicketFor::File, &text), Some(ticket()), "{secrets}");
        }
    }

    #[test]
    fn any_other_text_is_refused() {
        let keyring: Keyring = "a signing secret".parse().unwrap();
        let text = ticket().text(&keyring, TicketFor::File);
        let verify = |text: &str| Ticket::verify(&keyring, TicketFor::File, text);
        for at in 0..text.len() {
            let swap = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
            let mut other = text.clone();
            other.replace_range(at..=at, swap);
            assert_eq!(verify(&other), None, "{other}");
        }
        for other in ["", "A", &text[1..], &text[..85], &format!("{text}A"), &format!("{text}="), &text.to_lowercase()]
        {
            assert_eq!(verify(other), None, "{other}");
        }
        assert_eq!(Ticket::verify(&keyring, TicketFor::Host, &text), None, "another purpose");
        let other: Keyring = "another signing secret".parse().unwrap();
        assert_eq!(Ticket::verify(&other, TicketFor::File, &text), None, "another secret");
    }
}
