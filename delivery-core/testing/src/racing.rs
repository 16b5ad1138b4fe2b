//! Races that are rarely won: calls that begin together and give way to each other.
//!
//! A store that gives way inside its own awaits loses such a race every time. One with a fault between two uses of a lock that
//! is never awaited loses it only while two threads run at the same moment: in 100 of 100 runs on an idle machine, and in about
//! 75 on one that is busy.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::task::coop::{consume_budget, has_budget_remaining};

/// The number of times a race is run, unless it is slow.
const ROUNDS: u32 = 256;
/// The number of times a slow race is run.
const LEAST: u32 = 4;
/// How long a race is run again.
const LONG: Duration = Duration::from_secs(1);
/// How long a call waits for another one to go on with, in turns of a loop: some microseconds.
const SPINS: u32 = 2000;
/// What tokio lets a task do before it makes the task give way.
const BUDGET: u32 = 128;

/// Runs a call such that it gives way to other tasks where it awaits something of tokio's: a lock, a channel, a socket. The service
/// itself gives way between loading rows and persisting them.
///
/// Without this, a call on a store that never waits runs from its beginning to its end, and a test meets no race. Calls with
/// different values of `seed` give way at different places.
///
/// tokio makes a task give way once it has used up its budget. This uses the budget up beforehand.
pub async fn yielding<F: Future>(seed: u32, call: F) -> F::Output {
    let (mut call, mut polls) = (pin!(call), 0);
    std::future::poll_fn(|context| {
        // At first every call gives way where it can.
        spend(if polls == 0 { 0 } else { (polls + seed) % 3 });
        polls += 1;
        call.as_mut().poll(context)
    })
    .await
}

/// Where two calls on two threads wait for each other, so that they go on at the same moment.
#[derive(Debug, Default)]
struct Meeting(AtomicUsize);

impl Meeting {
    fn wait(&self) {
        let arrived = self.0.fetch_add(1, Ordering::SeqCst);
        let mut spins = 0;
        // The first of two waits for the second, which may not come.
        while arrived.is_multiple_of(2) && self.0.load(Ordering::SeqCst) == arrived + 1 && spins < SPINS {
            std::hint::spin_loop();
            spins += 1;
        }
    }
}

/// Uses the task's budget up, but for `left`.
fn spend(left: u32) {
    let mut context = Context::from_waker(Waker::noop());
    for _ in left..BUDGET {
        if !has_budget_remaining() || pin!(consume_budget()).poll(&mut context) == Poll::Pending {
            return;
        }
    }
}

/// Runs calls that begin at the same moment and [give way](yielding) to each other. Returns what they return, in the order in which
/// they end.
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

/// Returns the numbers of the rounds of a race: 256, or as many as are possible in a second, but at least four.
#[expect(clippy::disallowed_methods, reason = "the time that a test takes is real")]
pub(crate) fn rounds() -> impl Iterator<Item = u32> {
    let began = Instant::now();
    (0..ROUNDS).take_while(move |round| *round < LEAST || began.elapsed() < LONG)
}
