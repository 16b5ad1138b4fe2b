//! Operations on rows that another transaction has locked: deferred, so that no other operation waits for the lock.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::{BATCH, Job};
use crate::store::StoreError;
use crate::sync::task::{mpsc, now, receive, sleep};

/// How long a deferred operation rests before it is submitted again.
const REST: Duration = Duration::from_millis(20);
/// How long an operation is deferred for, all in all.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Deferred<O, A> {
    jobs: Vec<Job<O, A>>,
    /// Resolves when they have rested; set while there are some.
    rested: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<O, A> Default for Deferred<O, A> {
    fn default() -> Self {
        Self { jobs: Vec::new(), rested: None }
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
        if !self.jobs.is_empty() && self.rested.is_none() {
            self.rested = Some(Box::pin(sleep(REST)));
        }
    }

    /// Refuses all of them: the database does not answer anybody.
    pub(super) fn refuse(&mut self) {
        self.rested = None;
        self.jobs.drain(..).for_each(Job::refuse);
    }

    /// Takes what has come, and what has rested; false once nothing will come any more.
    pub(super) async fn receive(&mut self, from: &mut mpsc::Receiver<Job<O, A>>, into: &mut Vec<Job<O, A>>) -> bool {
        let Some(rested) = &mut self.rested else { return receive(from, into, BATCH).await > 0 };
        tokio::select! {
            biased;
            () = rested.as_mut() => {
                self.rested = None;
                into.append(&mut self.jobs);
                true
            }
            some = receive(from, into, BATCH) => {
                if some == 0 {
                    // Nobody else will come.
                    rested.as_mut().await;
                    self.rested = None;
                    into.append(&mut self.jobs);
                }
                true
            }
        }
    }
}
