//! Messages, the audit log and figures; and how a person is forgotten.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, Executor};

use super::audit::log;
use super::connect::{AT_LENGTH, PATIENT};
use super::error::store_error;
use super::messages::{machine, skew};
use super::numbers::next_block;
use super::session::Session;
use super::{PostgresStore, detached, detached_for, inbox};
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
use crate::store::sql::statements::limit;
use crate::store::{
    Action, AuditEntry, AuditQuery, Backlog, Edit, ExpiryScan, Figures, MessageKind, MessageNumber, MessageQuery, Page,
    Records, StoreError, StoredMessage,
};

#[async_trait]
impl Records for PostgresStore {
    async fn messages(&self, query: &MessageQuery) -> Result<Page<StoredMessage, MessageNumber>, StoreError> {
        let (sessions, query) = (self.sessions.clone(), query.clone());
        detached(async move {
            let mut session = sessions.read().await?;
            let find = session.query(AssertSqlSafe(messages(&query)));
            let find = find.bind(query.before.map_or(i64::MAX, MessageNumber::get)).bind(limit(query.page_size() + 1));
            let find = match query.key {
                Some(key) => find.bind(key.as_bytes().to_vec()),
                None => find,
            };
            let found = find.fetch_all(&mut *session).await.map_err(store_error)?;
            session.finish().await.map_err(store_error)?;
            message_page(&found, query.page_size())
        })
        .await
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditEntry, i64>, StoreError> {
        let (sessions, query) = (self.sessions.clone(), query.clone());
        detached(async move {
            let mut session = sessions.read().await?;
            let find = session.query(AssertSqlSafe(audit(&query)));
            let find = find.bind(query.before.unwrap_or(i64::MAX)).bind(limit(query.page_size() + 1));
            let find = match query.key {
                Some(key) => find.bind(key.as_bytes().to_vec()),
                None => find,
            };
            let found = find.fetch_all(&mut *session).await.map_err(store_error)?;
            session.finish().await.map_err(store_error)?;
            audit_page(&found, query.page_size())
        })
        .await
    }

    async fn log(&self, action: Action, edit: Edit) -> Result<(), StoreError> {
        let queue = self.maintenance()?;
        queue.run(move |session| Box::pin(async move { log(session, (None, None), action, &edit).await })).await
    }

    async fn figures(&self, since: DateTime<Utc>, now: DateTime<Utc>) -> Result<Figures, StoreError> {
        let (sessions, from) = (self.sessions.clone(), day_of(since));
        detached_for(FIGURES, async move {
            let mut session = sessions.read().await?;
            let mut transaction = session.begin().await.map_err(store_error)?;
            transaction.execute(AT_LENGTH).await.map_err(store_error)?;
            let mut inside = Session::Host(&mut transaction);
            let first = DateTime::from_timestamp_millis(from).map_or(0, |from| number_at(from, 0));
            let issued = inside.query(ISSUED).bind(from / 1000).bind(first_id(from));
            let issued = issued.fetch_all(&mut *inside).await.map_err(store_error)?;
            let mut all = async |statement: &'static str, bound: &[i64]| {
                let find = bound.iter().fold(inside.query(statement), |find, value| find.bind(*value));
                find.fetch_all(&mut *inside).await.map_err(store_error)
            };
            let counts = Counts {
                keys: all(COUNTED, &[]).await?,
                replaced: all(REPLACED, &[]).await?,
                unmarked: all(unmarked_keys!("max_uses >= 0 AND used >= max_uses"), &[now.timestamp()]).await?,
                issued,
                uses: all(USES, &[from, 0]).await?,
                revocations: all(REVOCATIONS, &[from, first]).await?,
            };
            transaction.commit().await.map_err(store_error)?;
            session.finish().await.map_err(store_error)?;
            figures(&counts)
        })
        .await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let sessions = self.sessions.clone();
        detached(async move {
            let mut session = sessions.read().await?;
            let found = session.query(BACKLOG).fetch_one(&mut *session).await.map_err(store_error)?;
            session.finish().await.map_err(store_error)?;
            backlog(&found)
        })
        .await
    }

    async fn notify_expiring(&self, scan: ExpiryScan) -> Result<usize, StoreError> {
        let queue = self.maintenance()?;
        queue.run(move |session| Box::pin(async move { notify_expiring(session, scan).await })).await
    }

    async fn mark_expired(&self, now: DateTime<Utc>, most: usize) -> Result<usize, StoreError> {
        // Keys that another server marks are left to it, and so are those that are being changed.
        const MARK: &str = concat!(
            "UPDATE delivery_key SET lapsed = expires_at WHERE number IN (",
            unmarked!(),
            " FOR UPDATE SKIP LOCKED)"
        );
        let queue = self.maintenance()?;
        let mark = async move |session: &mut Session<'_>| {
            let mark = session.query(MARK).bind(now.timestamp()).bind(limit(most));
            mark.execute(&mut **session).await.map_err(store_error)
        };
        let marked = queue.run(move |session| Box::pin(async move { mark(session).await })).await?;
        Ok(usize::try_from(marked.rows_affected()).unwrap_or(usize::MAX))
    }

    async fn erase(&self, email: &Email, pseudonym: &Email, edit: Edit) -> Result<Vec<KeyId>, StoreError> {
        let (email, pseudonym) = (email.clone(), pseudonym.clone());
        let queue = self.maintenance()?;
        queue.run(move |session| Box::pin(async move { erase(session, (&email, &pseudonym), &edit).await })).await
    }
}

async fn notify_expiring(session: &mut Session<'_>, scan: ExpiryScan) -> Result<usize, StoreError> {
    const QUEUE: &str = concat!(
        "WITH noticed AS ( \
            UPDATE delivery_key SET noticed = expires_at WHERE number = ANY($1)) \
        INSERT INTO delivery_message (number, key, kind, recipient, message_id, queued_at, due_at) \
        SELECT m.number, m.key, $2, m.recipient, m.message_id, $3 + skew, $3 + skew \
        FROM unnest($4::bigint[], $5::bigint[], $6::text[], $7::text[]) AS m (number, key, recipient, message_id), (SELECT ",
        skew!("$8"),
        " AS skew) c"
    );
    let ExpiryScan { now, until, limit: most, .. } = scan;
    let mut transaction = session.begin().await.map_err(store_error)?;
    let mut inside = Session::Host(&mut transaction);
    // Keys that another server tells of are left to it, and so are those that are being used.
    let find = inside
        .query(AssertSqlSafe(format!("{EXPIRING} FOR UPDATE SKIP LOCKED")))
        .bind(now.timestamp())
        .bind(until.timestamp())
        .bind(limit(most));
    let due = find.fetch_all(&mut *inside).await.map_err(store_error)?;
    if due.is_empty() {
        return transaction.commit().await.map(|()| 0).map_err(store_error);
    }
    let deals = inbox::deals(&mut inside, deals_of(&due)?).await?;
    let mut numbers = next_block(&mut inside).await?;
    let (mut taken, mut keys, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    let (mut recipients, mut names) = (Vec::new(), Vec::new());
    for row in &due {
        let key = row.integer("number")?;
        taken.push(key);
        if !is_silent(row, &deals)? {
            keys.push(key);
            messages.push(numbers.take_at(now)?);
            recipients.push(row.text("email")?.to_owned());
            let name = scan.name(rows::key_id(row)?, seconds(row.integer("expires_at")?)?)?;
            names.push(name.as_str().to_owned());
        }
    }
    let queue = inside.query(QUEUE).bind(taken).bind(MessageKind::Expiring.as_str()).bind(now.timestamp_millis());
    let queue = queue.bind(messages).bind(keys).bind(recipients).bind(names).bind(machine());
    queue.execute(&mut *inside).await.map_err(store_error)?;
    transaction.commit().await.map_err(store_error)?;
    Ok(due.len())
}

const LOCK: &str = "SELECT number FROM delivery_key WHERE lower(email) = $1 ORDER BY number FOR UPDATE";

async fn erase(
    session: &mut Session<'_>,
    (email, pseudonym): (&Email, &Email),
    edit: &Edit,
) -> Result<Vec<KeyId>, StoreError> {
    let mut transaction = session.begin().await.map_err(store_error)?;
    transaction.execute(PATIENT).await.map_err(store_error)?;
    let mut inside = Session::Host(&mut transaction);
    let (mut ids, address) = (Vec::new(), email.as_str().to_ascii_lowercase());
    let waiting = inside.query(AssertSqlSafe(format!("{WAITING} FOR UPDATE"))).bind(address.clone());
    for row in &waiting.fetch_all(&mut *inside).await.map_err(store_error)? {
        if is_about(row, email)? {
            let forget = inside.query(FORGET_EVENT).bind(row.integer("number")?);
            forget.execute(&mut *inside).await.map_err(store_error)?;
        }
    }
    // Who tells a buyer of something holds the key meanwhile: what was queued by then is erased too.
    inside.query(LOCK).bind(address.clone()).fetch_all(&mut *inside).await.map_err(store_error)?;
    let reasons = inside.query(ERASE_REASONS).bind(address.clone()).bind(pseudonym.as_str().to_owned());
    reasons.fetch_all(&mut *inside).await.map_err(store_error)?;
    for statement in ERASE {
        let erase = inside.query(statement).bind(address.clone()).bind(pseudonym.as_str().to_owned());
        let keys = erase.fetch_all(&mut *inside).await.map_err(store_error)?;
        ids.extend(keys.iter().map(rows::key_id).collect::<Result<Vec<_>, _>>()?);
    }
    let detail = Some(pseudonym.as_str().to_owned());
    log(&mut inside, (None, None), Action::CustomerErased, &Edit { detail, ..edit.clone() }).await?;
    transaction.commit().await.map_err(store_error)?;
    Ok(ids)
}
