//! Telling the host what has happened.
//!
//! An [`Observer`] is told of each event after the commit that made it true. It runs in a thread of its own, behind a queue of
//! [`QUEUE`] events: a slow observer delays nobody. When the queue is full, events are dropped and
//! [counted](crate::Delivery::dropped_events). An event is told at most once, and those that wait when the process dies are lost:
//! what must not be lost belongs into the host's own transaction.
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
use crate::ledger::MessageKind;
use crate::telemetry;
use crate::throttle::Throttle;

/// How many events may wait for the observers: some seconds of a busy server, in a few megabytes.
pub const QUEUE: usize = 16_384;

/// How long to wait with a flush while the queue is full.
const FLUSH_AGAIN: Duration = Duration::from_millis(5);

/// Something that has happened. More kinds come with later versions.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A key was issued: for an order, by hand, or in a transaction of the host's that it told of as
    /// [committed](crate::Delivery::committed).
    Issued {
        /// The key.
        key: Key,
    },
    /// A use was counted.
    Used {
        /// The key after it.
        key: Key,
    },
    /// A key was refused, with the code that the API answers with.
    Refused {
        /// Which key; `None` for a text that was not signed here.
        key: Option<KeyId>,
        /// Why.
        code: ErrorCode,
    },
    /// A key was revoked.
    Revoked {
        /// The key after it.
        key: Key,
    },
    /// A revocation was lifted.
    Restored {
        /// The key after it.
        key: Key,
    },
    /// A key has other terms.
    TermsChanged {
        /// The key after it.
        key: Key,
    },
    /// The address of a key's buyer was corrected.
    EmailChanged {
        /// The key after it.
        key: Key,
    },
    /// A mail server took an e-mail, or a receiver a webhook.
    MessageSent {
        /// The key it is about.
        key: KeyId,
        /// What it says.
        kind: MessageKind,
        /// At which attempt, from 1.
        attempt: u32,
    },
    /// An e-mail or a webhook was given up.
    MessageFailed {
        /// The key it is about.
        key: KeyId,
        /// What it says.
        kind: MessageKind,
        /// Why, without secrets.
        reason: String,
    },
}

/// Is told of events. A panic is caught and logged; the next event is told all the same.
pub trait Observer: Debug + Send + Sync + 'static {
    /// Takes note of `event`. Events of one server come in the order in which it learned of them.
    fn observe(&self, event: &Event);
}

/// The queue to the observers; without any, nothing is done.
#[derive(Clone, Default)]
pub(crate) struct Observers(Option<Arc<Queue>>);

struct Queue {
    sender: SyncSender<Told>,
    dropped: AtomicU64,
}

enum Told {
    Event(Event),
    /// All before it were told.
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
                "observers are told nothing: no thread can be started"
            );
        }
        Self(Some(Arc::new(Queue { sender, dropped: AtomicU64::new(0) })))
    }

    /// Tells of an event, which is made only if somebody wants to know.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        static DROPPED: Throttle = Throttle::new();
        let Some(queue) = &self.0 else { return };
        if queue.sender.try_send(Told::Event(event())).is_err() {
            queue.dropped.fetch_add(1, Ordering::Relaxed);
            telemetry::event_dropped();
            if let Some(more) = DROPPED.admit() {
                tracing::warn!(more, "observers are too slow: an event was dropped");
            }
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |queue| queue.dropped.load(Ordering::Relaxed))
    }

    /// Waits until the events so far were told.
    pub(crate) async fn flush(&self) {
        let Some(queue) = &self.0 else { return };
        let (told, flushed) = oneshot::channel();
        let mut told = Told::Flush(told);
        // The queue may be full.
        while let Err(std::sync::mpsc::TrySendError::Full(back)) = queue.sender.try_send(told) {
            told = back;
            tokio::time::sleep(FLUSH_AGAIN).await;
        }
        // An error means that there is no thread.
        let _ = flushed.await;
    }
}

fn tell(observers: &[Arc<dyn Observer>], events: &Receiver<Told>) {
    while let Ok(told) = events.recv() {
        let event = match told {
            Told::Event(event) => event,
            Told::Flush(flushed) => {
                // Nobody may be waiting any more.
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
