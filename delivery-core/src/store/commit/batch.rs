//! One batch: committed in more than one go, if the writer leaves some of it or the database refuses some of it.

use std::sync::Arc;

use super::{Answers, Caller, Job, Writer, silent};
use crate::store::StoreError;
use crate::sync::{Mutex, MutexGuard, PoisonError};

pub(super) struct Batch<O, A> {
    /// Each is committed as one transaction, the last one first.
    pending: Vec<Part<O>>,
    callers: Callers<A>,
}

/// Some operations of a batch, and what is known of each.
struct Part<O> {
    operations: Vec<O>,
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    caller: usize,
    rests: u32,
}

/// Who waits, by place. Clones are the same callers.
pub(super) struct Callers<A>(Arc<Mutex<Vec<Option<Caller<A>>>>>);

impl<O, A> Batch<O, A> {
    /// A batch of `jobs`. Those that were put aside before are tried alone, since what they need may be held again.
    pub(super) fn new(jobs: impl Iterator<Item = Job<O, A>>) -> Self {
        let (mut together, mut alone, mut callers) = (Part::default(), Vec::new(), Vec::new());
        for Job { operation, caller, rests } in jobs {
            let place = Place { caller: callers.len(), rests };
            callers.push(Some(caller));
            if rests == 0 {
                together.push(operation, place);
            } else {
                alone.push(Part { operations: vec![operation], places: vec![place] });
            }
        }
        alone.push(together);
        Self { pending: alone, callers: Callers(Arc::new(Mutex::new(callers))) }
    }

    pub(super) fn callers(&self) -> Callers<A> {
        Callers(self.callers.0.clone())
    }

    /// Answers for what was committed or refused, and the jobs that are to be put aside.
    pub(super) async fn commit<W>(mut self, writer: &mut W) -> (Answers<A>, Vec<Job<O, A>>)
    where
        W: Writer<Operation = O, Answer = A>,
    {
        let (mut answers, mut aside) = (Answers::default(), Vec::new());
        while let Some(part) = self.pending.pop() {
            // Of what was committed before.
            drop(std::mem::take(&mut answers));
            let part = if part.operations.iter().any(|operation| writer.is_held(operation)) {
                let (held, free) = part.split(|operation| writer.is_held(operation));
                aside.extend(self.callers.jobs(held));
                free
            } else {
                part
            };
            if part.operations.is_empty() {
                continue;
            }
            match writer.commit(&part.operations).await {
                Ok(done) => {
                    let mut left = Part::default();
                    let mut callers = self.callers.lock();
                    // Each has an entry: an operation without an answer was not applied.
                    for ((operation, place), answer) in part.operations.into_iter().zip(part.places).zip(done) {
                        if let Some(answer) = answer {
                            let caller = callers.get_mut(place.caller).and_then(Option::take);
                            answers.0.extend(caller.map(|caller| (caller, Ok(answer))));
                        } else {
                            left.push(operation, place);
                        }
                    }
                    drop(callers);
                    self.pending.extend((!left.operations.is_empty()).then_some(left));
                }
                Err(StoreError::Contended { .. })
                    if part.operations.iter().any(|operation| writer.is_held(operation)) =>
                {
                    self.pending.push(part);
                }
                Err(StoreError::Corrupt { .. } | StoreError::Contended { .. } | StoreError::Full { .. })
                    if part.operations.len() > 1 =>
                {
                    // One operation that is refused must not take its neighbours down; on a full disk, those that write
                    // nothing can be answered.
                    let (first, second) = part.halves();
                    self.pending.push(second);
                    self.pending.push(first);
                }
                Err(StoreError::Contended { .. }) => aside.extend(self.callers.jobs(part)),
                Err(error) => {
                    // A database that is away refuses the other parts too.
                    let away = !matches!(error, StoreError::Corrupt { .. } | StoreError::Full { .. });
                    let others = away.then(|| std::mem::take(&mut self.pending)).into_iter().flatten();
                    for refused in std::iter::once(part).chain(others) {
                        answers.0.extend(self.callers.jobs(refused).map(|job| (job.caller, Err(error.clone()))));
                    }
                }
            }
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
        let (mut those, mut others) = (Self::default(), Self::default());
        for (operation, place) in self.operations.into_iter().zip(self.places) {
            let part = if is(&operation) { &mut those } else { &mut others };
            part.push(operation, place);
        }
        (those, others)
    }

    fn halves(mut self) -> (Self, Self) {
        let half = self.operations.len() / 2;
        let second = Self { operations: self.operations.split_off(half), places: self.places.split_off(half) };
        (self, second)
    }
}

impl<O> Default for Part<O> {
    fn default() -> Self {
        Self { operations: Vec::new(), places: Vec::new() }
    }
}

impl<A> Callers<A> {
    /// Refuses everybody who still waits: the operations may happen all the same.
    pub(super) fn refuse(&self) {
        for caller in self.lock().iter_mut().filter_map(Option::take) {
            // It may have gone away.
            let _ = caller.send(Err(silent()));
        }
    }

    /// The jobs of those who still wait.
    fn jobs<O>(&self, part: Part<O>) -> impl Iterator<Item = Job<O, A>> {
        let members = part.operations.into_iter().zip(part.places);
        members.filter_map(|(operation, Place { caller, rests })| {
            let caller = self.lock().get_mut(caller).and_then(Option::take)?;
            Some(Job { operation, caller, rests })
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Caller<A>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
