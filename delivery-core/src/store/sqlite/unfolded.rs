//! The uses that the database's counts do not have yet, by the numbers of their keys.
//!
//! A sweep folds them key by key: those it has taken on stay here until the next one begins, and a count tells by its
//! last use which of them it has. So whoever reads a count adds the right ones before, during and after its fold,
//! unless another sweep began meanwhile: then the count must be read again.

use std::collections::HashMap;

/// Some uses of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) count: u32,
    /// Number of the newest.
    pub(super) last: i64,
}

/// How far uses are folded, as `delivery_fold` has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// All uses up to this one are.
    pub(super) number: i64,
    /// Those up to this one are, of the keys
    pub(super) until: i64,
    /// up to this one.
    pub(super) through: i64,
}

/// What is to be folded.
#[derive(Debug, Default)]
pub(super) struct Unfolded {
    /// Uses since the sweep began.
    fresh: HashMap<i64, Uses>,
    /// How many they are.
    waiting: usize,
    /// How many of them came since the last slice.
    unpaced: usize,
    /// Number of the newest use.
    newest: i64,
    /// Uses that the sweep took on, by ascending number of their key.
    sweep: Vec<(i64, Uses)>,
    /// How many keys of them are folded.
    swept: usize,
    mark: Mark,
    sweeps: u64,
}

impl Unfolded {
    /// What was left behind: uses of a sweep that was under way, by ascending key, and those since.
    pub(super) fn restore(&mut self, mark: Mark, newest: i64, sweep: Vec<(i64, Uses)>, fresh: HashMap<i64, Uses>) {
        let waiting = fresh.values().map(|uses| uses.count as usize).sum();
        *self = Self { fresh, waiting, unpaced: 0, newest, sweep, swept: 0, mark, sweeps: self.sweeps + 1 };
    }

    /// A key's use was committed, under this number.
    pub(super) fn add(&mut self, key: i64, number: i64) {
        let uses = self.fresh.entry(key).or_default();
        uses.count += 1;
        uses.last = number;
        self.waiting += 1;
        self.unpaced += 1;
        self.newest = number;
    }

    /// The uses that a count does not have whose last one is `last_use`.
    pub(super) fn since(&self, key: i64, last_use: Option<i64>) -> Uses {
        let swept = self.sweep.binary_search_by_key(&key, |(key, _)| *key).ok().and_then(|at| self.sweep.get(at));
        let swept = swept.map(|(_, uses)| uses).filter(|uses| last_use.is_none_or(|last| uses.last > last));
        let both = swept.into_iter().chain(self.fresh.get(&key));
        both.fold(Uses::default(), |sum, uses| Uses { count: sum.count + uses.count, last: uses.last })
    }

    /// How many sweeps have begun.
    pub(super) fn sweeps(&self) -> u64 {
        self.sweeps
    }

    /// How far uses are folded.
    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// How many uses wait for a sweep.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many uses came since the last slice.
    pub(super) fn unpaced(&self) -> usize {
        self.unpaced
    }

    /// Whether a sweep is under way.
    pub(super) fn sweeping(&self) -> bool {
        self.swept < self.sweep.len()
    }

    /// How many keys of the sweep are not folded yet.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.sweep.len() - self.swept
    }

    /// Begins a sweep that takes on all that wait. None may be under way.
    pub(super) fn begin(&mut self) {
        self.sweep = self.fresh.drain().collect();
        self.sweep.sort_unstable_by_key(|(key, _)| *key);
        // Its first slice is as small as the others: it keeps pace with the uses from here on.
        (self.waiting, self.unpaced, self.swept) = (0, 0, 0);
        self.mark.until = self.newest;
        self.sweeps += 1;
    }

    /// The next keys to fold, and how far uses are folded with them.
    pub(super) fn slice(&self, most: usize) -> (Vec<(i64, Uses)>, Mark) {
        let rest = self.sweep.get(self.swept..).unwrap_or_default();
        let keys: Vec<_> = rest.iter().take(most).copied().collect();
        let until = self.mark.until;
        let mark = match keys.last() {
            Some((through, _)) if keys.len() < rest.len() => Mark { through: *through, ..self.mark },
            _ => Mark { number: until, until, through: 0 },
        };
        (keys, mark)
    }

    /// A slice of so many keys was folded.
    pub(super) fn folded(&mut self, keys: usize, mark: Mark) {
        self.swept += keys;
        self.unpaced = 0;
        self.mark = mark;
    }
}
