//! The inbox: events, deals, references and customers. They are written in the transaction of the keys that they change.
//!
//! Events of one sale meet at the row of its deal, which is locked, or at the index of references if there is no deal yet:
//! whoever inserts a reference second writes nothing, and finds the deal of the first with the next attempt.

use std::collections::HashSet;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::AssertSqlSafe;

use super::audit::log;
use super::error::store_error;
use super::session::Session;
use super::version_cache::VersionCache;
use super::{PostgresStore, detached, load};
use crate::email::Email;
use crate::ledger::plan::{InboxWrites, Loaded, Needs, ReferenceId, number_at};
use crate::order::{OrderId, Source};
use crate::product::RefName;
use crate::store::sql::inbox::{
    AT_ONCE, CUSTOMER, DISMISS, IS_DISMISSED, LIFT_DISMISSAL, PART, PRUNE_INBOX, RETRY_ENTRIES, deal, entries, entry,
    entry_columns, page, readable, reference, retried, text,
};
use crate::store::sql::rows::{Columns, parsed};
use crate::store::sql::statements::limit;
use crate::store::{Action, Deal, Edit, Entry, FARTHEST, Inbox, InboxQuery, Page, ReferenceKind, StoreError};

/// Adds the rows that `needs` names, and those that they lead to, but for new keys and purchases. Events, deals and keys are
/// locked, in this order.
pub(super) async fn lock(
    session: &mut Session<'_>,
    needs: &Needs,
    loaded: &mut Loaded,
    versions: &mut VersionCache,
) -> Result<(), StoreError> {
    const FOUND: &str = concat!(
        "SELECT ",
        entry_columns!(),
        " FROM unnest($1::text[], $2::text[]) AS w (source, name) \
          JOIN delivery_inbox i ON i.source = w.source AND i.name = w.name ORDER BY i.number FOR UPDATE OF i"
    );
    const DEALS: &str =
        "SELECT number, version, facts FROM delivery_deal WHERE number = ANY($1) ORDER BY number FOR UPDATE";
    if !needs.entries.is_empty() {
        let wanted = || needs.entries.iter();
        let found = session
            .query(FOUND)
            .bind(wanted().map(|id| id.source.as_str().to_owned()).collect::<Vec<_>>())
            .bind(wanted().map(|id| id.name.as_str().to_owned()).collect::<Vec<_>>());
        for row in &found.fetch_all(&mut **session).await.map_err(store_error)? {
            loaded.insert_entry(entry(row)?);
        }
    }
    load_references(session, needs, loaded).await?;
    let mut keys = needs.keys.clone();
    loop {
        let missing = loaded.missing();
        loaded.expect(&missing);
        keys.extend(missing.keys);
        let numbers: Vec<i64> = missing.deals.into_iter().collect();
        if !numbers.is_empty() {
            // Deals lead to keys: all deals come first.
            let found = session.query(DEALS).bind(numbers).fetch_all(&mut **session).await;
            for row in &found.map_err(store_error)? {
                loaded.insert_deal(deal(row)?);
            }
        } else if keys.is_empty() {
            return Ok(());
        } else {
            // Another time only if a key was replaced meanwhile.
            for row in load::locked_lines(session, &keys).await? {
                versions.invalidate(&row.key.id());
                loaded.insert(row);
            }
            keys.clear();
        }
    }
}

/// Adds the references that `needs` names.
async fn load_references(session: &mut Session<'_>, needs: &Needs, loaded: &mut Loaded) -> Result<(), StoreError> {
    const REFERENCES: &str = "SELECT r.source, r.kind, r.name, r.deal \
        FROM unnest($1::text[], $2::text[], $3::text[]) AS w (source, kind, name) \
        JOIN delivery_reference r ON r.source = w.source AND r.kind = w.kind AND r.name = w.name";
    if needs.references.is_empty() {
        return Ok(());
    }
    let wanted = || needs.references.iter();
    let found = session
        .query(REFERENCES)
        .bind(wanted().map(|it| it.source.as_str().to_owned()).collect::<Vec<_>>())
        .bind(wanted().map(|it| it.kind.as_str().to_owned()).collect::<Vec<_>>())
        .bind(wanted().map(|it| it.name.as_str().to_owned()).collect::<Vec<_>>());
    for row in &found.fetch_all(&mut **session).await.map_err(store_error)? {
        let (reference, deal) = reference(row)?;
        loaded.insert_reference(reference, deal);
    }
    Ok(())
}

/// The deals that references lead to. Nothing is locked.
pub(super) async fn deals(session: &mut Session<'_>, references: HashSet<ReferenceId>) -> Result<Loaded, StoreError> {
    const DEALS: &str = "SELECT number, version, facts FROM delivery_deal WHERE number = ANY($1)";
    let needs = Needs { references, ..Needs::default() };
    let mut loaded = Loaded::absent(&needs);
    load_references(session, &needs, &mut loaded).await?;
    loop {
        let missing = loaded.missing_deals();
        if missing.is_empty() {
            return Ok(loaded);
        }
        loaded.expect(&missing);
        let numbers: Vec<i64> = missing.deals.into_iter().collect();
        let found = session.query(DEALS).bind(numbers).fetch_all(&mut **session).await;
        for row in &found.map_err(store_error)? {
            loaded.insert_deal(deal(row)?);
        }
    }
}

/// Writes what events come to beside keys. Returns whether all of it was written: somebody else may have inserted the same
/// event, or a reference, meanwhile. The transaction is to be rolled back then.
pub(super) async fn persist(session: &mut Session<'_>, writes: &InboxWrites) -> Result<bool, StoreError> {
    const EVENTS: &str = "WITH new AS ( \
            SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], \
                    $8::text[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[]) \
                AS n (number, source, name, kind, order_id, body, received_at, outcome, reason, keys, due_at, attempts, version)), \
        changed AS ( \
            UPDATE delivery_inbox i SET body = n.body, outcome = n.outcome, reason = n.reason, keys = n.keys, due_at = n.due_at, \
                attempts = n.attempts, version = i.version + 1 \
            FROM new n WHERE n.version > 0 AND i.number = n.number AND i.version = n.version RETURNING i.number), \
        inserted AS ( \
            INSERT INTO delivery_inbox (number, source, name, kind, order_id, body, received_at, outcome, reason, keys, \
                due_at, attempts, version) \
            SELECT number, source, name, kind, order_id, body, received_at, outcome, reason, keys, due_at, attempts, 1 \
            FROM new WHERE version = 0 ORDER BY source, name ON CONFLICT DO NOTHING RETURNING number) \
        SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM inserted)";
    const DEALS: &str = "WITH new AS ( \
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS n (number, version, facts)), \
        changed AS ( \
            UPDATE delivery_deal d SET facts = n.facts, version = d.version + 1 \
            FROM new n WHERE n.version > 0 AND d.number = n.number AND d.version = n.version RETURNING d.number), \
        inserted AS ( \
            INSERT INTO delivery_deal (number, version, facts) SELECT number, 1, facts FROM new WHERE version = 0 \
            ON CONFLICT DO NOTHING RETURNING number), \
        named AS ( \
            INSERT INTO delivery_reference (source, kind, name, deal) \
            SELECT source, kind, name, deal FROM unnest($4::text[], $5::text[], $6::text[], $7::bigint[]) \
                AS r (source, kind, name, deal) ORDER BY source, kind, name ON CONFLICT DO NOTHING RETURNING deal) \
        SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM inserted) + (SELECT count(*) FROM named)";
    const CUSTOMERS: &str = "INSERT INTO delivery_customer AS k (source, reference, email, told_at) \
        SELECT DISTINCT ON (source, reference) source, reference, email, told_at \
        FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY \
            AS c (source, reference, email, told_at, place) \
        ORDER BY source, reference, told_at DESC, place DESC \
        ON CONFLICT (source, reference) DO UPDATE SET email = excluded.email, told_at = excluded.told_at \
        WHERE k.told_at <= excluded.told_at";
    const APPLIED: &str = "INSERT INTO delivery_event (number, at, actor, action, detail) VALUES ($1, $2, $3, $4, $5)";
    let InboxWrites { entries: events, references, deals, customers, applied } = writes;
    if !events.is_empty() {
        let written = session
            .scalar::<i64>(EVENTS)
            .bind(events.iter().map(|it| it.number).collect::<Vec<_>>())
            .bind(events.iter().map(|it| it.id.source.as_str().to_owned()).collect::<Vec<_>>())
            .bind(events.iter().map(|it| it.id.name.as_str().to_owned()).collect::<Vec<_>>())
            .bind(events.iter().map(|it| it.kind.clone()).collect::<Vec<_>>())
            .bind(events.iter().map(|it| Some(it.order.as_ref()?.as_str().to_owned())).collect::<Vec<_>>())
            .bind(events.iter().map(|it| it.body.clone()).collect::<Vec<_>>())
            .bind(events.iter().map(|it| it.received_at.timestamp_millis()).collect::<Vec<_>>())
            .bind(events.iter().map(|it| Some(it.outcome?.as_str().to_owned())).collect::<Vec<_>>())
            .bind(events.iter().map(|it| it.reason.clone()).collect::<Vec<_>>())
            .bind(events.iter().map(|it| text(&it.keys)).collect::<Result<Vec<_>, _>>()?)
            .bind(events.iter().map(|it| Some(it.due_at?.timestamp_millis())).collect::<Vec<_>>())
            .bind(events.iter().map(|it| i64::from(it.attempts)).collect::<Vec<_>>())
            .bind(events.iter().map(|it| it.version).collect::<Vec<_>>());
        let written = written.fetch_one(&mut **session).await.map_err(store_error)?;
        if usize::try_from(written) != Ok(events.len()) {
            return Ok(false);
        }
    }
    if !deals.is_empty() {
        let written = session
            .scalar::<i64>(DEALS)
            .bind(deals.iter().map(|row| row.number).collect::<Vec<_>>())
            .bind(deals.iter().map(|row| row.version).collect::<Vec<_>>())
            .bind(deals.iter().map(|row| text(&row.deal)).collect::<Result<Vec<_>, _>>()?)
            .bind(references.iter().map(|(it, _)| it.source.as_str().to_owned()).collect::<Vec<_>>())
            .bind(references.iter().map(|(it, _)| it.kind.as_str().to_owned()).collect::<Vec<_>>())
            .bind(references.iter().map(|(it, _)| it.name.as_str().to_owned()).collect::<Vec<_>>())
            .bind(references.iter().map(|(_, deal)| *deal).collect::<Vec<_>>());
        let written = written.fetch_one(&mut **session).await.map_err(store_error)?;
        if usize::try_from(written) != Ok(deals.len() + references.len()) {
            return Ok(false);
        }
    }
    if !customers.is_empty() {
        let remember = session
            .query(CUSTOMERS)
            .bind(customers.iter().map(|it| it.source.as_str().to_owned()).collect::<Vec<_>>())
            .bind(customers.iter().map(|it| it.reference.as_str().to_owned()).collect::<Vec<_>>())
            .bind(customers.iter().map(|it| it.email.as_str().to_owned()).collect::<Vec<_>>())
            .bind(customers.iter().map(|it| it.told_at.timestamp_millis()).collect::<Vec<_>>());
        remember.execute(&mut **session).await.map_err(store_error)?;
    }
    for (number, action, Edit { at, by, detail }) in applied {
        let log = session.query(APPLIED).bind(*number).bind(at.timestamp_millis()).bind(by.as_str().to_owned());
        let log = log.bind(action.as_str()).bind(detail.clone());
        log.execute(&mut **session).await.map_err(store_error)?;
    }
    Ok(true)
}

async fn claim(
    session: &mut Session<'_>,
    (now, lease_until): (DateTime<Utc>, DateTime<Utc>),
    most: usize,
) -> Result<Vec<Entry>, StoreError> {
    const CLAIM: &str = concat!(
        "WITH due AS ( \
            SELECT number FROM delivery_inbox WHERE due_at <= $1 OR due_at > $2 ORDER BY due_at, number LIMIT $3 \
            FOR UPDATE SKIP LOCKED), \
        i AS ( \
            UPDATE delivery_inbox l SET due_at = $4, attempts = attempts + 1, version = version + 1 \
            FROM due WHERE l.number = due.number RETURNING l.*) \
        SELECT ",
        entry_columns!(),
        " FROM i ORDER BY number"
    );
    let farthest = now.checked_add_signed(FARTHEST).unwrap_or(DateTime::<Utc>::MAX_UTC);
    let due = session
        .query(CLAIM)
        .bind(now.timestamp_millis())
        .bind(farthest.timestamp_millis())
        .bind(limit(most))
        .bind(lease_until.timestamp_millis());
    let claimed = due.fetch_all(&mut **session).await.map_err(store_error)?;
    readable(&claimed).map(|(entries, _)| entries)
}

async fn retry(
    session: &mut Session<'_>,
    (source, since, now): (Option<String>, Option<DateTime<Utc>>, DateTime<Utc>),
    from: i64,
) -> Result<(u64, Option<i64>), StoreError> {
    let since = since.as_ref().map(DateTime::timestamp_millis);
    let retry = session.query(RETRY_ENTRIES).bind(now.timestamp_millis()).bind(source).bind(since);
    retried(&retry.bind(from).bind(AT_ONCE).fetch_all(&mut **session).await.map_err(store_error)?)
}

/// Dismisses a product, or no longer, and enters that into the audit log.
async fn dismiss(
    session: &mut Session<'_>,
    (source, name): (&Source, &RefName),
    is_dismissed: bool,
    edit: &Edit,
) -> Result<(), StoreError> {
    let mut transaction = session.begin().await.map_err(store_error)?;
    let mut inside = Session::Host(&mut transaction);
    let change = inside.query(if is_dismissed { DISMISS } else { LIFT_DISMISSAL });
    let change = change.bind(source.as_str().to_owned()).bind(name.as_str().to_owned());
    if change.execute(&mut *inside).await.map_err(store_error)?.rows_affected() > 0 {
        log(&mut inside, (None, None), Action::of_dismissal(is_dismissed), edit).await?;
    }
    transaction.commit().await.map_err(store_error)
}

/// Prunes the next part from number `from` on. Returns how many were deleted, and where the part after it begins.
async fn prune(session: &mut Session<'_>, before: DateTime<Utc>, from: i64) -> Result<(u64, Option<i64>), StoreError> {
    let part = session.query(PART).bind(from).bind(AT_ONCE).bind(number_at(before + TimeDelta::seconds(1), 0));
    let part = part.fetch_one(&mut **session).await.map_err(store_error)?;
    let (events, last) = (part.integer("events")?, part.integer("last")?);
    let prune = session.query(PRUNE_INBOX).bind(from).bind(last).bind(before.timestamp_millis());
    let pruned = prune.execute(&mut **session).await.map_err(store_error)?.rows_affected();
    Ok((pruned, (events == AT_ONCE).then_some(last + 1)))
}

#[async_trait]
impl Inbox for PostgresStore {
    async fn claim_entries(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.maintenance()?.run(move |session| Box::pin(claim(session, (now, lease_until), limit))).await
    }

    async fn retry_entries(
        &self,
        source: Option<&Source>,
        since: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let source = source.map(|source| source.as_str().to_owned());
        let queue = self.maintenance()?;
        queue.part_by_part(move |session, from| Box::pin(retry(session, (source.clone(), since, now), from))).await
    }

    async fn entries(&self, query: &InboxQuery) -> Result<Page<Entry, i64>, StoreError> {
        let (sessions, query) = (self.sessions.clone(), query.clone());
        detached(async move {
            let mut session = sessions.read().await?;
            let find = session
                .query(AssertSqlSafe(entries(&query)))
                .bind(query.before.unwrap_or(i64::MAX))
                .bind(limit(query.page_size() + 1));
            let found = find.fetch_all(&mut *session).await.map_err(store_error)?;
            session.finish().await.map_err(store_error)?;
            page(&found, &query)
        })
        .await
    }

    async fn customer(&self, source: &Source, reference: &OrderId) -> Result<Option<Email>, StoreError> {
        let (sessions, source, reference) = (self.sessions.clone(), source.clone(), reference.clone());
        detached(async move {
            let mut session = sessions.read().await?;
            let find = session.scalar::<String>(CUSTOMER).bind(source.as_str().to_owned());
            let find = find.bind(reference.as_str().to_owned());
            let found = find.fetch_optional(&mut *session).await.map_err(store_error)?;
            session.finish().await.map_err(store_error)?;
            parsed(found.map(|email| email.parse()).transpose(), "e-mail address")
        })
        .await
    }

    async fn deal(&self, source: &Source, kind: ReferenceKind, name: &OrderId) -> Result<Option<Deal>, StoreError> {
        let reference = ReferenceId { source: source.clone(), kind, name: name.clone() };
        let sessions = self.sessions.clone();
        detached(async move {
            let mut session = sessions.read().await?;
            let loaded = deals(&mut session, HashSet::from([reference.clone()])).await?;
            session.finish().await.map_err(store_error)?;
            Ok(loaded.deal_named(&reference)?.cloned())
        })
        .await
    }

    async fn dismiss(&self, source: &Source, name: &RefName, is_dismissed: bool, edit: Edit) -> Result<(), StoreError> {
        let (source, name) = (source.clone(), name.clone());
        let change =
            async move |session: &mut Session<'_>| dismiss(session, (&source, &name), is_dismissed, &edit).await;
        self.maintenance()?.run(move |session| Box::pin(async move { change(session).await })).await
    }

    async fn is_dismissed(&self, source: &Source, name: &RefName) -> Result<bool, StoreError> {
        let (sessions, source, name) = (self.sessions.clone(), source.as_str().to_owned(), name.as_str().to_owned());
        detached(async move {
            let mut session = sessions.read().await?;
            let find = session.scalar::<i64>(IS_DISMISSED).bind(source).bind(name);
            let found = find.fetch_one(&mut *session).await.map_err(store_error)?;
            session.finish().await.map_err(store_error)?;
            Ok(found > 0)
        })
        .await
    }

    async fn prune_inbox(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        self.maintenance()?.part_by_part(move |session, from| Box::pin(prune(session, before, from))).await
    }
}
