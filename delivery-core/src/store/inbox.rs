//! The inbox of a store: events of commerce platforms.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{Page, StoreError};
use crate::email::Email;
use crate::ledger::{Deal, Edit, EventOutcome, InboxEvent, ReferenceKind, UNKNOWN_PRODUCT};
use crate::order::{OrderId, Source};
use crate::product::RefName;

/// Which events to look for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct InboxQuery {
    /// With this outcome; with any, or none yet, if `None`. Of those that need attention and wait for the same product, only the newest.
    pub outcome: Option<EventOutcome>,
    /// Before this number: the next page.
    pub before: Option<i64>,
    /// How many a page; 0 counts as 1, more than 1,000 as 1,000.
    pub limit: usize,
}

/// Events of platforms, for stores that keep them.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Leases up to `limit` events that are due at `now`, the longest due first, until `lease_until`: nobody else is given them
    /// before. What events come to does not depend on their order. Counts as an attempt.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was leased.
    async fn claim_entries(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<InboxEvent>, StoreError>;

    /// Makes events that wait for the seller due at `now`, and resets their attempts: those of one platform or of all, received at
    /// `since` or later or at any time. Returns how many.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some were possibly not made due.
    async fn retry_entries(
        &self,
        source: Option<&Source>,
        since: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError>;

    /// Events that match `query`, newest first. Of those that have the same [`group`](InboxQuery::group), only the newest is listed.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn entries(&self, query: &InboxQuery) -> Result<Page<InboxEvent, i64>, StoreError>;

    /// The address of a customer that was told last, if one was.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn customer(&self, source: &Source, reference: &OrderId) -> Result<Option<Email>, StoreError>;

    /// The deal that a platform's reference leads to; `None` if it leads to none. References of deals that turned out to be one
    /// lead to that one.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn deal(&self, source: &Source, kind: ReferenceKind, name: &OrderId) -> Result<Option<Deal>, StoreError>;

    /// Puts all that a platform sells under a name aside, past and to come, or no longer; and enters that into the audit log, in one
    /// commit. If it is so already, nothing is changed.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it was possibly not changed.
    async fn dismiss(&self, source: &Source, name: &RefName, is_dismissed: bool, edit: Edit) -> Result<(), StoreError>;

    /// Whether all that a platform sells under a name is put aside.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn is_dismissed(&self, source: &Source, name: &RefName) -> Result<bool, StoreError>;

    /// Deletes events that are done and were received before `before`. Returns how many. What they came to stays.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if not all may have been deleted.
    async fn prune_inbox(&self, before: DateTime<Utc>) -> Result<u64, StoreError>;
}

impl InboxQuery {
    /// The number of events on a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        super::page_size(self.limit)
    }

    /// Whether `entry` matches.
    #[must_use]
    pub fn matches(&self, entry: &InboxEvent) -> bool {
        self.outcome.is_none_or(|outcome| entry.outcome == Some(outcome))
            && self.before.is_none_or(|before| entry.number < before)
    }

    /// The platform and the reason of an event that waits for a product, if the query is for events that need attention: a product that
    /// is not sold here is one line, however often it is sold.
    #[must_use]
    pub fn group<'e>(&self, entry: &'e InboxEvent) -> Option<(&'e Source, &'e str)> {
        let reason = entry.reason.as_deref().filter(|reason| reason.starts_with(UNKNOWN_PRODUCT))?;
        let is_waiting = |outcome| outcome == Some(EventOutcome::NeedsAttention);
        (is_waiting(self.outcome) && is_waiting(entry.outcome)).then_some((&entry.id.source, reason))
    }
}
