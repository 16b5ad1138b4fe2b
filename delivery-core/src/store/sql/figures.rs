//! Figures: how many keys there are, and what happened on each day.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};

use super::rows::{Columns, product_id};
use super::session::{Row, Session, values};
use crate::key::{KeyId, Status};
use crate::ledger::Amount;
use crate::ledger::plan::number_at;
use crate::product::ProductId;
use crate::store::{Day, Figures, StoreError};

/// The length of a day, in milliseconds.
const DAY: i64 = 86_400_000;

/// Counts keys by product and state. The database reads only an index that contains both columns.
const COUNTED: &str = "SELECT product, CAST(state AS bigint) AS state, CAST(count(*) AS bigint) AS keys \
    FROM delivery_key GROUP BY product, state";

/// Counts the keys of each product that were replaced by other keys.
const REPLACED: &str = "SELECT product, CAST(count(*) AS bigint) AS keys FROM delivery_key \
    WHERE successor IS NOT NULL GROUP BY product";

/// Counts the keys whose status at second `$1` differs from the state in their row:
///
/// - keys that have expired but are not marked as expired yet
/// - keys that a server with a fast clock marked as expired too early
///
/// `$exhausted` is the condition for keys that are used up.
macro_rules! unmarked_keys {
    ($exhausted:literal) => {
        concat!(
            "SELECT product, CAST(state AS bigint) AS state, CAST(2 AS bigint) AS status, CAST(count(*) AS bigint) AS keys \
                FROM delivery_key WHERE state IN (0, 1) AND told IN (0, 1) AND expires_at <= $1 GROUP BY 1, 2 \
            UNION ALL \
            SELECT product, CAST(2 AS bigint), CAST(CASE WHEN ",
            $exhausted,
            " THEN 1 ELSE 0 END AS bigint) AS was, CAST(count(*) AS bigint) \
                FROM delivery_key WHERE state = 2 AND told IN (0, 1) AND expires_at > $1 GROUP BY 1, 3"
        )
    };
}

/// Counts the keys issued on each day from second `$1` on. Reads only keys whose id is at least `$2`, the result of
/// [`first_id`]. A key that was replaced is not counted. Its successor is counted instead, on the day on which the
/// first key was issued.
const ISSUED: &str = "SELECT issued_at / 86400 AS day, CAST(count(*) AS bigint) AS keys FROM delivery_key \
    WHERE issued_at >= $1 AND id >= $2 AND successor IS NULL GROUP BY 1";

/// Returns an id that is below the id of every key issued at millisecond `from` or later. An id contains the time at
/// which it was made. The time in the returned id is an hour before `from`, because the clocks of servers may differ.
fn first_id(from: i64) -> Vec<u8> {
    const HOUR: i64 = 3_600_000;
    let hour_before = DateTime::from_timestamp_millis(from - HOUR).unwrap_or_default();
    KeyId::from_time(hour_before).as_bytes().to_vec()
}

/// Counts the uses on each day from millisecond `$1` on. Reads only uses with numbers from `$2` on.
const USES: &str = "SELECT at / 86400000 AS day, CAST(count(*) AS bigint) AS uses FROM delivery_use \
    WHERE at >= $1 AND number >= $2 GROUP BY 1";

/// Counts the keys revoked on each day from millisecond `$1` on. Reads only audit entries with numbers from `$2` on.
const REVOCATIONS: &str = "SELECT at / 86400000 AS day, CAST(count(*) AS bigint) AS revoked FROM delivery_event \
    WHERE at >= $1 AND number >= $2 AND action = 'revoked' GROUP BY 1";

/// Adds up the payments of each day from millisecond `$1` on, in each currency. Refunds are not subtracted.
const REVENUE: &str = "SELECT at / 86400000 AS day, currency, CAST(sum(units) AS bigint) AS units FROM delivery_payment \
    WHERE at >= $1 GROUP BY 1, 2 ORDER BY 1, 2";

/// Counts what happened on each day, beginning with the day of `since`, and the keys by their status at `now`.
pub(super) async fn count(
    session: &mut Session<'_>,
    since: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<Figures, StoreError> {
    let from = day_of(since);
    let first_entry = DateTime::from_timestamp_millis(from).map_or(0, |from| number_at(from, 0));
    let (first_use, unmarked) = if session.dialect().is_sqlite() {
        (first_use(session, from).await?, unmarked_keys!("exhausted = 1"))
    } else {
        (0, unmarked_keys!("max_uses >= 0 AND used >= max_uses"))
    };
    figures(&Counts {
        keys: session.rows(COUNTED, Vec::new()).await?,
        replaced: session.rows(REPLACED, Vec::new()).await?,
        unmarked: session.rows(unmarked, values![now.timestamp()]).await?,
        issued: session.rows(ISSUED, values![from / 1000, first_id(from)]).await?,
        uses: session.rows(USES, values![from, first_use]).await?,
        revocations: session.rows(REVOCATIONS, values![from, first_entry]).await?,
        revenue: session.rows(REVENUE, values![from]).await?,
    })
}

/// Returns the number of the first use made at millisecond `since` or later, or a number above all uses if there is no
/// such use. Finds the use by binary search, which works because the SQLite store numbers uses in the order in which it
/// records them.
async fn first_use(session: &mut Session<'_>, since: i64) -> Result<i64, StoreError> {
    const NEWEST: &str = "SELECT coalesce(max(number), 0) AS number FROM delivery_use";
    const NEXT: &str = "SELECT number, at FROM delivery_use WHERE number >= $1 ORDER BY number LIMIT 1";
    let newest = session.row(NEWEST, Vec::new()).await?.map_or(Ok(0), |row| row.integer("number"))?;
    let (mut low, mut high) = (0, newest + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match session.row(NEXT, values![middle]).await? {
            Some(row) if row.integer("at")? < since => low = row.integer("number")? + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The rows from which figures are computed: the results of [`COUNTED`], [`REPLACED`], [`unmarked_keys!`], [`ISSUED`],
/// [`USES`], [`REVOCATIONS`] and [`REVENUE`].
struct Counts {
    keys: Vec<Row>,
    replaced: Vec<Row>,
    unmarked: Vec<Row>,
    issued: Vec<Row>,
    uses: Vec<Row>,
    revocations: Vec<Row>,
    revenue: Vec<Row>,
}

fn figures(found: &Counts) -> Result<Figures, StoreError> {
    const REVOKED: i64 = 3;
    let mut counts: BTreeMap<(ProductId, i64), i64> = BTreeMap::new();
    let mut add = |row: &_, status, keys| -> Result<(), StoreError> {
        *counts.entry((product_id(Columns::integer(row, "product")?)?, status)).or_default() += keys;
        Ok(())
    };
    for row in &found.keys {
        add(row, row.integer("state")?, row.integer("keys")?)?;
    }
    // Replaced keys are in the state "revoked", but are counted separately.
    for row in &found.replaced {
        add(row, REVOKED, -row.integer("keys")?)?;
    }
    for row in &found.unmarked {
        let keys = row.integer("keys")?;
        add(row, row.integer("state")?, -keys)?;
        add(row, row.integer("status")?, keys)?;
    }
    let mut days: BTreeMap<i64, Day> = BTreeMap::new();
    let mut at = |day: i64, change: &dyn Fn(&mut Day)| {
        if let Some(date) = date(day) {
            change(days.entry(day).or_insert_with(|| Day::new(date)));
        }
    };
    for row in &found.issued {
        let count = row.integer("keys")?.unsigned_abs();
        at(row.integer("day")?, &|day| day.issued += count);
    }
    for row in &found.uses {
        let count = row.integer("uses")?.unsigned_abs();
        at(row.integer("day")?, &|day| day.uses += count);
    }
    for row in &found.revocations {
        let count = row.integer("revoked")?.unsigned_abs();
        at(row.integer("day")?, &|day| day.revoked += count);
    }
    let status = |status| match status {
        0 => Status::Valid,
        1 => Status::Exhausted,
        2 => Status::Expired,
        _ => Status::Revoked,
    };
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    let keys = counts.map(|((product, number), count)| (product, status(number), count.unsigned_abs())).collect();
    let replaced = |row: &Row| Ok((product_id(row.integer("product")?)?, row.integer("keys")?.unsigned_abs()));
    let replaced = found.replaced.iter().map(replaced).collect::<Result<_, StoreError>>()?;
    let mut revenue = Vec::with_capacity(found.revenue.len());
    for row in &found.revenue {
        let currency = row.text("currency")?.parse();
        let currency = currency.map_err(|error| StoreError::corrupt_because("a currency", error))?;
        let amount = Amount { units: row.integer("units")?.unsigned_abs(), currency };
        revenue.extend(date(row.integer("day")?).map(|date| (date, amount)));
    }
    Ok(Figures { days: days.into_values().collect(), keys, replaced, revenue })
}

fn date(day: i64) -> Option<NaiveDate> {
    DateTime::from_timestamp(day.checked_mul(86_400)?, 0).map(|at| at.date_naive())
}

/// Returns the beginning of the UTC day of `time`, in milliseconds.
fn day_of(time: DateTime<Utc>) -> i64 {
    time.timestamp_millis().div_euclid(DAY) * DAY
}
