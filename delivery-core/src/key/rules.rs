//! The rules of a key: total functions of the key and the change, without clock or I/O.

use std::sync::Arc;

use chrono::{DateTime, SubsecRound, Utc};
use thiserror::Error;

use super::{Actor, Key, KeyId, KeyState, NewKey, Reason, Revocation, SecretVersion};
use crate::clock::whole_seconds;
use crate::email::Email;
use crate::product::ProductId;
use crate::terms::{NEVER, UseLimit, Uses};

/// Something that happens to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "what is proved of every change does not compile until a new one is proved too"
)]
pub enum Change {
    /// Its product is served once.
    Use {
        /// The product asked for.
        product: ProductId,
        /// When.
        at: DateTime<Utc>,
    },
    /// It is withdrawn. Revoking a revoked key changes nothing: the first revocation stays, unless it is for a
    /// [dispute](Revocation::is_disputed) and the new one is not.
    Revoke {
        /// When; kept to the millisecond.
        at: DateTime<Utc>,
        /// Why.
        reason: Option<Reason>,
        /// Who does it.
        by: Actor,
    },
    /// A revocation is lifted. Restoring a key that is not revoked changes nothing.
    Restore {
        /// When; kept to the millisecond.
        at: DateTime<Utc>,
        /// Who does it.
        by: Actor,
    },
    /// Its terms are changed; what is `None` stays as it is.
    SetTerms {
        /// When; kept to the millisecond.
        at: DateTime<Utc>,
        /// Who does it.
        by: Actor,
        /// The instant from which it is expired, kept in whole seconds and at most [`NEVER`]. An instant of the past expires
        /// the key.
        expires_at: Option<DateTime<Utc>>,
        /// How often it may be used.
        limit: Option<LimitChange>,
    },
    /// Its buyer has another address, or always had: what is sent from now on goes there.
    SetEmail {
        /// When; kept to the millisecond.
        at: DateTime<Utc>,
        /// Who does it.
        by: Actor,
        /// The address.
        email: Email,
    },
}

impl Change {
    /// When it is made.
    #[must_use]
    pub fn at(&self) -> DateTime<Utc> {
        match self {
            Self::Use { at, .. }
            | Self::Revoke { at, .. }
            | Self::Restore { at, .. }
            | Self::SetTerms { at, .. }
            | Self::SetEmail { at, .. } => *at,
        }
    }
}

/// How a use limit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a limit is set or added to")]
pub enum LimitChange {
    /// It becomes this. A limit below what was used exhausts the key.
    Set(UseLimit),
    /// So many uses are added, up to [`MAX_USES`](crate::terms::MAX_USES).
    Add(Uses),
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
    /// Uses cannot be added to a key that has no limit.
    #[error("unlimited: there is no limit to add uses to")]
    NoLimit,
    /// Its buyer was forgotten: there is no address to send it to.
    #[error("its buyer was forgotten")]
    NoAddress,
    /// A request that was known under the same name was about another product.
    #[error("another product was asked for under the same name")]
    OtherRequest,
    /// It was withdrawn for good: another key took its place.
    #[error("replaced by {successor}")]
    Replaced {
        /// That key.
        successor: KeyId,
    },
}

/// What a key is good for at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// It can be used.
    Valid,
    /// It was withdrawn.
    Revoked,
    /// Its time is over.
    Expired,
    /// It was used as often as it may be.
    Exhausted,
}

impl Status {
    /// The name on the wire: `valid`, `revoked`, `expired` or `exhausted`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::Exhausted => "exhausted",
        }
    }
}

impl Key {
    /// The key after `change`.
    ///
    /// A use is refused in this order: revoked, expired, wrong product, exhausted. Revoking is never refused, and restoring only
    /// where another key took its place.
    ///
    /// # Errors
    ///
    /// The [`Refusal`]; the key is then as it was.
    pub fn apply(&self, change: &Change) -> Result<Self, Refusal> {
        let (mut granted, mut state) = (self.granted.clone(), self.state.clone());
        match change {
            Change::Use { product, at } => {
                self.check_time(*at)?;
                if *product != self.granted.product {
                    return Err(Refusal::WrongProduct { granted: self.granted.product });
                }
                self.check_uses()?;
                state.used = state.used.saturating_add(1);
            }
            Change::Revoke { at, reason, by } => {
                let (at, reason, by) = (at.trunc_subsecs(3), reason.clone(), by.clone());
                let new = Revocation { at, reason, by, successor: None };
                let stays = |first: &Arc<Revocation>| !first.is_disputed() || new.is_disputed();
                if !state.revoked.as_ref().is_some_and(stays) {
                    state.revoked = Some(Arc::new(new));
                }
            }
            Change::Restore { .. } => match self.successor() {
                Some(successor) => return Err(Refusal::Replaced { successor }),
                None => state.revoked = None,
            },
            Change::SetTerms { expires_at, limit, .. } => {
                state.limit = limit.map_or(Ok(state.limit), |change| change.of(state.limit))?;
                state.expires_at = expires_at.map_or(state.expires_at, |at| whole_seconds(at).min(NEVER));
            }
            Change::SetEmail { email, .. } if *email == granted.email => {}
            Change::SetEmail { email, .. } => {
                granted = Arc::new(NewKey { email: email.clone(), ..granted.as_ref().clone() });
            }
        }
        Ok(Self { granted, state })
    }

    /// The key withdrawn, because its text leaked, and the successor that takes its place under another number: for the same
    /// purchase, with the same limit, count and expiry.
    ///
    /// # Errors
    ///
    /// [`Refusal::Revoked`] if it is revoked, and [`Refusal::Replaced`] if it has a successor.
    pub fn rotate(
        &self,
        (id, secret): (KeyId, SecretVersion),
        at: DateTime<Utc>,
        by: &Actor,
    ) -> Result<(Self, Self), Refusal> {
        if let Some(successor) = self.successor() {
            return Err(Refusal::Replaced { successor });
        }
        if let Some(revocation) = &self.state.revoked {
            return Err(Refusal::Revoked { at: revocation.at });
        }
        let (at, reason, by, successor) = (at.trunc_subsecs(3), Some(Reason::rotated()), by.clone(), Some(id));
        let revoked = Some(Arc::new(Revocation { at, reason, by, successor }));
        let withdrawn = Self::new(self.granted.clone(), KeyState { revoked, ..self.state.clone() });
        let granted = NewKey { id, secret, ..self.granted.as_ref().clone() };
        Ok((withdrawn, Self::new(Arc::new(granted), self.state.clone())))
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
    pub fn status(&self, at: DateTime<Utc>) -> Status {
        match self.check(at) {
            Ok(())
            | Err(Refusal::WrongProduct { .. } | Refusal::NoLimit | Refusal::NoAddress | Refusal::OtherRequest) => {
                Status::Valid
            }
            Err(Refusal::Revoked { .. } | Refusal::Replaced { .. }) => Status::Revoked,
            Err(Refusal::Expired { .. }) => Status::Expired,
            Err(Refusal::Exhausted { .. }) => Status::Exhausted,
        }
    }

    fn check_time(&self, at: DateTime<Utc>) -> Result<(), Refusal> {
        let KeyState { expires_at: since, ref revoked, .. } = self.state;
        if let Some(revocation) = revoked {
            return Err(Refusal::Revoked { at: revocation.at });
        }
        if at >= since { Err(Refusal::Expired { since }) } else { Ok(()) }
    }

    fn check_uses(&self) -> Result<(), Refusal> {
        let limit = self.state.limit;
        if limit.allows(self.state.used) { Ok(()) } else { Err(Refusal::Exhausted { limit }) }
    }
}

impl LimitChange {
    fn of(self, limit: UseLimit) -> Result<UseLimit, Refusal> {
        match (self, limit) {
            (Self::Set(limit), _) => Ok(limit),
            (Self::Add(more), UseLimit::Uses(uses)) => Ok(UseLimit::Uses(uses.saturating_add(more))),
            (Self::Add(_), UseLimit::Unlimited) => Err(Refusal::NoLimit),
        }
    }
}
