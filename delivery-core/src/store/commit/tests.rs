//! What callers may rely on while the writer is busy, or fails.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::*;

/// Commits a batch each time it is let; panics over one with the cursed operation.
struct Gated {
    gate: Arc<Semaphore>,
}

const CURSED: u32 = 13;

impl Writer for Gated {
    type Operation = u32;
    type Answer = u32;

    async fn commit(&mut self, operations: &[u32]) -> Result<Vec<u32>, StoreError> {
        assert!(!operations.contains(&CURSED), "a fault of the writer's");
        self.gate.acquire().await.unwrap().forget();
        Ok(operations.iter().map(|operation| operation * 10).collect())
    }

    async fn upkeep(&mut self) {}

    async fn finish(self) {}
}

/// Two operations in batches of their own, of which only the first may be committed.
async fn one_after_the_other(first: u32, second: u32) -> (Result<u32, StoreError>, Option<Result<u32, StoreError>>) {
    let gate = Arc::new(Semaphore::new(0));
    let (committer, _end) = Committer::start(Gated { gate: gate.clone() });
    let mut first = pin!(committer.submit(first));
    assert!(first.as_mut().now_or_never().is_none());
    yield_now().await;
    let mut second = pin!(committer.submit(second));
    assert!(second.as_mut().now_or_never().is_none());
    gate.add_permits(1);
    // The clock stands: its time is over at once if nobody has anything to do, and nothing answers it.
    let first = timeout(Duration::from_secs(1), first).await.unwrap();
    (first, second.now_or_never())
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_answered_while_the_next_one_is_committed() {
    let (first, second) = one_after_the_other(1, 2).await;
    assert_eq!(first.unwrap(), 10);
    assert!(second.is_none(), "the second waits for the gate");
}

#[tokio::test(start_paused = true)]
async fn what_is_committed_is_answered_although_the_writer_panics_over_the_next_batch() {
    let (first, second) = one_after_the_other(1, CURSED).await;
    assert_eq!(first.unwrap(), 10);
    assert!(matches!(second, Some(Err(StoreError::Unavailable { .. }))), "nobody waits for a writer that is gone");
}
