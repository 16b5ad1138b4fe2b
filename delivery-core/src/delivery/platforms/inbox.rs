//! Applies events that wait in the inbox: the worker, and what the seller decides about an event.

use std::time::Duration;

use chrono::TimeDelta;
use tokio::sync::watch;

use super::content::{Added, EventContent};
use crate::delivery::{Delivery, Desk, Error};
use crate::email::Email;
use crate::key::Actor;
use crate::ledger::{Captured, Charged, Edit, Handling, InboundEvent, InboxEvent, Report, SubscriptionReport};
use crate::order::Source;
use crate::product::{ProductId, RefName};
use crate::redact::redacted;
use crate::store::{InboxQuery, StoreError};
use crate::throttle::log_seldom;

/// The maximum number of events that are leased together.
const GROUP: usize = 64;
/// The maximum number of attempts to apply or dismiss an event for the seller. An attempt fails if somebody else
/// changes the event at the same time.
const TURNS: usize = 8;
/// If the products of an event cannot be looked up, the event is retried about once a minute. After this number of
/// attempts, it waits for the seller.
const UNSEEN: u32 = 30;
const NOT_LOOKED_UP: &str = "its products cannot be looked up";
/// How long a lease on events lasts. If a server crashes, its leased events are applied by another server after this
/// time.
const LEASE: TimeDelta = TimeDelta::minutes(1);
/// How often the inbox is polled for events that are due.
const POLL: Duration = Duration::from_secs(1);

impl Delivery {
    pub(in crate::delivery) async fn apply_while(&self, goes_on: impl Fn() -> bool) -> Result<usize, StoreError> {
        let mut applied = 0;
        loop {
            let claimed = self.apply_some(&goes_on).await?;
            applied += claimed;
            if claimed < GROUP || !goes_on() {
                return Ok(applied);
            }
        }
    }

    /// Applies events as they fall due, until `stop` is true. Then finishes the event in progress, because other events
    /// may have to be retried once it is committed.
    pub(in crate::delivery) async fn apply_all(self, mut stop: watch::Receiver<bool>) {
        if self.inner.ledger.office().is_none() {
            return;
        }
        while !*stop.borrow() {
            if let Err(error) = self.apply_while(|| !*stop.borrow()).await {
                log_seldom!(warn, error = &error, "events of platforms are applied later: the store does not answer");
            }
            tokio::select! {
                () = self.inner.platforms.wake.notified() => {}
                () = tokio::time::sleep(POLL) => {}
                // `Err` means that the sending half of the `stop` channel was dropped without a stop signal.
                changed = stop.changed() => if changed.is_err() { break },
            }
        }
    }

    async fn set_dismissed(
        &self,
        source: &Source,
        name: &RefName,
        is_dismissed: bool,
        by: &Actor,
    ) -> Result<(), StoreError> {
        let inbox = self.inner.office()?;
        let detail = Some(format!("{source} product {name}"));
        let edit = Edit { detail, ..Edit::new(by.clone(), self.inner.clock.now()) };
        inbox.dismiss(source, name, is_dismissed, edit).await
    }

    async fn apply_some(&self, goes_on: impl Fn() -> bool) -> Result<usize, StoreError> {
        let inner = &self.inner;
        let inbox = inner.office()?;
        let now = inner.clock.now();
        let events = inbox.claim_events(now, now + LEASE, GROUP).await?;
        let count = events.len();
        // Once `goes_on` returns `false`, leave the remaining events. A worker applies them after their leases have
        // expired.
        for event in events.into_iter().take_while(|_| goes_on()) {
            let id = event.id.clone();
            if let Err(error) = self.apply_with(event, None).await {
                let event = redacted(id.name.as_str());
                log_seldom!(warn, error = &error, platform = %id.source, event, "an event is applied later");
            }
        }
        Ok(count)
    }

    /// Applies an event that [can be applied](InboxEvent::can_be_applied). If the seller asked for it, `seller`
    /// contains the seller and what the seller adds to the event. Returns `true` if the event was changed meanwhile and
    /// must be read again.
    async fn apply_with(&self, mut event: InboxEvent, seller: Option<(&Actor, Added)>) -> Result<bool, Error> {
        let by = seller.as_ref().map(|(by, _)| *by);
        let content = event.body.as_deref().map(serde_json::from_str::<EventContent>);
        let step = match content {
            None => Handling::Wait(crate::platform::Unreadable.to_string()),
            Some(Ok(mut content)) => {
                if let Some((_, added)) = seller {
                    content.add(added);
                    // The seller wants the event applied, even if it is about a test purchase.
                    content.drop_totals_of_tests();
                    content.is_test = false;
                    let body = serde_json::to_string(&content);
                    event.body =
                        Some(body.map_err(|error| StoreError::corrupt_because("an event that is no JSON", error))?);
                }
                let mut handling = self.looked_up(&event, content.clone()).await;
                if let Some(by) = by
                    && matches!(handling, Some(Handling::Dismiss))
                {
                    for name in content.names() {
                        self.set_dismissed(&event.id.source, &name, false, by).await?;
                    }
                    handling = self.looked_up(&event, content).await;
                }
                match (handling, by) {
                    (Some(handling), by) => signed(handling, by),
                    (None, Some(_)) => return Err(StoreError::unavailable(NOT_LOOKED_UP).into()),
                    // The lookup has failed too often, so show the event to the seller. The next attempt is an hour
                    // later, or twelve hours later if the event is old. If that lookup fails too, there is an attempt
                    // each minute from then on.
                    (None, None) if event.attempts >= UNSEEN && event.outcome.is_none() => {
                        Handling::Wait(NOT_LOOKED_UP.to_owned())
                    }
                    // Leave the event as it is. A worker applies it after its lease has expired.
                    (None, None) => return Ok(false),
                }
            }
            Some(Err(_)) => Handling::Wait("it was kept by another version, which wrote it differently".to_owned()),
        };
        let inbound = self.inbound(event, Some(step), self.inner.clock.now());
        let inbound = InboundEvent { by: by.cloned(), ..inbound };
        match self.apply(inbound.clone()).await {
            // Let the event wait for the seller. Otherwise the event would fail at each retry, and the seller would not
            // see it.
            Err(Error::Store(error @ StoreError::Corrupt { .. })) => {
                let step = Some(Handling::Wait(format!("it cannot be applied: {error}")));
                self.apply(InboundEvent { step, ..inbound }).await.map(|received| received.is_outdated)
            }
            applied => applied.map(|received| received.is_outdated),
        }
    }
}

impl Desk<'_> {
    /// Applies a platform event, if it [can be applied](InboxEvent::can_be_applied). Any other event is left as it is.
    /// `email` is used if the event has no usable address of the buyer. `product` replaces each product of the event
    /// that is unknown or cannot be read. If the event has no such product, `product` replaces its archived products.
    /// If the seller has [dismissed](Self::dismiss_product) all products of the event, this undoes the dismissals.
    /// Returns whether there is an event with this [number](InboxEvent::number).
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the event may not have been applied.
    pub async fn apply_event(
        &self,
        number: i64,
        email: Option<Email>,
        product: Option<ProductId>,
    ) -> Result<bool, Error> {
        self.decide(number, Some(Added { email, product })).await
    }

    /// Dismisses a platform event that still waits, for the seller or to be applied. The event can still be
    /// [applied](Self::apply_event) later. An event that is done is left as it is. Returns whether there is an event
    /// with this number.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the event may not have been dismissed.
    pub async fn dismiss_event(&self, number: i64) -> Result<bool, Error> {
        self.decide(number, None).await
    }

    /// Carries out the seller's decision about an event. If `added` is given, applies the event with what the seller
    /// adds to it. If `added` is `None`, dismisses the event. If the event was changed meanwhile, reads it again and
    /// retries.
    async fn decide(&self, number: i64, added: Option<Added>) -> Result<bool, Error> {
        let Self { delivery, actor } = *self;
        let query = InboxQuery { before: number.checked_add(1), limit: 1, ..InboxQuery::default() };
        for _ in 0..TURNS {
            let found = delivery.events(&query).await?.items.pop().filter(|event| event.number == number);
            let Some(event) = found else { return Ok(false) };
            let is_outdated = match &added {
                Some(added) if event.can_be_applied() => {
                    delivery.apply_with(event, Some((actor, added.clone()))).await?
                }
                None if event.due_at.is_some() => {
                    let inbound = delivery.inbound(event, Some(Handling::Dismiss), delivery.inner.clock.now());
                    let inbound = InboundEvent { by: Some(actor.clone()), ..inbound };
                    delivery.apply(inbound).await?.is_outdated
                }
                _ => false,
            };
            if !is_outdated {
                return Ok(true);
            }
        }
        Err(StoreError::unavailable("others change the event all the time").into())
    }

    /// Dismisses a product that is not sold here; `name` is the platform's name for it. Waiting and future events are
    /// then dismissed if they are only about dismissed products. To undo the dismissal, [apply](Self::apply_event) one
    /// of the events. If a product that is sold here has that name, events about it are not dismissed. The renewal of a
    /// subscription under which a product with that name was sold is not dismissed either.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store keeps no events; another [`StoreError`] if the change may not have
    /// been saved.
    pub async fn dismiss_product(&self, source: &Source, name: &RefName) -> Result<(), StoreError> {
        self.delivery.set_dismissed(source, name, true, self.actor).await?;
        self.delivery.retry_events(Some(source), None).await;
        Ok(())
    }
}

/// Sets `by` as the person who issues the keys of the event, so that the audit log shows this person. Changes nothing
/// if `by` is `None`.
fn signed(mut handling: Handling, by: Option<&Actor>) -> Handling {
    if let (Handling::Apply(reports), Some(by)) = (&mut handling, by) {
        for report in reports {
            let (Report::Charged(Charged { offers, .. })
            | Report::Captured(Captured { offers, .. })
            | Report::Subscription(SubscriptionReport { offers, .. })) = report
            else {
                continue;
            };
            for offer in offers {
                offer.sale.by = Some(by.clone());
            }
        }
    }
    handling
}
