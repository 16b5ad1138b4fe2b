//! A wrong store's inbox.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::email::Email;
use delivery_core::ledger::{
    Customer, Deal, Edit, EventOutcome, Handling, InboundEvent, InboxEvent, Received, ReferenceKind,
};
use delivery_core::order::{OrderId, Source};
use delivery_core::product::RefName;
use delivery_core::store::{Inbox, InboxQuery, Ledger, Page, Period, StoreError};

use super::fault::Fault::*;
use super::store::Wrong;

impl Wrong {
    pub async fn receive_wrongly(&self, mut inbound: InboundEvent) -> Result<Received, StoreError> {
        let inner = self.open()?;
        match self.fault {
            ReceivesACopyAsNew if !inbound.is_retry() => {
                inbound.event.id.name = self.favours.fetch_add(1, Ordering::SeqCst).to_string().parse().unwrap();
            }
            // Finds no deal again, because each event seems to come from another platform.
            ForgetsWhatWasErased => {
                inbound.event.id.source = format!("shop {}", inbound.event.id.name).parse().unwrap();
            }
            ForgetsTheGrace => inbound.grace = TimeDelta::zero(),
            TakesOlderAddresses => {
                if let Some(Handling::Remember(customer)) = &mut inbound.step {
                    customer.told_at = DateTime::<Utc>::MAX_UTC;
                }
            }
            ForgetsTheReason => {
                let mut received = inner.receive(inbound).await?;
                received.event.reason = Option::None;
                return Ok(received);
            }
            _ => {}
        }
        inner.receive(inbound).await
    }
}

#[async_trait]
impl Inbox for Wrong {
    async fn claim_events(
        &self,
        now: DateTime<Utc>,
        mut lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<InboxEvent>, StoreError> {
        if self.is(LeasesAnEventToMany) {
            lease_until = now - TimeDelta::minutes(1);
        }
        self.kept()?.claim_events(now, lease_until, limit).await
    }

    async fn retry_events(
        &self,
        source: Option<&Source>,
        customer: Option<&OrderId>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let source = source.filter(|_| !self.is(RetriesEventsOfAnyPlatform));
        let customer = customer.filter(|_| !self.is(RetriesEventsOfAnyCustomer));
        self.kept()?.retry_events(source, customer, now).await
    }

    async fn events(&self, query: &InboxQuery) -> Result<Page<InboxEvent, i64>, StoreError> {
        let outcome = query.outcome.filter(|_| !self.is(IgnoresTheOutcome));
        let is_grouped = query.is_grouped && !self.is(ListsAProductOften);
        let source = query.source.clone().filter(|_| !self.is(ListsEventsOfAnyPlatform));
        let period = if self.is(IgnoresThePeriod) { Period::default() } else { query.period };
        let mut page =
            self.kept()?.events(&InboxQuery { outcome, is_grouped, source, period, ..query.clone() }).await?;
        if self.is(ForgetsTheReason) {
            page.items.iter_mut().for_each(|event| event.reason = Option::None);
        }
        Ok(page)
    }

    async fn customer(&self, source: &Source, reference: &OrderId) -> Result<Option<Email>, StoreError> {
        if self.is(ForgetsCustomers) { Ok(Option::None) } else { self.kept()?.customer(source, reference).await }
    }

    async fn customers(&self, email: &Email) -> Result<Vec<Customer>, StoreError> {
        if self.is(FindsCustomersByCase) {
            let found = self.kept()?.customers(email).await?;
            return Ok(found.into_iter().filter(|customer| customer.email == *email).collect());
        }
        self.kept()?.customers(email).await
    }

    async fn deal(&self, source: &Source, kind: ReferenceKind, name: &OrderId) -> Result<Option<Deal>, StoreError> {
        if self.is(FindsDealsByOrdersAlone) && kind != ReferenceKind::Order {
            return Ok(Option::None);
        }
        self.kept()?.deal(source, kind, name).await
    }

    async fn dismiss(&self, source: &Source, name: &RefName, is_dismissed: bool, edit: Edit) -> Result<(), StoreError> {
        self.kept()?.dismiss(source, name, is_dismissed, edit).await
    }

    async fn is_dismissed(&self, source: &Source, name: &RefName) -> Result<bool, StoreError> {
        Ok(self.kept()?.is_dismissed(source, name).await? && !self.is(ForgetsDismissals))
    }

    async fn prune_inbox(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        if !self.is(PrunesWhatWaits) {
            return self.kept()?.prune_inbox(before).await;
        }
        let waits = InboxQuery { outcome: Some(EventOutcome::NeedsAttention), limit: 100, ..InboxQuery::default() };
        for event in self.kept()?.events(&waits).await?.items {
            let at = event.received_at;
            let step = Some(Handling::Ignore(String::new()));
            let notices = std::sync::Arc::new(|_| Ok(Vec::new()));
            let grace = TimeDelta::zero();
            self.inner.receive(InboundEvent { event, step, at, grace, notices, by: Option::None }).await?;
        }
        self.kept()?.prune_inbox(before).await
    }
}
