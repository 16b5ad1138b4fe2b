//! Tests of what callers can rely on while the writer is busy or fails.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::*;

/// A handler that commits one batch for each permit of the semaphore `gate`. Some operations have special effects:
///
/// * [`SHY`] is left uncommitted if it is in the first batch that is committed.
/// * [`CURSED`] makes the handler panic before the commit of its batch, [`DOOMED`] after the commit. From then on the
///   handler panics at each batch, until it is restarted.
/// * [`LOCKED`] makes the commit of its batch fail with a conflict for as long as `held` is true.
/// * [`ALONE`] must be committed as a batch of its own.
struct Gated {
    gate: Arc<Semaphore>,
    left: bool,
    held: Arc<AtomicBool>,
    is_broken: bool,
}

const CURSED: u32 = 13;
const DOOMED: u32 = 23;
const SHY: u32 = 7;
const LOCKED: u32 = 17;
const ALONE: u32 = 19;

impl Gated {
    fn start() -> (Arc<Semaphore>, BatchQueue<u32, u32>) {
        let (gate, _, queue) = Self::start_locked(false);
        (gate, queue)
    }

    fn start_locked(held: bool) -> (Arc<Semaphore>, Arc<AtomicBool>, BatchQueue<u32, u32>) {
        let (gate, held) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(held)));
        let (queue, _end) =
            BatchQueue::start(Self { gate: gate.clone(), left: false, held: held.clone(), is_broken: false });
        (gate, held, queue)
    }
}

impl BatchHandler for Gated {
    type Operation = u32;
    type Answer = u32;

    const WRITES: bool = true;

    fn is_alone(operation: &u32) -> bool {
        *operation == ALONE
    }

    async fn commit(&mut self, operations: &[u32], _: Attempt, _: bool) -> Result<Vec<Option<u32>>, StoreError> {
        assert!(!operations.contains(&ALONE) || operations.len() == 1, "{operations:?}");
        assert!(!self.is_broken, "it has to start anew");
        self.is_broken = operations.iter().any(|operation| [CURSED, DOOMED].contains(operation));
        assert!(!operations.contains(&CURSED), "a fault of the writer's");
        assert!(operations.len() <= BATCH, "{} operations in one transaction", operations.len());
        self.gate.acquire().await.unwrap().forget();
        assert!(!operations.contains(&DOOMED), "a fault after the commit");
        if operations.contains(&LOCKED) && self.held.load(Ordering::Relaxed) {
            return Err(StoreError::Conflict { source: None });
        }
        let left = std::mem::replace(&mut self.left, true);
        Ok(operations.iter().map(|operation| (left || *operation != SHY).then_some(operation * 10)).collect())
    }

    fn restart(&mut self) {
        self.is_broken = false;
    }
}

/// Submits two operations in separate batches and lets only the first batch be committed. Returns the answer of the
/// first operation, and that of the second one if it already has an answer.
async fn one_after_the_other(first: u32, second: u32) -> (Result<u32, StoreError>, Option<Result<u32, StoreError>>) {
    let (gate, queue) = Gated::start();
    let mut first = pin!(queue.submit(first));
    assert!(first.as_mut().now_or_never().is_none());
    yield_now().await;
    let mut second = pin!(queue.submit(second));
    assert!(second.as_mut().now_or_never().is_none());
    gate.add_permits(1);
    // Tokio's clock is paused. If no task can make progress, the clock jumps to the end of the timeout.
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
    assert!(matches!(second, Some(Err(StoreError::Unknown { .. }))), "nobody waits for a writer that is gone");
}

#[tokio::test(start_paused = true)]
async fn nobody_knows_what_a_writer_that_panicked_has_done_and_it_starts_anew() {
    for fault in [CURSED, DOOMED] {
        let (gate, queue) = Gated::start();
        gate.add_permits(2);
        let (one, other) = join(queue.submit(1), queue.submit(fault)).await;
        for answer in [one, other] {
            assert!(matches!(answer, Err(StoreError::Unknown { .. })), "{fault}: {answer:?}");
        }
        assert_eq!(queue.submit(2).await.unwrap(), 20);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_writer_leaves_of_a_batch_comes_again_at_once_and_keeps_nobody_waiting() {
    let (gate, queue) = Gated::start();
    let [one, shy, other] = [1, SHY, 2].map(|operation| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.submit(operation).await.unwrap() })
    });
    yield_now().await;
    gate.add_permits(1);
    // Tokio's clock is paused. If no task can make progress, the clock jumps to the end of the timeout.
    let others = timeout(Duration::from_secs(1), join(one, other)).await.unwrap();
    assert_eq!((others.0.unwrap(), others.1.unwrap()), (10, 20));
    assert!(!shy.is_finished(), "it waits for the gate");
    gate.add_permits(1);
    assert_eq!(timeout(Duration::from_secs(1), shy).await.unwrap().unwrap(), 70);
}

#[tokio::test(start_paused = true)]
async fn what_is_a_batch_by_itself_shares_its_time_with_nobody() {
    let (gate, queue) = Gated::start();
    let ask = |operation| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.submit(operation).await.unwrap() })
    };
    let (first, shared, alone) = (ask(0), [ask(1), ask(2)], [ask(ALONE), ask(ALONE), ask(ALONE)]);
    yield_now().await;
    // Each batch takes four seconds. The database may take `STALLED`, five seconds, for a batch. Two batches take
    // longer than that.
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(4)).await;
        gate.add_permits(1);
    }
    assert_eq!(first.await.unwrap(), 0);
    for (asked, answer) in shared.into_iter().zip([10, 20]) {
        assert_eq!(asked.await.unwrap(), answer);
    }
    for asked in alone {
        assert_eq!(asked.await.unwrap(), ALONE * 10);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_a_batch_by_itself_has_its_turn_and_keeps_nobody_waiting_for_another() {
    let (gate, queue) = Gated::start();
    let ask = |operation| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.submit(operation).await.unwrap() })
    };
    let alone = [ask(ALONE), ask(ALONE), ask(ALONE)];
    yield_now().await;
    let shared = ask(1);
    yield_now().await;
    // The expected order: the first of the single operations, then the shared one, which was submitted meanwhile, then
    // the other two single operations.
    for (batches, is_done) in [(1, [true, false, false, false]), (1, [true, true, false, false]), (2, [true; 4])] {
        gate.add_permits(batches);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let done = [&alone[0], &shared, &alone[1], &alone[2]].map(tokio::task::JoinHandle::is_finished);
        assert_eq!(done, is_done);
    }
}

#[tokio::test(start_paused = true)]
async fn a_database_that_does_not_answer_has_everybody_refused_and_its_batch_happens_all_the_same() {
    let (gate, queue) = Gated::start();
    let ask = |operation| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.submit(operation).await })
    };
    let (first, later) = (ask(1), ask(2));
    // The two operations may be in one batch or in two. Tokio's clock is paused, and advances when no task can make
    // progress.
    for asked in [first, later] {
        assert!(matches!(
            timeout(STALLED + Duration::from_secs(1), asked).await.unwrap().unwrap(),
            Err(StoreError::Unknown { .. })
        ));
    }
    // A new caller is refused at once.
    let refused = timeout(Duration::from_millis(1), queue.submit(3)).await.unwrap();
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })));
    gate.add_permits(100);
    yield_now().await;
    assert_eq!(queue.submit(4).await.unwrap(), 40, "it answers again");
}

#[tokio::test(start_paused = true)]
async fn who_needs_what_somebody_else_holds_keeps_nobody_else_waiting() {
    let (gate, held, queue) = Gated::start_locked(true);
    gate.add_permits(10_000);
    let ask = |operation| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.submit(operation).await })
    };
    let together: Vec<_> = [1, LOCKED, 2, LOCKED, 3].map(ask).into();
    for (number, asked) in together.into_iter().enumerate() {
        if number % 2 == 0 {
            asked.await.unwrap().unwrap();
        } else {
            // The first locked operation waits until the lock is released below. The second one already has its answer
            // when the loop reaches it.
            assert_eq!(asked.is_finished(), !held.load(Ordering::Relaxed));
            tokio::time::sleep(Duration::from_secs(1)).await;
            held.store(false, Ordering::Relaxed);
            assert_eq!(asked.await.unwrap().unwrap(), 10 * LOCKED);
        }
    }
    held.store(true, Ordering::Relaxed);
    let refused = timeout(Duration::from_secs(4), ask(LOCKED)).await.unwrap().unwrap();
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "not for ever");
    // An operation that is deferred when the queue is closed is still committed.
    let last = ask(LOCKED);
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(queue);
    held.store(false, Ordering::Relaxed);
    assert_eq!(last.await.unwrap().unwrap(), 10 * LOCKED);
}

/// If several operations of a batch need a lock that another transaction holds, all other operations of the batch are
/// committed without waiting for the lock, wherever in the batch the locked operations are.
#[tokio::test(start_paused = true)]
async fn many_that_came_with_a_locked_one_are_all_committed_while_it_is_locked() {
    for place in [0, 1, 500, 1_020] {
        let (gate, _held, queue) = Gated::start_locked(true);
        gate.add_permits(1_000_000);
        let ask = |operation| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.submit(operation).await })
        };
        let locked = place..place + 5;
        let together: Vec<_> =
            (0..1_024).map(|number| ask(if locked.contains(&number) { LOCKED } else { 100 + number })).collect();
        let answered = async {
            for (number, asked) in (0_u32..).zip(together) {
                if !locked.contains(&number) {
                    assert_eq!(asked.await.unwrap().unwrap(), 10 * (100 + number), "locked at {place}");
                }
            }
        };
        timeout(Duration::from_secs(1), answered).await.unwrap();
    }
}

/// `Batch::commit` returns the answers without sending them. The queue's task sends them once the next batch has begun.
#[tokio::test]
async fn a_batch_keeps_its_answers_until_the_next_one_has_begun() {
    let mut handler = Gated { gate: Arc::new(Semaphore::new(1)), left: false, held: Arc::default(), is_broken: false };
    let (caller, mut answer) = oneshot::channel();
    let batch = Batch::new(std::iter::once(Job { operation: 1, caller, since: None }));
    let (answers, deferred) = batch.commit(&mut handler).await;
    assert!(deferred.is_empty() && answer.try_recv().is_err());
    drop(answers);
    assert_eq!(answer.try_recv().unwrap().unwrap(), 10);
}

/// However many operations waited for a lock, they are committed in batches of at most [`BATCH`].
#[tokio::test(start_paused = true)]
async fn what_was_put_aside_is_committed_a_batch_at_a_time() {
    let (gate, held, queue) = Gated::start_locked(true);
    gate.add_permits(1_000_000);
    let ask = || {
        let queue = queue.clone();
        tokio::spawn(async move { queue.submit(LOCKED).await })
    };
    let waiting: Vec<_> = (0..3 * BATCH).map(|_| ask()).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(waiting.iter().all(|asked| !asked.is_finished()));
    held.store(false, Ordering::Relaxed);
    for asked in waiting {
        assert_eq!(asked.await.unwrap().unwrap(), 10 * LOCKED);
    }
}
