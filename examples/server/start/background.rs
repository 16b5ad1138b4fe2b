//! The tasks that run in the background: metrics, alerts, and deleting old records of uses and leftovers of uploads.

use std::path::PathBuf;

use chrono::TimeDelta;
use delivery_core::Delivery;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::connections::places::Places;
use crate::observe::alert::AlertWorker;
use crate::observe::history;
use crate::observe::metrics::Metrics;
use crate::settings::objects::Objects;

/// Tasks that are ready to start.
pub struct BackgroundTasks {
    pub(crate) metrics: Option<Metrics>,
    pub(crate) alerts: Option<AlertWorker>,
    /// How long records of uses are kept; `None`: for ever.
    pub(crate) history: Option<TimeDelta>,
    /// The folder of the products' files, where leftovers of interrupted uploads are deleted; `None` if the files are
    /// in a bucket.
    pub(crate) files: Option<PathBuf>,
    /// The connections that the metrics count; `None` if the framework accepts them itself, as Rocket does.
    pub(crate) places: Option<Places>,
}

/// Tasks that run until this is dropped.
pub struct Running {
    _tasks: JoinSet<()>,
    delivery: Delivery,
    alerts: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl BackgroundTasks {
    /// Starts the tasks.
    pub fn start(self, delivery: &Delivery) -> Running {
        let mut tasks = JoinSet::new();
        if let Some(metrics) = self.metrics {
            tasks.spawn(metrics.serve(delivery.clone(), self.places));
        }
        if let Some(kept) = self.history {
            tasks.spawn(history::prune(delivery.clone(), kept));
        }
        if let Some(folder) = self.files {
            tasks.spawn(Objects::tidy(folder));
        }
        let alerts = self.alerts.map(|worker| {
            let (stop, stopped) = oneshot::channel();
            // An error means that `Running` was dropped: the worker stops then too.
            (stop, tokio::spawn(worker.run(async { stopped.await.unwrap_or_default() })))
        });
        Running { _tasks: tasks, delivery: delivery.clone(), alerts }
    }
}

impl Running {
    /// Sends a pending alert, then stops the tasks.
    pub async fn stop(self) {
        let Some((stop, worker)) = self.alerts else { return };
        // The observer hears of the last failures a moment after they were stored.
        self.delivery.flush_observers().await;
        // An error means that the worker has already ended.
        let _ = stop.send(());
        let _ = worker.await;
    }
}
