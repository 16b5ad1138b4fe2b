//! Group commit: operations that arrive while a transaction syncs to disk share the next one.
//!
//! One task owns the database connection. It takes whatever waits, commits it as one batch, and looks again before it
//! answers: there is no timer, so an operation that comes alone is committed alone and at once, and a thousand that come
//! together share a few syncs. An operation that was handed over completes even if its caller goes away.

#[cfg(all(test, shuttle))]
mod interleaved;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;

use std::future::Future;

use futures_util::future::join;

use super::StoreError;
use crate::sync::task::{mpsc, oneshot, receive, spawn};

/// Operations that may wait for a commit; more are refused, since they would wait for seconds.
const QUEUE: usize = 16 * 1024;
/// Operations in one commit: large enough to share a sync among every caller, small enough to answer within
/// milliseconds.
pub(super) const BATCH: usize = 1024;

/// What a batch is written with. Owned by the committer's task alone.
pub(super) trait Writer: Send + 'static {
    /// An operation, as data.
    type Operation: Send + 'static;
    /// What an operation came to.
    type Answer: Send + 'static;

    /// Commits `operations` in their order as one transaction, and answers each, or leaves it: that has not happened, and comes
    /// again at once, until it is answered after a few times at most. On an error nothing has happened.
    fn commit(
        &mut self,
        operations: &[Self::Operation],
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, StoreError>> + Send;

    /// Called before each batch is taken, and so after each: upkeep that must not race with a commit.
    fn upkeep(&mut self) -> impl Future<Output = ()> + Send;

    /// Called once, after the last batch.
    fn finish(self) -> impl Future<Output = ()> + Send;
}

/// The way to the committer's task. When the last one is dropped, what waits is committed and the task ends.
#[derive(Debug)]
pub(super) struct Committer<O, A> {
    queue: mpsc::Sender<Job<O, A>>,
}

#[derive(Debug)]
struct Job<O, A> {
    operation: O,
    caller: Caller<A>,
}

/// Who waits for an answer.
type Caller<A> = oneshot::Sender<Result<A, StoreError>>;

impl<O: Send + 'static, A: Send + 'static> Committer<O, A> {
    /// Starts the task; the receiver resolves when it has ended.
    pub(super) fn start(writer: impl Writer<Operation = O, Answer = A>) -> (Self, oneshot::Receiver<()>) {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let (ended, end) = oneshot::channel();
        spawn(async move {
            run(writer, jobs).await;
            // Nobody may be waiting for the end.
            let _ = ended.send(());
        });
        (Self { queue }, end)
    }

    /// Hands `operation` over and waits for its commit.
    pub(super) async fn submit(&self, operation: O) -> Result<A, StoreError> {
        let (caller, committed) = oneshot::channel();
        self.queue.try_send(Job { operation, caller }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => StoreError::unavailable("too many operations wait for the database"),
            mpsc::error::TrySendError::Closed(_) => StoreError::unavailable("closed"),
        })?;
        committed.await.unwrap_or_else(|_| Err(StoreError::unavailable("the writer stopped")))
    }
}

impl<O, A> Clone for Committer<O, A> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

async fn run<W: Writer>(mut writer: W, mut jobs: mpsc::Receiver<Job<W::Operation, W::Answer>>) {
    let mut taken = Vec::with_capacity(BATCH);
    let mut answers = Answers::default();
    loop {
        let next = async {
            writer.upkeep().await;
            let some = receive(&mut jobs, &mut taken, BATCH).await > 0;
            if some { Some(commit(&mut writer, taken.drain(..)).await) } else { None }
        };
        // In this order: the next batch is on its way to the disk before the callers of the last one are woken, all of whom
        // want the processor at once.
        let (next, ()) = join(next, async { drop(answers) }).await;
        let Some(next) = next else { break };
        answers = next;
    }
    writer.finish().await;
}

/// Who asked, and what it came to. Given when it is dropped: what is committed is answered even if the writer panics over
/// what comes next.
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

/// Commits a batch: in more than one go, if the writer leaves some of it. One operation that the database refuses must not
/// take its neighbours down: then each half is tried alone.
async fn commit<W: Writer>(
    writer: &mut W,
    jobs: impl Iterator<Item = Job<W::Operation, W::Answer>>,
) -> Answers<W::Answer> {
    let (operations, callers): (Vec<_>, Vec<_>) = jobs.map(|job| (job.operation, job.caller)).unzip();
    let mut answers = Answers::default();
    let mut pending = vec![(operations, callers)];
    while let Some((mut operations, mut callers)) = pending.pop() {
        // Of what was committed before.
        drop(std::mem::take(&mut answers));
        match writer.commit(&operations).await {
            Ok(done) => {
                let (mut left, mut waiting) = (Vec::new(), Vec::new());
                for ((operation, caller), answer) in operations.into_iter().zip(callers).zip(done) {
                    if let Some(answer) = answer {
                        answers.0.push((caller, Ok(answer)));
                    } else {
                        left.push(operation);
                        waiting.push(caller);
                    }
                }
                if !left.is_empty() {
                    pending.push((left, waiting));
                }
            }
            Err(StoreError::Corrupt { .. }) if operations.len() > 1 => {
                let half = operations.len() / 2;
                pending.push((operations.split_off(half), callers.split_off(half)));
                pending.push((operations, callers));
            }
            Err(error) => {
                // A database that is away refuses the other halves too.
                let away = !matches!(error, StoreError::Corrupt { .. });
                let others = away.then(|| std::mem::take(&mut pending)).into_iter().flatten();
                let refused = callers.into_iter().chain(others.flat_map(|(_, callers)| callers));
                answers.0.extend(refused.map(|caller| (caller, Err(error.clone()))));
            }
        }
    }
    answers
}
