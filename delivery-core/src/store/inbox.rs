//! The inbox: the stored events of commerce platforms.

use std::ops::Range;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{Page, Period, StoreError};
use crate::email::Email;
use crate::ledger::{Customer, Deal, Edit, EventOutcome, InboxEvent, ReferenceKind, UNKNOWN_PRODUCT};
#[cfg(doc)]
use crate::ledger::{NO_ADDRESS, names_customer};
use crate::order::{OrderId, Source};
use crate::product::RefName;

/// The conditions of a search for platform events. A condition that is `None` matches every event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal with `..Default::default()`")]
pub struct InboxQuery {
    /// Only events with this outcome. `None` also matches events without an outcome.
    pub outcome: Option<EventOutcome>,
    /// Whether to find only the newest of the events that need attention because of the same unknown product. Has an
    /// effect only if `outcome` is [`NeedsAttention`](EventOutcome::NeedsAttention).
    pub is_grouped: bool,
    /// Only events of this platform.
    pub source: Option<Source>,
    /// Only events that arrived in this period.
    pub period: Period,
    /// Only events with a lower number than this. To continue a list, pass the [`Page::next`] of the previous page.
    pub before: Option<i64>,
    /// Events per page, from 1 to 1,000; other values are clamped to this range.
    pub limit: usize,
}

/// The stored events of commerce platforms, and what the store has learned from them: the platforms' customers, and a
/// [`Deal`] (the facts of one sale) for each sale. Also stores which names of platform products the seller has
/// dismissed. Events are added by [`Ledger::receive`](super::Ledger::receive).
///
/// # To ensure correctness
///
/// * Lease an event to one caller at a time.
/// * Prune only events that are done: their [`due_at`](InboxEvent::due_at) is `None`. Keep all other events for ever.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Leases up to `limit` events that are due at `now`. Also leases events that are due more than
    /// [`MAX_RETRY_DELAY`](super::MAX_RETRY_DELAY) after `now`, because only a wrong clock can have set such a time.
    /// Events that have been due longest are leased first. The leases end at `lease_until`; until then no other worker
    /// gets these events. Each lease counts as an attempt. The caller may apply the events in any order, because their
    /// outcomes do not depend on the order.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was leased.
    async fn claim_events(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<InboxEvent>, StoreError>;

    /// Retries events that need the seller's attention: makes them due at `now` and resets their number of
    /// attempts. If `source` is given, retries only events of this platform. If `customer` is given, retries only
    /// events that have the reason [`NO_ADDRESS`] and [name](names_customer) this customer. Returns how many events
    /// were made due.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some events may not have been made due.
    async fn retry_events(
        &self,
        source: Option<&Source>,
        customer: Option<&OrderId>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError>;

    /// Returns the events that match `query`, newest first. Of the events with the same [`group`](InboxQuery::group),
    /// only the newest is listed.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn events(&self, query: &InboxQuery) -> Result<Page<InboxEvent, i64>, StoreError>;

    /// Returns the address that a platform last reported for a customer; `None` if it has not reported any.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn customer(&self, source: &Source, reference: &OrderId) -> Result<Option<Email>, StoreError>;

    /// Returns the customers of platforms whose last reported address is `email`, compared without regard to case.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn customers(&self, email: &Email) -> Result<Vec<Customer>, StoreError>;

    /// Returns the [`Deal`] to which a platform's reference refers; `None` if the reference is unknown. References of a
    /// deal that was merged into another deal refer to that other deal.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn deal(&self, source: &Source, kind: ReferenceKind, name: &OrderId) -> Result<Option<Deal>, StoreError>;

    /// Dismisses what the platform `source` sells under `name`: events about this name then need no attention of the
    /// seller when they are applied. If `is_dismissed` is false, lifts the dismissal. The change and its audit entry
    /// are one commit. Changes nothing if the name is already in the requested state.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the change may not have been saved.
    async fn dismiss(&self, source: &Source, name: &RefName, is_dismissed: bool, edit: Edit) -> Result<(), StoreError>;

    /// Returns whether what the platform sells under `name` is dismissed.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    async fn is_dismissed(&self, source: &Source, name: &RefName) -> Result<bool, StoreError>;

    /// Deletes events that are done and were received before `before`. What the events did, such as the keys that they
    /// issued, stays. Returns how many events were deleted.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some of these events may not have been deleted.
    async fn prune_inbox(&self, before: DateTime<Utc>) -> Result<u64, StoreError>;
}

impl InboxQuery {
    /// Returns the number of events on a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        super::page_size(self.limit)
    }

    /// Returns whether `event` matches the conditions. Of the events with the same [`group`](Self::group), the list has
    /// only the newest; this method does not check that.
    #[must_use]
    pub fn matches(&self, event: &InboxEvent) -> bool {
        self.outcome.is_none_or(|outcome| event.outcome == Some(outcome))
            && self.source.as_ref().is_none_or(|source| event.id.source == *source)
            && self.numbers().contains(&event.number)
    }

    /// Returns a range that contains the numbers of all matching events: the numbers of the period that are below
    /// [`before`](Self::before).
    #[must_use]
    pub fn numbers(&self) -> Range<i64> {
        let Range { start, end } = self.period.numbers();
        start..end.min(self.before.unwrap_or(i64::MAX))
    }

    /// Returns whether the query groups the events that it finds.
    pub(crate) fn groups(&self) -> bool {
        self.is_grouped && self.outcome == Some(EventOutcome::NeedsAttention)
    }

    /// Returns the group of an event. Of the events with the same group, a list shows only the newest, so that an
    /// unknown product is one line however often it is sold. An event has a group if the query [groups](Self::is_grouped)
    /// events, and the event needs attention because of an unknown product. The group then consists of the platform and
    /// the reason. For all other events, returns `None`.
    #[must_use]
    pub fn group<'e>(&self, event: &'e InboxEvent) -> Option<(&'e Source, &'e str)> {
        let reason = event.reason.as_deref().filter(|reason| reason.starts_with(UNKNOWN_PRODUCT))?;
        (self.groups() && event.outcome == self.outcome).then_some((&event.id.source, reason))
    }
}
