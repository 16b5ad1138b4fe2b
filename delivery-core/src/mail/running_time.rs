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
