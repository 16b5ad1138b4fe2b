//! Requests of buyers who have lost their keys.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::AssertSqlSafe;

use super::PostgresStore;
use super::error::store_error;
use super::messages::{machine, skew};
use super::numbers::next_block;
use super::session::Session;
use crate::email::Email;
use crate::store::sql::lost::{DONE, NEWEST, RECENT, WAITING};
use crate::store::sql::rows::Columns;
use crate::store::sql::statements::limit;
use crate::store::{LOST_PAUSE, LostKeys, LostScan, MessageKind, StoreError};

#[async_trait]
impl LostKeys for PostgresStore {
    async fn ask(&self, email: &Email, at: DateTime<Utc>) -> Result<(), StoreError> {
        const ASK: &str = "INSERT INTO delivery_lost (email, at) VALUES ($1, $2)";
        let (email, at) = (email.as_str().to_owned(), at.timestamp_millis());
        let ask = async move |session: &mut Session<'_>| {
            let ask = session.query(ASK).bind(email).bind(at);
            ask.execute(&mut **session).await.map(drop).map_err(store_error)
        };
        self.maintenance()?.run(move |session| Box::pin(async move { ask(session).await })).await
    }

    async fn answer_lost(&self, scan: LostScan) -> Result<usize, StoreError> {
        self.maintenance()?.run(move |session| Box::pin(async move { answer(session, &scan).await })).await
    }
}

async fn answer(session: &mut Session<'_>, scan: &LostScan) -> Result<usize, StoreError> {
    const SKEW: &str = concat!("SELECT ", skew!("$1"), " AS skew");
    const QUEUE: &str = "INSERT INTO delivery_message (number, key, kind, recipient, message_id, queued_at, due_at) \
        VALUES ($1, $2, $3, $4, $5, $6, $6)";
    let mut transaction = session.begin().await.map_err(store_error)?;
    let mut inside = Session::Host(&mut transaction);
    // Servers take turns: each sees what the one before has sent.
    let find = inside.query(AssertSqlSafe(format!("{WAITING} FOR UPDATE"))).bind(limit(scan.limit));
    let waiting = find.fetch_all(&mut *inside).await.map_err(store_error)?;
    if waiting.is_empty() {
        return transaction.commit().await.map(|()| 0).map_err(store_error);
    }
    // Times of messages are those of the database's clock.
    let skew =
        inside.query(SKEW).bind(machine()).fetch_one(&mut *inside).await.map_err(store_error)?.integer("skew")?;
    let (now, since) = (scan.now.timestamp_millis() + skew, (scan.now - LOST_PAUSE).timestamp_millis() + skew);
    let mut numbers = next_block(&mut inside).await?;
    for row in &waiting {
        let (number, address) = (row.integer("number")?, row.text("email")?.to_ascii_lowercase());
        // Who is forgotten meanwhile is not written to.
        let newest = inside.query(AssertSqlSafe(format!("{NEWEST} FOR UPDATE"))).bind(address.clone());
        let newest = newest.fetch_optional(&mut *inside).await.map_err(store_error)?;
        let recent = inside.query(RECENT).bind(address).bind(since);
        let recent = recent.fetch_optional(&mut *inside).await.map_err(store_error)?;
        if let (Some(key), None) = (newest, recent) {
            let queue = inside.query(QUEUE).bind(numbers.take_at(scan.now)?).bind(key.integer("number")?);
            let queue = queue.bind(MessageKind::Lost.as_str()).bind(key.text("email")?.to_owned());
            let queue = queue.bind(scan.name(number)?.as_str().to_owned()).bind(now);
            queue.execute(&mut *inside).await.map_err(store_error)?;
        }
        inside.query(DONE).bind(number).execute(&mut *inside).await.map_err(store_error)?;
    }
    transaction.commit().await.map_err(store_error)?;
    Ok(waiting.len())
}
