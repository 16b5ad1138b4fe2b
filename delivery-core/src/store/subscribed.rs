//! Keys that live as long as a subscription is paid for.

use chrono::{DateTime, Utc};

use super::{Ledger, StoreError};
use crate::key::Key;
use crate::ledger::plan::ReferenceId;

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
        let sale = key.granted().order.as_ref().and_then(ReferenceId::of_sale);
        let (Some(sale), Some(inbox)) = (sale, ledger.office()) else { return Ok(None) };
        let deal = inbox.deal(&sale.source, sale.kind, &sale.name).await?;
        // By the product, since a key that took the place of another has its order, and the deal knows the first.
        let subscription = deal.as_ref().and_then(|deal| deal.subscription(sale.name.as_str(), key.product()));
        Ok(subscription.map(|it| Self { subscription: it.name.to_owned(), paid_until: it.paid_until }))
    }
}
