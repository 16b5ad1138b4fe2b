//! The inbox, deals and customers as rows.

use super::rows::{Columns, milliseconds, parsed};
use crate::ledger::plan::{DealRow, ReferenceId};
use crate::order::Source;
use crate::store::{Entry, EventId, EventOutcome, InboxQuery, Page, StoreError, UNKNOWN_PRODUCT};
use crate::throttle::Throttle;

/// The columns that [`entry`] reads, of `delivery_inbox i`.
macro_rules! entry_columns {
    () => {
        "i.number, i.source, i.name, i.kind, i.order_id, i.body, i.received_at, i.outcome, i.reason, i.keys, i.due_at, \
         i.attempts, i.version"
    };
}
pub(in crate::store) use entry_columns;

/// Events that match `query`, below number `$1`, newest first, at most `$2`.
pub(in crate::store) fn entries(query: &InboxQuery) -> String {
    // The index is found by what stands in the text.
    let outcome = match query.outcome {
        None => String::new(),
        Some(EventOutcome::Issued) => " AND i.outcome = 'issued'".to_owned(),
        Some(outcome) => format!(" AND i.outcome = '{}' AND i.outcome <> 'issued'", outcome.as_str()),
    };
    let newest = match query.outcome {
        Some(EventOutcome::NeedsAttention) => format!(
            " AND NOT EXISTS (SELECT 1 FROM delivery_inbox newer WHERE newer.number > i.number AND newer.outcome = i.outcome \
                AND newer.outcome <> 'issued' AND newer.source = i.source AND newer.reason = i.reason \
                AND i.reason LIKE '{UNKNOWN_PRODUCT}%')"
        ),
        _ => String::new(),
    };
    let columns = entry_columns!();
    format!(
        "SELECT {columns} FROM delivery_inbox i WHERE i.number < $1{outcome}{newest} ORDER BY i.number DESC LIMIT $2"
    )
}

/// The address of customer `$2` of platform `$1`.
pub(in crate::store) const CUSTOMER: &str = "SELECT email FROM delivery_customer WHERE source = $1 AND reference = $2";

/// Dismisses all that platform `$1` calls `$2`.
pub(in crate::store) const DISMISS: &str =
    "INSERT INTO delivery_dismissed (source, name) VALUES ($1, $2) ON CONFLICT DO NOTHING";

/// Dismisses it no longer.
pub(in crate::store) const LIFT_DISMISSAL: &str = "DELETE FROM delivery_dismissed WHERE source = $1 AND name = $2";

/// 1 if it is dismissed.
pub(in crate::store) const IS_DISMISSED: &str =
    "SELECT CAST(count(*) AS bigint) FROM delivery_dismissed WHERE source = $1 AND name = $2";

/// Makes events due at `$1` that wait for the seller: of platform `$2` or of all, received at `$3` or later or at any time, from
/// number `$4` on, at most `$5`.
pub(in crate::store) const RETRY_ENTRIES: &str = "UPDATE delivery_inbox SET due_at = $1, attempts = 0, version = version + 1 \
    WHERE number IN ( \
        SELECT number FROM delivery_inbox \
        WHERE outcome = 'needs_attention' AND outcome <> 'issued' AND number >= $4 \
            AND (CAST($2 AS text) IS NULL OR source = $2) AND (CAST($3 AS bigint) IS NULL OR received_at >= $3) \
        ORDER BY number LIMIT $5) \
    RETURNING number";

/// How many events were made due, and where the next part begins.
pub(in crate::store) fn retried(rows: &[impl Columns]) -> Result<(u64, Option<i64>), StoreError> {
    let numbers = rows.iter().map(|row| row.integer("number")).collect::<Result<Vec<_>, _>>()?;
    let last = numbers.iter().max().filter(|_| i64::try_from(numbers.len()) == Ok(AT_ONCE));
    Ok((numbers.len() as u64, last.map(|last| last + 1)))
}

/// Of the events from number `$1` on and below `$3`, those of the next part, of `$2` events: how many there are, and the last
/// number.
pub(in crate::store) const PART: &str = "SELECT CAST(count(*) AS bigint) AS events, coalesce(max(number), $1) AS last \
    FROM (SELECT number FROM delivery_inbox WHERE number >= $1 AND number < $3 ORDER BY number LIMIT $2) p";

/// Deletes events from number `$1` to `$2` that are done and were received before `$3`.
pub(in crate::store) const PRUNE_INBOX: &str =
    "DELETE FROM delivery_inbox WHERE number >= $1 AND number <= $2 AND due_at IS NULL AND received_at < $3";

/// How many events are looked at in a turn of pruning or retrying.
pub(in crate::store) const AT_ONCE: i64 = 1000;

/// An event.
pub(in crate::store) fn entry(row: &impl Columns) -> Result<Entry, StoreError> {
    let due_at = row.integer_or_null("due_at")?.map(milliseconds).transpose()?;
    Ok(Entry {
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

/// A deal.
pub(in crate::store) fn deal(row: &impl Columns) -> Result<DealRow, StoreError> {
    let (number, version) = (row.integer("number")?, row.integer("version")?);
    Ok(DealRow { number, version, deal: json(row.text("facts")?)? })
}

/// A reference, and the number of its deal.
pub(in crate::store) fn reference(row: &impl Columns) -> Result<(ReferenceId, i64), StoreError> {
    let kind = parsed(row.text("kind")?.parse(), "kind of reference")?;
    let name = parsed(row.text("name")?.parse(), "reference")?;
    Ok((ReferenceId { source: source(row)?, kind, name }, row.integer("deal")?))
}

/// The events of `rows`, and the numbers of all rows. One that cannot be read, such as one that another version wrote, does not
/// keep the others from being applied.
pub(in crate::store) fn readable(rows: &[impl Columns]) -> Result<(Vec<Entry>, Vec<i64>), StoreError> {
    static UNREADABLE: Throttle = Throttle::new();
    let (mut read, mut numbers) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for row in rows {
        let number = row.integer("number")?;
        numbers.push(number);
        match entry(row) {
            Ok(entry) => read.push(entry),
            Err(error) => {
                if let Some(more) = UNREADABLE.admit() {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, number, more, "a row of delivery_inbox cannot be read, and is not applied");
                }
            }
        }
    }
    Ok((read, numbers))
}

fn source(row: &impl Columns) -> Result<Source, StoreError> {
    parsed(row.text("source")?.parse(), "platform")
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::corrupt_because("JSON that cannot be read", error))
}

/// Facts, or ids of keys, as JSON.
pub(in crate::store) fn text(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::corrupt_because("facts that are no JSON", error))
}

/// A page of at most `size`, of which one more was asked for.
pub(in crate::store) fn page(rows: &[impl Columns], query: &InboxQuery) -> Result<Page<Entry, i64>, StoreError> {
    let size = query.page_size();
    let items = rows.iter().take(size).map(entry).collect::<Result<Vec<_>, _>>()?;
    let next = items.last().map(|entry| entry.number).filter(|_| rows.len() > size);
    Ok(Page { items, next })
}
