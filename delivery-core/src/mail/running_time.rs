//! Time limits that count only the time in which this process runs, and at most 15 seconds of each suspension.
//!
//! A process may be suspended for an hour: by a signal, or together with its virtual machine. When it resumes, all its
//! timers have elapsed, although no server was slow. An e-mail whose reply has just arrived would then be recorded as
//! unconfirmed, and its buyer would wait for hours.

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

/// Time is counted in pieces of this length. However long a suspension is, it uses up at most one piece.
const PIECE: Duration = Duration::from_secs(15);

/// Returns the output of `work`, or `None` if `work` takes longer than `limit`, which must be a multiple of [`PIECE`].
pub(super) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    debug_assert!(limit >= PIECE && limit.as_secs().is_multiple_of(PIECE.as_secs()), "{limit:?}");
    let elapsed = async {
        for _ in 0..limit.as_secs() / PIECE.as_secs() {
            sleep(PIECE).await;
        }
    };
    tokio::select! {
        biased;
        done = work => Some(done),
        () = elapsed => None,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{advance, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_limit_elapses_while_the_process_runs() {
        let limit = Duration::from_mins(10);
        #[expect(clippy::disallowed_methods, reason = "the runtime's clock is paused")]
        let begin = tokio::time::Instant::now();
        assert_eq!(within(limit, pending::<()>()).await, None);
        // Each Tokio timer may be a millisecond late.
        let waited = begin.elapsed();
        assert!(waited >= limit && waited < limit + Duration::from_millis(100), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspension_does_not_use_a_limit_up() {
        let suspended = || async {
            sleep(Duration::from_secs(1)).await;
            advance(Duration::from_hours(24)).await;
            sleep(Duration::from_secs(1)).await;
        };
        let limit = Duration::from_mins(1);
        assert!(timeout(limit, suspended()).await.is_err(), "an ordinary limit has elapsed");
        assert_eq!(within(limit, suspended()).await, Some(()));
    }
}
