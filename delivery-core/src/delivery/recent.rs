//! The figures for the seller: statistics of keys and of recent days. They are counted at most once a minute, however
//! often they are viewed.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt;

use super::Delivery;
use crate::key::Actor;
use crate::store::Figures;

/// How long figures are shown before they are counted again.
const FRESH: Duration = Duration::from_mins(1);
/// How long a page waits for figures that are being counted. A small store counts them within this time.
const PATIENCE: Duration = Duration::from_millis(10);

/// The figures, or why there are none.
#[derive(Debug, Clone)]
pub(crate) enum Recent {
    /// The figures, and the time to which they apply.
    Known(DateTime<Utc>, Arc<Figures>),
    /// The figures are being counted, and there are no earlier ones.
    Counting,
    /// The store could not count the figures.
    Failed,
}

/// The last figures for each period (a number of days), and whether figures are being counted now.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    last: BTreeMap<u32, (Duration, Recent)>,
    is_counting: bool,
}

impl Delivery {
    /// Returns the figures of the last `days` days. If there are none yet, or if they are at least a minute old, starts
    /// a count, unless another one is in progress. Waits up to 10 ms for the new figures. If they are not there by
    /// then, returns the old ones, or [`Recent::Counting`] if there are no old ones. Figures are kept for each value of
    /// `days`, so callers must use only a few values.
    pub(crate) async fn recent_figures(&self, days: u32) -> Recent {
        let now = self.inner.clock.monotonic();
        let known = {
            let mut counted = self.inner.counted.lock().unwrap_or_else(PoisonError::into_inner);
            let last = counted.last.get(&days);
            let is_fresh = last.is_some_and(|(at, _)| now.saturating_sub(*at) < FRESH);
            let known = last.map(|(_, recent)| recent.clone());
            let starts = !is_fresh && !counted.is_counting;
            counted.is_counting |= starts;
            (starts, known)
        };
        let (starts, known) = known;
        if !starts {
            return known.unwrap_or(Recent::Counting);
        }
        let delivery = self.clone();
        let counting = tokio::spawn(async move {
            let (actor, at) = (Actor::system(), delivery.inner.clock.now());
            // A host application's store may panic.
            let figures = AssertUnwindSafe(delivery.desk(&actor).figures(days)).catch_unwind().await;
            let recent = match figures {
                Ok(Ok(figures)) => Recent::Known(at, Arc::new(figures)),
                Ok(Err(_)) | Err(_) => Recent::Failed,
            };
            let mut counted = delivery.inner.counted.lock().unwrap_or_else(PoisonError::into_inner);
            counted.last.insert(days, (delivery.inner.clock.monotonic(), recent.clone()));
            counted.is_counting = false;
            recent
        });
        match tokio::time::timeout(PATIENCE, counting).await {
            Ok(Ok(recent)) => recent,
            Ok(Err(_)) => Recent::Failed,
            // The count continues in the background.
            Err(_) => known.unwrap_or(Recent::Counting),
        }
    }
}
