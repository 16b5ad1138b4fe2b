//! Group commit: operations that arrive while a transaction syncs to disk share the next transaction.
//!
//! One task owns the [`BatchHandler`], which owns the database connection. The task takes all waiting operations, up to
//! [`BATCH`], and lets the handler commit them as one batch. It starts each batch before it wakes the callers of the
//! previous one. The task never waits for more operations to arrive: a single operation is committed alone and at once,
//! and a thousand concurrent operations share a few syncs. A submitted operation completes even if its caller goes
//! away.
//!
//! Two things can delay a batch. First, another transaction may have locked a row. The operations that need the row are
//! then deferred and retried a little later, so that other operations do not wait for the lock. Second, the database or
//! the disk may not answer. If no answer comes within [`STALLED`], all callers get an error, and so does every new
//! caller until the database answers again.
//!
//! If the database does not answer, an operation that was being committed may have been applied, so its caller gets
//! [`StoreError::Unknown`]. If the handler panics, the callers whose operations it was committing get the same error,
//! and the handler is restarted. A handler that only reads never causes this error.

mod deferred;
#[cfg(all(test, shuttle))]
mod interleaved;
mod parts;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use tokio::time::Instant;

use self::deferred::Deferred;
use self::parts::Batch;
use super::{Attempt, StoreError};
use crate::sync::task::{mpsc, oneshot, sleep, spawn};
use crate::telemetry;

/// The maximum number of operations that wait in the queue. Further operations are refused, because they would wait for
/// seconds.
const QUEUE: usize = 16 * 1024;
/// The maximum number of operations in one commit. With this number, many callers share one sync, and a commit still
/// takes only milliseconds.
pub(super) const BATCH: usize = 1024;
/// How long the database may take for a batch, or for maintenance, before the waiting callers are refused.
pub(super) const STALLED: Duration = Duration::from_secs(5);

/// Commits the batches of a queue. The queue's task owns the handler.
pub(super) trait BatchHandler: Send + 'static {
    type Operation: Send + 'static;
    type Answer: Send + 'static;
    /// Whether operations write. If the database does not answer an operation that writes, the operation's outcome is
    /// unknown.
    const WRITES: bool;

    /// Returns whether the operation must be committed as a batch of its own, because it may take as long as a whole
    /// batch.
    fn is_alone(_: &Self::Operation) -> bool {
        false
    }

    /// Commits `operations` in their order. Returns one entry per operation: its answer, or `None`. `None` means that
    /// the operation was not applied and must be committed by another call, with the [next](Attempt::next) attempt. If
    /// this returns an error other than [`StoreError::Unknown`], no operation was applied.
    ///
    /// If `after_lock` is true, a lock of another transaction has already delayed these operations. The handler then
    /// waits only briefly for further locks.
    fn commit(
        &mut self,
        operations: &[Self::Operation],
        attempt: Attempt,
        after_lock: bool,
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, StoreError>> + Send;

    /// Returns whether another transaction probably holds a lock that the operation needs. If so, the operation is
    /// deferred instead of being tried. If the database has no other writers, this always returns false.
    ///
    /// If `after_lock` is true, a lock has already delayed the operation. This method then returns true only for a lock
    /// that the database itself has reported. Other locks are only remembered from failed attempts, and may have been
    /// released by now; only a new attempt can find that out.
    fn is_locked(&self, _operation: &Self::Operation, _after_lock: bool) -> bool {
        false
    }

    /// Called if the commit of this operation alone failed because of a lock. So it is certain that another transaction
    /// has locked something that this operation needs.
    fn met_lock(&mut self, _operation: &Self::Operation) {}

    /// Does maintenance that must not run during a commit. Called before each batch, and once more after the last
    /// batch.
    fn maintain(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Called after the handler panicked. The handler must continue from the state of the database, not from what it
    /// had in memory. A handler that moves its resources out of itself while it uses them has nothing to do here,
    /// because the panic has dropped them.
    fn restart(&mut self) {}

    /// Called once, after the last batch.
    fn finish(self) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        std::future::ready(())
    }
}

/// The sending end of the queue. When the last clone is dropped, the task commits the waiting operations and ends.
#[derive(Debug)]
pub(super) struct BatchQueue<O, A> {
    queue: mpsc::Sender<Job<O, A>>,
    /// Whether operations write: the handler's [`WRITES`](BatchHandler::WRITES).
    writes: bool,
}

#[derive(Debug)]
struct Job<O, A> {
    operation: O,
    caller: Caller<A>,
    /// When the operation was first deferred; `None` if it has never been deferred.
    since: Option<Instant>,
}

impl<O, A> Job<O, A> {
    /// Refuses the operation, because the database does not answer.
    fn refuse(self) {
        // `send` fails if the caller has stopped waiting.
        drop(self.caller.send(Err(silent())));
    }
}

/// The channel to the caller that waits for an answer.
type Caller<A> = oneshot::Sender<Result<A, StoreError>>;

impl<O: Send + 'static, A: Send + 'static> BatchQueue<O, A> {
    /// Starts the task that commits operations. The returned receiver resolves when the task has ended.
    pub(super) fn start<H>(handler: H) -> (Self, oneshot::Receiver<()>)
    where
        H: BatchHandler<Operation = O, Answer = A>,
    {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let (ended, end) = oneshot::channel();
        spawn(async move {
            run(handler, jobs).await;
            // `send` fails if the receiver was dropped.
            let _ = ended.send(());
        });
        (Self { queue, writes: H::WRITES }, end)
    }

    /// Submits `operation` and waits for its commit.
    pub(super) async fn submit(&self, operation: O) -> Result<A, StoreError> {
        let (caller, committed) = oneshot::channel();
        self.queue.try_send(Job { operation, caller, since: None }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => StoreError::unavailable("too many operations wait for the database"),
            mpsc::error::TrySendError::Closed(_) => StoreError::unavailable("closed"),
        })?;
        // An error of the channel means that the task ended without an answer. The outcome of the operation is then
        // unknown.
        committed.await.unwrap_or_else(|_| Err(unanswered(self.writes)))
    }
}

impl<O, A> Clone for BatchQueue<O, A> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), writes: self.writes }
    }
}

/// The answers of a batch, and the jobs to defer.
type Committed<W> =
    (Answers<<W as BatchHandler>::Answer>, Vec<Job<<W as BatchHandler>::Operation, <W as BatchHandler>::Answer>>);

type Jobs<W> = mpsc::Receiver<Job<<W as BatchHandler>::Operation, <W as BatchHandler>::Answer>>;

async fn run<W: BatchHandler>(mut handler: W, mut jobs: Jobs<W>) {
    // `waiting` are the jobs that were received, `taken` are those that form the next batch.
    let (mut waiting, mut taken) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    let mut last = Turn::Alone;
    let mut deferred = Deferred::default();
    let mut answers = Answers::default();
    loop {
        let next = async {
            let maintained = within(AssertUnwindSafe(handler.maintain()).catch_unwind(), &mut jobs, || {
                deferred.refuse();
                waiting.drain(..).for_each(Job::refuse);
            });
            if maintained.await.is_err() {
                restart(&mut handler);
            }
            if waiting.is_empty() {
                if !deferred.receive(&mut jobs, &mut waiting).await {
                    return None;
                }
            } else if waiting.len() < BATCH {
                // Some operations are left over from the last batch. Receives the operations that have arrived since,
                // without waiting for more.
                let _ = deferred.receive(&mut jobs, &mut waiting).now_or_never();
            }
            last = take::<W>(&mut waiting, &mut taken, last);
            let refuse = || {
                deferred.refuse();
                waiting.drain(..).for_each(Job::refuse);
            };
            Some(commit(&mut handler, &mut taken, &mut jobs, refuse).await)
        };
        // The order matters. The commit of the next batch must begin before the callers of the last batch are woken,
        // because these callers all compete for the processor.
        let (next, ()) = join(pin!(next), async { drop(answers) }).await;
        let Some((next, left)) = next else { break };
        answers = next;
        deferred.put(left);
    }
    handler.finish().await;
}

/// The kind of a batch. The two kinds take turns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Operations that share a commit.
    Shared,
    /// One operation in a batch of its own.
    Alone,
}

/// Moves the operations of the next batch from `from` into `into`. Batches of operations that share a commit alternate
/// with [single](BatchHandler::is_alone) operations, so that neither kind waits long for the other. `last` is the kind
/// of the last batch. Returns the kind of the next batch.
fn take<W: BatchHandler>(
    from: &mut Vec<Job<W::Operation, W::Answer>>,
    into: &mut Vec<Job<W::Operation, W::Answer>>,
    last: Turn,
) -> Turn {
    let alone = from.iter().position(|job| W::is_alone(&job.operation));
    let are_shared = alone.is_none() || from.iter().any(|job| !W::is_alone(&job.operation));
    match alone {
        Some(place) if last == Turn::Shared || !are_shared => {
            into.push(from.remove(place));
            Turn::Alone
        }
        _ => {
            let mut room = BATCH;
            into.extend(from.extract_if(.., |job| {
                let is_taken = room > 0 && !W::is_alone(&job.operation);
                room -= usize::from(is_taken);
                is_taken
            }));
            Turn::Shared
        }
    }
}

/// Runs `work`. If it takes longer than [`STALLED`], calls `refuse` to refuse the waiting callers, and refuses every
/// new caller until `work` is done.
async fn within<T, O, A>(
    work: impl Future<Output = T>,
    jobs: &mut mpsc::Receiver<Job<O, A>>,
    refuse: impl FnOnce(),
) -> T {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = sleep(STALLED) => {}
    }
    tracing::error!("the database does not answer: requests are refused until it does");
    refuse();
    let mut open = true;
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            job = jobs.recv(), if open => match job {
                // `send` fails if the caller has stopped waiting.
                Some(job) => drop(job.caller.send(Err(silent()))),
                None => open = false,
            },
        }
    };
    tracing::info!("the database answers again");
    done
}

fn silent() -> StoreError {
    StoreError::unavailable("the database does not answer")
}

/// Returns the error for an operation that was given to the handler and got no answer.
fn unanswered(writes: bool) -> StoreError {
    if writes { StoreError::Unknown { source: None } } else { silent() }
}

/// Restarts a handler that panicked.
fn restart(handler: &mut impl BatchHandler) {
    tracing::error!("a writer or reader of the store panicked, and starts anew");
    handler.restart();
}

/// Callers and their answers. Dropping the value sends the answers, so that committed operations are answered even if
/// the handler panics during the next batch.
struct Answers<A>(Vec<(Caller<A>, Result<A, StoreError>)>);

impl<A> Default for Answers<A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<A> Drop for Answers<A> {
    fn drop(&mut self) {
        for (caller, answer) in self.0.drain(..) {
            // `send` fails if the caller has stopped waiting. The operation was committed nevertheless.
            let _ = caller.send(answer);
        }
    }
}

/// Commits a batch. Returns its answers, and the jobs to defer because another transaction has locked what they need.
/// If the database does not answer in time, refuses all callers.
#[cfg_attr(feature = "spans", tracing::instrument(name = "commit", skip_all, fields(operations = taken.len())))]
async fn commit<W: BatchHandler>(
    handler: &mut W,
    taken: &mut Vec<Job<W::Operation, W::Answer>>,
    jobs: &mut Jobs<W>,
    refuse_others: impl FnOnce(),
) -> Committed<W> {
    let (operations, waiting, started) = (taken.len(), jobs.len(), telemetry::started());
    let batch = Batch::new(taken.drain(..));
    let callers = batch.callers();
    let refuse = || {
        callers.refuse(W::WRITES);
        refuse_others();
    };
    let done = within(batch.commit(handler), jobs, refuse).await;
    if W::WRITES {
        telemetry::committed(operations, waiting, started);
    }
    done
}
