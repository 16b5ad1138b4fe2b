//! The rules for keys. Each rule is a function that returns a result for every key and change, and uses neither a clock
//! nor I/O.

use std::sync::Arc;

use chrono::{DateTime, SubsecRound, Utc};
use thiserror::Error;

use super::{Actor, Denied, Key, KeyId, KeyState, NewKey, Reason, Revocation, Rules, SecretVersion};
use crate::clock::whole_seconds;
use crate::email::Email;
use crate::product::ProductId;
use crate::terms::{NEVER, UseLimit, Uses};

/// A change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "code that proves something of every change must not compile with a new variant"
)]
pub enum Change {
    /// The key is used: its product is served once.
    Use {
        /// The requested product.
        product: ProductId,
        /// When the key is used.
        at: DateTime<Utc>,
        /// The rules of the host application, which are checked after the rules of this crate.
        rules: Rules,
    },
    /// The key is revoked. If the key is already revoked, the first revocation stays, except in two cases:
    ///
    /// - A platform made the first revocation, and somebody else makes the new one.
    /// - A platform made the first revocation for a [dispute](Revocation::is_disputed), and makes the new one for
    ///   another reason.
    ///
    /// In these cases the new revocation replaces the first one. Otherwise, the key would be valid again once the
    /// platform lifts the first revocation.
    Revoke {
        /// When the key is revoked. Cut to whole milliseconds.
        at: DateTime<Utc>,
        /// Why the key is revoked.
        reason: Option<Reason>,
        /// Who revokes the key.
        by: Actor,
    },
    /// The revocation is lifted. Restoring a key that is not revoked changes nothing.
    Restore {
        /// When the revocation is lifted. Cut to whole milliseconds.
        at: DateTime<Utc>,
        /// Who lifts the revocation.
        by: Actor,
    },
    /// The key's terms are changed. A field that is `None` leaves that term as it is.
    SetTerms {
        /// When the terms are changed. Cut to whole milliseconds.
        at: DateTime<Utc>,
        /// Who changes the terms.
        by: Actor,
        /// The instant from which the key is expired. It is cut to whole seconds, and limited to the range from 1970 to
        /// [`NEVER`]. If it is in the past, the key is expired.
        expires_at: Option<DateTime<Utc>>,
        /// How often the key may be used.
        limit: Option<LimitChange>,
    },
    /// The buyer's address is replaced. Later e-mails go to the new address.
    SetEmail {
        /// When the address is changed. Cut to whole milliseconds.
        at: DateTime<Utc>,
        /// Who changes the address.
        by: Actor,
        /// The new address.
        email: Email,
    },
}

impl Change {
    /// Returns a use of a key for `product` that no rule of the host application checks.
    #[must_use]
    pub fn use_of(product: ProductId, at: DateTime<Utc>) -> Self {
        Self::Use { product, at, rules: Rules::NONE }
    }

    /// Returns when the change is made.
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
    /// The limit is replaced by this one. If the key was already used that often, it is exhausted.
    Set(UseLimit),
    /// This number of uses is added to the limit. If the sum is above [`MAX_USES`](crate::terms::MAX_USES), the limit
    /// becomes `MAX_USES`.
    Add(Uses),
}

/// Why a key does not allow a use or a change, with the facts that decided this.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The key was revoked.
    #[error("revoked at {at}")]
    Revoked {
        /// When the key was revoked.
        at: DateTime<Utc>,
    },
    /// The key is expired.
    #[error("expired since {since}")]
    Expired {
        /// The instant from which the key is expired.
        since: DateTime<Utc>,
    },
    /// The key unlocks another product.
    #[error("granted for product {granted}")]
    WrongProduct {
        /// The product that the key unlocks.
        granted: ProductId,
    },
    /// The key was used as often as its limit allows.
    #[error("all {limit:?} spent")]
    Exhausted {
        /// The limit.
        limit: UseLimit,
    },
    /// A [`Rule`](super::Rule) of the host application does not allow the use.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// Uses cannot be added to a key that has no limit.
    #[error("unlimited: there is no limit to add uses to")]
    NoLimit,
    /// The buyer's data was erased, so there is no address to send the key to.
    #[error("its buyer was forgotten")]
    NoAddress,
    /// An earlier request with the same idempotency key was for another product.
    #[error("another product was asked for under the same name")]
    OtherRequest,
    /// The key was revoked for good, because another key replaced it.
    #[error("replaced by {successor}")]
    Replaced {
        /// The key that replaced this one.
        successor: KeyId,
    },
}

crate::text::names! {
    /// The status of a key at an instant.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Status, "must be valid, expired, exhausted or revoked", {
        /// The key can be used.
        Valid = "valid",
        /// The key was revoked.
        Revoked = "revoked",
        /// The key is expired.
        Expired = "expired",
        /// The key was used as often as its limit allows.
        Exhausted = "exhausted",
    }
}

impl Key {
    /// Returns the key after `change`.
    ///
    /// A use is refused for the first of these reasons that applies: revoked, expired, wrong product, exhausted, a rule
    /// of the host application. A revocation or a new address is never refused. Lifting a revocation is refused only if
    /// another key replaced this one. A change of terms is refused only if it adds uses to a key without a limit.
    ///
    /// # Errors
    ///
    /// The [`Refusal`], if the key does not allow the change.
    pub fn apply(&self, change: &Change) -> Result<Self, Refusal> {
        let (mut granted, mut state) = (self.granted.clone(), self.state.clone());
        match change {
            Change::Use { product, at, rules } => {
                self.check_use(*product, *at)?;
                state.used = state.used.saturating_add(1);
                let used = Self { granted, state };
                rules.judge(&used, *at)?;
                return Ok(used);
            }
            Change::Revoke { at, reason, by } => {
                let (at, reason, by) = (at.trunc_subsecs(3), reason.clone(), by.clone());
                let new = Revocation { at, reason, by, successor: None };
                let stays = |first: &Arc<Revocation>| match first.successor {
                    Some(_) => true,
                    None if new.by.is_platform() => !first.is_disputed() || new.is_disputed(),
                    None => !first.by.is_platform(),
                };
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
                state.expires_at =
                    expires_at.map_or(state.expires_at, |at| whole_seconds(at).clamp(DateTime::UNIX_EPOCH, NEVER));
            }
            Change::SetEmail { email, .. } if *email == granted.email => {}
            Change::SetEmail { email, .. } => {
                granted = Arc::new(NewKey { email: email.clone(), ..granted.as_ref().clone() });
            }
        }
        Ok(Self { granted, state })
    }

    /// Replaces a key whose text leaked. Returns this key, now revoked, and its successor. The successor has another
    /// id, belongs to the same purchase, and has the same limit, count of uses and expiry.
    ///
    /// # Errors
    ///
    /// [`Refusal::Replaced`] if the key already has a successor, and [`Refusal::Revoked`] if the key was revoked for
    /// another reason.
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

    /// Checks whether the key could be used for its own product at the time `at`. Rules of the host application are not
    /// checked.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] for the first of these reasons that applies: revoked, expired, exhausted.
    pub fn check(&self, at: DateTime<Utc>) -> Result<(), Refusal> {
        self.check_time(at)?;
        self.check_uses()
    }

    /// Checks whether the key could be used for `product` at the time `at`, without rules of the host application.
    fn check_use(&self, product: ProductId, at: DateTime<Utc>) -> Result<(), Refusal> {
        self.check_time(at)?;
        if product != self.granted.product {
            return Err(Refusal::WrongProduct { granted: self.granted.product });
        }
        self.check_uses()
    }

    /// Checks whether a use would be allowed. Copies the key only if the host application has rules.
    pub(crate) fn allows(&self, product: ProductId, at: DateTime<Utc>, rules: &Rules) -> Result<(), Refusal> {
        if rules.is_empty() {
            return self.check_use(product, at);
        }
        self.apply(&Change::Use { product, at, rules: rules.clone() }).map(drop)
    }

    /// Returns the status of the key at `at`.
    #[must_use]
    pub fn status(&self, at: DateTime<Utc>) -> Status {
        match self.check(at) {
            Ok(())
            | Err(
                Refusal::WrongProduct { .. }
                | Refusal::Denied(_)
                | Refusal::NoLimit
                | Refusal::NoAddress
                | Refusal::OtherRequest,
            ) => Status::Valid,
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
