//! Operations on rows that another transaction has locked: deferred, so that no other operation waits for the lock.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::{BATCH, Job};
use crate::store::StoreError;
use crate::sync::task::{mpsc, now, receive, sleep};

/// How long a deferred operation rests before it is submitted again.
const RETRY_DELAY: Duration = Duration::from_millis(20);
/// How long an operation is deferred for, all in all.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Deferred<O, A> {
    jobs: Vec<Job<O, A>>,
    /// Resolves when they are due; set while there are some.
    due: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<O, A> Default for Deferred<O, A> {
    fn default() -> Self {
        Self { jobs: Vec::new(), due: None }
    }
}

impl<O, A> Deferred<O, A> {
    /// Defers operations; those that were deferred for too long are refused.
    pub(super) fn put(&mut self, jobs: Vec<Job<O, A>>) {
        let now = now();
        for job in jobs {
            let since = job.since.unwrap_or(now);
            if now.duration_since(since) < PATIENCE {
                self.jobs.push(Job { since: Some(since), ..job });
            } else {
                // Nobody may be waiting any more.
                drop(job.caller.send(Err(StoreError::Conflict { source: None })));
            }
        }
        if !self.jobs.is_empty() && self.due.is_none() {
            self.due = Some(Box::pin(sleep(RETRY_DELAY)));
        }
    }

    /// Refuses all of them: the database does not answer anybody.
    pub(super) fn refuse(&mut self) {
        self.due = None;
        self.jobs.drain(..).for_each(Job::refuse);
    }

    /// Takes what has come, and what is due; false once nothing will come any more.
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
                    // Nobody else will come.
                    due.as_mut().await;
                    self.due = None;
                    into.append(&mut self.jobs);
                }
                true
            }
        }
    }
}
