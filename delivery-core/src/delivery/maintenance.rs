//! The background work of a service, as methods that can be called one by one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chrono::{DateTime, TimeDelta, Utc};

use super::Delivery;
use crate::key::Actor;
use crate::ledger::{Action, Edit, IDEMPOTENCY_WINDOW};
use crate::mail::Outbox;
use crate::store::{ExpiryScan, LostScan, StoreError};

/// A platform event that is done (such as an applied or dismissed one) stays in the inbox until this long after it was
/// received.
const EVENTS_KEPT: TimeDelta = TimeDelta::days(30);
/// The maximum number of e-mails that are queued in one commit. A larger commit would delay other operations of the
/// store.
const QUEUED_AT_ONCE: usize = 32;
/// The maximum number of keys that are marked as expired in one commit.
const MARKED_AT_ONCE: usize = 256;

/// The background work of a service. A [started](Delivery::start) service does all of it except
/// [`prune_history`](Self::prune_history). The methods are for tests, and for host applications that have their own
/// scheduler.
///
/// If the store lacks the optional part [`Office`](crate::store::Office), the methods that need this part return 0.
/// Only [`apply_events`](Self::apply_events) returns [`StoreError::Unsupported`] instead.
#[derive(Debug, Clone, Copy)]
pub struct Maintenance<'d> {
    pub(super) delivery: &'d Delivery,
}

impl Delivery {
    /// Returns the background work of this service.
    #[must_use]
    pub fn maintenance(&self) -> Maintenance<'_> {
        Maintenance { delivery: self }
    }
}

impl Maintenance<'_> {
    /// Returns the outbox, which sends the e-mails and webhooks that are due.
    #[must_use]
    pub fn outbox(&self) -> Arc<Outbox> {
        self.delivery.inner.outbox.clone()
    }

    /// Applies the platform events that are due. Returns their number, which includes events that could not be applied
    /// and are retried later.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the inbox cannot be read. Events that were applied before the error stay applied.
    pub async fn apply_events(&self) -> Result<usize, StoreError> {
        self.delivery.apply_while(|| true).await
    }

    /// Queues the e-mails to buyers who have [asked for their lost keys](Delivery::ask_for_keys). Returns the number of
    /// answered requests.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store does not respond. Requests that were not answered stay saved.
    pub async fn answer_lost(&self) -> Result<usize, StoreError> {
        let inner = &self.delivery.inner;
        let Some(lost) = inner.ledger.office() else { return Ok(0) };
        let answer = || async {
            let (now, domain) = (inner.clock.now(), inner.outbox.sender.domain().to_owned());
            let taken = lost.answer_lost(LostScan { now, limit: QUEUED_AT_ONCE, domain }).await?;
            if taken > 0 {
                inner.wake.notify_one();
            }
            Ok(taken)
        };
        drain(QUEUED_AT_ONCE, answer).await
    }

    /// Queues an e-mail about each key that expires within the [notice period](super::Builder::expiry_notice). Each
    /// expiry date of a key is announced only once. Some keys get no e-mail, see [`ExpiryNotice`](super::ExpiryNotice).
    /// Returns the number of keys that were checked.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store does not respond. E-mails that were queued before the error stay queued.
    pub async fn notify_expiring(&self) -> Result<usize, StoreError> {
        let inner = &self.delivery.inner;
        let (Some(records), days @ 1..) = (inner.ledger.office(), inner.expiry_notice.days()) else { return Ok(0) };
        let notify = || async {
            let now = inner.clock.now();
            let until = now.checked_add_signed(TimeDelta::days(days.into())).unwrap_or(now);
            let domain = inner.outbox.sender.domain().to_owned();
            let taken = records.notify_expiring(ExpiryScan { now, until, limit: QUEUED_AT_ONCE, domain }).await?;
            if taken > 0 {
                inner.wake.notify_one();
            }
            Ok(taken)
        };
        drain(QUEUED_AT_ONCE, notify).await
    }

    /// Marks keys that have expired. The mark makes [searches by status](Delivery::keys) fast, and does not change
    /// their results. Returns the number of keys that were marked.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store does not respond. Keys that were marked before the error stay marked.
    pub async fn mark_expired(&self) -> Result<usize, StoreError> {
        let inner = &self.delivery.inner;
        let Some(records) = inner.ledger.office() else { return Ok(0) };
        drain(MARKED_AT_ONCE, || records.mark_expired(inner.clock.now(), MARKED_AT_ONCE)).await
    }

    /// Deletes records of uses that are older than `before`. The keys' counts of uses do not change. Returns the number
    /// of deleted records.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some records may remain.
    pub async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.delivery.inner.ledger.prune_history(before).await
    }

    /// Deletes platform events that are done (such as applied or dismissed ones) and were received more than 30 days
    /// ago. Their effects stay. Returns the number of deleted events.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some of these events may remain.
    pub async fn prune_events(&self) -> Result<u64, StoreError> {
        let inner = &self.delivery.inner;
        let Some(inbox) = inner.ledger.office() else { return Ok(0) };
        let before = inner.clock.now().checked_sub_signed(EVENTS_KEPT).unwrap_or(DateTime::<Utc>::MIN_UTC);
        inbox.prune_inbox(before).await
    }

    /// Deletes the records of requests with an `Idempotency-Key` that are older than 25 hours. Returns the number of
    /// deleted records.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some of these records may remain.
    pub async fn prune_requests(&self) -> Result<u64, StoreError> {
        let inner = &self.delivery.inner;
        let Some(requests) = inner.ledger.office() else { return Ok(0) };
        let now = inner.clock.now();
        // A request may be repeated within `IDEMPOTENCY_WINDOW`. Keep its record for one more hour, because other
        // servers' clocks may be behind.
        requests.prune_requests(now.checked_sub_signed(IDEMPOTENCY_WINDOW + TimeDelta::hours(1)).unwrap_or(now)).await
    }

    /// Deletes sessions of the desk (the seller's web pages) that ended more than a day ago. Returns the number of
    /// deleted sessions.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some of these sessions may remain.
    pub async fn prune_sign_ins(&self) -> Result<u64, StoreError> {
        let inner = &self.delivery.inner;
        let Some(sign_ins) = inner.ledger.office() else { return Ok(0) };
        let now = inner.clock.now();
        sign_ins.prune_sign_ins(now.checked_sub_signed(TimeDelta::days(1)).unwrap_or(now)).await
    }

    /// Reports how many sign-ins as the seller had a wrong token since the last call. The report is one line in the log
    /// and one entry in the audit log. If there were none, nothing is reported. Returns the number of these sign-ins.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the report may be missing in the audit log. The next call then reports these sign-ins again.
    pub async fn report_wrong_sign_ins(&self) -> Result<u64, StoreError> {
        let inner = &self.delivery.inner;
        let count = inner.wrong_sign_ins.swap(0, Ordering::Relaxed);
        if count > 0 {
            tracing::warn!(count, "somebody tries to sign in as the seller with a wrong token");
            if let Some(records) = inner.ledger.office() {
                let detail = Some(format!("attempts {count}"));
                let edit = Edit { detail, ..Edit::new(Actor::system(), inner.clock.now()) };
                if let Err(error) = records.log(Action::SignInRefused, edit).await {
                    inner.wrong_sign_ins.fetch_add(count, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(count)
    }
}

/// Repeats `step`, which handles at most `most` items and returns how many it handled, until nothing is left. Returns
/// the number of all handled items.
async fn drain<F: Future<Output = Result<usize, StoreError>>>(
    most: usize,
    step: impl Fn() -> F,
) -> Result<usize, StoreError> {
    let mut all = 0;
    loop {
        let handled = step().await?;
        all += handled;
        if handled < most {
            return Ok(all);
        }
        // Let other operations that wait for the store go first.
        tokio::task::yield_now().await;
    }
}
