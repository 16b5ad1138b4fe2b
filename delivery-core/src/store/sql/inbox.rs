//! Conversion of rows to platform events, deals and references. A deal is what a platform has reported about one sale
//! or subscription. A reference is a platform's name for something that belongs to a sale.

use chrono::{DateTime, Utc};

use super::rows::{Columns, milliseconds, parsed};
use crate::ledger::plan::{DealRow, ReferenceId};
use crate::ledger::{Amount, EventId, InboxEvent};
use crate::order::Source;
use crate::store::StoreError;

/// The columns that [`event`] reads from `delivery_inbox`, which must have the alias `i`.
macro_rules! event_columns {
    () => {
        "i.number, i.source, i.name, i.kind, i.order_id, i.body, i.received_at, i.outcome, i.reason, i.keys, i.due_at, \
         i.attempts, i.version"
    };
}
pub(in crate::store) use event_columns;

pub(in crate::store) fn event(row: &impl Columns) -> Result<InboxEvent, StoreError> {
    let due_at = row.integer_or_null("due_at")?.map(milliseconds).transpose()?;
    Ok(InboxEvent {
        number: row.integer("number")?,
        id: EventId { source: source(row)?, name: parsed(row.text("name")?.parse(), "name of an event")? },
        kind: row.text("kind")?.to_owned(),
        order: parsed(row.text_or_null("order_id")?.map(str::parse).transpose(), "order number")?,
        body: row.text_or_null("body")?.map(str::to_owned),
        received_at: milliseconds(row.integer("received_at")?)?,
        outcome: parsed(row.text_or_null("outcome")?.map(str::parse).transpose(), "outcome of an event")?,
        reason: row.text_or_null("reason")?.map(str::to_owned),
        keys: json(row.text("keys")?)?,
        due_at,
        attempts: u32::try_from(row.integer("attempts")?).unwrap_or(u32::MAX),
        version: row.integer("version")?,
    })
}

pub(in crate::store) fn deal(row: &impl Columns) -> Result<DealRow, StoreError> {
    let (number, version) = (row.integer("number")?, row.integer("version")?);
    Ok(DealRow { number, version, deal: json(row.text("facts")?)? })
}

/// Converts a row to a reference and the number of its deal.
pub(in crate::store) fn reference(row: &impl Columns) -> Result<(ReferenceId, i64), StoreError> {
    let kind = parsed(row.text("kind")?.parse(), "kind of reference")?;
    let name = parsed(row.text("name")?.parse(), "reference")?;
    Ok((ReferenceId { source: source(row)?, kind, name }, row.integer("deal")?))
}

pub(super) fn source(row: &impl Columns) -> Result<Source, StoreError> {
    parsed(row.text("source")?.parse(), "platform")
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::corrupt_because("JSON that cannot be read", error))
}

/// Returns `value` as JSON, for a text column.
pub(in crate::store) fn text(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::corrupt_because("facts that are no JSON", error))
}

/// Returns a row for each payment of these deals: the number of the deal, the name of the payment, its time in
/// milliseconds, its amount and its currency.
pub(in crate::store) fn payments(deals: &[DealRow]) -> Vec<(i64, String, i64, i64, String)> {
    let of_deal = |row: &DealRow| {
        let received = row.deal.received().into_iter();
        let payment = |(name, (at, total)): (&str, (DateTime<Utc>, Amount))| {
            let units = i64::try_from(total.units).unwrap_or(i64::MAX);
            (row.number, name.to_owned(), at.timestamp_millis(), units, total.currency.to_string())
        };
        received.map(payment).collect::<Vec<_>>()
    };
    deals.iter().flat_map(of_deal).collect()
}
