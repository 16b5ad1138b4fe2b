//! Requests of buyers who have lost their keys, committed many at once.

use tokio::sync::oneshot;

use super::error::store_error;
use super::json::json;
use super::writer::Writer;
use crate::store::batch::{BatchHandler, BatchQueue};
use crate::store::sql::WorkQueue;
use crate::store::{Attempt, StoreError};

/// A queue of requests, each an e-mail address and a time in milliseconds.
pub(super) type Asks = BatchQueue<(String, i64), ()>;

/// Starts a queue that commits all waiting requests with one statement. So a sale that arrives after many requests
/// waits for one commit, not for one commit per request.
pub(super) fn gather(writer: WorkQueue<Writer>) -> (Asks, oneshot::Receiver<()>) {
    BatchQueue::start(Gathering(writer))
}

struct Gathering(WorkQueue<Writer>);

impl BatchHandler for Gathering {
    type Operation = (String, i64);
    type Answer = ();

    const WRITES: bool = true;

    async fn commit(&mut self, asks: &[(String, i64)], _: Attempt, _: bool) -> Result<Vec<Option<()>>, StoreError> {
        const ASK: &str =
            "INSERT INTO delivery_lost (email, at) SELECT value->>0, value->>1 FROM json_each(?) ORDER BY key";
        let ask = sqlx::query(ASK).bind(json(&asks)?);
        let work = async move |writer: &mut Writer| ask.execute(&mut writer.connection).await.map_err(store_error);
        self.0.run(move |writer| Box::pin(work(writer))).await?;
        Ok(vec![Some(()); asks.len()])
    }
}
