//! Notifies the host application of events.
//!
//! An [`Observer`] receives events. If an event reports a change, the change has already been committed. Observers run
//! in a separate thread, which takes events from a queue, so that a slow observer delays no request. While the queue
//! contains [`QUEUE`] events, further events are dropped and [counted](crate::Delivery::dropped_events). Each event is
//! delivered at most once. Events that wait in the queue are lost when the process dies. Work that must not be lost
//! belongs in the host application's own transaction.
//!
//! ```
//! use delivery_core::observer::{Event, Observer};
//!
//! /// Writes the shop's own statistics.
//! #[derive(Debug)]
//! struct Statistics;
//!
//! impl Observer for Statistics {
//!     fn observe(&self, event: &Event) {
//!         match event {
//!             Event::Issued { key } => println!("sold product {} to {}", key.product(), key.email()),
//!             Event::Used { key } => println!("{} was used {} times", key.id(), key.used()),
//!             _ => {}
//!         }
//!     }
//! }
//! ```

use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::ErrorCode;
use crate::key::{Key, KeyId};
use crate::ledger::{Addressee, MessageKind};
use crate::telemetry;
use crate::throttle::log_seldom;

/// The maximum number of events that wait for the observers. A busy server produces this many events within a few
/// seconds, and they take a few megabytes of memory.
pub const QUEUE: usize = 16_384;

/// How long [`Observers::flush`] waits before it tries again, if the queue is full.
const FLUSH_AGAIN: Duration = Duration::from_millis(5);

/// An event that observers receive. Later versions may add variants.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A key was issued: for an order, by hand, or in a transaction of the host application. In the last case, the
    /// event is sent when the host application calls `Uncommitted::committed`.
    Issued {
        /// The new key.
        key: Key,
    },
    /// A use was counted.
    Used {
        /// The key after the use.
        key: Key,
    },
    /// A request with a key was refused, for example because the key has expired.
    Refused {
        /// The key's id; `None` if the text in the request is not a key that this service signed.
        key: Option<KeyId>,
        /// The error code that the caller got.
        code: ErrorCode,
    },
    /// A key was revoked.
    Revoked {
        /// The key after the revocation.
        key: Key,
    },
    /// A revocation was lifted.
    Restored {
        /// The key after the change.
        key: Key,
    },
    /// A key's terms were changed.
    TermsChanged {
        /// The key with its new terms.
        key: Key,
    },
    /// The address of a key's buyer was corrected.
    EmailChanged {
        /// The key with the new address.
        key: Key,
    },
    /// A mail server accepted an e-mail, or a receiver accepted a webhook.
    MessageSent {
        /// The key that the message is about.
        key: KeyId,
        /// The kind of the message.
        kind: MessageKind,
        /// Who accepted the message.
        to: Addressee,
        /// The number of the successful attempt, from 1.
        attempt: u32,
    },
    /// An e-mail or a webhook failed and will not be retried. An e-mail that was not sent because its content is
    /// outdated is not reported. For example, an e-mail with a key is outdated once another key has replaced that key.
    MessageFailed {
        /// The key that the message is about.
        key: KeyId,
        /// The kind of the message.
        kind: MessageKind,
        /// Who did not get the message.
        to: Addressee,
        /// The reason, without secrets.
        reason: String,
    },
}

/// Receives events.
///
/// # To ensure correctness
///
/// * Return quickly. All observers share one thread, so a slow observer delays the events of the other observers, and
///   the queue fills up. At shutdown, [`Delivery::close`](crate::Delivery::close) waits for the observers for five
///   seconds at most.
///
/// A panic in an observer is caught and logged; later events are still delivered.
pub trait Observer: Debug + Send + Sync + 'static {
    /// Handles `event`. Events arrive in the order in which this server queued them.
    fn observe(&self, event: &Event);
}

/// The queue to the observers; `None` if there are no observers.
#[derive(Clone, Default)]
pub(crate) struct Observers(Option<Arc<Queue>>);

struct Queue {
    sender: SyncSender<QueueItem>,
    dropped: AtomicU64,
}

enum QueueItem {
    Event(Event),
    /// Requests a reply on the channel after all earlier events have been handled.
    Flush(oneshot::Sender<()>),
}

impl Observers {
    pub(crate) fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        if observers.is_empty() {
            return Self(None);
        }
        let (sender, events) = sync_channel(QUEUE);
        let spawned =
            thread::Builder::new().name("delivery-observers".to_owned()).spawn(move || tell(&observers, &events));
        if let Err(error) = spawned {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "observers get no events: no thread can be started"
            );
        }
        Self(Some(Arc::new(Queue { sender, dropped: AtomicU64::new(0) })))
    }

    /// Queues the event that `event` returns, or drops it if the queue is full. Without observers, `event` is not
    /// called.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        let Some(queue) = &self.0 else { return };
        if queue.sender.try_send(QueueItem::Event(event())).is_err() {
            queue.dropped.fetch_add(1, Ordering::Relaxed);
            telemetry::event_dropped();
            log_seldom!(warn, "observers are too slow: an event was dropped");
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |queue| queue.dropped.load(Ordering::Relaxed))
    }

    /// Waits until the observers have handled all events that were queued before this call.
    pub(crate) async fn flush(&self) {
        let Some(queue) = &self.0 else { return };
        let (reply, flushed) = oneshot::channel();
        let mut item = QueueItem::Flush(reply);
        while let Err(std::sync::mpsc::TrySendError::Full(back)) = queue.sender.try_send(item) {
            item = back;
            tokio::time::sleep(FLUSH_AGAIN).await;
        }
        // An error means that the thread of the observers does not run, so there is nothing to wait for.
        let _ = flushed.await;
    }
}

fn tell(observers: &[Arc<dyn Observer>], queue: &Receiver<QueueItem>) {
    while let Ok(item) = queue.recv() {
        let event = match item {
            QueueItem::Event(event) => event,
            QueueItem::Flush(flushed) => {
                // An error only means that the caller of `flush` was cancelled and needs no answer.
                let _ = flushed.send(());
                continue;
            }
        };
        for observer in observers {
            if catch_unwind(AssertUnwindSafe(|| observer.observe(&event))).is_err() {
                tracing::error!("an observer panicked");
            }
        }
    }
}

impl Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").field("any", &self.0.is_some()).finish_non_exhaustive()
    }
}
