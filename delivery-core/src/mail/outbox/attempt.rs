//! One attempt to send a message.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::SemaphorePermit;

use super::Outbox;
use crate::clock::{Clock, SystemClock};
use crate::email::Email;
use crate::key::Key;
use crate::language::Language;
use crate::ledger::{LeasedMessage, MessageKind, Recipient, WebhookName};
use crate::mail::running_time::within;
use crate::mail::templates::{MOST_KEYS, Rendered, ServiceValues, Shown};
use crate::mail::{About, EmailPreview, MailError, Message, SEND_TIMEOUT, TemplateError};
use crate::product::Product;
use crate::store::{ExpiryScan, KeyQuery, StoreError, Subscribed};

/// How long each read from the store or the catalog may take while an e-mail is rendered.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Why an e-mail that delivers a key is not sent while the key is revoked.
const REVOKED: &str = "the key was revoked";

impl Outbox {
    /// Sends the message. If it is an e-mail, writes into `handed_over` the time at which it was handed to the mailer.
    #[cfg_attr(feature = "spans", tracing::instrument(name = "message", skip_all, fields(key = %message.key.id(), attempt = message.attempt)))]
    pub(super) async fn deliver(
        &self,
        message: &LeasedMessage,
        handed_over: &OnceLock<Duration>,
    ) -> Result<(), MailError> {
        let sent = match &message.recipient {
            Recipient::Email(_) => {
                // Use the key's current address. The address may have been corrected since the message was queued, and
                // the old address may belong to another person.
                let (_place, message) = self.place_for(message).await?;
                let rendered = self.render(&message, message.key.email()).await?;
                handed_over.get_or_init(|| SystemClock.monotonic());
                within(SEND_TIMEOUT, self.mailer.send(&rendered)).await
            }
            // Webhooks have time limits of their own.
            Recipient::Webhook(name) => return self.post(message, name).await,
        };
        sent.unwrap_or_else(|| Err(MailError::unconfirmed("sending took longer than twelve minutes and was cut off")))
    }

    /// Waits for a permit to hand another e-mail to the mailer. If no permit was free at once, reads the key again,
    /// because the buyer's address may have been changed or erased meanwhile.
    async fn place_for<'m>(
        &self,
        message: &'m LeasedMessage,
    ) -> Result<(Option<SemaphorePermit<'_>>, Cow<'m, LeasedMessage>), MailError> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok((Some(place), Cow::Borrowed(message)));
        }
        // This is never `None`, because the semaphore is never closed.
        let place = self.places.acquire().await.ok();
        let key = read("the key cannot be read", self.ledger.find(message.key.id())).await?;
        let key = key.unwrap_or_else(|| message.key.clone());
        Ok((place, Cow::Owned(LeasedMessage { key, ..message.clone() })))
    }

    #[cfg(feature = "webhooks")]
    async fn post(&self, message: &LeasedMessage, name: &WebhookName) -> Result<(), MailError> {
        use crate::webhook::SendError;

        let sent = match &self.webhooks {
            Some(webhooks) => webhooks.send(name, message, self.clock.as_ref()).await,
            None => Err(SendError::Unknown(name.clone())),
        };
        // Retry soon, even if the receiver may already have got the message. This is safe, because the receiver
        // recognises the repeated id.
        sent.map_err(|error| match error {
            SendError::Gone => MailError::permanent(error.to_string()),
            // Another server may know the webhook, for example while the servers restart one after the other with a
            // changed list of webhooks.
            SendError::Unknown(_) => MailError::doubtful(error.to_string()),
            SendError::Unreachable(source) => {
                MailError::transient("the receiver cannot be reached").because_of(source.as_ref())
            }
            SendError::Busy => MailError::not_tried(error.to_string()),
            SendError::Refused(_) | SendError::TooSlow | SendError::LeftAlone => {
                MailError::transient(error.to_string())
            }
        })
    }

    #[cfg(not(feature = "webhooks"))]
    #[expect(clippy::unused_async, reason = "with the feature `webhooks` it awaits the sending")]
    async fn post(&self, _: &LeasedMessage, name: &WebhookName) -> Result<(), MailError> {
        Err(MailError::doubtful(format!("there is no webhook called {name}")))
    }

    /// Returns whether a reminder that a key expires is still true: the key is valid, and still expires at the time for
    /// which the reminder was queued. The `Message-ID` of the reminder contains that time.
    fn is_reminder_true(&self, message: &LeasedMessage) -> bool {
        let (key, now) = (&message.key, self.clock.now());
        let domain = message.message_id.as_str().rsplit_once('@').map_or("", |(_, domain)| domain).to_owned();
        let scan = ExpiryScan { now, until: now, limit: 0, domain };
        key.check(now).is_ok() && scan.name(key.id(), key.expires_at()).is_ok_and(|name| name == message.message_id)
    }

    /// Returns why the content of an e-mail is no longer true. Returns `None` if it is still true. This is checked
    /// before sending, because the e-mail may have waited for days.
    pub(super) fn outdated(&self, message: &LeasedMessage) -> Option<&'static str> {
        let (key, kind) = (&message.key, message.kind);
        match &message.recipient {
            Recipient::Email(_) if key.email().is_erased() => Some("the buyer was forgotten"),
            // This e-mail is never outdated: it lists the keys that the address has when the e-mail is rendered.
            Recipient::Email(_) if kind == MessageKind::Lost => None,
            Recipient::Email(_) if kind.brings_key() && key.successor().is_some() => {
                Some("another key took the place of this one")
            }
            Recipient::Email(_) if kind.brings_key() && key.revoked_at().is_some() => Some(REVOKED),
            Recipient::Email(_) if kind == MessageKind::Revoked && key.revoked_at().is_none() => {
                Some("the key is valid again")
            }
            Recipient::Email(_) if kind == MessageKind::Expiring && !self.is_reminder_true(message) => {
                Some("the key does not expire then any more")
            }
            Recipient::Email(_) | Recipient::Webhook(_) => None,
        }
    }

    async fn render(&self, message: &LeasedMessage, to: &Email) -> Result<Message, MailError> {
        let key = &message.key;
        if let Some(reason) = self.outdated(message) {
            // A revocation may be lifted, for example because a dispute is won. The buyer then needs the key.
            let error = if reason == REVOKED { MailError::transient(reason) } else { MailError::permanent(reason) };
            return Err(error);
        }
        let keys = match message.kind {
            MessageKind::Lost => self.keys_of(to).await?,
            _ => vec![key.clone()],
        };
        let mut parts = Vec::new();
        for key in &keys {
            let product = read("the product cannot be read", self.catalog.product(key.product())).await?;
            if let Some(product) = product {
                let subscribed = Subscribed::of(self.ledger.as_ref(), key);
                let subscribed = read("the subscription cannot be read", subscribed).await?;
                let text = self.keyring.text(key.id(), key.granted().secret);
                parts.push((key, text, subscribed.is_some(), product));
            }
        }
        if parts.is_empty() {
            return Err(MailError::transient("the product is not there"));
        }
        let date = self.clock.now();
        let shown = parts.iter().map(|(key, text, is_subscribed, product)| {
            let (status, is_subscribed) = (key.status(date), *is_subscribed);
            Shown { key, status, text, is_subscribed, product }
        });
        let shown: Vec<Shown<'_>> = shown.collect();
        let shown_first = shown.first().map_or(key.id(), |shown| shown.key.id());
        let rendered = self.templates.render(message.kind, (&shown, to), (self.service_values(), &self.language));
        let rendered =
            rendered.map_err(|error| MailError::transient("the e-mail cannot be rendered").because(error))?;
        Ok(Message {
            from: self.sender.clone(),
            reply_to: self.brand.reply_to.clone(),
            to: to.clone(),
            subject: rendered.subject,
            text: rendered.text,
            html: rendered.html,
            message_id: message.message_id.clone(),
            date,
            about: Some(About { kind: message.kind, key: shown_first, language: rendered.language }),
        })
    }

    /// Renders an e-mail of this kind about an example key for the product `sold`. If `sold` is `None`, the product is
    /// an example too.
    pub(crate) fn preview(
        &self,
        kind: MessageKind,
        sold: Option<&Product>,
        language: &Language,
    ) -> Result<EmailPreview, TemplateError> {
        let Rendered { subject, text, html, language } =
            self.templates.preview(kind, sold, (self.service_values(), [language, &self.language]))?;
        Ok(EmailPreview { kind, language, subject, text, html })
    }

    fn service_values(&self) -> ServiceValues<'_> {
        let (base_url, links, brand) = (&self.base_url, &self.links, &self.brand);
        ServiceValues { base_url, links, brand, shows_commands: self.shows_commands }
    }

    /// Returns the keys of an address that are not revoked, newest first. Returns an error if the address has no such
    /// key. Returns at most one key more than an e-mail shows, so that the e-mail can say that it omits keys.
    async fn keys_of(&self, email: &Email) -> Result<Vec<Key>, MailError> {
        let mut query = KeyQuery { email: Some(email.clone()), limit: MOST_KEYS + 1, ..KeyQuery::default() };
        let mut keys: Vec<Key> = Vec::new();
        loop {
            let found = read("the keys cannot be read", self.ledger.search(&query)).await?;
            keys.extend(found.items.into_iter().filter(|key| key.revoked_at().is_none()));
            match found.next {
                Some(next) if keys.len() <= MOST_KEYS => query.before = Some(next),
                _ => break,
            }
        }
        keys.truncate(MOST_KEYS + 1);
        if keys.is_empty() { Err(MailError::permanent("the buyer has no key any more")) } else { Ok(keys) }
    }
}

/// Awaits a read from the store or the catalog, with a time limit. If the store is only unavailable, the e-mail is
/// retried in a minute, and this does not count as an attempt. Any other error may never pass, for example an invalid
/// row of a product, so it counts as a failed attempt, and the e-mail is given up in the end.
async fn read<T>(what: &str, answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, MailError> {
    let answer = within(READ_TIMEOUT, answer).await;
    let answer = answer.unwrap_or_else(|| Err(StoreError::unavailable("no answer in time")));
    answer.map_err(|error| {
        let failure = if error.is_temporary() { MailError::not_tried(what) } else { MailError::transient(what) };
        failure.because(error)
    })
}
