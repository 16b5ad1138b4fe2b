//! From what a platform says to what the store is told.

use chrono::{DateTime, Utc};

use super::offers::{Buying, NO_ADDRESS, Offered};
use super::read::{links, parsed, remembered, without_products};
use super::told::{Added, Told};
use crate::clock::whole_seconds;
use crate::delivery::{Delivery, Error};
use crate::order::{OrderId, OrderRef, Source};
use crate::platform::{self, Buyer, Event, Unreadable};
use crate::store::{Captured, Charged, Entry, Handling, KeyQuery, Offer, ReferenceKind, Report, Word};

impl Delivery {
    /// What is to be done with an event.
    pub(super) async fn handling(&self, entry: &Entry, told: Told) -> Result<Handling, Error> {
        let source = &entry.id.source;
        let unreadable = || Ok(Handling::Wait(Unreadable.to_string()));
        let Some(events) = &told.events else { return unreadable() };
        if told.is_test && !self.inner.platforms.accept_test_events {
            return Ok(Handling::Ignore("it is about a test purchase".to_owned()));
        }
        if let [Event::Unshown { advice }] = events.as_slice() {
            return Ok(Handling::Wait(advice.clone()));
        }
        if let [Event::Customer { reference, email, told_at }] = events.as_slice() {
            let told_at = told_at.unwrap_or(entry.received_at);
            return Ok(remembered(source, reference, (email, &told.added), told_at));
        }
        let (mut reports, mut is_dismissed) = (Vec::with_capacity(events.len()), false);
        for event in events {
            match self.report(entry, event, &told.added).await? {
                // All its lines are dismissed.
                Ok(None) if matches!(event, Event::Paid(_) | Event::Told(_)) => is_dismissed = true,
                Ok(report) => reports.extend(report),
                Err(unreadable) => return Ok(Handling::Wait(unreadable.to_string())),
            }
        }
        let is_one_sale =
            || events.windows(2).all(|pair| matches!(pair, [one, next] if one.concerns() == next.concerns()));
        if is_dismissed && (reports.is_empty() || is_one_sale()) {
            return Ok(Handling::Dismiss);
        }
        if reports.is_empty() {
            return Ok(Handling::Ignore("the event has no effect here".to_owned()));
        }
        Ok(Handling::Apply(reports))
    }

    async fn report(
        &self,
        entry: &Entry,
        event: &Event,
        added: &Added,
    ) -> Result<Result<Option<Report>, Unreadable>, Error> {
        let source = &entry.id.source;
        let (references, lines, buyer) = match event {
            Event::Captured { payment, at, buyer } => {
                return self.captured(source, payment, *at, (buyer, added)).await;
            }
            Event::Paid(platform::Sale { references, lines, buyer, .. })
            | Event::Told(platform::Word { references, lines, buyer, .. }) => (references, lines, buyer),
            event => return Ok(without_products(event)),
        };
        let Ok(mut links) = links(references) else { return Ok(Err(Unreadable)) };
        let subscription = links.subscription.clone();
        let mut buying =
            Buying { lines, buyer, order: links.order.clone(), subscription: subscription.as_ref(), added };
        Ok(Ok(match event {
            Event::Paid(platform::Sale { order, at, stands_at, is_open, is_again, .. }) => {
                let Ok(order) = parsed(order) else { return Ok(Err(Unreadable)) };
                buying.order = Some(order.clone());
                let Some(Offered { lines, offers, missing }) = self.offers(source, &buying).await? else {
                    return Ok(Ok(None));
                };
                if *is_again {
                    links.order = self.began(source, subscription.as_ref(), &offers).await?;
                }
                let at = at.unwrap_or_else(|| whole_seconds(entry.received_at));
                let (stands_at, is_open) = (*stands_at, *is_open);
                Some(Report::Charged(Charged { order, at, stands_at, is_open, links, lines, offers, missing }))
            }
            Event::Told(platform::Word { at, status, term, .. }) => {
                let Some(Offered { lines, offers, .. }) = self.offers(source, &buying).await? else {
                    return Ok(Ok(None));
                };
                Some(Report::Told(Word { at: *at, links, lines, standing: *status, term: *term, offers }))
            }
            _ => None,
        }))
    }

    /// The order with which a subscription began that nothing has named yet: the order of the only key of the same buyer and product that
    /// is not revoked, if no other subscription began with it.
    async fn began(
        &self,
        source: &Source,
        subscription: Option<&OrderId>,
        offers: &[Offer],
    ) -> Result<Option<OrderId>, Error> {
        let (Some(subscription), Some(inbox)) = (subscription, self.inner.ledger.inbox()) else { return Ok(None) };
        if inbox.deal(source, ReferenceKind::Subscription, subscription).await?.is_some() {
            return Ok(None);
        }
        for Offer { product, sale, .. } in offers {
            let (source, email) = (Some(source.clone()), Some(sale.key.email.clone()));
            let query = KeyQuery { email, source, product: Some(*product), limit: 2, ..KeyQuery::default() };
            let found = self.inner.ledger.search(&query).await?.items;
            let [key] = found.as_slice() else { continue };
            let Some(order) = key.granted().order.as_ref().filter(|_| key.state().revoked.is_none()) else { continue };
            let deal = inbox.deal(&order.source, ReferenceKind::Order, &order.id).await?;
            if deal.is_some_and(|deal| !deal.is_of_subscription(order.id.as_str())) {
                return Ok(Some(order.id.clone()));
            }
        }
        Ok(None)
    }

    /// What a payment is for that was authorised before, as far as its order is known.
    async fn captured(
        &self,
        source: &Source,
        payment: &str,
        at: DateTime<Utc>,
        (buyer, added): (&Buyer, &Added),
    ) -> Result<Result<Option<Report>, Unreadable>, Error> {
        let Ok(payment) = parsed(payment) else { return Ok(Err(Unreadable)) };
        let mut captured = Captured { payment, at, order: None, offers: Vec::new(), missing: None };
        let Some(inbox) = self.inner.ledger.inbox() else { return Ok(Ok(None)) };
        let deal = inbox.deal(source, ReferenceKind::Payment, &captured.payment).await?;
        let order = deal.as_ref().and_then(|deal| deal.authorised(captured.payment.as_str())?.parse::<OrderId>().ok());
        if let (Some(deal), Some(order)) = (deal, order) {
            if let Some(email) = self.address(source, buyer).await?.or_else(|| added.email.clone()) {
                let order = OrderRef { source: source.clone(), id: order.clone() };
                for (product, pieces) in self.sold(&deal).await?.into_values() {
                    captured.offers.push(self.offer(&product, pieces, &email, &order)?);
                }
            } else {
                captured.missing = Some(NO_ADDRESS.to_owned());
            }
            captured.order = Some(order);
        }
        Ok(Ok(Some(Report::Captured(captured))))
    }
}
