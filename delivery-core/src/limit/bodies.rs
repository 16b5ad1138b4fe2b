//! Memory for request bodies whose senders are not authenticated yet.
//!
//! A sender can be authenticated only once the body is complete. If the signature of a webhook does not match a secret
//! that this server knows, the body also has to wait until the secrets were read from the store again. Until then, the
//! memory of the body counts against a budget that all such bodies share. When the budget is exceeded, the body that
//! has been open longest is dropped, because its sender may hold it open to fill the memory. Platforms send a body
//! within a few round trips, so the body of a platform is dropped only if other senders fill the whole budget within
//! that time, or within the time of the read if the body has to wait for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// The bodies of unauthenticated senders, and how much memory they may take in total.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    limit: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// The bodies by number. Numbers are assigned in the order in which bodies are begun.
    bodies: BTreeMap<u64, Blocks>,
    begun: u64,
    /// The memory of all bodies together, in bytes.
    held: usize,
}

/// A body, stored in blocks of equal size. A single buffer that grows would be copied repeatedly, and would fragment
/// the memory.
#[derive(Debug, Default)]
struct Blocks(Vec<Vec<u8>>);

/// A body that is being read, or that waits for the store. Dropping this releases the body's memory.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    budget: &'a BodyBudget,
    number: u64,
}

/// The budget was exceeded, and the body was dropped because it had been open longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GaveWay;

/// The length of a block, in bytes.
const BLOCK: usize = 4 << 10;

impl Blocks {
    fn push(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let last = match self.0.last_mut() {
                Some(last) if last.len() < BLOCK => last,
                _ => {
                    self.0.push(Vec::with_capacity(BLOCK));
                    continue;
                }
            };
            let (fits, rest) = piece.split_at(piece.len().min(BLOCK - last.len()));
            last.extend_from_slice(fits);
            piece = rest;
        }
    }

    fn memory(&self) -> usize {
        self.0.len() * BLOCK
    }
}

impl BodyBudget {
    /// The default limit, in bytes. It is enough for 512 orders of the maximum length, 64 KiB.
    pub(crate) const DEFAULT: usize = 32 << 20;

    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, open: Mutex::default() }
    }

    /// Begins a body, which is empty at first. Bodies that were begun earlier are dropped before this one.
    pub(crate) fn begin(&self) -> Kept<'_> {
        let mut open = self.open();
        let number = open.begun;
        open.begun += 1;
        open.bodies.insert(number, Blocks::default());
        Kept { budget: self, number }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept<'_> {
    /// Adds the next piece to the body. While the budget is exceeded, drops the body that has been open longest. Fails
    /// if this body was dropped, now or earlier.
    pub(crate) fn push(&self, piece: &[u8]) -> Result<(), GaveWay> {
        let mut open = self.budget.open();
        let Some(body) = open.bodies.get_mut(&self.number) else { return Err(GaveWay) };
        let before = body.memory();
        body.push(piece);
        let grown = body.memory() - before;
        open.held += grown;
        while open.held > self.budget.limit {
            let Some((number, oldest)) = open.bodies.pop_first() else { break };
            open.held -= oldest.memory();
            if number == self.number {
                return Err(GaveWay);
            }
        }
        Ok(())
    }

    /// Returns the whole body. Fails if the body was dropped.
    pub(crate) fn finish(self) -> Result<Bytes, GaveWay> {
        self.take().map(|body| body.0.concat().into()).ok_or(GaveWay)
    }

    fn take(&self) -> Option<Blocks> {
        let mut open = self.budget.open();
        let body = open.bodies.remove(&self.number)?;
        open.held -= body.memory();
        Some(body)
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_gives_way_and_what_is_read_is_whole() {
        let budget = BodyBudget::new(4 * BLOCK);
        let old = budget.begin();
        old.push(&[1; BLOCK + 1]).unwrap();
        let young = budget.begin();
        young.push(&[2; 300]).unwrap();
        young.push(&[3; 2 * BLOCK]).unwrap();
        assert_eq!(old.push(&[1; 1]), Err(GaveWay), "the older one");
        assert_eq!(young.finish().unwrap(), [vec![2; 300], vec![3; 2 * BLOCK]].concat());
        assert_eq!(old.finish(), Err(GaveWay));
        assert_eq!(budget.open().held, 0);
    }

    #[test]
    fn what_is_held_never_exceeds_the_budget_and_is_given_back() {
        let limit = 16 * BLOCK;
        let budget = BodyBudget::new(limit);
        let mut bodies = Vec::new();
        for _ in 0..200 {
            let body = budget.begin();
            for _ in 0..10 {
                // A body that was dropped refuses further pieces.
                let _ = body.push(&[0; 1_000]);
                assert!(budget.open().held <= limit);
            }
            bodies.push(body);
        }
        let whole = bodies.into_iter().filter_map(|body| body.finish().ok()).count();
        assert_eq!(whole, 5, "the youngest, of three blocks each");
        assert_eq!(budget.open().held, 0);
    }
}
