//! The rules of a key: total functions of the key and the change, without clock or I/O.

use chrono::{DateTime, SubsecRound, Utc};
use thiserror::Error;

use super::Key;
use crate::product::ProductId;
use crate::terms::UseLimit;

/// Something that happens to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Its product is served once.
    Use {
        /// The product asked for.
        product: ProductId,
        /// When.
        at: DateTime<Utc>,
    },
    /// It is withdrawn, for good. Revoking again changes nothing.
    Revoke {
        /// When; kept to the millisecond.
        at: DateTime<Utc>,
    },
}

/// Why a key does not allow what was asked, with the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It was withdrawn.
    #[error("revoked at {at}")]
    Revoked {
        /// When.
        at: DateTime<Utc>,
    },
    /// Its time is over.
    #[error("expired since {since}")]
    Expired {
        /// The first instant at which it was.
        since: DateTime<Utc>,
    },
    /// It unlocks another product.
    #[error("granted for product {granted}")]
    WrongProduct {
        /// The product it does unlock.
        granted: ProductId,
    },
    /// It was used as often as it may be.
    #[error("all {limit:?} spent")]
    Exhausted {
        /// How often that is.
        limit: UseLimit,
    },
}

/// What a key is good for at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standing {
    /// It can be used.
    Valid,
    /// It was withdrawn.
    Revoked,
    /// Its time is over.
    Expired,
    /// It was used as often as it may be.
    Exhausted,
}

impl Key {
    /// The key after `change`.
    ///
    /// Refusals come in this order: revoked, expired, wrong product, exhausted. Revoking is never refused.
    ///
    /// # Errors
    ///
    /// The [`Refusal`]; the key is then as it was.
    pub fn apply(&self, change: &Change) -> Result<Self, Refusal> {
        match *change {
            Change::Use { product, at } => {
                self.check_time(at)?;
                if product != self.granted.product {
                    return Err(Refusal::WrongProduct { granted: self.granted.product });
                }
                self.check_uses()?;
                Ok(Self { used: self.used.saturating_add(1), ..self.clone() })
            }
            Change::Revoke { at } => {
                Ok(Self { revoked_at: self.revoked_at.or(Some(at.trunc_subsecs(3))), ..self.clone() })
            }
        }
    }

    /// Whether the key could be used at `at` for its own product.
    ///
    /// # Errors
    ///
    /// The first [`Refusal`] in the order revoked, expired, exhausted.
    pub fn check(&self, at: DateTime<Utc>) -> Result<(), Refusal> {
        self.check_time(at)?;
        self.check_uses()
    }

    /// What the key is good for at `at`.
    #[must_use]
    pub fn standing(&self, at: DateTime<Utc>) -> Standing {
        match self.check(at) {
            Ok(()) | Err(Refusal::WrongProduct { .. }) => Standing::Valid,
            Err(Refusal::Revoked { .. }) => Standing::Revoked,
            Err(Refusal::Expired { .. }) => Standing::Expired,
            Err(Refusal::Exhausted { .. }) => Standing::Exhausted,
        }
    }

    fn check_time(&self, at: DateTime<Utc>) -> Result<(), Refusal> {
        if let Some(at) = self.revoked_at {
            return Err(Refusal::Revoked { at });
        }
        let since = self.granted.expires_at;
        if at >= since { Err(Refusal::Expired { since }) } else { Ok(()) }
    }

    fn check_uses(&self) -> Result<(), Refusal> {
        let limit = self.granted.limit;
        if limit.allows(self.used) { Ok(()) } else { Err(Refusal::Exhausted { limit }) }
    }
}
