//! Keys that live as long as a subscription is paid for.

use chrono::{DateTime, Utc};

use super::{Ledger, ReferenceKind, StoreError};
use crate::key::Key;
use crate::ledger::plan::ReferenceId;
use crate::order::{OrderRef, Source};

/// The subscription that a key was sold by, and that renews it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is only read")]
pub struct Subscribed {
    /// What the platform calls the subscription.
    pub subscription: String,
    /// Until when it is paid, without the days of grace; `None` if no event has said so yet.
    pub paid_until: Option<DateTime<Utc>>,
}

impl Subscribed {
    /// The subscription of a key; `None` if the key does not renew by itself, or if the store keeps no events.
    pub(crate) async fn of(ledger: &dyn Ledger, key: &Key) -> Result<Option<Self>, StoreError> {
        let sale = key.granted().order.as_ref().and_then(sale_of);
        let (Some(sale), Some(inbox)) = (sale, ledger.office()) else { return Ok(None) };
        let deal = inbox.deal(&sale.source, sale.kind, &sale.name).await?;
        // By the product, since a key that took the place of another has its order, and the deal knows the first.
        let subscription = deal.as_ref().and_then(|deal| deal.subscription(sale.name.as_str(), key.product()));
        Ok(subscription.map(|it| Self { subscription: it.name.to_owned(), paid_until: it.paid_until }))
    }
}

/// The reference that leads to the deal of an order; `None` if no platform has reported it.
pub(in crate::store) fn sale_of(order: &OrderRef) -> Option<ReferenceId> {
    let OrderRef { source, id } = order;
    let is_reported = *source != Source::webhook();
    is_reported.then(|| ReferenceId { source: source.clone(), kind: ReferenceKind::Order, name: id.clone() })
}
