//! One batch, committed in several parts if some of its operations conflict, are refused, or need locked rows.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::{Answers, BatchHandler, Caller, Job, restart, unanswered};
use crate::store::attempt::MAX_ATTEMPTS;
use crate::store::{Attempt, StoreError};
use crate::sync::{Mutex, MutexGuard, PoisonError};

pub(super) struct Batch<O, A> {
    /// The parts to commit next, in reverse order: the last element is committed first. Each part is one transaction.
    pending: Vec<Part<O>>,
    /// The operations that an earlier batch deferred. They are committed when `pending` is empty.
    retrying: Option<Part<O>>,
    callers: Callers<A>,
}

/// Some operations of a batch, which are committed together, and the state of their attempts.
struct Part<O> {
    operations: Vec<O>,
    places: Vec<CallerSlot>,
    attempt: Attempt,
    /// How often a commit has left the operations unapplied because of conflicts.
    tries: u32,
    /// Whether a lock of another transaction has already delayed the operations.
    after_lock: bool,
}

#[derive(Clone, Copy)]
struct CallerSlot {
    caller: usize,
    /// When the operation was first deferred; `None` if it has never been deferred.
    since: Option<Instant>,
}

/// The number of times that a batch may wait for locks of other transactions. Each wait delays all other callers. Once
/// this number is reached, parts that a lock has already delayed are deferred without being tried. If only one
/// operation of a full batch needs a locked row, this number of waits is enough to find that operation by halving the
/// batch repeatedly. The waits of operations that an earlier batch deferred are counted separately.
const LOCKS: u32 = 2 + super::BATCH.ilog2();

/// The callers of a batch. A caller is the channel to a task that waits for an answer. While the batch is being
/// committed, a second handle, from [`Batch::callers`], refuses the callers if the database does not answer in time.
pub(super) struct Callers<A>(Arc<Mutex<Waiting<A>>>);

struct Waiting<A> {
    callers: Vec<Option<Caller<A>>>,
    /// The positions, in `callers`, of the callers whose operations are being committed.
    running: Vec<usize>,
    refused: bool,
}

impl<O, A> Batch<O, A> {
    /// Creates a batch of `jobs`. Jobs that an earlier batch deferred come last, in a part of their own, because the
    /// rows that they need may still be locked.
    pub(super) fn new(jobs: impl Iterator<Item = Job<O, A>>) -> Self {
        let (mut first, mut retrying) = (Part::default(), Part { after_lock: true, ..Part::default() });
        let mut callers = Vec::new();
        for Job { operation, caller, since } in jobs {
            let part = if since.is_none() { &mut first } else { &mut retrying };
            part.push(operation, CallerSlot { caller: callers.len(), since });
            callers.push(Some(caller));
        }
        Self {
            pending: vec![first],
            retrying: Some(retrying).filter(|part| !part.operations.is_empty()),
            callers: Callers(Arc::new(Mutex::new(Waiting { callers, running: Vec::new(), refused: false }))),
        }
    }

    pub(super) fn callers(&self) -> Callers<A> {
        Callers(self.callers.0.clone())
    }

    /// Commits the batch. Returns the answers that are still to be sent, and the jobs to defer. A job whose operation
    /// met a lock when it was committed alone is at the end of the list, so that the next batch tries other operations
    /// before it.
    pub(super) async fn commit<H>(mut self, handler: &mut H) -> (Answers<A>, Vec<Job<O, A>>)
    where
        H: BatchHandler<Operation = O, Answer = A>,
    {
        let (mut answers, mut locks) = (Answers::default(), 0);
        let (mut deferred, mut alone) = (Vec::new(), Vec::new());
        loop {
            let part = match (self.pending.pop(), &mut self.retrying) {
                (Some(part), _) => part,
                (None, retrying) => {
                    // Only the operations that an earlier batch deferred are left. Their waits for locks are counted
                    // separately. Otherwise, if the parts before them had used up `LOCKS`, they would be deferred again
                    // without being tried.
                    locks = 0;
                    let Some(part) = retrying.take() else { break };
                    part
                }
            };
            // Dropping the answers of the earlier parts sends them to the callers.
            drop(std::mem::take(&mut answers));
            if self.callers.lock().refused {
                // Callers whose operations had not begun were told that these operations were not applied. So no
                // further part may begin.
                break;
            }
            let (after_lock, budget_spent) = (part.after_lock, part.after_lock && locks >= LOCKS);
            let locked = |operation: &O| budget_spent || handler.is_locked(operation, after_lock);
            let part = if part.operations.iter().any(locked) {
                let (locked, free) = part.split(locked);
                deferred.extend(self.callers.jobs(locked));
                free
            } else {
                part
            };
            if part.operations.is_empty() {
                continue;
            }
            self.callers.lock().running = part.places.iter().map(|place| place.caller).collect();
            let committed = handler.commit(&part.operations, part.attempt, part.after_lock);
            let committed = AssertUnwindSafe(committed).catch_unwind().await.unwrap_or_else(|_| {
                restart(handler);
                Err(unanswered(H::WRITES))
            });
            match committed {
                Ok(done) => {
                    let (attempt, tries) = (part.attempt.next(), part.tries + 1);
                    let mut left = Part { attempt, tries, after_lock: part.after_lock, ..Part::default() };
                    let mut waiting = self.callers.lock();
                    // `done` has an entry for each operation. `None` means that the operation was not applied.
                    for ((operation, place), answer) in part.operations.into_iter().zip(part.places).zip(done) {
                        if let Some(answer) = answer {
                            let caller = waiting.callers.get_mut(place.caller).and_then(Option::take);
                            answers.0.extend(caller.map(|caller| (caller, Ok(answer))));
                        } else {
                            left.push(operation, place);
                        }
                    }
                    drop(waiting);
                    if left.tries >= MAX_ATTEMPTS {
                        let conflict = |job: Job<O, A>| (job.caller, Err(StoreError::Conflict { source: None }));
                        answers.0.extend(self.callers.jobs(left).map(conflict));
                    } else if !left.operations.is_empty() {
                        self.pending.push(left);
                    }
                }
                Err(error) if may_concern_one_operation(&error) && part.operations.len() > 1 => {
                    let locked = matches!(error, StoreError::Conflict { .. });
                    locks += u32::from(locked);
                    if locked && part.operations.iter().any(|operation| handler.is_locked(operation, true)) {
                        // The handler has found out which operations need locked rows. The next iteration of this loop
                        // defers these operations and commits the other operations of the part.
                        self.pending.push(part);
                        continue;
                    }
                    // One refused operation must not make the other operations of its part fail, so the two halves are
                    // tried separately. On a full disk, for example, operations that write nothing can still be
                    // answered.
                    let (first, second) = part.halves(locked);
                    self.pending.push(second);
                    self.pending.push(first);
                }
                Err(StoreError::Conflict { .. }) => {
                    locks += 1;
                    part.operations.iter().for_each(|operation| handler.met_lock(operation));
                    alone.extend(self.callers.jobs(part));
                }
                Err(error) => {
                    if !may_concern_one_operation(&error) {
                        // The other parts have not begun. Their callers get an error without an attempt, because the
                        // database would refuse these parts too.
                        let others = match &error {
                            StoreError::Unknown { .. } => {
                                StoreError::unavailable("the connection to the database was lost")
                            }
                            error => error.clone(),
                        };
                        for part in self.pending.drain(..).chain(self.retrying.take()) {
                            answers.0.extend(self.callers.jobs(part).map(|job| (job.caller, Err(others.clone()))));
                        }
                    }
                    answers.0.extend(self.callers.jobs(part).map(|job| (job.caller, Err(error.clone()))));
                }
            }
        }
        deferred.append(&mut alone);
        if self.callers.lock().refused {
            deferred.drain(..).for_each(Job::refuse);
        }
        (answers, deferred)
    }
}

impl<O> Part<O> {
    fn push(&mut self, operation: O, place: CallerSlot) {
        self.operations.push(operation);
        self.places.push(place);
    }

    /// Splits the part in two: the operations for which `is` returns true, and all other operations.
    fn split(self, is: impl Fn(&O) -> bool) -> (Self, Self) {
        let (attempt, tries, after_lock) = (self.attempt, self.tries, self.after_lock);
        let empty = || Self { attempt, tries, after_lock, ..Self::default() };
        let (mut those, mut others) = (empty(), empty());
        for (operation, place) in self.operations.into_iter().zip(self.places) {
            let part = if is(&operation) { &mut those } else { &mut others };
            part.push(operation, place);
        }
        (those, others)
    }

    fn halves(mut self, locked: bool) -> (Self, Self) {
        let half = self.operations.len() / 2;
        self.after_lock |= locked;
        let (operations, places) = (self.operations.split_off(half), self.places.split_off(half));
        let second = Self { operations, places, attempt: self.attempt, tries: self.tries, after_lock: self.after_lock };
        (self, second)
    }
}

impl<O> Default for Part<O> {
    fn default() -> Self {
        Self { operations: Vec::new(), places: Vec::new(), attempt: Attempt::Optimistic, tries: 0, after_lock: false }
    }
}

/// Returns whether an error may concern only one operation of a part. The part is then split, so that the other
/// operations can be committed.
fn may_concern_one_operation(error: &StoreError) -> bool {
    // `StoreError::Full` is such an error: on a full disk, operations that write fail, but others can be answered.
    !matches!(error, StoreError::Unavailable { .. } | StoreError::Unknown { .. })
}

impl<A> Callers<A> {
    /// Refuses all callers that still wait. If `writes` is set, the callers whose operations are being committed get
    /// [`StoreError::Unknown`], because these operations may be applied nevertheless.
    pub(super) fn refuse(&self, writes: bool) {
        let mut waiting = self.lock();
        waiting.refused = true;
        let running = std::mem::take(&mut waiting.running);
        for (place, caller) in waiting.callers.iter_mut().enumerate() {
            let error = unanswered(writes && running.contains(&place));
            if let Some(caller) = caller.take() {
                // `send` fails if the caller has stopped waiting.
                let _ = caller.send(Err(error));
            }
        }
    }

    /// Turns the operations of a part back into jobs. Leaves out operations whose callers already have an answer.
    fn jobs<O>(&self, part: Part<O>) -> impl Iterator<Item = Job<O, A>> {
        let members = part.operations.into_iter().zip(part.places);
        members.filter_map(|(operation, CallerSlot { caller, since })| {
            let caller = self.lock().callers.get_mut(caller).and_then(Option::take)?;
            Some(Job { operation, caller, since })
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
