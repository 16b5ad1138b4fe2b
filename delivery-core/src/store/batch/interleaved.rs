//! Tests of the queue under a random scheduler, which runs the callers and the queue's task in many different orders.
//! One of the callers is aborted.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use shuttle_tokio::task::JoinHandle;

use super::*;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, interleave};

/// A handler that records which operations it committed. If a batch contains the operation [`CURSED`], it refuses the
/// whole batch, as a transaction fails if one of its operations fails. The first time that a batch contains the
/// operation [`SHY`], it leaves this operation uncommitted.
struct Notes {
    left: bool,
    committed: Arc<Mutex<Vec<u32>>>,
    ended: Arc<Mutex<bool>>,
}

const CURSED: u32 = 3;
const SHY: u32 = 2;

impl BatchHandler for Notes {
    type Operation = u32;
    type Answer = u32;

    const WRITES: bool = true;

    async fn commit(&mut self, operations: &[u32], _: Attempt, _: bool) -> Result<Vec<Option<u32>>, StoreError> {
        shuttle::future::yield_now().await;
        if operations.contains(&CURSED) {
            return Err(StoreError::corrupt("cursed"));
        }
        let leaves = operations.contains(&SHY) && !std::mem::replace(&mut self.left, true);
        let done = |operation: &&u32| !(leaves && **operation == SHY);
        self.committed.lock().unwrap().extend(operations.iter().filter(done));
        Ok(operations.iter().map(|operation| done(&operation).then_some(operation * 10)).collect())
    }

    async fn maintain(&mut self) {
        shuttle::future::yield_now().await;
    }

    async fn finish(self) {
        *self.ended.lock().unwrap() = true;
    }
}

#[test]
fn each_operation_is_committed_once_and_answered_to_who_asked() {
    interleave(20_000, || shuttle::future::block_on(hand_over()));
}

async fn hand_over() {
    let (committed, ended) = (Arc::<Mutex<Vec<u32>>>::default(), Arc::<Mutex<bool>>::default());
    let (queue, end) = BatchQueue::start(Notes { left: false, committed: committed.clone(), ended: ended.clone() });
    let handed_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<JoinHandle<Result<u32, StoreError>>> = (0..5)
        .map(|operation| {
            let (queue, handed_over) = (queue.clone(), handed_over.clone());
            spawn(async move {
                let mut submitted = pin!(queue.submit(operation));
                let first = poll_fn(|context| Poll::Ready(submitted.as_mut().poll(context))).await;
                if operation == 0 {
                    handed_over.store(true, Ordering::SeqCst);
                }
                match first {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => submitted.await,
                }
            })
        })
        .collect();
    drop(queue);
    // Aborts caller 0. Depending on the schedule, this happens before the caller submits its operation, while the
    // caller waits, or after the caller got its answer.
    callers[0].abort();
    let mut answered = Vec::new();
    for (operation, caller) in (0..).zip(callers) {
        match caller.await {
            Ok(Ok(answer)) => {
                assert_eq!(answer, operation * 10, "everyone gets the answer to what they asked");
                answered.push(operation);
            }
            Ok(Err(error)) => assert!(operation == CURSED, "{operation}: {error}"),
            Err(_) => assert_eq!(operation, 0, "only who hung up gets no answer"),
        }
    }
    end.await.unwrap();
    assert!(*ended.lock().unwrap());
    let mut committed = committed.lock().unwrap().clone();
    committed.sort_unstable();
    let all: &[u32] = if committed.contains(&0) { &[0, 1, 2, 4] } else { &[1, 2, 4] };
    assert_eq!(committed, all, "each once, and the cursed one takes no other down");
    let handed_over = handed_over.load(Ordering::SeqCst);
    assert!(!handed_over || committed.contains(&0), "what was handed over is committed, whoever hangs up");
    assert!(answered.iter().all(|operation| committed.contains(operation)), "what was answered was committed");
}
