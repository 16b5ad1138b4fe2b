//! Refunds of orders whose keys were imported, or issued by the host application, and not by a platform's event. A
//! platform's refund of such an order revokes these keys too.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::content::EventContent;
use super::kept::kept;
use crate::delivery::{Delivery, Error};
use crate::key::{Key, NewKey};
use crate::ledger::{
    Bought, ChargeRef, Charged, Dispute, Extent, MOST_PRODUCTS, MessageKind, NewSale, Offer, Received, ReferenceKind,
    Refund, Report,
};
use crate::order::{OrderId, OrderRef, Source};
use crate::platform::{Event, Notification};
use crate::store::KeyQuery;

/// Returns the order whose whole money an event takes back; `None` for any other event.
pub(super) fn takes_back(event: &Event) -> Option<&OrderId> {
    match event {
        Event::Refunded(Refund { of: ChargeRef::Order(order), extent: Extent::Full, .. })
        | Event::Disputed(Dispute { of: ChargeRef::Order(order), extent: Extent::Full, .. }) => Some(order),
        _ => None,
    }
}

impl Delivery {
    /// Records that an order was fully refunded, as the platform's own event would. The keys of the order are revoked,
    /// and a platform's later report of the sale issues no key. Calling this again changes nothing. Queues an e-mail to
    /// the buyer of each revoked key if `sends` is true.
    pub(in crate::delivery) async fn refund(&self, order: &OrderRef, sends: bool) -> Result<Received, Error> {
        let events = vec![Event::Refunded(Refund::full(ChargeRef::Order(order.id.clone())))];
        // Derive the id of the event from the order, so that a second refund of the order is the same event.
        let id = format!("import {}", data_encoding::HEXLOWER.encode(&Sha256::digest(order.id.as_str())));
        let told = Notification { id, kind: "import".to_owned(), is_test: false, events: Ok(events.clone()) };
        let now = self.inner.clock.now();
        let event = kept(&order.source, &told, now)?;
        let handling = self.handling(&event, EventContent::new(false, Some(events))).await?;
        let mut inbound = self.inbound(event, Some(handling), now);
        if !sends {
            let notices = inbound.notices.clone();
            inbound.notices = Arc::new(
                move |kind: MessageKind| if kind == MessageKind::Revoked { Ok(Vec::new()) } else { notices(kind) },
            );
        }
        self.apply(inbound).await
    }

    /// Returns the keys of an order, newest first, at most `MOST_PRODUCTS`, without those that were replaced.
    pub(in crate::delivery) async fn keys_of_order(&self, source: &Source, order: &OrderId) -> Result<Vec<Key>, Error> {
        let (order, source) = (Some(order.clone()), Some(source.clone()));
        let mut query = KeyQuery { order, source, limit: MOST_PRODUCTS, ..KeyQuery::default() };
        let mut keys = Vec::new();
        // A key may have been replaced so often that the replaced keys fill whole pages.
        loop {
            let page = self.inner.ledger.search(&query).await?;
            keys.extend(page.items.into_iter().filter(|key| key.successor().is_none()));
            query.before = page.next;
            if query.before.is_none() || keys.len() >= MOST_PRODUCTS {
                keys.truncate(MOST_PRODUCTS);
                return Ok(keys);
            }
        }
    }

    /// Makes a report that an order was paid, for those keys of the order that no event has issued. Returns `None` if
    /// there are no such keys. The report offers a new key for each product. The ledger then finds that the order
    /// already has a key for the product, and assigns this key to the sale.
    pub(super) async fn sale_without_report(&self, source: &Source, order: &OrderId) -> Result<Option<Report>, Error> {
        let Some(office) = self.inner.ledger.office() else { return Ok(None) };
        let deal = office.deal(source, ReferenceKind::Order, order).await?;
        let mut keys = self.keys_of_order(source, order).await?;
        // Leave out the keys that events have issued, because the ledger already knows their sale.
        keys.retain(|key| deal.as_ref().is_none_or(|deal| !deal.has_key_of(key.product())));
        let Some(at) = keys.iter().map(|key| key.granted().issued_at).min() else { return Ok(None) };
        let lines = keys.iter().map(|key| {
            let product = key.product();
            Bought { product: Some(product), ..Bought::new(format!("product {product}"), 1) }
        });
        let offers = keys.iter().map(|key| {
            let sold = NewKey { id: self.new_key_id(), ..key.granted().as_ref().clone() };
            Offer { product: key.product(), pieces: 1, sale: NewSale::new(sold, Vec::new()) }
        });
        let (lines, offers) = (lines.collect(), offers.collect());
        Ok(Some(Report::Charged(Charged { lines, offers, ..Charged::new(order.clone(), at) })))
    }
}
