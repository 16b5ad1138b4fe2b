//! Messages, the audit log, statistics, and the erasure of customers.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, Utc};

use super::{Page, Period, StoreError};
use crate::email::Email;
use crate::key::{Actor, KeyId, Status};
use crate::ledger::{Action, Amount, Edit, MessageId, MessageKind, MessageNumber, Recipient};
use crate::product::ProductId;

/// Messages, the audit log, statistics, and the erasure of customers, for stores that support them.
///
/// # To ensure correctness
///
/// * When a key's expiry is announced, queue the e-mail and record the announced expiry time in one commit.
/// * After an erasure, the address must not remain anywhere: not in rows, indexes, logs or free pages.
#[async_trait]
pub trait Records: Send + Sync {
    /// Returns the messages that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn messages(&self, query: &MessageQuery) -> Result<Page<StoredMessage, MessageNumber>, StoreError>;

    /// Returns the entries of the audit log that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry, i64>, StoreError>;

    /// Adds an entry that concerns no key and no product to the audit log, durably.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the entry may not have been saved.
    async fn log(&self, action: Action, edit: Edit) -> Result<(), StoreError>;

    /// Counts the keys by product and status at `now`. Also counts what happened on each day, from the day of `since`
    /// to the day of `now`; days are in UTC. This may read every key. A store may use a key's id to find out when the
    /// key was issued, because [`KeyId::random`](crate::key::KeyId::random) puts the time into the id.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn figures(&self, since: DateTime<Utc>, now: DateTime<Utc>) -> Result<Figures, StoreError>;

    /// For monitoring: counts the messages that wait to be sent, the messages that were given up, and the platform
    /// events that need the seller's attention.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn backlog(&self) -> Result<Backlog, StoreError>;

    /// Announces the expiry of keys: queues an e-mail about each key that expires after `scan.now` and no later than
    /// `scan.until`. Handles the keys that expire first, at most `scan.limit`, and returns how many keys it handled.
    ///
    /// The commit that queues the e-mail also records the key's expiry time. So each expiry time of a key is announced
    /// once, however many servers scan. Only the latest announced time is recorded. If a key is set back to an earlier
    /// expiry time that was announced before, that time is announced again.
    ///
    /// * No e-mail is queued about a key of an erased customer, or about a key that a subscription
    ///   [renews](crate::ledger::Deal::subscription). The key's expiry time is recorded nevertheless.
    /// * Keys that are revoked or used up are skipped. Their expiry is announced later if they are restored or get more
    ///   uses before they expire.
    /// * A key whose whole validity is shorter than the time from `scan.now` to `scan.until` is skipped, because its
    ///   buyer would get the e-mail right after the purchase. If the expiry time was changed after the sale, the longer
    ///   of two validities counts: the one at the sale or the present one.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if no e-mail was queued.
    async fn notify_expiring(&self, scan: ExpiryScan) -> Result<usize, StoreError>;

    /// Marks at most `most` keys that have expired by `now`, so that [`search`](super::Backend::search) finds them as
    /// fast as other keys. Returns how many keys it marked. Marks have no other effect: searches also find expired keys
    /// that are not marked. A store that needs no marks does nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if no key was marked.
    async fn mark_expired(&self, _now: DateTime<Utc>, _most: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// Erases the customer with the address `email`, durably, and adds an entry about this to the audit log. The
    /// address is compared without regard to case. Returns the keys that had the address until this erasure.
    ///
    /// `pseudonym` replaces the address in keys, in messages and in the audit log. If an entry of the audit log records
    /// that this address was replaced by another one, the detail of the entry becomes what
    /// [`Action::replacing_email`](crate::ledger::Action::replacing_email) returns for `pseudonym`. Counts, keys and
    /// purchases stay. The following is deleted:
    ///
    /// * waiting messages to the address, if they are about a key that had the address until this erasure
    /// * the customer's requests for lost keys
    /// * the content of platform events that name the customer and can still be applied
    /// * the records of which platform customers have this address
    ///
    /// The deal of each sale that such an event [names](crate::ledger::sales_named) records the erasure, by
    /// [`Deal::with_buyer_erased`](crate::ledger::Deal::with_buyer_erased). A reference without a deal gets a new deal.
    /// So later events about the sale that name the customer do not wait for the seller to map or add a product, and
    /// their content is not kept.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some data of the customer may be left. Calling this again is then safe.
    async fn erase(&self, email: &Email, pseudonym: &Email, edit: Edit) -> Result<Vec<KeyId>, StoreError>;
}

/// The parameters of [`Records::notify_expiring`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct ExpiryScan {
    /// The current time. Keys that have expired by then are skipped.
    pub now: DateTime<Utc>,
    /// Keys that expire later than this time are skipped.
    pub until: DateTime<Utc>,
    /// The maximum number of keys that one call handles.
    pub limit: usize,
    /// The domain of the sender's address. The `Message-ID`s of the e-mails end with it.
    pub domain: String,
}

impl ExpiryScan {
    /// Returns the `Message-ID` of the e-mail about the expiry of `key` at `expires_at`. Every server computes the same
    /// `Message-ID`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] if the domain does not make a valid `Message-ID`.
    pub fn name(&self, key: KeyId, expires_at: DateTime<Utc>) -> Result<MessageId, StoreError> {
        let name = MessageId::new(format!("{key}-{}@{}", expires_at.timestamp(), self.domain));
        name.map_err(|error| StoreError::corrupt_because("a sender without a domain", error))
    }
}

/// The conditions of a search for messages. A condition that is `None` matches every message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal with `..Default::default()`")]
pub struct MessageQuery {
    /// Only messages in this state.
    pub state: Option<MessageState>,
    /// Only messages about this key.
    pub key: Option<KeyId>,
    /// Only messages that were first queued in this period. The time is taken from the message's number, to the second.
    pub period: Period,
    /// Only messages with a lower number than this. To continue a list, pass the [`Page::next`] of the previous page.
    pub before: Option<MessageNumber>,
    /// Messages per page, from 1 to 1,000; other values are clamped to this range.
    pub limit: usize,
}

crate::text::names! {
    /// The state of a message.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[expect(clippy::exhaustive_enums, reason = "a message waits, or it does not")]
    pub enum MessageState, "must be queued, sent or failed", {
        /// The message waits to be sent, or is being sent.
        Queued = "queued",
        /// The message was sent.
        Sent = "sent",
        /// The message was given up.
        Failed = "failed",
    }
}

/// A message in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct StoredMessage {
    /// The message's number.
    pub message: MessageNumber,
    /// The kind of message.
    pub kind: MessageKind,
    /// The key that the message delivers or is about.
    pub key: KeyId,
    /// The recipient.
    pub recipient: Recipient,
    /// The message's state.
    pub state: MessageState,
    /// How often the message was tried since [`queued_at`](Self::queued_at).
    pub attempts: u32,
    /// When the message was queued. If a message is retried after it failed for good, it counts as queued again at that
    /// time.
    pub queued_at: DateTime<Utc>,
    /// For a queued message, when it is due. For any other message, when it was sent or given up.
    pub at: DateTime<Utc>,
    /// Why the last attempt failed, or why the message could not be tried; otherwise `None`.
    pub reason: Option<String>,
}

/// The conditions of a search in the audit log. A condition that is `None` matches every entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal with `..Default::default()`")]
pub struct AuditQuery {
    /// Only entries about this key.
    pub key: Option<KeyId>,
    /// Only entries about actions of this actor.
    pub actor: Option<Actor>,
    /// Only entries about this kind of action.
    pub action: Option<Action>,
    /// Only entries about actions in this period.
    pub period: Period,
    /// Only entries with a lower number than this. To continue a list, pass the [`Page::next`] of the previous page.
    pub before: Option<i64>,
    /// Entries per page, from 1 to 1,000; other values are clamped to this range.
    pub limit: usize,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct AuditEntry {
    /// The entry's number.
    pub number: i64,
    /// When the action was done, to the millisecond.
    pub at: DateTime<Utc>,
    /// Who did the action.
    pub actor: Actor,
    /// The action.
    pub action: Action,
    /// The key on which the action was done; `None` if the action does not concern a key.
    pub key: Option<KeyId>,
    /// The product on which the action was done; `None` if the action does not concern a product.
    pub product: Option<ProductId>,
    /// Details of the action, if there are any.
    pub detail: Option<String>,
}

impl AuditEntry {
    /// Returns the old address if this entry records that the address of a key's buyer was replaced; otherwise `None`.
    #[must_use]
    pub fn old_email(&self) -> Option<&str> {
        self.action.old_email(self.detail.as_deref()?)
    }
}

/// Statistics of keys and of recent days.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Figures {
    /// The days on which something happened, ascending.
    pub days: Vec<Day>,
    /// The number of keys of each product with each status. Each pair of product and status occurs at most once, and
    /// the order is arbitrary. Keys that were replaced by other keys are not counted.
    pub keys: Vec<(ProductId, Status, u64)>,
    /// The number of keys of each product that were replaced by other keys. Products without such keys are left out.
    /// All replaced keys are revoked.
    pub replaced: Vec<(ProductId, u64)>,
    /// The amount that platforms reported as [paid](crate::ledger::Deal::received) on each day in each currency,
    /// ordered by day, then by currency. Each pair of day and currency occurs at most once.
    pub revenue: Vec<(NaiveDate, Amount)>,
}

/// Counts of the messages and platform events that wait or have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Backlog {
    /// Messages that wait to be sent, or are being sent.
    pub queued: u64,
    /// When the oldest message that waits or is being sent was queued; `None` if there is no such message.
    pub oldest: Option<DateTime<Utc>>,
    /// Messages that failed for good and are not retried automatically.
    pub failed: u64,
    /// Failed messages that need the seller's attention: all failed webhook messages, and all failed e-mails except:
    ///
    /// - e-mails about a key that is revoked, or whose buyer was erased
    /// - e-mails after which another e-mail that [delivers] the key was queued
    /// - reminders that a key expires
    ///
    /// [delivers]: crate::ledger::MessageKind::brings_key
    pub unanswered: u64,
    /// Platform events that need the seller's attention.
    pub needs_attention: u64,
}

/// What happened on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Day {
    /// The day, in UTC.
    pub date: NaiveDate,
    /// Keys that were issued. A key that was issued only to replace another key is not counted.
    pub issued: u64,
    /// Uses that were counted. Uses whose records were pruned are missing.
    pub uses: u64,
    /// Revocations of keys, including those that were lifted later. A key that was revoked because another key replaced
    /// it is not counted.
    pub revoked: u64,
}

impl Day {
    /// Creates a day on which nothing happened.
    #[must_use]
    pub fn new(date: NaiveDate) -> Self {
        Self { date, issued: 0, uses: 0, revoked: 0 }
    }
}

impl MessageQuery {
    /// Returns the number of messages on a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        super::page_size(self.limit)
    }

    /// Returns whether `message` matches.
    #[must_use]
    pub fn matches(&self, message: &StoredMessage) -> bool {
        self.state.is_none_or(|state| state == message.state)
            && self.key.is_none_or(|key| key == message.key)
            && self.numbers().contains(&message.message.get())
    }

    /// Returns a range that contains the numbers of all matching messages: the numbers of the period that are below
    /// [`before`](Self::before).
    #[must_use]
    pub fn numbers(&self) -> Range<i64> {
        let Range { start, end } = self.period.numbers();
        start..end.min(self.before.map_or(i64::MAX, MessageNumber::get))
    }
}

impl AuditQuery {
    /// Returns the number of entries on a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        super::page_size(self.limit)
    }

    /// Returns whether `entry` matches.
    #[must_use]
    pub fn matches(&self, entry: &AuditEntry) -> bool {
        self.key.is_none_or(|key| entry.key == Some(key))
            && self.actor.as_ref().is_none_or(|actor| entry.actor == *actor)
            && self.action.is_none_or(|action| entry.action == action)
            && self.numbers().contains(&entry.number)
    }

    /// Returns a range that contains the numbers of all matching entries: the numbers of the period that are below
    /// [`before`](Self::before).
    #[must_use]
    pub fn numbers(&self) -> Range<i64> {
        let Range { start, end } = self.period.numbers();
        start..end.min(self.before.unwrap_or(i64::MAX))
    }
}

impl fmt::Display for MessageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
