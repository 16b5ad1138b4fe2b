//! Tickets: signed texts in download links. A ticket is made after a use of a key was counted. It is then valid for a
//! limited time, by default 24 hours, and using it counts no further use.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest, Sha256};

use super::{Delivery, Error};
use crate::clock::whole_seconds;
use crate::key::{Key, Ticket, TicketFor};
use crate::product::ObjectName;

/// How long a ticket is valid, unless its key expires before.
pub(crate) const TICKET: Duration = Duration::from_hours(24);

impl Delivery {
    /// Makes a ticket for something that the host application calls `name`, such as a file in its own storage. The
    /// ticket is valid for 24 hours, or until the key expires if that is sooner. Anybody who has the ticket may use it
    /// as often as they like, so count a use before you make one.
    ///
    /// Different products need different names, because only the name of a ticket is checked, not its product. Send the
    /// link with `Cache-Control: no-store` and `Referrer-Policy: no-referrer`, because anybody who sees the link can
    /// use it.
    ///
    /// A server that logs paths also logs the tickets in them. Anybody who reads the log can then download until the
    /// tickets expire. Rocket logs paths by default.
    ///
    /// The ticket is 86 characters of `A-Z`, `a-z`, `0-9`, `-` and `_`. It does not contain the text of the key, and
    /// nothing is stored.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use delivery_core::{mail::FolderMailer, product::NewProduct, store::SqliteStore};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (store, mail) = (folder.path().join("delivery.db"), folder.path().join("mail"));
    /// # use delivery_core::{Delivery, order::Order};
    /// # let store = Arc::new(SqliteStore::open(store).await?);
    /// # let mailer = Arc::new(FolderMailer::open(mail)?);
    /// # let delivery = Delivery::builder(store, mailer, "a signing secret that is kept".parse()?).build();
    /// # let guide = delivery.add_product(NewProduct::new("Guide")?).await?;
    /// # let order = Order::new("shop", "2026-1001", guide.id(), "ada@example.com")?;
    /// # let key = delivery.order(order).await?.key.id();
    /// let key = delivery.count_use(key, guide.id()).await?;
    /// let link = format!("https://shop.example/download/{}/guide.pdf", delivery.ticket(&key, "guide.pdf"));
    ///
    /// // The route for `/download/{ticket}/{name}` checks the ticket each time:
    /// let ticket = link.split('/').nth(4).unwrap();
    /// assert_eq!(delivery.check_ticket(ticket, "guide.pdf").await?.id(), key.id());
    /// assert!(delivery.check_ticket(ticket, "other.pdf").await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn ticket(&self, key: &Key, name: &str) -> String {
        self.ticket_lasting(key, name, TICKET)
    }

    /// Makes a [ticket](Self::ticket) that is valid for the time `lasts`, or until the key expires if that is sooner.
    /// The expiry is cut to whole seconds, so the ticket may expire up to a second earlier.
    #[must_use]
    pub fn ticket_lasting(&self, key: &Key, name: &str, lasts: Duration) -> String {
        let ticket = Self::ticket_for(key, object_of(name), self.inner.clock.now(), lasts);
        ticket.text(&self.inner.keyring, TicketFor::Host)
    }

    /// Returns the key of a [ticket](Self::ticket) that is valid for `name` now. Counts no use, and checks no
    /// [rule](crate::key::Rule) of the host application.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTicket`] if the ticket was not made by this service for `name`, or if its key is unknown.
    /// [`Error::ExpiredTicket`] if the ticket or its key has expired. [`Error::RevokedKey`] if the key was revoked
    /// since. [`Error::Store`] if the key cannot be read.
    pub async fn check_ticket(&self, ticket: &str, name: &str) -> Result<Key, Error> {
        let ticket = Ticket::verify(&self.inner.keyring, TicketFor::Host, ticket).ok_or(Error::UnknownTicket)?;
        if ticket.object != object_of(name) {
            return Err(Error::UnknownTicket);
        }
        self.holder_of(&ticket).await
    }

    /// Makes a ticket of this key for an object. The ticket expires `lasts` after `from`, or with the key if that is
    /// sooner.
    pub(crate) fn ticket_for(key: &Key, object: ObjectName, from: DateTime<Utc>, lasts: Duration) -> Ticket {
        let ends_at = TimeDelta::from_std(lasts).ok().and_then(|lasts| from.checked_add_signed(lasts));
        let ends_at = ends_at.map_or(key.expires_at(), |ends_at| key.expires_at().min(whole_seconds(ends_at)));
        Ticket { key: key.id(), product: key.product(), object, ends_at }
    }

    /// Returns the key of a ticket whose signature was verified. It is an error if the ticket or the key has expired,
    /// or if the key was revoked or is unknown.
    pub(crate) async fn holder_of(&self, ticket: &Ticket) -> Result<Key, Error> {
        let now = self.inner.clock.now();
        if ticket.ends_at <= now {
            return Err(Error::ExpiredTicket);
        }
        let key = self.inner.ledger.find(ticket.key).await?.ok_or(Error::UnknownTicket)?;
        if key.revoked_at().is_some() {
            return Err(Error::RevokedKey);
        }
        if key.expires_at() <= now { Err(Error::ExpiredTicket) } else { Ok(key) }
    }
}

/// Returns the object name that represents `name` in a ticket: the first half of the SHA-256 of `name`.
fn object_of(name: &str) -> ObjectName {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(Sha256::digest(name)).for_each(|(to, from)| *to = from);
    ObjectName::from_bytes(bytes)
}
