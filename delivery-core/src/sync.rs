//! Locks, atomics and channels. Normally they are those of the standard library and Tokio. With `--cfg shuttle`, they
//! are those of the crate `shuttle`, which runs a test in many interleavings of its threads. To run such tests:
//! `cargo rustc -p delivery-core --lib --profile test -- --cfg shuttle`.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, PoisonError, atomic};

/// Tasks, channels and timers.
#[cfg(any(feature = "sqlite", feature = "postgres", shuttle))]
pub(crate) mod task {
    #[cfg(not(shuttle))]
    pub(crate) use tokio::{
        spawn,
        sync::{mpsc, oneshot},
    };

    #[cfg(not(shuttle))]
    pub(crate) use tokio::time::sleep;

    #[cfg(shuttle)]
    pub(crate) use shuttle_tokio::{
        sync::{mpsc, oneshot},
        task::spawn,
    };

    /// Returns the time of Tokio's clock, which tests may pause.
    #[expect(clippy::disallowed_methods, reason = "how long an operation waits is measured on the runtime's clock")]
    pub(crate) fn now() -> tokio::time::Instant {
        tokio::time::Instant::now()
    }

    /// Never completes, because shuttle simulates no time.
    #[cfg(shuttle)]
    pub(crate) async fn sleep(_: std::time::Duration) {
        std::future::pending().await
    }

    /// Waits for the next message, then takes up to `most` of the messages that have arrived. Returns their number, or
    /// 0 once all senders are dropped.
    #[cfg(not(shuttle))]
    pub(crate) async fn receive<T>(from: &mut mpsc::Receiver<T>, into: &mut Vec<T>, most: usize) -> usize {
        from.recv_many(into, most).await
    }

    #[cfg(shuttle)]
    pub(crate) async fn receive<T>(from: &mut mpsc::Receiver<T>, into: &mut Vec<T>, most: usize) -> usize {
        into.extend(from.recv().await);
        while !into.is_empty() && into.len() < most {
            let Ok(next) = from.try_recv() else { break };
            into.push(next);
        }
        into.len()
    }
}

/// Runs `test` in `schedules` random interleavings. Prints an interleaving that fails, so that it can be replayed.
#[cfg(all(test, shuttle))]
pub(crate) fn interleave(schedules: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    // Hashing and formatting need a larger stack than shuttle's default of 60 KiB.
    config.stack_size = 1 << 20;
    shuttle::Runner::new(shuttle::scheduler::RandomScheduler::new(schedules), config).run(test);
}
