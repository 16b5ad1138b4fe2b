//! Keys that are valid for as long as a subscription is paid for.

use chrono::{DateTime, Utc};

use super::{Ledger, StoreError};
use crate::key::Key;
use crate::ledger::plan::ReferenceId;

/// The subscription with which a key was sold and which renews the key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is only read")]
pub struct Subscribed {
    /// The platform's name for the subscription.
    pub subscription: String,
    /// The time until which the subscription is paid, without the grace period; `None` if no event has reported it yet.
    pub paid_until: Option<DateTime<Utc>>,
}

impl Subscribed {
    /// Returns the subscription of a key; `None` if no subscription renews the key, or if the store keeps no platform
    /// events.
    pub(crate) async fn of(ledger: &dyn Ledger, key: &Key) -> Result<Option<Self>, StoreError> {
        let sale = key.granted().order.as_ref().and_then(ReferenceId::of_sale);
        let (Some(sale), Some(inbox)) = (sale, ledger.office()) else { return Ok(None) };
        let deal = inbox.deal(&sale.source, sale.kind, &sale.name).await?;
        // Looks the subscription up by product, not by the key's id. A key that replaced another key has the same
        // order, but the deal contains only the id of the first key.
        let subscription = deal.as_ref().and_then(|deal| deal.subscription(sale.name.as_str(), key.product()));
        Ok(subscription.map(|it| Self { subscription: it.name.to_owned(), paid_until: it.paid_until }))
    }
}
