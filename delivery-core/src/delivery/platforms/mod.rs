//! Receives the events of commerce platforms. Each event is saved, and applied at once if possible. Otherwise it waits
//! and is applied later.

mod content;
mod inbox;
mod kept;
mod offers;
mod registry;
mod reports;
mod secrets;
mod taken_back;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use self::content::EventContent;
#[cfg(feature = "pages")]
pub(crate) use self::content::Said;
use self::kept::kept;
pub(crate) use self::registry::Platforms;
pub use self::secrets::SecretError;
use super::{Delivery, Error};
use crate::ledger::{EventOutcome, Handling, InboundEvent, InboxEvent, MessageKind, Notice, Received, Report};
use crate::limit::{Decision, Identity, Policy, Subject};
use crate::observer::Event as Observed;
use crate::order::{OrderId, Source};
use crate::platform::Notification;
use crate::redact::redacted;
use crate::store::{InboxQuery, Page, StoreError};
use crate::telemetry;
use crate::throttle::log_seldom;

/// The time limit for two operations. The lookup of an event's products is cancelled after this time.
/// [`Delivery::retry_events`] returns after this time, and its work continues in the background.
const PATIENCE: Duration = Duration::from_secs(2);

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
        inner.office()?;
        let now = inner.clock.now();
        let event = kept(source, &notification, now)?;
        let limit = inner.quotas.events.limit().get();
        let mounted = inner.platforms.find(source.as_str());
        let permit = mounted.map(|mounted| mounted.enter(inner.clock.monotonic(), limit));
        let step = if matches!(permit, Some(None)) {
            None
        } else {
            let content = EventContent::new(notification.is_test, notification.events.ok());
            self.looked_up(&event, content).await
        };
        let received = match self.apply(self.inbound(event.clone(), step, now)).await {
            // Save the event without applying it. This is safe even if the first attempt was committed and only its
            // answer was lost: the second attempt then finds the event in the inbox and changes nothing.
            Err(Error::Store(error)) if !is_silent(&error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, platform = %source, "an event is applied later");
                self.apply(self.inbound(event, None, now)).await?
            }
            received => received?,
        };
        if received.is_new {
            self.count(source).await;
        }
        Ok(received)
    }

    /// Looks up the products of an event, and returns what to do with the event. Returns `None` if the lookup fails,
    /// takes too long or panics; a host application's own catalog may panic. The event is then applied later.
    async fn looked_up(&self, event: &InboxEvent, content: EventContent) -> Option<Handling> {
        let handling = AssertUnwindSafe(self.handling(event, content)).catch_unwind();
        let why = match timeout(PATIENCE, handling).await {
            Ok(Ok(Ok(handling))) => return Some(handling),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "the catalog panicked".to_owned(),
            Err(_) => "the catalog does not answer".to_owned(),
        };
        let (platform, event) = (event.id.source.as_str(), redacted(event.id.name.as_str()));
        log_seldom!(warn, platform, event, why, "an event is applied later: its products cannot be looked up");
        None
    }

    /// Returns events of platforms that match `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no events; another [`StoreError`] if the store cannot be read.
    pub async fn events(&self, query: &InboxQuery) -> Result<Page<InboxEvent, i64>, StoreError> {
        self.inner.office()?.events(query).await
    }

    /// Combines an event and `step`, the decision what to do with the event, into the form that the ledger receives. If
    /// `step` is `None`, the event is only saved, and is applied later.
    fn inbound(&self, event: InboxEvent, step: Option<Handling>, at: DateTime<Utc>) -> InboundEvent {
        let delivery = self.clone();
        let notices = Arc::new(move |kind| match kind {
            MessageKind::Revoked => Ok(vec![Notice::email(delivery.new_message_id()?, kind)]),
            kind => delivery.webhooks(kind),
        });
        let grace = TimeDelta::days(self.inner.subscription_grace.days().into());
        InboundEvent { event, step, at, grace, notices, by: None }
    }

    /// Passes an event to the ledger, and reports what changed to the log, the metrics and the observers.
    async fn apply(&self, inbound: InboundEvent) -> Result<Received, Error> {
        let (delivery, is_retry) = (self.clone(), inbound.is_retry());
        let customer = match &inbound.step {
            Some(Handling::Remember(customer)) => Some(customer.reference.clone()),
            _ => None,
        };
        let is_lost = inbound.reports().iter().any(|it| matches!(it, Report::Disputed(dispute) if dispute.is_lost));
        let work = async move {
            let inner = &delivery.inner;
            let received = inner.ledger.receive(inbound).await?;
            if !received.issued.is_empty() || !received.changed.is_empty() {
                inner.wake.notify_one();
            }
            if received.is_new && received.event.outcome == Some(EventOutcome::NeedsAttention) {
                let InboxEvent { id, order, reason, .. } = &received.event;
                let (platform, event, reason) = (id.source.as_str(), redacted(id.name.as_str()), reason.as_deref());
                let order = order.as_ref().map(|order| redacted(order.as_str()));
                tracing::warn!(platform, event, order, reason, "an event of a platform waits for the seller");
            }
            // Count an event in the metrics when it is new, and again when a retry completes it. Do not count
            // the retries that leave it waiting.
            let outcome = received.event.outcome;
            if received.is_new || is_retry && outcome != Some(EventOutcome::NeedsAttention) {
                let outcome = outcome.map_or("kept", EventOutcome::as_str);
                telemetry::platform_event(received.event.id.source.as_str(), outcome);
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
            // Retry the waiting events that this event may have unblocked: it ended a dispute, or reported a
            // customer's address.
            let source = Some(&received.event.id.source);
            match outcome.filter(|_| received.is_new || is_retry) {
                // Retry all waiting events of the platform. This is not too expensive, because disputes end rarely.
                Some(EventOutcome::Restored) => delivery.retry_events(source, None).await,
                Some(EventOutcome::Revoked) if is_lost => delivery.retry_events(source, None).await,
                Some(EventOutcome::Remembered) => delivery.retry_events(source, customer.as_ref()).await,
                _ => {}
            }
            Ok(received)
        };
        self.inner.run_to_end(work).await
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

    /// Makes the events that wait for the seller due now, so that the worker retries them soon. Call this after a
    /// change that may end their wait. Without this call, each waiting event is retried within twelve hours.
    ///
    /// - If `source` is given, only events of this platform are made due.
    /// - If `customer` is given, only events that wait for the address of this customer of the platform are made due.
    pub(super) async fn retry_events(&self, source: Option<&Source>, customer: Option<&OrderId>) {
        let (inner, source, customer) = (self.inner.clone(), source.cloned(), customer.cloned());
        let retrying = tokio::spawn(async move {
            let Some(inbox) = inner.ledger.office() else { return };
            match inbox.retry_events(source.as_ref(), customer.as_ref(), inner.clock.now()).await {
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
