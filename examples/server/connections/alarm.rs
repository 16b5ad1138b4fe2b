//! The timer of a connection.
//!
//! hyper creates a timer for the head of each request and drops it when the head has arrived. With Tokio's timers, each
//! of these would be added to and removed from a table that all timers share, under its lock. Here a connection has a
//! single entry. The entry is moved only when it fires and a later request has moved the deadline.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt;

/// Wakes its connection. Each deadline must be later than the one before, which holds for timeouts of equal length.
#[derive(Clone)]
pub(crate) struct Timer(Arc<Mutex<Pin<Box<tokio::time::Sleep>>>>);

struct Alarm {
    timer: Timer,
    deadline: Instant,
}

impl Timer {
    /// A timer for a new connection.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Box::pin(tokio::time::sleep(Duration::ZERO)))))
    }
}

impl rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Alarm { timer: self.clone(), deadline })
    }
}

impl Future for Alarm {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut entry = self.timer.0.lock().unwrap_or_else(PoisonError::into_inner);
        ready!(entry.as_mut().poll(context));
        if entry.deadline().into_std() >= self.deadline {
            return Poll::Ready(());
        }
        // That was the deadline of an earlier request.
        entry.as_mut().reset(self.deadline.into());
        entry.as_mut().poll(context)
    }
}

impl rt::Sleep for Alarm {}
