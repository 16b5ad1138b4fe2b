//! Platform events, and what they write besides keys: deals, payments, references and customers. This module loads the
//! rows of events, deals and references. It also prepares all of these rows for the statement in `batch.sql`, which
//! writes them.

use std::collections::HashSet;

use chrono::DateTime;
use serde::Serialize;
use sqlx::sqlite::SqliteConnection;

use super::error::store_error;
use super::json::json;
use super::{alias, request};
use crate::ledger::EventOutcome;
use crate::ledger::plan::{InboxWrites, Loaded, Needs, ReferenceId, Writes};
use crate::order::OrderId;
use crate::store::StoreError;
use crate::store::sql::inbox::{deal, event, event_columns, payments, reference, text};

/// Loads the events, references and deals that `needs` names.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    needs: &Needs,
    loaded: &mut Loaded,
) -> Result<(), StoreError> {
    const FOUND: &str = concat!(
        "SELECT ",
        event_columns!(),
        " FROM json_each(?) j JOIN delivery_inbox i ON i.source = j.value->>0 AND i.name = j.value->>1"
    );
    const REFERENCES: &str = "SELECT r.source, r.kind, r.name, r.deal FROM json_each(?) j JOIN delivery_reference r \
        ON r.source = j.value->>0 AND r.kind = j.value->>1 AND r.name = j.value->>2";
    const DEALS: &str =
        "SELECT d.number, d.version, d.facts FROM json_each(?) j JOIN delivery_deal d ON d.number = j.value";
    if !needs.events.is_empty() {
        let wanted: Vec<_> = needs.events.iter().map(|id| (id.source.as_str(), id.name.as_str())).collect();
        let found = sqlx::query(FOUND).bind(json(&wanted)?).fetch_all(&mut *connection).await.map_err(store_error)?;
        for row in &found {
            loaded.insert_event(event(row)?);
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

/// Loads the deals to which `references` refer, directly or through deals that were merged into others.
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

/// Returns the parameter `inbox` for the statement in `batch.sql`, which writes a batch; `None` if the batch has no
/// rows for this parameter. The parameter contains four kinds of rows:
///
/// - platform events
/// - what these events write besides keys, such as payments
/// - requests that have an `Idempotency-Key`
/// - aliases of imported keys
pub(super) fn rows(writes: &Writes) -> Result<Option<String>, StoreError> {
    #[derive(Serialize)]
    struct Rows<E, D, P, R, C, A, Q, M> {
        events: Vec<E>,
        deals: Vec<D>,
        payments: Vec<P>,
        references: Vec<R>,
        customers: Vec<C>,
        applied: Vec<A>,
        requests: Vec<Q>,
        aliases: Vec<M>,
    }
    let Writes { inbox, requests, aliases, .. } = writes;
    if inbox.is_empty() && requests.is_empty() && aliases.is_empty() {
        return Ok(None);
    }
    let InboxWrites { events, references, deals, customers, applied } = inbox;
    let events = events.iter().map(|event| {
        Ok((
            event.number,
            event.id.source.as_str(),
            event.id.name.as_str(),
            event.kind.as_str(),
            event.order.as_ref().map(OrderId::as_str),
            event.body.as_deref(),
            event.received_at.timestamp_millis(),
            event.outcome.map(EventOutcome::as_str),
            event.reason.as_deref(),
            text(&event.keys)?,
            event.due_at.as_ref().map(DateTime::timestamp_millis),
            event.attempts,
        ))
    });
    let customers = customers
        .iter()
        .map(|it| (it.source.as_str(), it.reference.as_str(), it.email.as_str(), it.told_at.timestamp_millis()));
    let applied = applied.iter().map(|(number, action, edit)| {
        (number, edit.at.timestamp_millis(), edit.by.as_str(), action.as_str(), edit.detail.as_deref())
    });
    json(&Rows {
        events: events.collect::<Result<Vec<_>, StoreError>>()?,
        deals: deals.iter().map(|row| Ok((row.number, text(&row.deal)?))).collect::<Result<Vec<_>, StoreError>>()?,
        payments: payments(deals),
        references: references
            .iter()
            .map(|(it, deal)| (it.source.as_str(), it.kind.as_str(), it.name.as_str(), deal))
            .collect(),
        customers: customers.collect(),
        applied: applied.collect(),
        requests: request::rows(requests),
        aliases: alias::rows(aliases),
    })
    .map(Some)
}
