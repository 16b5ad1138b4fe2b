//! Group commit: operations that arrive while a transaction syncs to disk share the next one.
//!
//! One task owns the database connection. It takes whatever waits, commits it as one batch, answers, and looks again:
//! there is no timer, so an operation that comes alone is committed alone and at once, and a thousand that come together
//! share a few syncs. An operation that was handed over completes even if its caller goes away.

#[cfg(all(test, shuttle))]
mod interleaved;

use std::future::Future;

use super::StoreError;
use crate::sync::task::{mpsc, oneshot, receive, spawn, yield_now};

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

    /// Commits `operations` in their order as one transaction; one answer each. On an error nothing has happened.
    fn commit(
        &mut self,
        operations: &[Self::Operation],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, StoreError>> + Send;

    /// Called after each batch, before the next one is taken: upkeep that must not race with a commit.
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
    answer: oneshot::Sender<Result<A, StoreError>>,
}

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
        let (answer, committed) = oneshot::channel();
        self.queue.try_send(Job { operation, answer }).map_err(|refused| match refused {
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
    let mut waiting = Vec::with_capacity(BATCH);
    while receive(&mut jobs, &mut waiting, BATCH).await > 0 {
        if waiting.len() > 1 {
            // Among many, those that are ready to ask are let in first: a fuller batch costs each of them less.
            yield_now().await;
            while waiting.len() < BATCH
                && let Ok(job) = jobs.try_recv()
            {
                waiting.push(job);
            }
        }
        let (operations, callers): (Vec<_>, Vec<_>) = waiting.drain(..).map(|job| (job.operation, job.answer)).unzip();
        let mut pending = vec![(operations, callers)];
        while let Some((mut operations, mut callers)) = pending.pop() {
            match writer.commit(&operations).await {
                Ok(answers) => answer(callers, answers.into_iter().map(Ok)),
                // One operation that the database refuses must not take its neighbours down: each half is tried alone.
                Err(StoreError::Corrupt { .. }) if operations.len() > 1 => {
                    let half = operations.len() / 2;
                    pending.push((operations.split_off(half), callers.split_off(half)));
                    pending.push((operations, callers));
                }
                Err(error @ StoreError::Corrupt { .. }) => refuse(callers, &error),
                // A database that is away refuses the other halves too.
                Err(error) => {
                    let others = pending.drain(..).flat_map(|(_, callers)| callers);
                    refuse(callers.into_iter().chain(others), &error);
                }
            }
        }
        writer.upkeep().await;
    }
    writer.finish().await;
}

fn refuse<A>(callers: impl IntoIterator<Item = oneshot::Sender<Result<A, StoreError>>>, error: &StoreError) {
    callers.into_iter().for_each(|caller| answer([caller], [Err(error.clone())]));
}

fn answer<A>(
    callers: impl IntoIterator<Item = oneshot::Sender<Result<A, StoreError>>>,
    answers: impl IntoIterator<Item = Result<A, StoreError>>,
) {
    for (caller, answer) in callers.into_iter().zip(answers) {
        // A caller that went away has its operation done all the same.
        let _ = caller.send(answer);
    }
}
