//! Races: calls that begin together and yield to each other, so that a test finds races that occur rarely.
//!
//! If a faulty store yields at an await between a read and a write, these races find the fault every time. If the fault
//! is between two uses of a lock that is not awaited, two threads must run at the same moment. These races found such a
//! fault in 100 of 100 runs on an idle machine, and in about 75 of 100 on a busy one.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::task::coop::{consume_budget, has_budget_remaining};

/// The maximum number of rounds of a race.
const ROUNDS: u32 = 256;
/// The minimum number of rounds of a race, even if they are slow.
const LEAST: u32 = 4;
/// The time after which no further round starts, except for the first [`LEAST`].
const LONG: Duration = Duration::from_secs(1);
/// How long a call waits for a second call, in iterations of a loop: some microseconds.
const SPINS: u32 = 2000;
/// Tokio's cooperative budget: the number of operations that a task may do before Tokio makes it yield.
const BUDGET: u32 = 128;

/// Runs a call so that it yields to other tasks where it awaits a Tokio resource: a lock, a channel or a socket. The
/// service itself yields between loading rows and persisting them.
///
/// Without this function, a call on a store that never waits runs from its beginning to its end, and a test meets no
/// race. Calls with different values of `seed` yield at different places.
///
/// Tokio makes a task yield once the task has used up its budget. `yielding` uses up most of the budget before each
/// poll.
pub async fn yielding<F: Future>(seed: u32, call: F) -> F::Output {
    let (mut call, mut polls) = (pin!(call), 0);
    std::future::poll_fn(|context| {
        // In the first poll, every call has no budget left and yields at its first Tokio resource.
        spend(if polls == 0 { 0 } else { (polls + seed) % 3 });
        polls += 1;
        call.as_mut().poll(context)
    })
    .await
}

/// Makes two calls on two threads wait for each other, so that they continue at the same moment.
#[derive(Debug, Default)]
struct Meeting(AtomicUsize);

impl Meeting {
    fn wait(&self) {
        let arrived = self.0.fetch_add(1, Ordering::SeqCst);
        let mut spins = 0;
        // The first call of a pair waits for the second one, but not for ever: there may be no second one.
        while arrived.is_multiple_of(2) && self.0.load(Ordering::SeqCst) == arrived + 1 && spins < SPINS {
            std::hint::spin_loop();
            spins += 1;
        }
    }
}

/// Uses up the task's budget except for `left` operations.
fn spend(left: u32) {
    let mut context = Context::from_waker(Waker::noop());
    for _ in left..BUDGET {
        if !has_budget_remaining() || pin!(consume_budget()).poll(&mut context) == Poll::Pending {
            return;
        }
    }
}

/// Runs calls that begin at the same moment and [yield](yielding) to each other. Returns their results, in the order in
/// which the calls finish.
pub async fn race<F>(calls: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let calls: Vec<Pin<Box<F>>> = calls.into_iter().map(Box::pin).collect();
    let (start, meeting) = (Arc::new(Barrier::new(calls.len())), Arc::new(Meeting::default()));
    let mut racers = JoinSet::new();
    for (seed, call) in (0..).zip(calls) {
        let (start, meeting) = (start.clone(), meeting.clone());
        racers.spawn(async move {
            start.wait().await;
            let (mut call, mut polls) = (pin!(yielding(seed, call)), 0);
            std::future::poll_fn(|context| {
                polls += 1;
                if polls == 2 {
                    meeting.wait();
                }
                call.as_mut().poll(context)
            })
            .await
        });
    }
    racers.join_all().await
}

/// Returns the numbers of the rounds of a race, from 0: at most 256, and no new ones after a second, but at least four.
#[expect(clippy::disallowed_methods, reason = "the time that a test takes is real")]
pub(crate) fn rounds() -> impl Iterator<Item = u32> {
    let began = Instant::now();
    (0..ROUNDS).take_while(move |round| *round < LEAST || began.elapsed() < LONG)
}
