//! Requests of buyers who have lost their keys.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::Connection;
use tokio::sync::oneshot;

use super::error::store_error;
use super::json::json;
use super::writer::Writer;
use super::{SqliteStore, timely};
use crate::email::Email;
use crate::ledger::plan::number_at;
use crate::store::batch::{BatchHandler, BatchQueue};
use crate::store::sql::WorkQueue;
use crate::store::sql::lost::{DONE, NEWEST, RECENT, WAITING};
use crate::store::sql::rows::Columns;
use crate::store::sql::statements::limit;
use crate::store::{Attempt, LOST_PAUSE, LostKeys, LostScan, MessageKind, StoreError};

/// Requests, each an address and a time in milliseconds.
pub(super) type Asks = BatchQueue<(String, i64), ()>;

/// Keeps requests that come together in one commit. A sale waits for that one commit, and not for one of each stranger.
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

    /// It reads nothing that somebody could hold.
    fn is_locked(&self, _: &(String, i64), _: bool) -> bool {
        false
    }

    fn met_lock(&mut self, _: &(String, i64)) {}

    async fn maintain(&mut self) {}

    async fn finish(self) {}
}

#[async_trait]
impl LostKeys for SqliteStore {
    async fn ask(&self, email: &Email, at: DateTime<Utc>) -> Result<(), StoreError> {
        self.task(|tasks| &tasks.asks)?.submit((email.as_str().to_owned(), at.timestamp_millis())).await
    }

    async fn answer_lost(&self, scan: LostScan) -> Result<usize, StoreError> {
        // A statement of the writer's holds up whoever buys or fetches: mostly there is nothing to do.
        let any = sqlx::query(WAITING).bind(1);
        if timely(async { any.fetch_optional(&self.readers).await.map_err(store_error) }).await?.is_none() {
            return Ok(0);
        }
        self.writer()?.run(move |writer| Box::pin(async move { answer(writer, &scan).await })).await
    }
}

async fn answer(writer: &mut Writer, scan: &LostScan) -> Result<usize, StoreError> {
    const QUEUE: &str = "INSERT INTO delivery_message (number, key, kind, recipient, message_id, queued_at, due_at) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)";
    writer.reserve(i64::try_from(scan.limit).unwrap_or(i64::MAX)).await?;
    let (now, since) = (scan.now, scan.now - LOST_PAUSE);
    let mut transaction = writer.connection.begin().await.map_err(store_error)?;
    let find = sqlx::query(WAITING).bind(limit(scan.limit));
    let waiting = find.fetch_all(&mut *transaction).await.map_err(store_error)?;
    for row in &waiting {
        let (number, address) = (row.integer("number")?, row.text("email")?.to_ascii_lowercase());
        let newest = sqlx::query(NEWEST).bind(&address).fetch_optional(&mut *transaction).await.map_err(store_error)?;
        let recent = sqlx::query(RECENT).bind(&address).bind(since.timestamp_millis());
        let recent = recent.fetch_optional(&mut *transaction).await.map_err(store_error)?;
        if let (Some(key), None) = (newest, recent) {
            writer.newest += 1;
            let queue = sqlx::query(QUEUE).bind(number_at(now, writer.newest)).bind(key.integer("number")?);
            let queue = queue.bind(MessageKind::Lost.as_str()).bind(key.text("email")?.to_owned());
            let queue = queue.bind(scan.name(number)?.as_str().to_owned()).bind(now.timestamp_millis());
            queue.execute(&mut *transaction).await.map_err(store_error)?;
        }
        sqlx::query(DONE).bind(number).execute(&mut *transaction).await.map_err(store_error)?;
    }
    transaction.commit().await.map_err(store_error)?;
    Ok(waiting.len())
}
