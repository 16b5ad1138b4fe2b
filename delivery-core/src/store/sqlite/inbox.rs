//! The inbox in SQL: events, deals, references and customers. They are written in `batch.sql`.

use std::collections::HashSet;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection};

use super::error::store_error;
use super::json::json;
use super::writer::Writer;
use super::{SqliteStore, request, timely};
use crate::email::Email;
use crate::ledger::plan::{InboxWrites, Loaded, Needs, ReferenceId, RequestRow, number_at};
use crate::order::{OrderId, Source};
use crate::product::RefName;
use crate::store::sql::inbox::{
    AT_ONCE, CUSTOMER, DISMISS, IS_DISMISSED, LIFT_DISMISSAL, PART, PRUNE_INBOX, RETRY_ENTRIES, deal, entries, entry,
    entry_columns, page, readable, reference, retried, text,
};
use crate::store::sql::rows::{Columns, parsed};
use crate::store::sql::statements::{LOG, bind_log, limit};
use crate::store::{
    Action, Deal, Edit, Entry, EventOutcome, FARTHEST, Inbox, InboxQuery, Page, ReferenceKind, StoreError,
};

/// Adds the events, references and deals that `needs` names.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    needs: &Needs,
    loaded: &mut Loaded,
) -> Result<(), StoreError> {
    const FOUND: &str = concat!(
        "SELECT ",
        entry_columns!(),
        " FROM json_each(?) j JOIN delivery_inbox i ON i.source = j.value->>0 AND i.name = j.value->>1"
    );
    const REFERENCES: &str = "SELECT r.source, r.kind, r.name, r.deal FROM json_each(?) j JOIN delivery_reference r \
        ON r.source = j.value->>0 AND r.kind = j.value->>1 AND r.name = j.value->>2";
    const DEALS: &str =
        "SELECT d.number, d.version, d.facts FROM json_each(?) j JOIN delivery_deal d ON d.number = j.value";
    if !needs.entries.is_empty() {
        let wanted: Vec<_> = needs.entries.iter().map(|id| (id.source.as_str(), id.name.as_str())).collect();
        let found = sqlx::query(FOUND).bind(json(&wanted)?).fetch_all(&mut *connection).await.map_err(store_error)?;
        for row in &found {
            loaded.insert_entry(entry(row)?);
        }
    }
    if !needs.references.is_empty() {
        let wanted = needs.references.iter().map(|it| (it.source.as_str(), it.kind.as_str(), it.name.as_str()));
        let wanted = json(&wanted.collect::<Vec<_>>())?;
        for row in &sqlx::query(REFERENCES).bind(wanted).fetch_all(&mut *connection).await.map_err(store_error)? {
            let (reference, deal) = reference(row)?;
            loaded.insert_reference(reference, deal);
        }
    }
    if !needs.deals.is_empty() {
        let wanted = json(&needs.deals)?;
        for row in &sqlx::query(DEALS).bind(wanted).fetch_all(connection).await.map_err(store_error)? {
            loaded.insert_deal(deal(row)?);
        }
    }
    Ok(())
}

/// The deals that references lead to.
pub(super) async fn deals(
    connection: &mut SqliteConnection,
    references: HashSet<ReferenceId>,
) -> Result<Loaded, StoreError> {
    let mut needs = Needs { references, ..Needs::default() };
    let mut loaded = Loaded::absent(&needs);
    while !needs.is_empty() {
        load(connection, &needs, &mut loaded).await?;
        needs = loaded.missing_deals();
        loaded.expect(&needs);
    }
    Ok(loaded)
}

/// The parameter `inbox` of a batch, which has requests too; null in most.
pub(super) fn rows(writes: &InboxWrites, requests: &[RequestRow]) -> Result<Option<String>, StoreError> {
    #[derive(Serialize)]
    struct Rows<E, D, R, C, A, Q> {
        entries: Vec<E>,
        deals: Vec<D>,
        references: Vec<R>,
        customers: Vec<C>,
        applied: Vec<A>,
        requests: Vec<Q>,
    }
    if writes.is_empty() && requests.is_empty() {
        return Ok(None);
    }
    let entries = writes.entries.iter().map(|entry| {
        Ok((
            entry.number,
            entry.id.source.as_str(),
            entry.id.name.as_str(),
            entry.kind.as_str(),
            entry.order.as_ref().map(OrderId::as_str),
            entry.body.as_deref(),
            entry.received_at.timestamp_millis(),
            entry.outcome.map(EventOutcome::as_str),
            entry.reason.as_deref(),
            text(&entry.keys)?,
            entry.due_at.as_ref().map(DateTime::timestamp_millis),
            entry.attempts,
        ))
    });
    let customers = writes
        .customers
        .iter()
        .map(|it| (it.source.as_str(), it.reference.as_str(), it.email.as_str(), it.told_at.timestamp_millis()));
    let applied = writes.applied.iter().map(|(number, action, edit)| {
        (number, edit.at.timestamp_millis(), edit.by.as_str(), action.as_str(), edit.detail.as_deref())
    });
    let references = writes.references.iter();
    json(&Rows {
        entries: entries.collect::<Result<Vec<_>, StoreError>>()?,
        deals: writes
            .deals
            .iter()
            .map(|row| Ok((row.number, text(&row.deal)?)))
            .collect::<Result<Vec<_>, StoreError>>()?,
        references: references
            .map(|(it, deal)| (it.source.as_str(), it.kind.as_str(), it.name.as_str(), deal))
            .collect(),
        customers: customers.collect(),
        applied: applied.collect(),
        requests: request::rows(requests),
    })
    .map(Some)
}

async fn claim(
    writer: &mut Writer,
    (now, lease_until): (DateTime<Utc>, DateTime<Utc>),
    most: usize,
) -> Result<Vec<Entry>, StoreError> {
    const DUE: &str = concat!(
        "SELECT ",
        entry_columns!(),
        " FROM delivery_inbox i WHERE i.due_at <= ?1 OR i.due_at > ?2 ORDER BY i.due_at, i.number LIMIT ?3"
    );
    const LEASE: &str = "UPDATE delivery_inbox SET due_at = ?1, attempts = attempts + 1, version = version + 1 \
        WHERE number IN (SELECT value FROM json_each(?2))";
    let connection = &mut writer.connection;
    let due = sqlx::query(DUE).bind(now.timestamp_millis()).bind(farthest(now)).bind(limit(most));
    let found = due.fetch_all(&mut *connection).await.map_err(store_error)?;
    let (mut claimed, numbers) = readable(&found)?;
    if numbers.is_empty() {
        return Ok(claimed);
    }
    let lease = sqlx::query(LEASE).bind(lease_until.timestamp_millis()).bind(json(&numbers)?);
    lease.execute(connection).await.map_err(store_error)?;
    for entry in &mut claimed {
        entry.due_at = Some(lease_until);
        (entry.attempts, entry.version) = (entry.attempts.saturating_add(1), entry.version + 1);
    }
    claimed.sort_by_key(|entry| entry.number);
    Ok(claimed)
}

async fn retry(
    writer: &mut Writer,
    (source, since, now): (Option<String>, Option<DateTime<Utc>>, DateTime<Utc>),
    from: i64,
) -> Result<(u64, Option<i64>), StoreError> {
    let since = since.as_ref().map(DateTime::timestamp_millis);
    let retry =
        sqlx::query(RETRY_ENTRIES).bind(now.timestamp_millis()).bind(source).bind(since).bind(from).bind(AT_ONCE);
    retried(&retry.fetch_all(&mut writer.connection).await.map_err(store_error)?)
}

/// Dismisses a product, or no longer, and enters that into the audit log.
async fn dismiss(
    writer: &mut Writer,
    (source, name): (&Source, &RefName),
    is_dismissed: bool,
    edit: &Edit,
) -> Result<(), StoreError> {
    let number = writer.next_number().await?;
    let mut transaction = writer.connection.begin().await.map_err(store_error)?;
    let change = sqlx::query(if is_dismissed { DISMISS } else { LIFT_DISMISSAL });
    let change = change.bind(source.as_str()).bind(name.as_str()).execute(&mut *transaction).await;
    if change.map_err(store_error)?.rows_affected() > 0 {
        let log = bind_log!(sqlx::query(LOG), number, (None, None), Action::of_dismissal(is_dismissed), edit);
        log.execute(&mut *transaction).await.map_err(store_error)?;
    }
    transaction.commit().await.map_err(store_error)
}

/// Prunes the next part from number `from` on. Returns how many were deleted, and where the part after it begins.
async fn prune(writer: &mut Writer, before: DateTime<Utc>, from: i64) -> Result<(u64, Option<i64>), StoreError> {
    let connection = &mut writer.connection;
    let part = sqlx::query(PART).bind(from).bind(AT_ONCE).bind(number_at(before + TimeDelta::seconds(1), 0));
    let part = part.fetch_one(&mut *connection).await.map_err(store_error)?;
    let (events, last) = (part.integer("events")?, part.integer("last")?);
    let prune = sqlx::query(PRUNE_INBOX).bind(from).bind(last).bind(before.timestamp_millis());
    let pruned = prune.execute(connection).await.map_err(store_error)?.rows_affected();
    Ok((pruned, (events == AT_ONCE).then_some(last + 1)))
}

/// The farthest due time that is believed.
fn farthest(now: DateTime<Utc>) -> i64 {
    now.checked_add_signed(FARTHEST).unwrap_or(DateTime::<Utc>::MAX_UTC).timestamp_millis()
}

#[async_trait]
impl Inbox for SqliteStore {
    async fn claim_entries(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        const ARE_DUE: &str = "SELECT EXISTS (SELECT 1 FROM delivery_inbox WHERE due_at <= ? OR due_at > ?)";
        // A worker asks every second; a read tells without a commit that nothing is due.
        let due = sqlx::query_scalar(ARE_DUE).bind(now.timestamp_millis()).bind(farthest(now));
        if !timely(async { due.fetch_one(&self.readers).await.map_err(store_error) }).await? {
            return Ok(Vec::new());
        }
        let times = (now, lease_until);
        self.writer()?.run(move |writer| Box::pin(async move { claim(writer, times, limit).await })).await
    }

    async fn retry_entries(
        &self,
        source: Option<&Source>,
        since: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let source = source.map(|source| source.as_str().to_owned());
        let queue = self.writer()?;
        queue.part_by_part(move |writer, from| Box::pin(retry(writer, (source.clone(), since, now), from))).await
    }

    async fn entries(&self, query: &InboxQuery) -> Result<Page<Entry, i64>, StoreError> {
        let find = sqlx::query(AssertSqlSafe(entries(query)))
            .bind(query.before.unwrap_or(i64::MAX))
            .bind(limit(query.page_size() + 1));
        let found = timely(async { find.fetch_all(&self.readers).await.map_err(store_error) }).await?;
        page(&found, query)
    }

    async fn customer(&self, source: &Source, reference: &OrderId) -> Result<Option<Email>, StoreError> {
        let find = sqlx::query_scalar::<_, String>(CUSTOMER).bind(source.as_str()).bind(reference.as_str());
        let found = timely(async { find.fetch_optional(&self.readers).await.map_err(store_error) }).await?;
        parsed(found.map(|email| email.parse()).transpose(), "e-mail address")
    }

    async fn deal(&self, source: &Source, kind: ReferenceKind, name: &OrderId) -> Result<Option<Deal>, StoreError> {
        let reference = ReferenceId { source: source.clone(), kind, name: name.clone() };
        timely(async {
            let mut reader = self.readers.acquire().await.map_err(store_error)?;
            let loaded = deals(&mut reader, HashSet::from([reference.clone()])).await?;
            Ok(loaded.deal_named(&reference)?.cloned())
        })
        .await
    }

    async fn dismiss(&self, source: &Source, name: &RefName, is_dismissed: bool, edit: Edit) -> Result<(), StoreError> {
        let (source, name) = (source.clone(), name.clone());
        let change = async move |writer: &mut Writer| dismiss(writer, (&source, &name), is_dismissed, &edit).await;
        self.writer()?.run(move |writer| Box::pin(async move { change(writer).await })).await
    }

    async fn is_dismissed(&self, source: &Source, name: &RefName) -> Result<bool, StoreError> {
        let find = sqlx::query_scalar::<_, i64>(IS_DISMISSED).bind(source.as_str()).bind(name.as_str());
        Ok(timely(async { find.fetch_one(&self.readers).await.map_err(store_error) }).await? > 0)
    }

    async fn prune_inbox(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.writer()?.part_by_part(move |writer, from| Box::pin(prune(writer, before, from))).await
    }
}
