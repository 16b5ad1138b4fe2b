//! Events of commerce platforms: saved when they are received, applied, and applied later if something is missing.

mod inbox;
mod kept;
mod offers;
mod reports;
mod told;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::timeout;

use self::kept::kept;
use self::told::Told;
use super::{Delivery, Error};
use crate::ledger::{EventOutcome, Handling, InboundEvent, InboxEvent, MessageKind, Notice, Received};
use crate::limit::{Decision, Identity, Policy, Subject};
use crate::observer::Event as Observed;
use crate::order::Source;
use crate::platform::{Notification, Platform};
use crate::redact::redacted;
use crate::store::{InboxQuery, Page, ProductNames, StoreError};
use crate::telemetry;
use crate::throttle::Throttle;

/// How long receiving an event waits for the lookup of its products, and for waiting events to be made due.
const PATIENCE: Duration = Duration::from_secs(2);
/// When a platform reports a customer's address, only waiting events that were received within this time are applied at
/// once: some platforms report an address with every sale, and any number of older events may wait for the seller.
const RECENTLY: TimeDelta = TimeDelta::hours(1);

/// The platforms whose events the service accepts.
pub(crate) struct Platforms {
    mounted: Vec<Mounted>,
    accept_test_events: bool,
    names: Option<Arc<dyn ProductNames>>,
    /// Wakes the worker that applies waiting events.
    wake: Arc<Notify>,
}

struct Mounted {
    name: Source,
    platform: Arc<dyn Platform>,
    room: Mutex<Room>,
    /// When this server last refused a request in the platform's name, in seconds since 1970; 0 if it never did.
    refused: AtomicI64,
}

/// Limits how many new events are applied at once, so that the platform's limit is not exceeded.
#[derive(Default)]
struct Room {
    /// The limiter's last answer: how many more events it allows, and until when that is valid, by the monotonic
    /// clock.
    left: Option<(u32, Duration)>,
    under_way: u32,
}

/// A place among the events that are being applied. Dropping it makes room for another event.
struct Place<'m>(&'m Mounted);

impl Platforms {
    pub(super) fn new(
        platforms: Vec<Arc<dyn Platform>>,
        accept_test_events: bool,
        names: Option<Arc<dyn ProductNames>>,
    ) -> Self {
        let mut mounted: Vec<Mounted> = Vec::new();
        for platform in platforms.into_iter().rev() {
            let name = platform.name();
            if mounted.iter().all(|later| later.name != name) {
                mounted.push(Mounted { name, platform, room: Mutex::default(), refused: AtomicI64::new(0) });
            }
        }
        Self { mounted, accept_test_events, names, wake: Arc::default() }
    }

    /// Returns the names of the platforms.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Source> {
        self.mounted.iter().map(|mounted| &mounted.name)
    }

    /// Returns whether there are any platforms.
    #[cfg(feature = "pages")]
    pub(crate) fn is_any(&self) -> bool {
        !self.mounted.is_empty()
    }

    /// Returns the platform with this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<dyn Platform>> {
        self.mounted.iter().find(|mounted| mounted.name.as_str() == name).map(|mounted| &mounted.platform)
    }

    /// Records that a request in a platform's name was refused, because it was not signed with the platform's secret.
    pub(crate) fn refuse(&self, name: &str, at: DateTime<Utc>) {
        if let Some(mounted) = self.mounted.iter().find(|mounted| mounted.name.as_str() == name) {
            mounted.refused.store(at.timestamp(), Ordering::Relaxed);
        }
    }

    /// Returns when this server last refused such a request; `None` if it has refused none since it started.
    #[cfg(feature = "pages")]
    pub(crate) fn refused_at(&self, name: &str) -> Option<DateTime<Utc>> {
        let mounted = self.mounted.iter().find(|mounted| mounted.name.as_str() == name)?;
        let at = mounted.refused.load(Ordering::Relaxed);
        DateTime::from_timestamp(at, 0).filter(|_| at > 0)
    }

    fn mounted(&self, source: &Source) -> Option<&Mounted> {
        self.mounted.iter().find(|mounted| mounted.name == *source)
    }
}

impl Mounted {
    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for an event to be applied at once; `None` if the event is to be applied later.
    fn enter(&self, now: Duration, limit: u32) -> Option<Place<'_>> {
        let mut room = self.room();
        // After `until`, at least one event is let in, so that the limiter is asked again.
        let left = room.left.map_or(limit, |(left, until)| if now < until { left } else { left.max(1) });
        (room.under_way < left).then(|| {
            room.under_way += 1;
            Place(self)
        })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.room().under_way -= 1;
    }
}

impl Delivery {
    /// Saves an event of a commerce platform durably, and applies it. When this returns, the platform can be answered.
    /// An event that was received before changes nothing.
    ///
    /// An event that cannot be applied waits for the seller or for the store. An event beyond the limit of
    /// [`Quotas::events`](crate::limit::Quotas::events) is applied later.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the event may not have been saved; [`StoreError::Unsupported`] if the store keeps no
    /// events.
    pub async fn receive(&self, source: &Source, notification: Notification) -> Result<Received, Error> {
        self.register().await?;
        let inner = &self.inner;
        if inner.ledger.office().is_none() {
            return Err(StoreError::Unsupported.into());
        }
        let now = inner.clock.now();
        let entry = kept(source, &notification, now)?;
        let limit = inner.quotas.events.limit().get();
        let mounted = inner.platforms.mounted(source);
        let place = mounted.map(|mounted| mounted.enter(inner.clock.monotonic(), limit));
        let step = if matches!(place, Some(None)) {
            None
        } else {
            let told = Told::new(notification.is_test, notification.events.ok());
            self.looked_up(&entry, told).await
        };
        let receipt = self.receipt(entry, step, now);
        let (entry, notices) = (receipt.entry.clone(), receipt.notices.clone());
        let received = match self.apply(receipt).await {
            // If the first attempt was committed and only its answer was lost, the second finds the event in the
            // inbox.
            Err(Error::Store(error)) if !is_silent(&error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, platform = %source, "an event is applied later");
                let grace = self.grace();
                self.apply(InboundEvent { entry, is_retry: false, step: None, at: now, grace, notices, by: None })
                    .await?
            }
            received => received?,
        };
        if received.is_new {
            self.count(source).await;
        }
        Ok(received)
    }

    /// Returns what to do with an event; `None` if that cannot be found out now. No event is lost if a host
    /// application's catalog fails, hangs or panics.
    async fn looked_up(&self, entry: &InboxEvent, told: Told) -> Option<Handling> {
        static DELAYED: Throttle = Throttle::new();
        let handling = AssertUnwindSafe(self.handling(entry, told)).catch_unwind();
        let why = match timeout(PATIENCE, handling).await {
            Ok(Ok(Ok(handling))) => return Some(handling),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "the catalog panicked".to_owned(),
            Err(_) => "the catalog does not answer".to_owned(),
        };
        if let Some(more) = DELAYED.admit() {
            let (platform, event) = (entry.id.source.as_str(), redacted(entry.id.name.as_str()));
            tracing::warn!(platform, event, why, more, "an event is applied later: its products cannot be looked up");
        }
        None
    }

    /// Returns events of platforms that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no events; another [`StoreError`] if the store cannot be read.
    pub async fn events(&self, query: &InboxQuery) -> Result<Page<InboxEvent, i64>, StoreError> {
        self.inner.ledger.office().ok_or(StoreError::Unsupported)?.entries(query).await
    }

    /// Returns an event, and what to do with it, in the form that the ledger receives.
    fn receipt(&self, entry: InboxEvent, step: Option<Handling>, at: DateTime<Utc>) -> InboundEvent {
        let delivery = self.clone();
        let notices = Arc::new(move |kind| match kind {
            MessageKind::Revoked => Ok(vec![Notice::email(delivery.new_message_id()?, kind)]),
            kind => delivery.webhooks(kind),
        });
        InboundEvent { entry, is_retry: false, step, at, grace: self.grace(), notices, by: None }
    }

    fn grace(&self) -> TimeDelta {
        TimeDelta::days(self.inner.subscription_grace.days().into())
    }

    /// Passes an event to the ledger, and reports what changed to the log, the metrics and the observers.
    async fn apply(&self, receipt: InboundEvent) -> Result<Received, Error> {
        let (delivery, is_retry) = (self.clone(), receipt.is_retry);
        let work = async move {
            let inner = &delivery.inner;
            let received = inner.ledger.receive(receipt).await?;
            if !received.issued.is_empty() || !received.changed.is_empty() {
                inner.wake.notify_one();
            }
            if received.is_new && received.entry.outcome == Some(EventOutcome::NeedsAttention) {
                let InboxEvent { id, order, reason, .. } = &received.entry;
                let (platform, event, reason) = (id.source.as_str(), redacted(id.name.as_str()), reason.as_deref());
                let order = order.as_ref().map(|order| redacted(order.as_str()));
                tracing::warn!(platform, event, order, reason, "an event of a platform waits for the seller");
            }
            // An event that waits is retried each hour. It is counted when it is new, and again when it is done.
            let outcome = received.entry.outcome;
            if received.is_new || is_retry && outcome != Some(EventOutcome::NeedsAttention) {
                let outcome = outcome.map_or("kept", EventOutcome::as_str);
                telemetry::platform_event(received.entry.id.source.as_str(), outcome);
            }
            for key in &received.issued {
                telemetry::issued();
                inner.observers.tell(|| Observed::Issued { key: key.clone() });
            }
            for (kind, key) in &received.changed {
                inner.observers.tell(|| match kind {
                    MessageKind::KeyRevoked => Observed::Revoked { key: key.clone() },
                    MessageKind::KeyRestored => Observed::Restored { key: key.clone() },
                    _ => Observed::TermsChanged { key: key.clone() },
                });
            }
            // Waiting events may have waited for this one.
            let since = match received.entry.outcome {
                // Disputes end rarely, so all waiting events of the platform are retried.
                Some(EventOutcome::Restored) => Some(None),
                Some(EventOutcome::Remembered) => Some(inner.clock.now().checked_sub_signed(RECENTLY)),
                _ => None,
            };
            if let Some(since) = since.filter(|_| received.is_new || is_retry) {
                delivery.retry_events(Some(&received.entry.id.source), since).await;
            }
            Ok(received)
        };
        self.inner.told(work).await
    }

    /// Counts a new event against the limit of its platform.
    async fn count(&self, source: &Source) {
        let inner = &self.inner;
        let Some(mounted) = inner.platforms.mounted(source) else { return };
        let digest = Sha256::digest(source.as_str());
        let id = digest.iter().take(16).fold(0_u128, |id, byte| id << 8 | u128::from(*byte));
        let subject = Subject { policy: Policy::Events, identity: Identity::Key(id) };
        // If the limiter fails, events are still saved and applied.
        let Ok(decision) = inner.limiter.admit(&subject, inner.quotas.events).await else {
            mounted.room().left = None;
            return;
        };
        let (left, pause) = match decision {
            Decision::Admitted { remaining, reset } => (remaining, reset),
            Decision::Refused { retry_after } => (0, retry_after),
        };
        mounted.room().left = Some((left, inner.clock.monotonic() + pause));
    }

    /// Makes events due that wait for the seller and were received at `since` or later; without `since`, at any time.
    /// What they waited for may exist now. Each waiting event is retried within an hour anyway.
    pub(super) async fn retry_events(&self, source: Option<&Source>, since: Option<DateTime<Utc>>) {
        let (inner, source) = (self.inner.clone(), source.cloned());
        let retrying = tokio::spawn(async move {
            let Some(inbox) = inner.ledger.office() else { return };
            match inbox.retry_entries(source.as_ref(), since, inner.clock.now()).await {
                Ok(0) => {}
                Ok(_) => inner.platforms.wake.notify_one(),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "events that wait for the seller are tried again later");
                }
            }
        });
        // If very many events wait, this continues in the background after the answer.
        if timeout(PATIENCE, retrying).await.is_err() {
            tracing::info!("many events wait for the seller: they are tried again in the background");
        }
    }
}

/// Returns whether the store is unavailable, so that it cannot save the event either.
fn is_silent(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { .. } | StoreError::Full { .. } | StoreError::Unsupported)
}

impl fmt::Debug for Platforms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.mounted.iter().map(|mounted| &mounted.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{Secrets, Stripe};

    #[test]
    fn no_more_events_are_under_way_than_are_left() {
        let stripe: Arc<dyn Platform> = Arc::new(Stripe::new(&Secrets::new(["whsec_1"]).unwrap()));
        let platforms = Platforms::new(vec![stripe], false, None);
        let mounted = platforms.mounted(&"stripe".parse().unwrap()).unwrap();
        let at = Duration::from_secs;
        // The limiter's answer (how many are left, and until when), the time, and how many events may be applied at
        // once.
        for (left, now, expected) in [
            (None, 0, 5),
            (Some((3, at(10))), 9, 3),
            (Some((0, at(10))), 9, 0),
            (Some((0, at(10))), 10, 1),
            (Some((3, at(10))), 10, 3),
        ] {
            mounted.room().left = left;
            let places: Vec<_> = std::iter::from_fn(|| mounted.enter(at(now), 5)).collect();
            assert_eq!(places.len(), expected, "{left:?} {now}");
        }
        assert_eq!(mounted.room().under_way, 0);
    }
}
