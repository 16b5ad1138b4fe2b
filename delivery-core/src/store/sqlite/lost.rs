//! Requests of buyers who have lost their keys.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::Connection;

use super::error::store_error;
use super::writer::Writer;
use super::{SqliteStore, timely};
use crate::email::Email;
use crate::store::plan::number_at;
use crate::store::sql::lost::{ASK, DONE, NEWEST, RECENT, WAITING};
use crate::store::sql::rows::Columns;
use crate::store::sql::statements::limit;
use crate::store::{LOST_PAUSE, LostKeys, LostScan, MessageKind, StoreError};

#[async_trait]
impl LostKeys for SqliteStore {
    async fn ask(&self, email: &Email, at: DateTime<Utc>) -> Result<(), StoreError> {
        let ask = sqlx::query(ASK).bind(email.as_str().to_owned()).bind(at.timestamp_millis());
        let work = async move |writer: &mut Writer| ask.execute(&mut writer.connection).await.map_err(store_error);
        self.writer()?.run(move |writer| Box::pin(work(writer))).await.map(drop)
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
