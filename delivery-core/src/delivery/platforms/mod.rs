//! Receives the events of commerce platforms. Each event is saved, and applied at once if possible. Otherwise it waits
//! and is applied later.

mod inbox;
mod kept;
mod offers;
mod reports;
mod secrets;
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
pub use self::secrets::SecretError;
use self::secrets::{Reads, Slot};
#[cfg(feature = "pages")]
pub(crate) use self::told::Said;
use self::told::Told;
use super::settings::{Details, PLATFORMS, PlatformRow};
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

/// The time limit for each of two steps in receiving an event: looking up its products, and making older events due
/// that wait for the seller. After this time, the first step is given up, and the second continues in the background.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum age of the waiting events that are retried at once when a platform reports a customer's address. Some
/// platforms report an address with every sale, and any number of older events may wait for the seller. To retry all of
/// them with each sale would be too expensive.
const RECENTLY: TimeDelta = TimeDelta::hours(1);

/// The platforms whose events the service accepts.
pub(crate) struct Platforms {
    mounted: Vec<Mounted>,
    /// The settings of platforms whose secrets are set at the desk.
    details: Details,
    reads: Reads,
    accept_test_events: bool,
    names: Option<Arc<dyn ProductNames>>,
    /// Wakes the worker that applies waiting events.
    wake: Arc<Notify>,
}

struct Mounted {
    name: Source,
    /// The platform with the secret of the settings, or as the host application has made it.
    given: Option<Arc<dyn Platform>>,
    /// How the platform is made of a secret that is set at the desk. `None` for a platform of the host application.
    row: Option<&'static PlatformRow>,
    slot: Mutex<Slot>,
    room: Mutex<Room>,
    /// When this server last refused a request in the platform's name because of its signature, in seconds since 1970.
    /// 0 if it has refused none since it started.
    refused: AtomicI64,
}

/// Limits how many new events of a platform are applied concurrently, so that they do not exceed the platform's rate
/// limit.
#[derive(Default)]
struct Room {
    /// The rate limiter's last answer: how many more events it allows, and until when this number is valid, by the
    /// monotonic clock.
    left: Option<(u32, Duration)>,
    under_way: u32,
}

/// The permission to apply one event now. It is counted in `Room::under_way` until it is dropped.
struct Place<'m>(&'m Mounted);

impl Platforms {
    /// `keeps_secrets`: whether the store keeps secrets of platforms.
    pub(super) fn new(
        given: Vec<Arc<dyn Platform>>,
        details: Details,
        keeps_secrets: bool,
        accept_test_events: bool,
        names: Option<Arc<dyn ProductNames>>,
    ) -> Self {
        let mut mounted: Vec<Mounted> = Vec::new();
        let rows = PLATFORMS.iter().filter(|_| keeps_secrets).filter_map(|row| Some((row.name()?, None, Some(row))));
        // Of two platforms of the same name, the one that was added later is used.
        let given = given.into_iter().rev().map(|platform| (platform.name(), Some(platform), None));
        for (name, given, row) in given.chain(rows) {
            match mounted.iter_mut().find(|other| other.name == name) {
                Some(other) => other.row = other.row.or(row),
                None => mounted.push(Mounted {
                    name,
                    given,
                    row,
                    slot: Mutex::default(),
                    room: Mutex::default(),
                    refused: AtomicI64::new(0),
                }),
            }
        }
        Self { mounted, details, reads: Reads::default(), accept_test_events, names, wake: Arc::default() }
    }

    /// Returns the names of the platforms, also of those that have no secret.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Source> {
        self.mounted.iter().map(|mounted| &mounted.name)
    }

    /// Returns whether there is a platform of this name, with a secret or without.
    pub(crate) fn is_mounted(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns whether any platform has a secret.
    #[cfg(feature = "pages")]
    pub(crate) fn is_any(&self) -> bool {
        self.mounted.iter().any(|mounted| mounted.platform().is_some())
    }

    /// Returns the platform with this name, if it has a secret.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<dyn Platform>> {
        self.find(name)?.platform()
    }

    /// Returns whether the secret of the platform can be set at the desk: it is built in, and the settings have no secret.
    pub(crate) fn is_settable(&self, name: &str) -> bool {
        self.find(name).is_some_and(|mounted| mounted.given.is_none() && mounted.row.is_some())
    }

    /// Returns whether a secret of the platform was set at the desk. It is not used if the settings have one.
    #[cfg(feature = "pages")]
    pub(crate) fn is_stored(&self, name: &str) -> bool {
        self.find(name).is_some_and(|mounted| mounted.slot().sealed.is_some())
    }

    /// Returns whether the secret that was set at the desk cannot be decrypted.
    pub(crate) fn is_unreadable(&self, name: &str) -> bool {
        self.find(name).is_some_and(|mounted| mounted.slot().is_unreadable())
    }

    /// Records that a request in a platform's name was refused, because it was not signed with the platform's secret.
    pub(crate) fn refuse(&self, name: &str, at: DateTime<Utc>) {
        if let Some(mounted) = self.find(name) {
            mounted.refused.store(at.timestamp(), Ordering::Relaxed);
        }
    }

    /// Returns when this server last refused a request in the platform's name because of its signature. Returns `None`
    /// if it has refused none since it started.
    #[cfg(feature = "pages")]
    pub(crate) fn refused_at(&self, name: &str) -> Option<DateTime<Utc>> {
        let at = self.find(name)?.refused.load(Ordering::Relaxed);
        DateTime::from_timestamp(at, 0).filter(|_| at > 0)
    }

    fn find(&self, name: &str) -> Option<&Mounted> {
        self.mounted.iter().find(|mounted| mounted.name.as_str() == name)
    }
}

impl Mounted {
    fn platform(&self) -> Option<Arc<dyn Platform>> {
        self.given.clone().or_else(|| self.slot().platform.clone())
    }

    /// Uses another secret, or none.
    fn fill(&self, slot: Slot) {
        *self.slot() = slot;
        // What was refused because of the other secret says nothing about this one.
        self.refused.store(0, Ordering::Relaxed);
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the permission to apply an event at once. Returns `None` if the rate limiter allows no more events than
    /// are already being applied. The event is then applied later.
    fn enter(&self, now: Duration, limit: u32) -> Option<Place<'_>> {
        let mut room = self.room();
        // After `until`, the limiter's answer is out of date. Allow at least one event then.
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
    /// Saves an event of a commerce platform durably, and applies it if possible. When this returns `Ok`, the event
    /// cannot be lost any more, and the host application can answer the platform. An event that was already received
    /// before changes nothing.
    ///
    /// An event that cannot be applied yet waits until the seller adds what is missing, or until the store responds
    /// again. An event beyond the limit of [`Quotas::events`](crate::limit::Quotas::events) is applied later.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the event may not have been saved. It contains [`StoreError::Unsupported`] if the store
    /// keeps no events.
    pub async fn receive(&self, source: &Source, notification: Notification) -> Result<Received, Error> {
        self.register().await?;
        let inner = &self.inner;
        if inner.ledger.office().is_none() {
            return Err(StoreError::Unsupported.into());
        }
        let now = inner.clock.now();
        let entry = kept(source, &notification, now)?;
        let limit = inner.quotas.events.limit().get();
        let mounted = inner.platforms.find(source.as_str());
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
            // Save the event without applying it. This is safe, because the first attempt may have been committed
            // although its answer was lost: the second attempt then finds the event in the inbox and changes nothing.
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

    /// Looks up the products of an event, and returns what to do with the event. Returns `None` if the lookup fails,
    /// takes too long or panics, as it may with a host application's own catalog. The event is not lost then: it is
    /// applied later.
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

    /// Combines an event and `step`, which says what to do with the event, into the form that the ledger receives.
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
            // Count an event in the metrics when it is new, and again when a retry completes it. A waiting event is
            // retried each hour. Do not count the retries that leave it waiting.
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
            // Retry other events that may have waited for what this event brought. `since` restricts the retry to those
            // that were received at that time or later.
            let since = match received.entry.outcome {
                // Retry all waiting events of the platform. This is not too expensive, because disputes end rarely.
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

    /// Counts a new event in the rate limiter, and keeps the limiter's answer for the next events of the platform.
    async fn count(&self, source: &Source) {
        let inner = &self.inner;
        let Some(mounted) = inner.platforms.find(source.as_str()) else { return };
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

    /// Retries events that wait for the seller, because what they waited for may exist now: makes them due, so that the
    /// worker applies them soon. If `source` is given, retries only events of this platform. If `since` is given,
    /// retries only events that were received at that time or later. Without this call, each waiting event is retried
    /// within an hour.
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
        // If very many events wait, return before all of them are due. The task continues in the background.
        if timeout(PATIENCE, retrying).await.is_err() {
            tracing::info!("many events wait for the seller: they are tried again in the background");
        }
    }
}

/// Returns whether the store cannot save anything at the moment. A second attempt to save the event would then fail
/// too.
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
        let platforms = Platforms::new(vec![stripe], Details::default(), false, false, None);
        let mounted = platforms.find("stripe").unwrap();
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
