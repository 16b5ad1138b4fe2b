//! Messages, the audit log, figures and the backlog.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::rows::{Columns, key_id, milliseconds, parsed, product_id};
use super::search::unmarked;
use super::session::{Database, Patience, Value, values};
use super::statements::limit;
use super::{erase, expiry, figures};
use crate::email::{ERASED, Email};
use crate::key::{Actor, KeyId};
use crate::ledger::{Action, Edit, MessageKind, MessageNumber};
use crate::store::{
    AuditEntry, AuditQuery, Backlog, ExpiryScan, Figures, MessageQuery, MessageState, Page, Records, StoreError,
    StoredMessage,
};

/// The time limit of reads with [`Patience::Long`]. Such a read may read every key, for example to compute figures.
pub(in crate::store) const FIGURES: Duration = Duration::from_mins(5);

#[async_trait]
impl<D: Database> Records for D {
    async fn messages(&self, query: &MessageQuery) -> Result<Page<StoredMessage, MessageNumber>, StoreError> {
        let (sql, size) = (messages(query), query.page_size());
        let Range { start, end } = query.numbers();
        // The additional row shows whether another page follows.
        let mut wanted = values![start, end, limit(size + 1)];
        wanted.extend(query.key.map(|key| Value::from(key.as_bytes().to_vec())));
        let found =
            self.read(Patience::Usual, move |session| Box::pin(async move { session.rows(&sql, wanted).await }));
        message_page(&found.await?, size)
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry, i64>, StoreError> {
        let ((sql, wanted), size) = (audit(query), query.page_size());
        let found =
            self.read(Patience::Usual, move |session| Box::pin(async move { session.rows(&sql, wanted).await }));
        audit_page(&found.await?, size)
    }

    async fn log(&self, action: Action, edit: Edit) -> Result<(), StoreError> {
        self.write(Patience::Usual, move |session| {
            Box::pin(async move { session.log((None, None), action, &edit).await })
        })
        .await
    }

    async fn figures(&self, since: DateTime<Utc>, now: DateTime<Utc>) -> Result<Figures, StoreError> {
        self.read(Patience::Long, move |session| Box::pin(figures::count(session, since, now))).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let sql = select_backlog();
        let found =
            self.read(Patience::Usual, move |session| Box::pin(async move { session.row(&sql, Vec::new()).await }));
        backlog(&found.await?.ok_or(StoreError::corrupt("a backlog without a row"))?)
    }

    async fn notify_expiring(&self, scan: ExpiryScan) -> Result<usize, StoreError> {
        // Usually there is nothing to do. This read finds that out without a write transaction, which on SQLite makes
        // buyers wait.
        if !expiry::are_any(self, &scan).await? {
            return Ok(0);
        }
        self.write(Patience::Usual, move |session| Box::pin(expiry::notify(session, scan))).await
    }

    async fn mark_expired(&self, now: DateTime<Utc>, most: usize) -> Result<usize, StoreError> {
        let any =
            self.read(Patience::Usual, move |session| Box::pin(session.row(unmarked!(), values![now.timestamp(), 1])));
        if any.await?.is_none() {
            return Ok(0);
        }
        let marked = self.write(Patience::Usual, move |session| {
            Box::pin(async move {
                // Skips keys that another transaction is marking or changing.
                let unmarked = session.dialect().skipping(unmarked!());
                let mark = format!("UPDATE delivery_key SET lapsed = expires_at WHERE number IN ({unmarked})");
                session.execute(&mark, values![now.timestamp(), limit(most)]).await
            })
        });
        Ok(usize::try_from(marked.await?).unwrap_or(usize::MAX))
    }

    async fn erase(&self, email: &Email, pseudonym: &Email, edit: Edit) -> Result<Vec<KeyId>, StoreError> {
        let person = (email.clone(), pseudonym.clone());
        let erased = self.write(Patience::Long, move |session| Box::pin(erase::erase(session, person, edit))).await?;
        self.ensure_overwritten().await?;
        Ok(erased)
    }
}

/// Returns a statement that selects the messages that match `query`, newest first, at most `$3`. Their numbers are at
/// least `$1` and below `$2`. If `query` names a key, `$4` is the id of that key.
fn messages(query: &MessageQuery) -> String {
    let key = if query.key.is_some() { " AND key = (SELECT number FROM delivery_key WHERE id = $4)" } else { "" };
    // Few messages are queued or failed, but the indexes of these messages are not ordered by number. So the planner of
    // the database could search all messages by number instead. It cannot do that with `number + 0`, because no index
    // contains this expression.
    let (state, number) = match query.state {
        None => ("", "number"),
        Some(MessageState::Queued) => (" AND state = 0", "number + 0"),
        Some(MessageState::Sent) => (" AND state = 1", "number"),
        Some(MessageState::Failed) => (" AND state = 2", "number + 0"),
    };
    // Only the messages of one page are read. For messages that are queued or failed, the inner query reads only an
    // index.
    format!(
        "SELECT m.number, m.kind, m.recipient, m.state, m.attempts, m.queued_at, m.due_at, m.reason, k.id \
            FROM (SELECT number FROM delivery_message WHERE {number} >= $1 AND {number} < $2{key}{state} \
                ORDER BY {number} DESC LIMIT $3) page \
            JOIN delivery_message m ON m.number = page.number JOIN delivery_key k ON k.number = m.key \
            ORDER BY m.number DESC"
    )
}

/// Returns a statement, with its parameters, that selects the entries of the audit log that match `query`, newest
/// first. It selects one entry more than a page has, which shows whether another page follows.
fn audit(query: &AuditQuery) -> (String, Vec<Value>) {
    let Range { start, end } = query.numbers();
    let mut values = values![start, end, limit(query.page_size() + 1)];
    let mut conditions = String::new();
    let mut must = |condition: &str, value: Option<Value>| {
        let Some(value) = value else { return };
        values.push(value);
        conditions.extend([" AND ", &condition.replace("$own", &format!("${}", values.len()))]);
    };
    let key = query.key.map(|key| Value::from(key.as_bytes().to_vec()));
    must("e.key = (SELECT number FROM delivery_key WHERE id = $own)", key);
    must("e.actor = $own", query.actor.as_ref().map(|actor| actor.as_str().into()));
    must("e.action = $own", query.action.map(|action| action.as_str().into()));
    let sql = format!(
        "SELECT e.number, e.at, e.actor, e.action, e.product, e.detail, k.id \
            FROM delivery_event e LEFT JOIN delivery_key k ON k.number = e.key \
            WHERE e.number >= $1 AND e.number < $2{conditions} ORDER BY e.number DESC LIMIT $3"
    );
    (sql, values)
}

/// Makes a page of messages from `rows`. If there is one row more than `size`, another page follows.
fn message_page(rows: &[impl Columns], size: usize) -> Result<Page<StoredMessage, MessageNumber>, StoreError> {
    let items = rows.iter().take(size).map(message).collect::<Result<Vec<_>, _>>()?;
    let next = items.last().map(|message| message.message).filter(|_| rows.len() > size);
    Ok(Page { items, next })
}

fn message(row: &impl Columns) -> Result<StoredMessage, StoreError> {
    let state = match row.integer("state")? {
        0 => MessageState::Queued,
        1 => MessageState::Sent,
        _ => MessageState::Failed,
    };
    Ok(StoredMessage {
        message: MessageNumber::new(row.integer("number")?),
        kind: parsed(row.text("kind")?.parse(), "kind of message")?,
        key: key_id(row)?,
        recipient: parsed(row.text("recipient")?.parse(), "recipient")?,
        state,
        attempts: u32::try_from(row.integer("attempts")?).unwrap_or(u32::MAX),
        queued_at: milliseconds(row.integer("queued_at")?)?,
        at: milliseconds(row.integer("due_at")?)?,
        reason: row.text_or_null("reason")?.map(str::to_owned),
    })
}

/// Makes a page of the audit log from `rows`. If there is one row more than `size`, another page follows.
fn audit_page(rows: &[impl Columns], size: usize) -> Result<Page<AuditEntry, i64>, StoreError> {
    let items = rows.iter().take(size).map(entry).collect::<Result<Vec<_>, _>>()?;
    let next = items.last().map(|entry| entry.number).filter(|_| rows.len() > size);
    Ok(Page { items, next })
}

fn entry(row: &impl Columns) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        number: row.integer("number")?,
        at: milliseconds(row.integer("at")?)?,
        actor: parsed(Actor::from_stored(row.text("actor")?), "actor")?,
        action: parsed(row.text("action")?.parse(), "action")?,
        key: row.bytes_or_null("id")?.map(|_| key_id(row)).transpose()?,
        product: row.integer_or_null("product")?.map(product_id).transpose()?,
        detail: row.text_or_null("detail")?.map(str::to_owned),
    })
}

/// Returns a statement that counts the queued messages, the failed messages, the [unanswered](Backlog::unanswered)
/// failed messages, and the events that need attention. It also finds out when the oldest queued message was queued.
///
/// - The kinds of webhook messages begin with `key.`. A webhook message that failed is always unanswered.
/// - `outcome <> 'issued'` repeats the condition of the partial index of the inbox. Otherwise the database does not use
///   this index.
fn select_backlog() -> String {
    let bring_key = MessageKind::ALL.iter().filter(|kind| kind.brings_key());
    let bring_key = bring_key.map(|kind| kind.as_str()).collect::<Vec<_>>().join("', '");
    let reminder = MessageKind::Expiring.as_str();
    format!(
        "SELECT \
            (SELECT CAST(count(*) AS bigint) FROM delivery_message WHERE state = 0) AS queued, \
            (SELECT min(queued_at) FROM delivery_message WHERE state = 0) AS oldest, \
            (SELECT CAST(count(*) AS bigint) FROM delivery_message WHERE state = 2) AS failed, \
            (SELECT CAST(count(*) AS bigint) FROM delivery_message m WHERE m.state = 2 AND (m.kind LIKE 'key.%' \
                OR m.kind <> '{reminder}' \
                    AND NOT EXISTS (SELECT 1 FROM delivery_message later \
                        WHERE later.key = m.key AND later.number > m.number AND later.kind IN ('{bring_key}')) \
                    AND EXISTS (SELECT 1 FROM delivery_key k WHERE k.number = m.key \
                        AND k.revoked_at IS NULL AND k.email NOT LIKE 'erased-%{ERASED}'))) \
                AS unanswered, \
            (SELECT CAST(count(*) AS bigint) FROM delivery_inbox \
                WHERE outcome = 'needs_attention' AND outcome <> 'issued') AS attention"
    )
}

/// Converts the row of [`select_backlog`].
fn backlog(row: &impl Columns) -> Result<Backlog, StoreError> {
    let count = |name| row.integer(name).map(i64::unsigned_abs);
    Ok(Backlog {
        queued: count("queued")?,
        oldest: row.integer_or_null("oldest")?.map(milliseconds).transpose()?,
        failed: count("failed")?,
        unanswered: count("unanswered")?,
        needs_attention: count("attention")?,
    })
}

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests {
    use sqlx::sqlite::SqliteConnection;
    use sqlx::{AssertSqlSafe, Connection, Executor};

    use super::super::events::select_events;
    use super::*;
    use crate::ledger::EventOutcome;
    use crate::order::Source;
    use crate::store::InboxQuery;
    use crate::store::sql::session::Dialect;

    /// Returns SQLite's query plan for a statement.
    async fn explained(connection: &mut SqliteConnection, sql: &str) -> String {
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"))).bind(0).bind(i64::MAX).bind(51);
        let rows = explain.fetch_all(connection).await.unwrap();
        rows.iter().map(|row| row.text("detail").unwrap()).collect::<Vec<_>>().join("\n")
    }

    /// The seller's pages run these queries whenever they show queued or failed messages, so the queries must not read
    /// all the messages that were sent.
    #[tokio::test]
    async fn messages_that_wait_or_failed_are_found_without_those_that_were_sent() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        connection.execute(include_str!("../sqlite/migrations/0001_delivery.sql")).await.unwrap();
        for (state, index) in [
            (MessageState::Queued, "SCAN delivery_message USING COVERING INDEX delivery_message_queued"),
            (MessageState::Failed, "SCAN delivery_message USING COVERING INDEX delivery_message_failed"),
        ] {
            let query = MessageQuery { state: Some(state), limit: 50, ..MessageQuery::default() };
            let plan = explained(&mut connection, &messages(&query)).await;
            assert!(plan.contains(index), "{plan}");
        }
    }

    #[tokio::test]
    async fn events_that_wait_are_found_without_those_that_are_done_and_a_platforms_without_others() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        for script in [
            include_str!("../sqlite/migrations/0001_delivery.sql"),
            include_str!("../sqlite/migrations/0008_inbox_by_source.sql"),
        ] {
            connection.execute(script).await.unwrap();
        }
        let waits = Some(EventOutcome::NeedsAttention);
        for (outcome, source, index) in [
            (waits, None, "SEARCH i USING INDEX delivery_inbox_by_outcome"),
            (waits, Some(Source::webhook()), "SEARCH i USING INDEX delivery_inbox_by_outcome"),
            (None, Some(Source::webhook()), "SEARCH i USING INDEX delivery_inbox_by_source"),
        ] {
            let query = InboxQuery { outcome, source, is_grouped: true, limit: 50, ..InboxQuery::default() };
            let plan = explained(&mut connection, &select_events(&query, Dialect::Sqlite)).await;
            assert!(plan.contains(index), "{plan}");
        }
    }
}
