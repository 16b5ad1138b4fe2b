//! Turns the events of a platform into reports. A report is the form in which the ledger applies an event.

use chrono::{DateTime, Utc};

use super::content::{Added, EventContent};
use super::offers::{Buying, Offered};
use super::taken_back::takes_back;
use crate::clock::whole_seconds;
use crate::delivery::{Delivery, Error};
use crate::ledger::{
    Captured, Charged, Customer, Handling, InboxEvent, NO_ADDRESS, Offer, ReferenceKind, Report, SubscriptionReport,
};
use crate::order::{OrderId, OrderRef, Source};
use crate::platform::{self, Buyer, Event, Unreadable};
use crate::store::KeyQuery;

impl Delivery {
    /// Returns what to do with an event of the inbox.
    pub(super) async fn handling(
        &self,
        inbox_event: &InboxEvent,
        mut content: EventContent,
    ) -> Result<Handling, Error> {
        content.drop_totals_of_tests();
        let source = &inbox_event.id.source;
        let Some(events) = &content.events else { return Ok(Handling::Wait(Unreadable.to_string())) };
        if content.is_test && !self.inner.platforms.accept_test_events {
            return Ok(Handling::Test);
        }
        if let [Event::Unshown { advice }] = events.as_slice() {
            return Ok(Handling::Wait(advice.clone()));
        }
        if let [Event::Customer { reference, email, told_at }] = events.as_slice() {
            let Some(email) = email.parse().ok().or(content.added.email) else {
                return Ok(Handling::Wait(NO_ADDRESS.to_owned()));
            };
            let (reference, told_at) = (reference.clone(), told_at.unwrap_or(inbox_event.received_at));
            return Ok(Handling::Remember(Customer { source: source.clone(), reference, email, told_at }));
        }
        let (mut reports, mut is_dismissed) = (Vec::with_capacity(events.len()), false);
        for event in events {
            if let Some(order) = takes_back(event) {
                reports.extend(self.sale_without_report(source, order).await?);
            }
            match self.report(inbox_event, event, &content.added).await? {
                // All lines of the event are dismissed.
                None if matches!(event, Event::Paid(_) | Event::Subscription(_)) => is_dismissed = true,
                // An event of these types must be the only event of its notification. That case was handled above.
                None if matches!(event, Event::Customer { .. } | Event::Unshown { .. }) => {
                    return Ok(Handling::Wait(Unreadable.to_string()));
                }
                report => reports.extend(report),
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

    /// Converts an event to a report for the ledger. Returns `None` if the seller has dismissed the products of all
    /// lines of the event, and for the events `Unshown` and `Customer`, for which there is no report.
    async fn report(&self, inbox_event: &InboxEvent, event: &Event, added: &Added) -> Result<Option<Report>, Error> {
        let source = &inbox_event.id.source;
        Ok(match event {
            Event::Paid(sale) => self.charged(inbox_event, sale, added).await?,
            Event::Subscription(platform::SubscriptionEvent { at, links, lines, buyer, status, term }) => {
                let subscription = links.subscription.as_ref();
                let order = links.order.as_ref();
                let buying = Buying { lines, buyer, order, subscription, is_statement: true, added };
                let offered = self.offers(source, &buying).await?;
                offered.map(|Offered { lines, offers, .. }| {
                    Report::Subscription(SubscriptionReport {
                        at: *at,
                        links: links.clone(),
                        lines,
                        standing: *status,
                        term: *term,
                        offers,
                    })
                })
            }
            Event::Captured { payment, at, total, buyer } => {
                let captured = self.captured(source, payment, *at, (buyer, added)).await?;
                Some(Report::Captured(Captured { total: *total, ..captured }))
            }
            Event::Refunded(refund) => Some(Report::Refunded(refund.clone())),
            Event::Kept { of, at } => Some(Report::Kept { of: of.clone(), at: *at }),
            Event::Disputed(dispute) => Some(Report::Disputed(dispute.clone())),
            Event::Won(dispute) => Some(Report::Won(dispute.clone())),
            Event::Linked(links) => Some(Report::Linked(links.clone())),
            Event::Unshown { .. } | Event::Customer { .. } => None,
        })
    }

    async fn charged(
        &self,
        inbox_event: &InboxEvent,
        sale: &platform::Sale,
        added: &Added,
    ) -> Result<Option<Report>, Error> {
        let platform::Sale { order, at, stands_at, is_open, is_again, total, lines, early, buyer, links } = sale;
        let (source, subscription) = (&inbox_event.id.source, links.subscription.as_ref());
        let buying = Buying { lines, buyer, order: Some(order), subscription, is_statement: false, added };
        let Some(Offered { mut lines, offers, missing }) = self.offers(source, &buying).await? else { return Ok(None) };
        let mut links = links.clone();
        if *is_again {
            links.order = self.began(source, subscription, &offers).await?;
        }
        let at = at.unwrap_or_else(|| whole_seconds(inbox_event.received_at));
        let (order, stands_at, is_open) = (order.clone(), *stands_at, *is_open);
        let total = *total;
        for line in &mut lines {
            line.early.clone_from(early);
        }
        Ok(Some(Report::Charged(Charged { order, at, stands_at, is_open, total, links, lines, offers, missing })))
    }

    /// Finds the order that probably began a subscription; `None` if the ledger already knows how the subscription
    /// began. The order is found by its key: the buyer's only key from this platform for one of the products in
    /// `offers`. It must fulfil these conditions:
    ///
    /// - The key is not revoked.
    /// - The ledger knows the order.
    /// - The order belongs to no subscription.
    async fn began(
        &self,
        source: &Source,
        subscription: Option<&OrderId>,
        offers: &[Offer],
    ) -> Result<Option<OrderId>, Error> {
        let (Some(subscription), Some(inbox)) = (subscription, self.inner.ledger.office()) else { return Ok(None) };
        let deal = inbox.deal(source, ReferenceKind::Subscription, subscription).await?;
        if deal.is_some_and(|deal| deal.has_begun()) {
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

    /// Makes the report that an authorised payment was captured. If the order of the payment is known, the report
    /// contains the keys to issue, and says if the buyer's address is missing or a product is archived.
    async fn captured(
        &self,
        source: &Source,
        payment: &OrderId,
        at: DateTime<Utc>,
        (buyer, added): (&Buyer, &Added),
    ) -> Result<Captured, Error> {
        let mut captured =
            Captured { payment: payment.clone(), at, total: None, order: None, offers: Vec::new(), missing: None };
        let deal = match self.inner.ledger.office() {
            Some(inbox) => inbox.deal(source, ReferenceKind::Payment, payment).await?,
            None => None,
        };
        let order = deal.as_ref().and_then(|deal| deal.authorised(payment.as_str())?.parse::<OrderId>().ok());
        if let (Some(deal), Some(order)) = (deal, order) {
            if let Some(email) = self.address(source, buyer).await?.or_else(|| added.email.clone()) {
                let order = OrderRef { source: source.clone(), id: order.clone() };
                let (sold, archived) = self.sold(&deal).await?;
                captured.missing = archived;
                for (product, pieces) in sold.into_values() {
                    captured.offers.push(self.offer(&product, pieces, &email, &order)?);
                }
            } else {
                captured.missing = Some(NO_ADDRESS.to_owned());
            }
            captured.order = Some(order);
        }
        Ok(captured)
    }
}
