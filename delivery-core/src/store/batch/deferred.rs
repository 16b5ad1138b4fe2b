//! Operations on rows that another transaction has locked. Such operations are deferred, so that no other operation has
//! to wait until the rows are unlocked.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::{BATCH, Job};
use crate::store::StoreError;
use crate::sync::task::{mpsc, now, receive, sleep};

/// How long the first of the deferred operations waits before it is tried again. All deferred operations are tried at
/// the same time, so an operation that is deferred later waits less.
const RETRY_DELAY: Duration = Duration::from_millis(20);
/// How long an operation may be deferred in total. After that, its caller gets [`StoreError::Conflict`].
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Deferred<O, A> {
    jobs: Vec<Job<O, A>>,
    /// Resolves when the deferred operations are due; `None` while no operation is deferred.
    due: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<O, A> Default for Deferred<O, A> {
    fn default() -> Self {
        Self { jobs: Vec::new(), due: None }
    }
}

impl<O, A> Deferred<O, A> {
    /// Defers operations. Refuses operations that were first deferred at least [`PATIENCE`] ago.
    pub(super) fn put(&mut self, jobs: Vec<Job<O, A>>) {
        let now = now();
        for job in jobs {
            let since = job.since.unwrap_or(now);
            if now.duration_since(since) < PATIENCE {
                self.jobs.push(Job { since: Some(since), ..job });
            } else {
                // `send` fails if the caller has stopped waiting.
                drop(job.caller.send(Err(StoreError::Conflict { source: None })));
            }
        }
        if !self.jobs.is_empty() && self.due.is_none() {
            self.due = Some(Box::pin(sleep(RETRY_DELAY)));
        }
    }

    /// Refuses all deferred operations, because the database does not answer.
    pub(super) fn refuse(&mut self) {
        self.due = None;
        self.jobs.drain(..).for_each(Job::refuse);
    }

    /// Waits until new operations arrive or the deferred operations are due, and appends these operations to `into`.
    /// Returns false once the queue is closed and nothing is deferred.
    pub(super) async fn receive(&mut self, from: &mut mpsc::Receiver<Job<O, A>>, into: &mut Vec<Job<O, A>>) -> bool {
        let Some(due) = &mut self.due else { return receive(from, into, BATCH).await > 0 };
        tokio::select! {
            biased;
            () = due.as_mut() => {
                self.due = None;
                into.append(&mut self.jobs);
                true
            }
            some = receive(from, into, BATCH) => {
                if some == 0 {
                    // The queue is closed, so only the deferred operations remain.
                    due.as_mut().await;
                    self.due = None;
                    into.append(&mut self.jobs);
                }
                true
            }
        }
    }
}
