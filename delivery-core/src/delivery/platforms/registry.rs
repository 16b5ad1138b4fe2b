//! The platforms that the service has: their names, their secrets, and how many of their events are applied at the same
//! time.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::Notify;

use super::secrets::{Reads, Slot};
use crate::delivery::settings::{Details, PLATFORMS, PlatformRow};
use crate::order::Source;
use crate::platform::Platform;
use crate::store::ProductNames;

/// The platforms whose events the service accepts.
pub(crate) struct Platforms {
    pub(super) mounted: Vec<Mounted>,
    /// The other settings of platforms whose secrets the seller sets.
    pub(super) details: Details,
    pub(super) reads: Reads,
    pub(super) accept_test_events: bool,
    pub(in crate::delivery) names: Option<Arc<dyn ProductNames>>,
    /// Wakes the worker that applies waiting events.
    pub(super) wake: Arc<Notify>,
}

pub(super) struct Mounted {
    pub(super) name: Source,
    /// The platform that the settings or the host application provide; `None` if they provide none.
    pub(super) given: Option<Arc<dyn Platform>>,
    /// How the platform is made from a secret that the seller sets. `None` if the platform is not built in, or if the
    /// store keeps no secrets.
    pub(super) row: Option<&'static PlatformRow>,
    slot: Mutex<Slot>,
    room: Mutex<Room>,
    /// When this server last refused a webhook request for the platform because of its signature, as Unix time in
    /// seconds. 0 if there was no refusal since the start of the server, or since the seller last changed the secret.
    refused: AtomicI64,
}

/// Limits how many new events of a platform are applied concurrently: no more than the rate limiter still allows for
/// the platform.
#[derive(Default)]
pub(super) struct Room {
    /// The rate limiter's last answer: how many more events it allows, and until when this number is valid, by the
    /// monotonic clock.
    pub(super) left: Option<(u32, Duration)>,
    under_way: u32,
}

/// The permission to apply one event now. It is counted in `Room::under_way` until it is dropped.
pub(super) struct ApplyPermit<'m>(&'m Mounted);

impl Platforms {
    /// `keeps_secrets`: whether the store keeps secrets of platforms.
    pub(in crate::delivery) fn new(
        given: Vec<Arc<dyn Platform>>,
        details: Details,
        keeps_secrets: bool,
        accept_test_events: bool,
        names: Option<Arc<dyn ProductNames>>,
    ) -> Self {
        let mut mounted: Vec<Mounted> = Vec::new();
        let rows = PLATFORMS.iter().filter(|_| keeps_secrets).filter_map(|row| Some((row.name()?, None, Some(row))));
        // Of two platforms of the same name, the one that was added later is used.
        let given = given.into_iter().rev().map(|platform| (platform.name(), Some(platform), None));
        for (name, given, row) in given.chain(rows) {
            match mounted.iter_mut().find(|other| other.name == name) {
                Some(other) => other.row = other.row.or(row),
                None => mounted.push(Mounted {
                    name,
                    given,
                    row,
                    slot: Mutex::default(),
                    room: Mutex::default(),
                    refused: AtomicI64::new(0),
                }),
            }
        }
        Self { mounted, details, reads: Reads::default(), accept_test_events, names, wake: Arc::default() }
    }

    /// Returns the names of all platforms, including those that have no secret.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Source> {
        self.mounted.iter().map(|mounted| &mounted.name)
    }

    /// Returns whether there is a platform with this name, even if it has no secret.
    pub(crate) fn is_mounted(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns whether any platform has a secret.
    #[cfg(feature = "pages")]
    pub(crate) fn is_any(&self) -> bool {
        self.mounted.iter().any(|mounted| mounted.platform().is_some())
    }

    /// Returns the platform with this name, if it has a secret.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<dyn Platform>> {
        self.find(name)?.platform()
    }

    /// Returns whether the seller can set the secret of the platform: the platform is built in, and neither the
    /// settings nor the host application provide it.
    pub(crate) fn is_settable(&self, name: &str) -> bool {
        self.find(name).is_some_and(|mounted| mounted.given.is_none() && mounted.row.is_some())
    }

    /// Returns whether the seller has set a secret of the platform. This secret is not used if the settings or the host
    /// application provide the platform.
    #[cfg(feature = "pages")]
    pub(crate) fn is_stored(&self, name: &str) -> bool {
        self.find(name).is_some_and(|mounted| mounted.slot().sealed.is_some())
    }

    /// Returns whether the secret that the seller has set cannot be decrypted or is not valid for the platform.
    pub(crate) fn is_unreadable(&self, name: &str) -> bool {
        self.find(name).is_some_and(|mounted| mounted.slot().is_unreadable())
    }

    /// Records that a webhook request for a platform was refused, because it was not signed with the platform's secret.
    pub(crate) fn refuse(&self, name: &str, at: DateTime<Utc>) {
        if let Some(mounted) = self.find(name) {
            mounted.refused.store(at.timestamp(), Ordering::Relaxed);
        }
    }

    /// Returns when this server last refused a webhook request for the platform because of its signature. Returns
    /// `None` if there was no refusal since the start of the server, or since the seller last changed the secret.
    #[cfg(feature = "pages")]
    pub(crate) fn refused_at(&self, name: &str) -> Option<DateTime<Utc>> {
        let at = self.find(name)?.refused.load(Ordering::Relaxed);
        DateTime::from_timestamp(at, 0).filter(|_| at > 0)
    }

    pub(super) fn find(&self, name: &str) -> Option<&Mounted> {
        self.mounted.iter().find(|mounted| mounted.name.as_str() == name)
    }
}

impl Mounted {
    pub(super) fn platform(&self) -> Option<Arc<dyn Platform>> {
        self.given.clone().or_else(|| self.slot().platform.clone())
    }

    /// Replaces the secret that the seller has set, and the platform that was made with it.
    pub(super) fn fill(&self, slot: Slot) {
        *self.slot() = slot;
        // Refusals under the previous secret say nothing about the new one.
        self.refused.store(0, Ordering::Relaxed);
    }

    pub(super) fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the permission to apply an event at once. Returns `None` if the rate limiter allows no more events than
    /// are already being applied. The event is then applied later.
    pub(super) fn enter(&self, now: Duration, limit: u32) -> Option<ApplyPermit<'_>> {
        let mut room = self.room();
        // After `until`, the limiter's answer is out of date. Allow at least one event then.
        let left = room.left.map_or(limit, |(left, until)| if now < until { left } else { left.max(1) });
        (room.under_way < left).then(|| {
            room.under_way += 1;
            ApplyPermit(self)
        })
    }
}

impl Drop for ApplyPermit<'_> {
    fn drop(&mut self) {
        self.0.room().under_way -= 1;
    }
}

impl fmt::Debug for Platforms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.mounted.iter().map(|mounted| &mounted.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{Secrets, Stripe};

    #[test]
    fn no_more_events_are_under_way_than_are_left() {
        let stripe: Arc<dyn Platform> = Arc::new(Stripe::new(&Secrets::new(["whsec_1"]).unwrap()));
        let platforms = Platforms::new(vec![stripe], Details::default(), false, false, None);
        let mounted = platforms.find("stripe").unwrap();
        let at = Duration::from_secs;
        // The limiter's answer (how many are left, and until when), the time, and how many events may be applied at
        // the same time.
        for (left, now, expected) in [
            (None, 0, 5),
            (Some((3, at(10))), 9, 3),
            (Some((0, at(10))), 9, 0),
            (Some((0, at(10))), 10, 1),
            (Some((3, at(10))), 10, 3),
        ] {
            mounted.room().left = left;
            let places: Vec<_> = std::iter::from_fn(|| mounted.enter(at(now), 5)).collect();
            assert_eq!(places.len(), expected, "{left:?} {now}");
        }
        assert_eq!(mounted.room().under_way, 0);
    }
}
