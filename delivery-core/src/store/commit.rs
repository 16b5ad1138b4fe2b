//! Group commit: operations that arrive while a transaction syncs to disk share the next one.
//!
//! One task owns the database connection. It takes whatever waits, commits it as one batch, and looks again before it
//! answers: there is no timer, so an operation that comes alone is committed alone and at once, and a thousand that come
//! together share a few syncs. An operation that was handed over completes even if its caller goes away.
//!
//! Two things may keep a batch from ending. A row that somebody else holds: the operations on it are put aside, and
//! submitted again a little later, so that nobody waits for them. A database or disk that does not answer: all callers are
//! refused after [`STALLED`], and so is everybody who comes, until it answers.

mod aside;
mod batch;
#[cfg(all(test, shuttle))]
mod interleaved;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::join;
use tokio::time::Instant;

use self::aside::Aside;
use self::batch::Batch;
use super::StoreError;
use crate::sync::task::{mpsc, oneshot, sleep, spawn};

/// Operations that may wait for a commit; more are refused, since they would wait for seconds.
const QUEUE: usize = 16 * 1024;
/// Operations in one commit: large enough to share a sync among every caller, small enough to answer within
/// milliseconds.
pub(super) const BATCH: usize = 1024;
/// How long a database may take over a batch, or over its maintenance, before callers are refused.
pub(super) const STALLED: Duration = Duration::from_secs(5);
/// What a batch is written with. Owned by the committer's task alone.
pub(super) trait Writer: Send + 'static {
    /// An operation, as data.
    type Operation: Send + 'static;
    /// What an operation came to.
    type Answer: Send + 'static;

    /// Commits `operations` in their order as one transaction. Returns one entry per operation: its answer, or `None` if it
    /// was not applied and must be submitted again, which happens a few times at most. On an error nothing has happened.
    ///
    /// `again`: the operations met a lock before, and are worth waiting for only for a moment.
    fn commit(
        &mut self,
        operations: &[Self::Operation],
        again: bool,
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, StoreError>> + Send;

    /// Whether somebody else is known to hold what the operation needs: it is put aside then. What was put aside before,
    /// `again`, is tried unless that is certain. A database without other writers never holds anything.
    fn is_held(&self, operation: &Self::Operation, again: bool) -> bool;

    /// Learns that this operation met a lock although it was alone.
    fn hold(&mut self, operation: &Self::Operation);

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
    /// When it was first put aside.
    since: Option<Instant>,
}

impl<O, A> Job<O, A> {
    /// The database does not answer.
    fn refuse(self) {
        // Nobody may be waiting any more.
        drop(self.caller.send(Err(silent())));
    }
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
        self.queue.try_send(Job { operation, caller, since: None }).map_err(|refused| match refused {
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

type Jobs<W> = mpsc::Receiver<Job<<W as Writer>::Operation, <W as Writer>::Answer>>;

async fn run<W: Writer>(mut writer: W, mut jobs: Jobs<W>) {
    let mut taken = Vec::with_capacity(BATCH);
    let mut aside = Aside::default();
    let mut answers = Answers::default();
    loop {
        let next = async {
            within(writer.upkeep(), &mut jobs, || aside.refuse()).await;
            let some = aside.receive(&mut jobs, &mut taken).await;
            if some { Some(commit(&mut writer, &mut taken, &mut jobs, &mut aside).await) } else { None }
        };
        // In this order: the next batch is on its way to the disk before the callers of the last one are woken, all of whom
        // want the processor at once.
        let (next, ()) = join(next, async { drop(answers) }).await;
        let Some((next, left)) = next else { break };
        answers = next;
        aside.put(left);
    }
    writer.finish().await;
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

/// Commits a batch, and answers what was put aside of it. A database that does not answer has its callers refused.
async fn commit<W: Writer>(
    writer: &mut W,
    taken: &mut Vec<Job<W::Operation, W::Answer>>,
    jobs: &mut Jobs<W>,
    aside: &mut Aside<W::Operation, W::Answer>,
) -> (Answers<W::Answer>, Vec<Job<W::Operation, W::Answer>>) {
    let batch = Batch::new(taken.drain(..));
    let callers = batch.callers();
    let refuse = || {
        callers.refuse();
        aside.refuse();
    };
    within(batch.commit(writer), jobs, refuse).await
}
