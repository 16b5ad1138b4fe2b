//! What the server does beside serving: metrics, alerts, and deleting old records of uses.

use chrono::TimeDelta;
use delivery_core::Delivery;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::alert::AlertWorker;
use super::history;
use super::metrics::Metrics;
use super::places::Places;

/// What is to be done.
pub(crate) struct BackgroundTasks {
    pub metrics: Option<Metrics>,
    pub alerts: Option<AlertWorker>,
    /// How long records of uses are kept; `None`: for ever.
    pub history: Option<TimeDelta>,
}

/// What is being done, until it is dropped.
pub(crate) struct Running {
    _tasks: JoinSet<()>,
    alerts: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl BackgroundTasks {
    pub(crate) fn start(self, delivery: &Delivery, places: &Places) -> Running {
        let mut tasks = JoinSet::new();
        if let Some(metrics) = self.metrics {
            tasks.spawn(metrics.serve(delivery.clone(), places.clone()));
        }
        if let Some(kept) = self.history {
            tasks.spawn(history::prune(delivery.clone(), kept));
        }
        let alerts = self.alerts.map(|worker| {
            let (stop, stopped) = oneshot::channel();
            // An error means that the server ends too.
            (stop, tokio::spawn(worker.run(async { stopped.await.unwrap_or_default() })))
        });
        Running { _tasks: tasks, alerts }
    }
}

impl Running {
    /// Sends the alert that waits.
    pub(crate) async fn stop(self) {
        let Some((stop, worker)) = self.alerts else { return };
        // It has ended if nothing can fail any more.
        let _ = stop.send(());
        let _ = worker.await;
    }
}
