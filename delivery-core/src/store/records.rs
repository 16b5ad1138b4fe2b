//! What is on record: messages, the audit log and figures; and how a person is forgotten.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, Utc};

use super::{Page, StoreError};
use crate::email::Email;
use crate::key::{Actor, KeyId, Status};
use crate::ledger::{Action, Edit, MessageId, MessageKind, MessageNumber, Recipient};
use crate::product::ProductId;
use crate::text::Invalid;

/// Records, for stores that keep them.
#[async_trait]
pub trait Records: Send + Sync {
    /// Messages that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn messages(&self, query: &MessageQuery) -> Result<Page<StoredMessage, MessageNumber>, StoreError>;

    /// Entries of the audit log that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry, i64>, StoreError>;

    /// Adds an entry to the audit log that is about no key and no product, durably.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it was possibly not added.
    async fn log(&self, action: Action, edit: Edit) -> Result<(), StoreError>;

    /// How many keys there are, by product and status, at `now`; and what happened on each day, in UTC, from the day of `since`
    /// to that of `now`. It may read every key. The keys of a day may be found by the time in their ids, which is that of
    /// [`KeyId::random`](crate::key::KeyId::random).
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn figures(&self, since: DateTime<Utc>, now: DateTime<Utc>) -> Result<Figures, StoreError>;

    /// What waits to be sent, what was given up, and what waits for the seller, for whoever watches the service.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn backlog(&self) -> Result<Backlog, StoreError>;

    /// Queues an e-mail about each key that expires after `scan.now` and not after `scan.until`, once for each time that it is to
    /// expire, however many servers ask: in the commit that notes the time with the key. Only the last time is noted: a key that
    /// gets a time back is told of again. Keys of a person who was forgotten, and keys that a subscription
    /// [renews](crate::ledger::Deal::subscription), are noted and get none; keys that are revoked or used up are left alone as long as they
    /// are. It takes those that expire first, at most `scan.limit`, and returns how many it took.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if none was queued.
    async fn notify_expiring(&self, scan: ExpiryScan) -> Result<usize, StoreError>;

    /// Marks keys that have expired by `now`, at most `most`, so that [`search`](super::Backend::search) finds them as fast as others.
    /// It returns how many it marked. Nothing else is seen of it: searches are exact before that. A store that needs no marks has
    /// nothing to do.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if none was marked.
    async fn mark_expired(&self, _now: DateTime<Utc>, _most: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// Forgets a person, durably, and enters that into the audit log. The address becomes `pseudonym` in keys, in messages, and in
    /// the audit log; messages to it that are not sent yet are deleted, and so are what platforms' events that wait or were dismissed
    /// say of it and the references of platforms' customers that lead to it. Counts, keys and purchases stay. The address is compared
    /// without regard to case. Returns the keys that were sent to it.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if something of it may be left; it can be called again.
    async fn erase(&self, email: &Email, pseudonym: &Email, edit: Edit) -> Result<Vec<KeyId>, StoreError>;
}

/// A search for keys that expire soon.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever asks builds it")]
pub struct ExpiryScan {
    /// The time. What has expired by then is left alone.
    pub now: DateTime<Utc>,
    /// Keys that expire later are not looked at.
    pub until: DateTime<Utc>,
    /// How many at most.
    pub limit: usize,
    /// What the names of the e-mails end with: the domain of their sender.
    pub domain: String,
}

impl ExpiryScan {
    /// The name of the e-mail about a key that expires then: the same whoever queues it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] if the domain is none.
    pub fn name(&self, key: KeyId, expires_at: DateTime<Utc>) -> Result<MessageId, StoreError> {
        let name = MessageId::new(format!("{key}-{}@{}", expires_at.timestamp(), self.domain));
        name.map_err(|error| StoreError::corrupt_because("a sender without a domain", error))
    }
}

/// Which messages to look for; what is `None` does not narrow the search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal with `..Default::default()`")]
pub struct MessageQuery {
    /// In this state.
    pub state: Option<MessageState>,
    /// About this key.
    pub key: Option<KeyId>,
    /// Before this one: [`Page::next`] of the page before.
    pub before: Option<MessageNumber>,
    /// How many a page; 0 counts as 1, more than 1,000 as 1,000.
    pub limit: usize,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a message waits, or it does not")]
pub enum MessageState {
    /// It waits to be sent, or is being sent.
    Queued,
    /// It was sent.
    Sent,
    /// It was given up.
    Failed,
}

/// A message as the outbox has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct StoredMessage {
    /// Its number.
    pub message: MessageNumber,
    /// What it says.
    pub kind: MessageKind,
    /// The key it brings, or tells of.
    pub key: KeyId,
    /// Whom it goes to.
    pub recipient: Recipient,
    /// What became of it.
    pub state: MessageState,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was queued.
    pub queued_at: DateTime<Utc>,
    /// When it is due, if it waits; when it was sent or given up otherwise.
    pub at: DateTime<Utc>,
    /// Why its last attempt failed, if it did.
    pub reason: Option<String>,
}

/// Which entries of the audit log to look for; what is `None` does not narrow the search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal with `..Default::default()`")]
pub struct AuditQuery {
    /// About this key.
    pub key: Option<KeyId>,
    /// Before this one: [`Page::next`] of the page before.
    pub before: Option<i64>,
    /// How many a page; 0 counts as 1, more than 1,000 as 1,000.
    pub limit: usize,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct AuditEntry {
    /// Its number.
    pub number: i64,
    /// When, to the millisecond.
    pub at: DateTime<Utc>,
    /// Who did it.
    pub actor: Actor,
    /// What was done.
    pub action: Action,
    /// To which key.
    pub key: Option<KeyId>,
    /// To which product.
    pub product: Option<ProductId>,
    /// What else there is to say.
    pub detail: Option<String>,
}

/// How the shop does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Figures {
    /// The days on which something happened, ascending.
    pub days: Vec<Day>,
    /// How many keys there are of a product with a status, in any order, each pair once. A key that another one replaced is none.
    pub keys: Vec<(ProductId, Status, u64)>,
}

/// What a service has not done yet, and what it gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Backlog {
    /// Messages that wait to be sent, or are being sent.
    pub queued: u64,
    /// When the oldest of them was queued.
    pub oldest: Option<DateTime<Utc>>,
    /// Messages that failed and are not tried again by themselves.
    pub failed: u64,
    /// Events of platforms that need the seller's attention.
    pub needs_attention: u64,
}

/// What happened on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Day {
    /// Which day, in UTC.
    pub date: NaiveDate,
    /// Keys issued; one that took the place of another counts on the day of the first.
    pub issued: u64,
    /// Uses counted, as far as their records were not pruned.
    pub uses: u64,
    /// Keys revoked, also those that were restored later.
    pub revoked: u64,
}

impl Day {
    /// A day on which nothing happened.
    #[must_use]
    pub fn new(date: NaiveDate) -> Self {
        Self { date, issued: 0, uses: 0, revoked: 0 }
    }
}

impl MessageQuery {
    /// The number of messages on a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        super::page_size(self.limit)
    }

    /// Whether `message` matches.
    #[must_use]
    pub fn matches(&self, message: &StoredMessage) -> bool {
        self.state.is_none_or(|state| state == message.state)
            && self.key.is_none_or(|key| key == message.key)
            && self.before.is_none_or(|before| message.message < before)
    }
}

impl AuditQuery {
    /// The number of entries on a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        super::page_size(self.limit)
    }

    /// Whether `entry` matches.
    #[must_use]
    pub fn matches(&self, entry: &AuditEntry) -> bool {
        self.key.is_none_or(|key| entry.key == Some(key)) && self.before.is_none_or(|before| entry.number < before)
    }
}

impl MessageState {
    /// The name on the wire: `queued`, `sent` or `failed`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sent => "sent",
            Self::Failed => "failed",
        }
    }
}

impl FromStr for MessageState {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let named = [Self::Queued, Self::Sent, Self::Failed].into_iter().find(|state| state.as_str() == name);
        named.ok_or(Invalid::expected("must be queued, sent or failed"))
    }
}

impl fmt::Display for MessageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
