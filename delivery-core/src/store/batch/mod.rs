//! Group commit: operations that arrive while a transaction syncs to disk share the next one.
//!
//! One task owns the [`BatchHandler`], which owns the database connection. The task takes whatever waits, has it committed as
//! one batch, and takes the next batch before it wakes the callers of the last. There is no timer: an operation that comes
//! alone is committed alone and at once, and a thousand that come together share a few syncs. An operation that was handed
//! over completes even if its caller goes away.
//!
//! Two things can delay a batch. A row may be locked by another transaction: the operations that need it are deferred and
//! tried again a little later, so that other operations do not wait until it is released. And a database or disk may not answer: then
//! all callers get an error after [`STALLED`], and so does every new one until it answers. An operation that was under way
//! may have been applied: its caller gets [`StoreError::Unknown`]. So does the caller of an operation over which the handler
//! panics; the handler then starts anew.

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

/// Operations that may wait for a commit; more are refused, since they would wait for seconds.
const QUEUE: usize = 16 * 1024;
/// Operations in one commit: large enough to share a sync among every caller, small enough to answer within
/// milliseconds.
pub(super) const BATCH: usize = 1024;
/// How long a database may take over a batch, or over its maintenance, before callers are refused.
pub(super) const STALLED: Duration = Duration::from_secs(5);

/// Commits batches. Owned by the queue's task alone.
pub(super) trait BatchHandler: Send + 'static {
    /// An operation, as data.
    type Operation: Send + 'static;
    /// What an operation came to.
    type Answer: Send + 'static;
    /// Whether operations write: of those that a database does not answer, nobody knows whether they happened.
    const WRITES: bool;

    /// Whether the operation is a batch by itself: one that may take as long as a batch may.
    fn is_alone(_: &Self::Operation) -> bool {
        false
    }

    /// Commits `operations` in their order. Returns one entry per operation: its answer, or `None` if it was not applied and
    /// must be submitted again, as the next [`Attempt`]. On an error no operation was applied, unless it is
    /// [`StoreError::Unknown`].
    ///
    /// `after_lock`: a lock was met before, and another one is worth waiting for only for a moment.
    fn commit(
        &mut self,
        operations: &[Self::Operation],
        attempt: Attempt,
        after_lock: bool,
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, StoreError>> + Send;

    /// Whether another transaction is known to hold what the operation needs: the operation is then deferred. One that was
    /// deferred before, `after_lock`, is tried unless the lock is certain. A database without other writers never holds
    /// anything.
    fn is_locked(&self, operation: &Self::Operation, after_lock: bool) -> bool;

    /// Learns that this operation met a lock although it was alone.
    fn met_lock(&mut self, operation: &Self::Operation);

    /// Called before each batch is taken, and so after each: maintenance that must not race with a commit.
    fn maintain(&mut self) -> impl Future<Output = ()> + Send;

    /// Called after it panicked: it begins anew, from what the database has. One that takes out what it works with has nothing to
    /// forget.
    fn restart(&mut self) {}

    /// Called once, after the last batch.
    fn finish(self) -> impl Future<Output = ()> + Send;
}

/// The sending end of the queue. When the last one is dropped, what waits is committed and the task ends.
#[derive(Debug)]
pub(super) struct BatchQueue<O, A> {
    queue: mpsc::Sender<Job<O, A>>,
    /// [`BatchHandler::WRITES`].
    writes: bool,
}

#[derive(Debug)]
struct Job<O, A> {
    operation: O,
    caller: Caller<A>,
    /// When it was first deferred.
    since: Option<Instant>,
}

impl<O, A> Job<O, A> {
    /// Refuses the operation: the database does not answer.
    fn refuse(self) {
        // Nobody may be waiting any more.
        drop(self.caller.send(Err(silent())));
    }
}

/// Who waits for an answer.
type Caller<A> = oneshot::Sender<Result<A, StoreError>>;

impl<O: Send + 'static, A: Send + 'static> BatchQueue<O, A> {
    /// Starts the task; the receiver resolves when it has ended.
    pub(super) fn start<H>(handler: H) -> (Self, oneshot::Receiver<()>)
    where
        H: BatchHandler<Operation = O, Answer = A>,
    {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let (ended, end) = oneshot::channel();
        spawn(async move {
            run(handler, jobs).await;
            // Nobody may be waiting for the end.
            let _ = ended.send(());
        });
        (Self { queue, writes: H::WRITES }, end)
    }

    /// Hands `operation` over and waits for its commit.
    pub(super) async fn submit(&self, operation: O) -> Result<A, StoreError> {
        let (caller, committed) = oneshot::channel();
        self.queue.try_send(Job { operation, caller, since: None }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => StoreError::unavailable("too many operations wait for the database"),
            mpsc::error::TrySendError::Closed(_) => StoreError::unavailable("closed"),
        })?;
        // Without an answer the task has ended, and nobody knows how far it came.
        committed.await.unwrap_or_else(|_| Err(unanswered(self.writes)))
    }
}

impl<O, A> Clone for BatchQueue<O, A> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), writes: self.writes }
    }
}

/// What was answered, and what is deferred.
type Committed<W> =
    (Answers<<W as BatchHandler>::Answer>, Vec<Job<<W as BatchHandler>::Operation, <W as BatchHandler>::Answer>>);

type Jobs<W> = mpsc::Receiver<Job<<W as BatchHandler>::Operation, <W as BatchHandler>::Answer>>;

async fn run<W: BatchHandler>(mut handler: W, mut jobs: Jobs<W>) {
    // What has come, and what of it is the next batch.
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
                // Nobody waits for all of those that are a batch each.
                let _ = deferred.receive(&mut jobs, &mut waiting).now_or_never();
            }
            last = take::<W>(&mut waiting, &mut taken, last);
            let refuse = || {
                deferred.refuse();
                waiting.drain(..).for_each(Job::refuse);
            };
            Some(commit(&mut handler, &mut taken, &mut jobs, refuse).await)
        };
        // In this order: the next batch is on its way to the disk before the callers of the last one are woken, all of whom
        // want the processor at once.
        let (next, ()) = join(next, async { drop(answers) }).await;
        let Some((next, left)) = next else { break };
        answers = next;
        deferred.put(left);
    }
    handler.finish().await;
}

/// Who had the last turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Operations that shared a commit.
    Shared,
    /// One that was a batch by itself.
    Alone,
}

/// Takes a batch: in turn what shares a commit, and one operation that does not.
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

/// Does `work`. When it takes too long, `refuse` refuses who waits for it, and whoever comes meanwhile is refused too.
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
    tracing::error!("the database does not answer: whoever asks is refused until it does");
    refuse();
    let mut open = true;
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            job = jobs.recv(), if open => match job {
                // Nobody may be waiting any more.
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

/// What becomes of an operation whose handler was asked and has not answered.
fn unanswered(writes: bool) -> StoreError {
    if writes { StoreError::Unknown { source: None } } else { silent() }
}

/// Has a handler that panicked begin anew.
fn restart(handler: &mut impl BatchHandler) {
    tracing::error!("a writer or reader of the store panicked, and starts anew");
    handler.restart();
}

/// Callers and their answers, given on drop: what is committed is answered even if the handler panics over the next batch.
struct Answers<A>(Vec<(Caller<A>, Result<A, StoreError>)>);

impl<A> Default for Answers<A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<A> Drop for Answers<A> {
    fn drop(&mut self) {
        for (caller, answer) in self.0.drain(..) {
            // A caller that went away has its operation done all the same.
            let _ = caller.send(answer);
        }
    }
}

/// Commits a batch, and returns its answers and what is to be deferred of it. A database that does not answer has its callers refused.
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
