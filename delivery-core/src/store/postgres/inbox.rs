//! The inbox: platform events, and the deals, references, payments and customers that they report. A *deal* is
//! everything that a platform has reported about one sale. A *reference* is a platform's name for something that
//! belongs to the sale, and identifies the deal. All these rows are written in the same transaction as the keys that
//! the events change.
//!
//! Several servers may receive events of the same sale at once. If the sale already has a deal, each server locks the
//! deal's row, so one waits for the other. If there is no deal yet, each server inserts the same reference, and the
//! primary key of the references accepts only one of these rows. The transaction that comes second writes nothing, and
//! its next attempt finds the deal that the first one has inserted.

use std::collections::HashSet;

use super::error::store_error;
use super::load;
use super::session::Session;
use crate::ledger::Edit;
use crate::ledger::plan::{InboxWrites, Loaded, Needs, ReferenceId};
use crate::store::StoreError;
use crate::store::sql::inbox::{deal, event, event_columns, payments, reference, text};

/// Loads the events, references and keys in `needs`, and the deals and keys to which these rows refer. Locks the events
/// first, then the deals, then the keys with their successors (the keys that replaced them). Does not lock references.
/// Does not load `needs.new` and `needs.purchases`.
pub(super) async fn lock(session: &mut Session<'_>, needs: &Needs, loaded: &mut Loaded) -> Result<(), StoreError> {
    const FOUND: &str = concat!(
        "SELECT ",
        event_columns!(),
        " FROM unnest($1::text[], $2::text[]) AS w (source, name) \
          JOIN delivery_inbox i ON i.source = w.source AND i.name = w.name ORDER BY i.number FOR UPDATE OF i"
    );
    const DEALS: &str =
        "SELECT number, version, facts FROM delivery_deal WHERE number = ANY($1) ORDER BY number FOR UPDATE";
    if !needs.events.is_empty() {
        let wanted = || needs.events.iter();
        let found = session
            .query(FOUND)
            .bind(wanted().map(|id| id.source.as_str().to_owned()).collect::<Vec<_>>())
            .bind(wanted().map(|id| id.name.as_str().to_owned()).collect::<Vec<_>>());
        for row in &found.fetch_all(&mut **session).await.map_err(store_error)? {
            loaded.insert_event(event(row)?);
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
            // All deals are locked before the keys to which they refer.
            let found = session.query(DEALS).bind(numbers).fetch_all(&mut **session).await;
            for row in &found.map_err(store_error)? {
                loaded.insert_deal(deal(row)?);
            }
        } else if keys.is_empty() {
            return Ok(());
        } else {
            // Locks and loads the keys. The loop gets here a second time only if another server has replaced one of
            // these keys by a new key in the meantime.
            for row in load::locked_lines(session, &keys).await? {
                loaded.insert(row);
            }
            keys.clear();
        }
    }
}

/// Loads the references in `needs`, without locking them.
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

/// Loads the deals that `references` identify, without locking them.
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

/// Inserts or updates deals (parameters `$1` to `$3`), inserts references (`$4` to `$7`), and replaces the payments of
/// these deals by the payments in `$8` to `$12`. Each parameter is an array with one column of the rows. Returns the
/// number of deals and references that were written.
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
            AS r (source, kind, name, deal) ORDER BY source, kind, name ON CONFLICT DO NOTHING RETURNING deal), \
    paid AS ( \
        SELECT * FROM unnest($8::bigint[], $9::text[], $10::bigint[], $11::bigint[], $12::text[]) \
            AS p (deal, name, at, units, currency)), \
    unpaid AS ( \
        DELETE FROM delivery_payment o WHERE deal = ANY($1) \
            AND NOT EXISTS (SELECT FROM paid p WHERE p.deal = o.deal AND p.name = o.name)), \
    kept AS ( \
        INSERT INTO delivery_payment AS k (deal, name, at, units, currency) SELECT * FROM paid ORDER BY deal, name \
        ON CONFLICT (deal, name) DO UPDATE SET at = excluded.at, units = excluded.units, currency = excluded.currency \
        WHERE (k.at, k.units, k.currency) IS DISTINCT FROM (excluded.at, excluded.units, excluded.currency)) \
    SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM inserted) + (SELECT count(*) FROM named)";

/// Writes everything that platform events change, except keys. Returns whether everything was written. Returns false if
/// another server has inserted the same event or the same reference in the meantime. The caller must then roll the
/// transaction back.
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
    const CUSTOMERS: &str = "INSERT INTO delivery_customer AS k (source, reference, email, told_at) \
        SELECT DISTINCT ON (source, reference) source, reference, email, told_at \
        FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY \
            AS c (source, reference, email, told_at, place) \
        ORDER BY source, reference, told_at DESC, place DESC \
        ON CONFLICT (source, reference) DO UPDATE SET email = excluded.email, told_at = excluded.told_at \
        WHERE k.told_at <= excluded.told_at";
    const APPLIED: &str = "INSERT INTO delivery_event (number, at, actor, action, detail) VALUES ($1, $2, $3, $4, $5)";
    let InboxWrites { events, references, deals, customers, applied } = writes;
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
        let paid = payments(deals);
        let written = session
            .scalar::<i64>(DEALS)
            .bind(deals.iter().map(|row| row.number).collect::<Vec<_>>())
            .bind(deals.iter().map(|row| row.version).collect::<Vec<_>>())
            .bind(deals.iter().map(|row| text(&row.deal)).collect::<Result<Vec<_>, _>>()?)
            .bind(references.iter().map(|(it, _)| it.source.as_str().to_owned()).collect::<Vec<_>>())
            .bind(references.iter().map(|(it, _)| it.kind.as_str().to_owned()).collect::<Vec<_>>())
            .bind(references.iter().map(|(it, _)| it.name.as_str().to_owned()).collect::<Vec<_>>())
            .bind(references.iter().map(|(_, deal)| *deal).collect::<Vec<_>>())
            .bind(paid.iter().map(|(deal, ..)| *deal).collect::<Vec<_>>())
            .bind(paid.iter().map(|(_, name, ..)| name.clone()).collect::<Vec<_>>())
            .bind(paid.iter().map(|(_, _, at, ..)| *at).collect::<Vec<_>>())
            .bind(paid.iter().map(|(.., units, _)| *units).collect::<Vec<_>>())
            .bind(paid.iter().map(|(.., currency)| currency.clone()).collect::<Vec<_>>());
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
