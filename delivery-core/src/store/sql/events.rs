//! The inbox: claims, lists, retries and prunes platform events. Also stores dismissed names. A dismissed name is a
//! platform's name for something that is not sold here, so events about it need no attention.

use std::collections::HashSet;
use std::ops::Range;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use super::inbox::{event, event_columns};
use super::rows::{Columns, milliseconds, parsed};
use super::session::{Database, Dialect, Patience, Session, Value, part_by_part, values};
use super::statements::limit;
use crate::email::Email;
use crate::ledger::plan::{ReferenceId, number_at};
use crate::ledger::{
    Action, Customer, Deal, Edit, EventOutcome, InboxEvent, NO_ADDRESS, ReferenceKind, UNKNOWN_PRODUCT,
};
use crate::order::{OrderId, Source};
use crate::product::RefName;
use crate::store::{Inbox, InboxQuery, MAX_RETRY_DELAY, Page, StoreError};
use crate::throttle::log_seldom;

/// Returns a statement that selects at most `$2` events that match `query`, newest first. Their numbers are at least
/// `$3` and below `$1`. If `query` names a platform, `$4` is the platform.
///
/// If `query` [groups](InboxQuery::is_grouped) events, the statement selects only one event for each unknown product:
/// the newest one that needs attention because of that product.
pub(super) fn select_events(query: &InboxQuery, dialect: Dialect) -> String {
    const NUMBERS: &str = "i.number < $1 AND i.number >= $3";
    // The outcome is a part of the SQL text, not a parameter, so that the planner of the database can use the partial
    // index. The text must also repeat the condition of that index, `outcome <> 'issued'`.
    let outcome = match query.outcome {
        None => String::new(),
        Some(EventOutcome::Issued) => " AND i.outcome = 'issued'".to_owned(),
        Some(outcome) => format!(" AND i.outcome = '{}' AND i.outcome <> 'issued'", outcome.as_str()),
    };
    let newest = if query.groups() {
        format!(
            " AND NOT EXISTS (SELECT 1 FROM delivery_inbox newer WHERE newer.number > i.number AND newer.outcome = i.outcome \
                AND newer.outcome <> 'issued' AND newer.source = i.source AND newer.reason = i.reason \
                AND i.reason LIKE '{UNKNOWN_PRODUCT}%')"
        )
    } else {
        String::new()
    };
    let (range, order) = match (&query.source, query.outcome) {
        (None, _) => (NUMBERS.to_owned(), "i.number DESC"),
        // PostgreSQL reuses one plan for all platforms. If the source and the number are compared as a pair, that plan
        // searches only the events of the platform. SQLite would use only the first part of a pair.
        (Some(_), None | Some(EventOutcome::Issued)) if !dialect.is_sqlite() => (
            "(i.source, i.number) < ($4, $1) AND (i.source, i.number) >= ($4, $3)".to_owned(),
            "i.source DESC, i.number DESC",
        ),
        // `|| ''` keeps the planners from using the index by platform. So they search the few events that need
        // attention, not all events of the platform.
        (Some(_), Some(EventOutcome::NeedsAttention)) => {
            (format!("{NUMBERS} AND i.source || '' = $4"), "i.number DESC")
        }
        (Some(_), _) => (format!("{NUMBERS} AND i.source = $4"), "i.number DESC"),
    };
    let columns = event_columns!();
    format!("SELECT {columns} FROM delivery_inbox i WHERE {range}{outcome}{newest} ORDER BY {order} LIMIT $2")
}

/// Selects the e-mail address of customer `$2` of platform `$1`.
const CUSTOMER: &str = "SELECT email FROM delivery_customer WHERE source = $1 AND reference = $2";

/// Selects the platforms' customers with the e-mail address `$1`, which must be in lower case.
const CUSTOMERS: &str = "SELECT source, reference, email, told_at FROM delivery_customer WHERE lower(email) = $1";

/// Dismisses the name `$2` of platform `$1`: events about what the platform sells under this name then need no
/// attention.
const DISMISS: &str = "INSERT INTO delivery_dismissed (source, name) VALUES ($1, $2) ON CONFLICT DO NOTHING";

/// Lifts the dismissal of the name `$2` of platform `$1`.
const LIFT_DISMISSAL: &str = "DELETE FROM delivery_dismissed WHERE source = $1 AND name = $2";

/// Finds a row if the name `$2` of platform `$1` is dismissed.
const IS_DISMISSED: &str = "SELECT name FROM delivery_dismissed WHERE source = $1 AND name = $2";

/// Returns a statement that retries events that need attention: it makes them due at `$1`, and resets their attempts.
/// One execution changes at most `$5` events, in the order of their numbers, from number `$4` on. Two parameters may be
/// NULL; otherwise they limit the selection:
///
/// - `$2`: only events of this platform
/// - `$3`: only events with the reason `$6` whose content names this customer. `$3` is a JSON string.
///
/// The inner query waits for locked rows and then checks its conditions again. Otherwise, an event that another
/// transaction completes meanwhile would become due again.
fn retry_events(dialect: Dialect) -> String {
    let waiting = "SELECT number FROM delivery_inbox \
        WHERE outcome = 'needs_attention' AND outcome <> 'issued' AND number >= $4 \
            AND (CAST($2 AS text) IS NULL OR source = $2) \
            AND (CAST($3 AS text) IS NULL \
                OR (reason = $6 AND replace(body, '\"customer\":' || $3, '') <> body)) \
        ORDER BY number LIMIT $5";
    let waiting = dialect.locking(waiting);
    format!(
        "UPDATE delivery_inbox SET due_at = $1, attempts = 0, version = version + 1 WHERE number IN ({waiting}) \
         RETURNING number"
    )
}

/// Returns how many events one execution of [`retry_events`] made due, and the number from which the next execution
/// continues. That number is `None` if there are no more events. `rows` are the results of the execution.
fn retried(rows: &[impl Columns]) -> Result<(u64, Option<i64>), StoreError> {
    let numbers = rows.iter().map(|row| row.integer("number")).collect::<Result<Vec<_>, _>>()?;
    let last = numbers.iter().max().filter(|_| i64::try_from(numbers.len()) == Ok(AT_ONCE));
    Ok((numbers.len() as u64, last.map(|last| last + 1)))
}

/// Determines one part of the events to prune: the first `$2` events with numbers from `$1` on and below `$3`. Returns
/// how many events the part contains, and the greatest of their numbers. If the part is empty, that number is `$1`.
const PART: &str = "SELECT CAST(count(*) AS bigint) AS events, coalesce(max(number), $1) AS last \
    FROM (SELECT number FROM delivery_inbox WHERE number >= $1 AND number < $3 ORDER BY number LIMIT $2) p";

/// Deletes the events with numbers from `$1` to `$2` that are done and were received before `$3`.
const PRUNE_INBOX: &str =
    "DELETE FROM delivery_inbox WHERE number >= $1 AND number <= $2 AND due_at IS NULL AND received_at < $3";

/// The maximum number of events in one part of pruning or retrying. Each part is a transaction.
const AT_ONCE: i64 = 1000;

#[async_trait]
impl<D: Database> Inbox for D {
    async fn claim_events(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<InboxEvent>, StoreError> {
        // A worker calls this often, and usually nothing is due. This read finds that out without the cost of a commit.
        let due = values![now.timestamp_millis(), latest_due(now), 1];
        if self.read(Patience::Usual, |session| Box::pin(session.row(DUE, due))).await?.is_none() {
            return Ok(Vec::new());
        }
        self.write(Patience::Usual, move |session| Box::pin(claim(session, (now, lease_until), limit))).await
    }

    async fn retry_events(
        &self,
        source: Option<&Source>,
        customer: Option<&OrderId>,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let source = source.map(|source| source.as_str().to_owned());
        let customer = customer.map(|customer| serde_json::Value::from(customer.as_str()).to_string());
        part_by_part(|from| {
            let wanted = values![now.timestamp_millis(), source.clone(), customer.clone(), from, AT_ONCE, NO_ADDRESS];
            self.write(Patience::Long, move |session| {
                Box::pin(async move { retried(&session.rows(&retry_events(session.dialect()), wanted).await?) })
            })
        })
        .await
    }

    async fn events(&self, query: &InboxQuery) -> Result<Page<InboxEvent, i64>, StoreError> {
        let wanted_events = query.clone();
        let Range { start, end } = query.numbers();
        let mut wanted = values![end, limit(query.page_size() + 1), start];
        wanted.extend(query.source.as_ref().map(|source| Value::from(source.as_str())));
        let found = self.read(Patience::Usual, move |session| {
            let sql = select_events(&wanted_events, session.dialect());
            Box::pin(async move { session.rows(&sql, wanted).await })
        });
        page(&found.await?, query)
    }

    async fn customer(&self, source: &Source, reference: &OrderId) -> Result<Option<Email>, StoreError> {
        let wanted = values![source.as_str(), reference.as_str()];
        let found = self.read(Patience::Usual, |session| Box::pin(session.row(CUSTOMER, wanted))).await?;
        parsed(found.map(|row| row.text("email").map(str::parse)).transpose()?.transpose(), "e-mail address")
    }

    async fn customers(&self, email: &Email) -> Result<Vec<Customer>, StoreError> {
        let wanted = values![email.as_str().to_ascii_lowercase()];
        let found = self.read(Patience::Usual, |session| Box::pin(session.rows(CUSTOMERS, wanted))).await?;
        let customer = |row| {
            Ok(Customer {
                source: parsed(Columns::text(row, "source")?.parse(), "platform")?,
                reference: parsed(Columns::text(row, "reference")?.parse(), "reference")?,
                email: parsed(Columns::text(row, "email")?.parse(), "e-mail address")?,
                told_at: milliseconds(Columns::integer(row, "told_at")?)?,
            })
        };
        found.iter().map(customer).collect()
    }

    async fn deal(&self, source: &Source, kind: ReferenceKind, name: &OrderId) -> Result<Option<Deal>, StoreError> {
        let reference = ReferenceId { source: source.clone(), kind, name: name.clone() };
        self.read(Patience::Usual, move |session| {
            Box::pin(async move {
                let loaded = session.deals(HashSet::from([reference.clone()])).await?;
                Ok(loaded.deal_named(&reference)?.map(|row| row.deal.clone()))
            })
        })
        .await
    }

    async fn dismiss(&self, source: &Source, name: &RefName, is_dismissed: bool, edit: Edit) -> Result<(), StoreError> {
        let wanted = values![source.as_str(), name.as_str()];
        self.write(Patience::Usual, move |session| {
            Box::pin(async move {
                let change = if is_dismissed { DISMISS } else { LIFT_DISMISSAL };
                if session.execute(change, wanted).await? > 0 {
                    session.log((None, None), Action::of_dismissal(is_dismissed), &edit).await?;
                }
                Ok(())
            })
        })
        .await
    }

    async fn is_dismissed(&self, source: &Source, name: &RefName) -> Result<bool, StoreError> {
        let wanted = values![source.as_str(), name.as_str()];
        Ok(self.read(Patience::Usual, |session| Box::pin(session.row(IS_DISMISSED, wanted))).await?.is_some())
    }

    async fn prune_inbox(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        part_by_part(|from| self.write(Patience::Long, move |session| Box::pin(prune(session, before, from)))).await
    }
}

/// Selects at most `$3` events that are due: events with a due time of `$1` or earlier, and events with a due time
/// after `$2`. Only a server with a wrong clock can have set a time after `$2`, so these events must not wait for it.
const DUE: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM delivery_inbox i WHERE i.due_at <= $1 OR i.due_at > $2 ORDER BY i.due_at, i.number LIMIT $3"
);

async fn claim(
    session: &mut Session<'_>,
    (now, lease_until): (DateTime<Utc>, DateTime<Utc>),
    most: usize,
) -> Result<Vec<InboxEvent>, StoreError> {
    let dialect = session.dialect();
    let due = values![now.timestamp_millis(), latest_due(now), limit(most)];
    let (mut claimed, numbers) = readable(&session.rows(&dialect.skipping(DUE), due).await?)?;
    if numbers.is_empty() {
        return Ok(claimed);
    }
    let lease = format!(
        "UPDATE delivery_inbox SET due_at = $1, attempts = attempts + 1, version = version + 1 WHERE {}",
        dialect.any_of("number", "$2")
    );
    session.execute(&lease, values![lease_until.timestamp_millis(), numbers]).await?;
    for event in &mut claimed {
        event.due_at = Some(lease_until);
        (event.attempts, event.version) = (event.attempts.saturating_add(1), event.version + 1);
    }
    claimed.sort_by_key(|event| event.number);
    Ok(claimed)
}

/// Looks at the next [`AT_ONCE`] events, from number `from` on, and deletes those that are done and were received
/// before `before`. Returns how many it deleted, and the number from which the next call continues. That number is
/// `None` if there are no more events.
async fn prune(session: &mut Session<'_>, before: DateTime<Utc>, from: i64) -> Result<(u64, Option<i64>), StoreError> {
    // An event's number contains its time of receipt, but only to the second. `before` may be in the middle of a
    // second, so the range of numbers includes that second. The deletion then compares the exact times.
    let end = number_at(before + TimeDelta::seconds(1), 0);
    let part = session.row(PART, values![from, AT_ONCE, end]).await?;
    let part = part.ok_or(StoreError::corrupt("a count without a row"))?;
    let (events, last) = (part.integer("events")?, part.integer("last")?);
    let pruned = session.execute(PRUNE_INBOX, values![from, last, before.timestamp_millis()]).await?;
    Ok((pruned, (events == AT_ONCE).then_some(last + 1)))
}

/// Returns the latest due time, in milliseconds, that a server with a correct clock may have set.
fn latest_due(now: DateTime<Utc>) -> i64 {
    now.checked_add_signed(MAX_RETRY_DELAY).unwrap_or(DateTime::<Utc>::MAX_UTC).timestamp_millis()
}

/// Converts `rows` to events. Returns the events, and the numbers of all rows.
///
/// An event that cannot be read, for example because another version of this software wrote it, is logged and left out.
/// So the other events can still be applied. Its number is returned nevertheless, so that the caller leases this event
/// too. Otherwise it would be due again at once.
fn readable(rows: &[impl Columns]) -> Result<(Vec<InboxEvent>, Vec<i64>), StoreError> {
    let (mut read, mut numbers) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for row in rows {
        let number = row.integer("number")?;
        numbers.push(number);
        match event(row) {
            Ok(event) => read.push(event),
            Err(error) => {
                log_seldom!(
                    error,
                    error = &error,
                    number,
                    "a row of delivery_inbox cannot be read, and is not applied"
                );
            }
        }
    }
    Ok((read, numbers))
}

/// Makes a page of events from `rows`. If there is one row more than the page size, another page follows.
fn page(rows: &[impl Columns], query: &InboxQuery) -> Result<Page<InboxEvent, i64>, StoreError> {
    let size = query.page_size();
    let items = rows.iter().take(size).map(event).collect::<Result<Vec<_>, _>>()?;
    let next = items.last().map(|event| event.number).filter(|_| rows.len() > size);
    Ok(Page { items, next })
}
