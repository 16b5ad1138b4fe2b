//! The requests in the window of each subject. In a flood of requests from many addresses, most subjects have a single
//! request. Such a subject takes only eight bytes besides its identity. These bytes contain the time of the request. A
//! subject with more requests has a log of their times.

use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use hashbrown::HashTable;
use slab::Slab;

use super::window::{Window, left};
use super::{Decision, Quota};

/// The shortest time between two cleanups of a full table. Without it, each new subject would cause a cleanup.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The time of a subject's only request. If the highest bit is set, the subject has more requests, and the other bits
/// are the index of the log of their times.
#[derive(Clone, Copy)]
struct Slot(u64);

const LOG: u64 = 1 << 63;

enum Kept {
    One(u64),
    Log(usize),
}

/// Subjects by identity, each with an exact window.
pub(super) struct Subjects<K> {
    /// The table is searched by hashes that the caller passes, because the caller already computed the hash to choose
    /// the shard.
    slots: HashTable<(K, Slot)>,
    hasher: RandomState,
    logs: Slab<Window>,
    /// The longest window requested so far. A cleanup removes subjects of which no request was admitted for this long.
    longest: Duration,
    /// The number of subjects at which the next cleanup runs. It is twice the number that the last cleanup left, and at
    /// least 64, so that the average cost of cleanups per request is constant.
    sweep_at: usize,
    /// When the last cleanup ran, in nanoseconds.
    swept: u64,
}

impl<K: Hash + Eq> Subjects<K> {
    pub(super) fn new(hasher: RandomState) -> Self {
        let (slots, logs) = (HashTable::new(), Slab::new());
        Self { slots, hasher, logs, longest: Duration::ZERO, sweep_at: 64, swept: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Decides about a request of a subject that is in the table. Returns `None` if the subject is not in the table.
    pub(super) fn admit_known(&mut self, subject: &K, hash: u64, now: u64, quota: Quota) -> Option<Decision> {
        let (_, slot) = self.slots.find_mut(hash, |(known, _)| known == subject)?;
        self.longest = self.longest.max(quota.window());
        Some(match slot.read() {
            Kept::One(at) if left(at, now, quota.window()) => {
                *slot = Slot::one(now);
                first(quota)
            }
            Kept::One(at) => {
                let mut log = Window::of(at);
                let decision = log.admit(now, quota);
                if log.only().is_none() {
                    *slot = Slot::log(self.logs.insert(log));
                }
                decision
            }
            Kept::Log(place) => {
                let log = self.logs.get_mut(place)?;
                let decision = log.admit(now, quota);
                if let Some(at) = log.only() {
                    *slot = Slot::one(at);
                    self.logs.try_remove(place);
                }
                decision
            }
        })
    }

    /// Decides about a request of a subject that is not in the table. The requests in `window` already count against
    /// the subject. Adds the subject to the table only if the request is admitted.
    pub(super) fn admit_new(&mut self, subject: K, hash: u64, mut window: Window, now: u64, quota: Quota) -> Decision {
        self.longest = self.longest.max(quota.window());
        if window.is_over(now, quota.window()) {
            self.remember(subject, hash, Slot::one(now));
            return first(quota);
        }
        let decision = window.admit(now, quota);
        if matches!(decision, Decision::Admitted { .. }) {
            let place = self.logs.insert(window);
            self.remember(subject, hash, Slot::log(place));
        }
        decision
    }

    /// Adds a subject. The caller has checked that it is not in the table.
    fn remember(&mut self, subject: K, hash: u64, slot: Slot) {
        self.slots.insert_unique(hash, (subject, slot), |(known, _)| self.hasher.hash_one(known));
    }

    /// Returns a copy of a subject's window. Returns `None` if the subject is not in the table.
    pub(super) fn window(&self, subject: &K, hash: u64) -> Option<Window> {
        let (_, slot) = self.slots.find(hash, |(known, _)| known == subject)?;
        match slot.read() {
            Kept::One(at) => Some(Window::of(at)),
            Kept::Log(place) => self.logs.get(place).cloned(),
        }
    }

    /// Returns whether there is room for one more subject. First removes expired subjects if the table has grown to
    /// `sweep_at` subjects, or if it is full and the last removal was at least [`SWEEP_EVERY`] ago.
    pub(super) fn has_room(&mut self, now: u64, capacity: usize) -> bool {
        let full = self.slots.len() >= capacity && left(self.swept, now, SWEEP_EVERY);
        if full || self.slots.len() >= self.sweep_at {
            self.remove_expired(now);
        }
        self.slots.len() < capacity
    }

    /// Removes expired subjects. Returns whether none is left.
    pub(super) fn is_unused(&mut self, now: u64) -> bool {
        self.remove_expired(now);
        self.slots.is_empty()
    }

    fn remove_expired(&mut self, now: u64) {
        let (logs, longest) = (&mut self.logs, self.longest);
        self.slots.retain(|(_, slot)| {
            let over = is_over(*slot, logs, now, longest);
            if let (true, Kept::Log(place)) = (over, slot.read()) {
                logs.try_remove(place);
            }
            !over
        });
        self.swept = now;
        self.sweep_at = (self.slots.len() * 2).max(64);
        // Release memory that was allocated for many more subjects, for example during a flood.
        if self.slots.capacity() > self.sweep_at * 4 {
            self.slots.shrink_to(self.sweep_at, |(known, _)| self.hasher.hash_one(known));
        }
        self.logs.shrink_to_fit();
    }
}

fn is_over(slot: Slot, logs: &Slab<Window>, now: u64, length: Duration) -> bool {
    match slot.read() {
        Kept::One(at) => left(at, now, length),
        Kept::Log(place) => logs.get(place).is_none_or(|log| log.is_over(now, length)),
    }
}

/// Returns the decision about the first request in a window.
fn first(quota: Quota) -> Decision {
    Decision::Admitted { remaining: quota.limit().get() - 1, reset: quota.window() }
}

impl Slot {
    fn one(at: u64) -> Self {
        Self(at & !LOG)
    }

    fn log(place: usize) -> Self {
        Self(place as u64 | LOG)
    }

    fn read(self) -> Kept {
        if self.0 & LOG == 0 {
            Kept::One(self.0)
        } else {
            Kept::Log(usize::try_from(self.0 & !LOG).unwrap_or(usize::MAX))
        }
    }
}
