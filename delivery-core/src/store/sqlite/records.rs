//! Messages, the audit log and figures; and how a person is forgotten.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection, Executor, Sqlite, SqlitePool};

use super::error::store_error;
use super::open::BUSY;
use super::writer::Writer;
use super::{SqliteStore, timely, timely_for};
use super::{inbox, load};
use crate::email::Email;
use crate::key::KeyId;
use crate::ledger::plan::number_at;
use crate::store::sql::records::{
    BACKLOG, COUNTED, Counts, ERASE, ERASE_REASONS, EXPIRING, FIGURES, FORGET_EVENT, ISSUED, REPLACED, REVOCATIONS,
    USES, WAITING, audit, audit_page, backlog, day_of, deals_of, figures, first_id, is_about, is_silent, message_page,
    messages, unmarked_keys,
};
use crate::store::sql::rows::{self, Columns, seconds};
use crate::store::sql::search::unmarked;
use crate::store::sql::statements::{LOG, bind_log, limit};
use crate::store::{
    Action, AuditEntry, AuditQuery, Backlog, Edit, ExpiryScan, Figures, MessageKind, MessageNumber, MessageQuery, Page,
    Records, StoreError, StoredMessage,
};

/// How often it is tried to empty the log of what was erased, and how long readers have between two attempts: three seconds in all.
const WIPES: u32 = 60;
const READING: Duration = Duration::from_millis(50);

#[async_trait]
impl Records for SqliteStore {
    async fn messages(&self, query: &MessageQuery) -> Result<Page<StoredMessage, MessageNumber>, StoreError> {
        let before = query.before.map_or(i64::MAX, MessageNumber::get);
        let find = sqlx::query(AssertSqlSafe(messages(query))).bind(before).bind(limit(query.page_size() + 1));
        let find = find.bind(query.key.map(|key| key.as_bytes().to_vec()));
        let found = timely(async { find.fetch_all(&self.readers).await.map_err(store_error) }).await?;
        message_page(&found, query.page_size())
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry, i64>, StoreError> {
        let before = query.before.unwrap_or(i64::MAX);
        let find = sqlx::query(AssertSqlSafe(audit(query))).bind(before).bind(limit(query.page_size() + 1));
        let find = find.bind(query.key.map(|key| key.as_bytes().to_vec()));
        let found = timely(async { find.fetch_all(&self.readers).await.map_err(store_error) }).await?;
        audit_page(&found, query.page_size())
    }

    async fn log(&self, action: Action, edit: Edit) -> Result<(), StoreError> {
        self.writer()?.run(move |writer| Box::pin(async move { log(writer, action, &edit).await })).await
    }

    async fn figures(&self, since: DateTime<Utc>, now: DateTime<Utc>) -> Result<Figures, StoreError> {
        timely_for(FIGURES, count(&self.readers, since, now)).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let find = sqlx::query(BACKLOG);
        let found = timely(async { find.fetch_one(&self.readers).await.map_err(store_error) }).await?;
        backlog(&found)
    }

    async fn notify_expiring(&self, scan: ExpiryScan) -> Result<usize, StoreError> {
        // A statement of the writer's holds up whoever buys or fetches: mostly there is nothing to do.
        let is_any = sqlx::query(EXPIRING).bind(scan.now.timestamp()).bind(scan.until.timestamp()).bind(1);
        if timely(async { is_any.fetch_optional(&self.readers).await.map_err(store_error) }).await?.is_none() {
            return Ok(0);
        }
        self.writer()?.run(move |writer| Box::pin(async move { notify_expiring(writer, scan).await })).await
    }

    async fn mark_expired(&self, now: DateTime<Utc>, most: usize) -> Result<usize, StoreError> {
        const ANY: &str = unmarked!();
        const MARK: &str = concat!("UPDATE delivery_key SET lapsed = expires_at WHERE number IN (", unmarked!(), ")");
        let is_any = sqlx::query(ANY).bind(now.timestamp()).bind(1);
        if timely(async { is_any.fetch_optional(&self.readers).await.map_err(store_error) }).await?.is_none() {
            return Ok(0);
        }
        let mark = sqlx::query(MARK).bind(now.timestamp()).bind(limit(most));
        let work = async move |writer: &mut Writer| mark.execute(&mut writer.connection).await.map_err(store_error);
        let marked = self.writer()?.run(move |writer| Box::pin(work(writer))).await?;
        Ok(usize::try_from(marked.rows_affected()).unwrap_or(usize::MAX))
    }

    async fn erase(&self, email: &Email, pseudonym: &Email, edit: Edit) -> Result<Vec<KeyId>, StoreError> {
        let (email, pseudonym) = (email.clone(), pseudonym.clone());
        let writer = self.writer()?;
        let erased =
            writer.run(move |writer| Box::pin(async move { erase(writer, (&email, &pseudonym), &edit).await })).await?;
        // Whoever buys or fetches has the writer between two attempts.
        for _ in 0..WIPES {
            if writer.run(move |writer| Box::pin(async move { leave_nothing(&mut writer.connection).await })).await? {
                return Ok(erased);
            }
            tokio::time::sleep(READING).await;
        }
        Err(StoreError::unavailable(
            "the person is forgotten, but another program reads the file, whose log has the old pages",
        ))
    }
}

async fn count(readers: &SqlitePool, since: DateTime<Utc>, now: DateTime<Utc>) -> Result<Figures, StoreError> {
    let from = day_of(since);
    // One snapshot: a key that is marked or replaced meanwhile counts once.
    let mut snapshot = readers.begin().await.map_err(store_error)?;
    let first_use = first_use(&mut snapshot, from).await?;
    let first_entry = DateTime::from_timestamp_millis(from).map_or(0, |from| number_at(from, 0));
    let mut all =
        async |find: Query<'static, Sqlite, SqliteArguments>| find.fetch_all(&mut *snapshot).await.map_err(store_error);
    figures(&Counts {
        keys: all(sqlx::query(COUNTED)).await?,
        replaced: all(sqlx::query(REPLACED)).await?,
        unmarked: all(sqlx::query(unmarked_keys!("exhausted = 1")).bind(now.timestamp())).await?,
        issued: all(sqlx::query(ISSUED).bind(from / 1000).bind(first_id(from))).await?,
        uses: all(sqlx::query(USES).bind(from).bind(first_use)).await?,
        revocations: all(sqlx::query(REVOCATIONS).bind(from).bind(first_entry)).await?,
    })
}

/// The number of the first use at `since` or later. Uses are recorded one after another.
async fn first_use(reader: &mut SqliteConnection, since: i64) -> Result<i64, StoreError> {
    const NEWEST: &str = "SELECT coalesce(max(number), 0) FROM delivery_use";
    const NEXT: &str = "SELECT number, at FROM delivery_use WHERE number >= ? ORDER BY number LIMIT 1";
    let newest: i64 = sqlx::query_scalar(NEWEST).fetch_one(&mut *reader).await.map_err(store_error)?;
    let (mut low, mut high) = (0, newest + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let next = sqlx::query(NEXT).bind(middle).fetch_optional(&mut *reader).await.map_err(store_error)?;
        match next {
            Some(row) if row.integer("at")? < since => low = row.integer("number")? + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

async fn log(writer: &mut Writer, action: Action, edit: &Edit) -> Result<(), StoreError> {
    let number = writer.next_number().await?;
    let log = bind_log!(sqlx::query(LOG), number, (None, None), action, edit);
    log.execute(&mut writer.connection).await.map(drop).map_err(store_error)
}

async fn notify_expiring(writer: &mut Writer, scan: ExpiryScan) -> Result<usize, StoreError> {
    const QUEUE: &str = "INSERT INTO delivery_message (number, key, kind, recipient, message_id, queued_at, due_at) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)";
    let ExpiryScan { now, until, limit: most, .. } = scan;
    writer.reserve(i64::try_from(most).unwrap_or(i64::MAX)).await?;
    let mut transaction = writer.connection.begin().await.map_err(store_error)?;
    let find = sqlx::query(EXPIRING).bind(now.timestamp()).bind(until.timestamp()).bind(limit(most));
    let due = find.fetch_all(&mut *transaction).await.map_err(store_error)?;
    let deals = inbox::deals(&mut transaction, deals_of(&due)?).await?;
    for row in &due {
        let key = row.integer("number")?;
        sqlx::query("UPDATE delivery_key SET noticed = expires_at WHERE number = $1")
            .bind(key)
            .execute(&mut *transaction)
            .await
            .map_err(store_error)?;
        if !is_silent(row, &deals)? {
            let name = scan.name(rows::key_id(row)?, seconds(row.integer("expires_at")?)?)?;
            writer.newest += 1;
            let queue = sqlx::query(QUEUE).bind(number_at(now, writer.newest)).bind(key);
            let queue = queue.bind(MessageKind::Expiring.as_str()).bind(row.text("email")?).bind(name.as_str());
            queue.bind(now.timestamp_millis()).execute(&mut *transaction).await.map_err(store_error)?;
        }
    }
    transaction.commit().await.map_err(store_error)?;
    Ok(due.len())
}

async fn erase(
    writer: &mut Writer,
    (email, pseudonym): (&Email, &Email),
    edit: &Edit,
) -> Result<Vec<KeyId>, StoreError> {
    let number = writer.next_number().await?;
    let mut transaction = writer.connection.begin().await.map_err(store_error)?;
    let (mut ids, mut others, address) = (Vec::new(), Vec::new(), email.as_str().to_ascii_lowercase());
    let waiting = sqlx::query(WAITING).bind(&address).fetch_all(&mut *transaction).await.map_err(store_error)?;
    for row in &waiting {
        if is_about(row, email)? {
            let forget = sqlx::query(FORGET_EVENT).bind(row.integer("number")?);
            forget.execute(&mut *transaction).await.map_err(store_error)?;
        }
    }
    let reasons = sqlx::query(ERASE_REASONS).bind(&address).bind(pseudonym.as_str());
    for row in &reasons.fetch_all(&mut *transaction).await.map_err(store_error)? {
        others.push(rows::key_id(row)?);
    }
    for statement in ERASE {
        let erase = sqlx::query(statement).bind(&address).bind(pseudonym.as_str());
        let keys = erase.fetch_all(&mut *transaction).await.map_err(store_error)?;
        ids.extend(keys.iter().map(rows::key_id).collect::<Result<Vec<_>, _>>()?);
    }
    let edit = Edit { detail: Some(pseudonym.as_str().to_owned()), ..edit.clone() };
    let log = bind_log!(sqlx::query(LOG), number, (None, None), Action::CustomerErased, edit);
    log.execute(&mut *transaction).await.map_err(store_error)?;
    transaction.commit().await.map_err(store_error)?;
    // What cannot be read now is read when it is asked for.
    let changed = [ids.as_slice(), &others].concat();
    for id in &changed {
        writer.cache.keys.remove(id);
    }
    for row in load::keys(&mut writer.connection, &writer.cache, &changed).await? {
        writer.cache.keys.insert(row.key.id(), row);
    }
    Ok(ids)
}

/// Writes the write-ahead log into the file, and empties it: both have the old pages until then. Returns false, without waiting, if
/// somebody reads the old pages: a backup, or a program that copies the log.
async fn leave_nothing(connection: &mut SqliteConnection) -> Result<bool, StoreError> {
    connection.execute("PRAGMA busy_timeout = 0").await.map_err(store_error)?;
    let checkpoint = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut *connection).await;
    let patience = format!("PRAGMA busy_timeout = {}", BUSY.as_millis());
    connection.execute(AssertSqlSafe(patience)).await.map_err(store_error)?;
    Ok(checkpoint.map_err(store_error)?.integer("busy")? == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MessageState;

    #[tokio::test]
    async fn figures_that_do_not_come_are_given_up_and_those_after_them_come() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("x.db")).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..store.readers.options().get_max_connections() {
            held.push(store.readers.acquire().await.unwrap());
        }
        let (readers, now) = (&store.readers, DateTime::UNIX_EPOCH);
        let given_up = timely_for(Duration::ZERO, count(readers, now, now)).await.unwrap_err();
        assert!(given_up.to_string().contains("the disk does not answer"), "{given_up}");
        drop(held);
        assert!(store.figures(now, now).await.unwrap().keys.is_empty());
    }

    /// How SQLite goes about a statement.
    async fn explained(connection: &mut SqliteConnection, sql: &str) -> String {
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"))).bind(i64::MAX).bind(51);
        let rows = explain.fetch_all(connection).await.unwrap();
        rows.iter().map(|row| row.text("detail").unwrap()).collect::<Vec<_>>().join("\n")
    }

    /// The desk asks for them with every view of its overview.
    #[tokio::test]
    async fn messages_that_wait_or_failed_are_found_without_those_that_were_sent() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        connection.execute(include_str!("migrations/0001_delivery.sql")).await.unwrap();
        for (state, index) in [
            (MessageState::Queued, "SCAN m USING INDEX delivery_message_queued"),
            (MessageState::Failed, "SCAN m USING INDEX delivery_message_failed"),
        ] {
            let query = MessageQuery { state: Some(state), limit: 50, ..MessageQuery::default() };
            let plan = explained(&mut connection, &messages(&query)).await;
            assert!(plan.contains(index), "{plan}");
        }
    }
}
