//! One batch: committed in more than one go, if the writer leaves some of it or the database refuses some of it.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Answers, Caller, Job, Writer, silent};
use crate::store::StoreError;
use crate::sync::{Mutex, MutexGuard, PoisonError};

pub(super) struct Batch<O, A> {
    /// Each is committed as one transaction, the last one first.
    pending: Vec<Part<O>>,
    /// What was put aside before: tried when nothing else is pending, no more than a batch at a time.
    rested: Vec<Part<O>>,
    callers: Callers<A>,
}

/// Some operations of a batch, and what is known of each.
struct Part<O> {
    operations: Vec<O>,
    places: Vec<Place>,
    /// Whether they met a lock before.
    again: bool,
}

#[derive(Clone, Copy)]
struct Place {
    caller: usize,
    since: Option<Instant>,
}

/// Locks that a batch waits for, once it has met one: each takes a moment, and keeps everybody else waiting. Enough to find
/// one operation in a full batch, by halves.
const LOCKS: u32 = 2 + super::BATCH.ilog2();

/// Who waits, by place. Clones are the same callers.
pub(super) struct Callers<A>(Arc<Mutex<Waiting<A>>>);

struct Waiting<A> {
    callers: Vec<Option<Caller<A>>>,
    refused: bool,
}

impl<O, A> Batch<O, A> {
    /// A batch of `jobs`. Those that were put aside before come last, by themselves, since what they need may be held again.
    pub(super) fn new(jobs: impl Iterator<Item = Job<O, A>>) -> Self {
        let (mut first, mut rested) = (Part::default(), Vec::<Part<O>>::new());
        let mut callers = Vec::new();
        for Job { operation, caller, since } in jobs {
            let place = Place { caller: callers.len(), since };
            callers.push(Some(caller));
            if since.is_none() {
                first.push(operation, place);
                continue;
            }
            match rested.last_mut() {
                Some(part) if part.operations.len() < super::BATCH => part.push(operation, place),
                _ => {
                    let mut part = Part { again: true, ..Part::default() };
                    part.push(operation, place);
                    rested.push(part);
                }
            }
        }
        rested.reverse();
        Self {
            pending: vec![first],
            rested,
            callers: Callers(Arc::new(Mutex::new(Waiting { callers, refused: false }))),
        }
    }

    pub(super) fn callers(&self) -> Callers<A> {
        Callers(self.callers.0.clone())
    }

    /// Answers for what was committed or refused, and the jobs that are to be put aside: last those that met a lock alone, so
    /// that they keep no others from being tried the next time.
    pub(super) async fn commit<W>(mut self, writer: &mut W) -> (Answers<A>, Vec<Job<O, A>>)
    where
        W: Writer<Operation = O, Answer = A>,
    {
        let (mut answers, mut locks) = (Answers::default(), 0);
        let (mut aside, mut alone) = (Vec::new(), Vec::new());
        loop {
            let part = match (self.pending.pop(), &mut self.rested) {
                (Some(part), _) => part,
                (None, rested) => {
                    // The locks that others met are no reason not to try these.
                    locks = 0;
                    let Some(part) = rested.pop() else { break };
                    part
                }
            };
            // Of what was committed before.
            drop(std::mem::take(&mut answers));
            if self.callers.lock().refused {
                // What has not begun does not happen any more.
                break;
            }
            let held = |operation: &O| (part.again && locks >= LOCKS) || writer.is_held(operation, part.again);
            let part = if part.operations.iter().any(held) {
                let again = part.again;
                let (held, free) =
                    part.split(|operation| (again && locks >= LOCKS) || writer.is_held(operation, again));
                aside.extend(self.callers.jobs(held));
                free
            } else {
                part
            };
            if part.operations.is_empty() {
                continue;
            }
            match writer.commit(&part.operations, part.again).await {
                Ok(done) => {
                    let mut left = Part { again: part.again, ..Part::default() };
                    let mut waiting = self.callers.lock();
                    // Each has an entry: an operation without an answer was not applied.
                    for ((operation, place), answer) in part.operations.into_iter().zip(part.places).zip(done) {
                        if let Some(answer) = answer {
                            let caller = waiting.callers.get_mut(place.caller).and_then(Option::take);
                            answers.0.extend(caller.map(|caller| (caller, Ok(answer))));
                        } else {
                            left.push(operation, place);
                        }
                    }
                    drop(waiting);
                    self.pending.extend((!left.operations.is_empty()).then_some(left));
                }
                Err(error @ (StoreError::Corrupt { .. } | StoreError::Contended { .. } | StoreError::Full { .. }))
                    if part.operations.len() > 1 =>
                {
                    let contended = matches!(error, StoreError::Contended { .. });
                    locks += u32::from(contended);
                    if contended && part.operations.iter().any(|operation| writer.is_held(operation, true)) {
                        self.pending.push(part);
                        continue;
                    }
                    // One operation that is refused must not take its neighbours down; on a full disk, those that write
                    // nothing can be answered.
                    let (first, second) = part.halves(contended);
                    self.pending.push(second);
                    self.pending.push(first);
                }
                Err(StoreError::Contended { .. }) => {
                    locks += 1;
                    part.operations.iter().for_each(|operation| writer.hold(operation));
                    alone.extend(self.callers.jobs(part));
                }
                Err(error) => {
                    // A database that is away refuses the other parts too.
                    let away = !matches!(error, StoreError::Corrupt { .. } | StoreError::Full { .. });
                    let others =
                        away.then(|| self.pending.drain(..).chain(self.rested.drain(..))).into_iter().flatten();
                    for refused in std::iter::once(part).chain(others) {
                        answers.0.extend(self.callers.jobs(refused).map(|job| (job.caller, Err(error.clone()))));
                    }
                }
            }
        }
        aside.append(&mut alone);
        if self.callers.lock().refused {
            aside.drain(..).for_each(Job::refuse);
        }
        (answers, aside)
    }
}

impl<O> Part<O> {
    fn push(&mut self, operation: O, place: Place) {
        self.operations.push(operation);
        self.places.push(place);
    }

    /// Those for which it is so, and the others.
    fn split(self, is: impl Fn(&O) -> bool) -> (Self, Self) {
        let empty = || Self { again: self.again, ..Self::default() };
        let (mut those, mut others) = (empty(), empty());
        for (operation, place) in self.operations.into_iter().zip(self.places) {
            let part = if is(&operation) { &mut those } else { &mut others };
            part.push(operation, place);
        }
        (those, others)
    }

    fn halves(mut self, again: bool) -> (Self, Self) {
        let half = self.operations.len() / 2;
        self.again |= again;
        let (operations, places) = (self.operations.split_off(half), self.places.split_off(half));
        let second = Self { operations, places, again: self.again };
        (self, second)
    }
}

impl<O> Default for Part<O> {
    fn default() -> Self {
        Self { operations: Vec::new(), places: Vec::new(), again: false }
    }
}

impl<A> Callers<A> {
    /// Refuses everybody who still waits: what is being committed may happen all the same.
    pub(super) fn refuse(&self) {
        let mut waiting = self.lock();
        waiting.refused = true;
        for caller in waiting.callers.iter_mut().filter_map(Option::take) {
            // It may have gone away.
            let _ = caller.send(Err(silent()));
        }
    }

    /// The jobs of those who still wait.
    fn jobs<O>(&self, part: Part<O>) -> impl Iterator<Item = Job<O, A>> {
        let members = part.operations.into_iter().zip(part.places);
        members.filter_map(|(operation, Place { caller, since })| {
            let caller = self.lock().callers.get_mut(caller).and_then(Option::take)?;
            Some(Job { operation, caller, since })
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
