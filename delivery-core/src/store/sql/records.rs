//! Messages, the audit log and figures as rows.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};

use super::rows::{Columns, key_id, milliseconds, parsed, product_id};
use crate::email::Email;
use crate::key::{Actor, KeyId, Status};
use crate::ledger::inbox::names_buyer;
use crate::ledger::plan::{Loaded, ReferenceId};
use crate::order::OrderRef;
use crate::product::ProductId;
use crate::store::subscribed::sale_of;
use crate::store::{
    AuditEntry, AuditQuery, Backlog, Day, Figures, MessageNumber, MessageQuery, MessageState, Page, StoreError,
    StoredMessage,
};

/// The longest that figures may take, which read every key.
pub(in crate::store) const FIGURES: Duration = Duration::from_mins(5);

/// Milliseconds of a day.
pub(in crate::store) const DAY: i64 = 86_400_000;

/// Messages below number `$1` that match `query`, newest first, at most `$2`; of the key with id `$3` if it names one.
pub(in crate::store) fn messages(query: &MessageQuery) -> String {
    let key = if query.key.is_some() { " AND m.key = (SELECT number FROM delivery_key WHERE id = $3)" } else { "" };
    // Those that wait or failed are few, and have an index that is not ordered by number: the number of no other is looked at.
    let (state, number) = match query.state {
        None => ("", "m.number"),
        Some(MessageState::Queued) => (" AND m.state = 0", "m.number + 0"),
        Some(MessageState::Sent) => (" AND m.state = 1", "m.number"),
        Some(MessageState::Failed) => (" AND m.state = 2", "m.number + 0"),
    };
    format!(
        "SELECT m.number, m.kind, m.recipient, m.state, m.attempts, m.queued_at, m.due_at, m.reason, k.id \
            FROM delivery_message m JOIN delivery_key k ON k.number = m.key \
            WHERE {number} < $1{key}{state} ORDER BY {number} DESC LIMIT $2"
    )
}

/// Entries of the audit log below number `$1` that match `query`, newest first, at most `$2`; of the key with id `$3` if it names
/// one.
pub(in crate::store) fn audit(query: &AuditQuery) -> String {
    let key = if query.key.is_some() { " AND e.key = (SELECT number FROM delivery_key WHERE id = $3)" } else { "" };
    format!(
        "SELECT e.number, e.at, e.actor, e.action, e.product, e.detail, k.id \
            FROM delivery_event e LEFT JOIN delivery_key k ON k.number = e.key \
            WHERE e.number < $1{key} ORDER BY e.number DESC LIMIT $2"
    )
}

/// A page of messages, of which one more was asked for.
pub(in crate::store) fn message_page(
    rows: &[impl Columns],
    size: usize,
) -> Result<Page<StoredMessage, MessageNumber>, StoreError> {
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

/// A page of the audit log, of which one more was asked for.
pub(in crate::store) fn audit_page(rows: &[impl Columns], size: usize) -> Result<Page<AuditEntry, i64>, StoreError> {
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

/// How many keys there are by product and state, from the index that has both.
pub(in crate::store) const COUNTED: &str = "SELECT product, CAST(state AS bigint) AS state, CAST(count(*) AS bigint) AS keys \
    FROM delivery_key GROUP BY product, state";

/// How many keys of a product others replaced.
pub(in crate::store) const REPLACED: &str = "SELECT product, CAST(count(*) AS bigint) AS keys FROM delivery_key \
    WHERE successor IS NOT NULL GROUP BY product";

/// How many keys have another status at second `$1` than the state they are marked with: they expired since, or were marked by a
/// server whose clock is ahead. `exhausted` is the condition for keys that are used up.
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
pub(in crate::store) use unmarked_keys;

/// How many keys were issued on each day from second `$1` on, among the keys from id `$2` on ([`first_id`]). The successor of a
/// key counts on the day of the first.
pub(in crate::store) const ISSUED: &str = "SELECT issued_at / 86400 AS day, CAST(count(*) AS bigint) AS keys FROM delivery_key \
    WHERE issued_at >= $1 AND id >= $2 AND successor IS NULL GROUP BY 1";

/// An id below those of all keys that were issued at `from`, in milliseconds, or later. An id has the time at which it was made;
/// an hour is left for servers whose clocks differ.
pub(in crate::store) fn first_id(from: i64) -> Vec<u8> {
    const HOUR: i64 = 3_600_000;
    KeyId::from_time(u64::try_from(from - HOUR).unwrap_or_default()).as_bytes().to_vec()
}

/// Keys that expire after second `$1` and not after second `$2`, and whose buyers were not told of that time: at most `$3`, those
/// that expire first. Persons who were forgotten are told nothing. A key that neither was sold for that long nor lasts that long is of no
/// news.
pub(in crate::store) const EXPIRING: &str = "SELECT number, id, product, source, order_id, expires_at, email, \
        CAST(CASE WHEN email LIKE 'erased-%@erased.invalid' THEN 1 ELSE 0 END AS bigint) AS silent FROM delivery_key \
    WHERE state = 0 AND told = 0 AND expires_at > $1 AND expires_at <= $2 \
        AND CASE WHEN granted_until > expires_at THEN granted_until ELSE expires_at END - issued_at >= $2 - $1 \
    ORDER BY expires_at LIMIT $3";

/// The references of the deals of keys that [`EXPIRING`] has found.
pub(in crate::store) fn deals_of(rows: &[impl Columns]) -> Result<HashSet<ReferenceId>, StoreError> {
    rows.iter().filter_map(|row| deal_of(row).transpose()).collect()
}

/// Whether a buyer is told nothing of a key that [`EXPIRING`] has found: the buyer was forgotten, or the key renews by itself.
pub(in crate::store) fn is_silent(row: &impl Columns, deals: &Loaded) -> Result<bool, StoreError> {
    if row.integer("silent")? != 0 {
        return Ok(true);
    }
    let Some(reference) = deal_of(row)? else { return Ok(false) };
    let product = product_id(row.integer("product")?)?;
    Ok(deals.deal_named(&reference)?.is_some_and(|deal| deal.subscription(reference.name.as_str(), product).is_some()))
}

fn deal_of(row: &impl Columns) -> Result<Option<ReferenceId>, StoreError> {
    let (Some(source), Some(id)) = (row.text_or_null("source")?, row.text_or_null("order_id")?) else {
        return Ok(None);
    };
    let order = OrderRef { source: parsed(source.parse(), "order source")?, id: parsed(id.parse(), "order number")? };
    Ok(sale_of(&order))
}

/// How many uses there were on each day from `$1` on, among the records from number `$2` on.
pub(in crate::store) const USES: &str = "SELECT at / 86400000 AS day, CAST(count(*) AS bigint) AS uses FROM delivery_use \
    WHERE at >= $1 AND number >= $2 GROUP BY 1";

/// How many keys were revoked on each day from `$1` on, among the entries from number `$2` on.
pub(in crate::store) const REVOCATIONS: &str = "SELECT at / 86400000 AS day, CAST(count(*) AS bigint) AS revoked FROM delivery_event \
    WHERE at >= $1 AND number >= $2 AND action = 'revoked' GROUP BY 1";

/// What waits and what failed.
pub(in crate::store) const BACKLOG: &str = "SELECT \
    (SELECT CAST(count(*) AS bigint) FROM delivery_message WHERE state = 0) AS queued, \
    (SELECT min(queued_at) FROM delivery_message WHERE state = 0) AS oldest, \
    (SELECT CAST(count(*) AS bigint) FROM delivery_message WHERE state = 2) AS failed, \
    (SELECT CAST(count(*) AS bigint) FROM delivery_inbox WHERE outcome = 'needs_attention') AS attention";

/// What [`BACKLOG`] has found.
pub(in crate::store) fn backlog(row: &impl Columns) -> Result<Backlog, StoreError> {
    let count = |name| row.integer(name).map(i64::unsigned_abs);
    Ok(Backlog {
        queued: count("queued")?,
        oldest: row.integer_or_null("oldest")?.map(milliseconds).transpose()?,
        failed: count("failed")?,
        needs_attention: count("attention")?,
    })
}

/// Rows that figures are made of: those of [`COUNTED`], [`REPLACED`], [`unmarked_keys!`], [`ISSUED`], [`USES`] and
/// [`REVOCATIONS`].
pub(in crate::store) struct Counts<R> {
    pub(in crate::store) keys: Vec<R>,
    pub(in crate::store) replaced: Vec<R>,
    pub(in crate::store) unmarked: Vec<R>,
    pub(in crate::store) issued: Vec<R>,
    pub(in crate::store) uses: Vec<R>,
    pub(in crate::store) revocations: Vec<R>,
}

/// What they come to.
pub(in crate::store) fn figures(found: &Counts<impl Columns>) -> Result<Figures, StoreError> {
    const REVOKED: i64 = 3;
    let mut counts: BTreeMap<(ProductId, i64), i64> = BTreeMap::new();
    let mut add = |row: &_, status, keys| -> Result<(), StoreError> {
        *counts.entry((product_id(Columns::integer(row, "product")?)?, status)).or_default() += keys;
        Ok(())
    };
    for row in &found.keys {
        add(row, row.integer("state")?, row.integer("keys")?)?;
    }
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
    Ok(Figures { days: days.into_values().collect(), keys })
}

fn date(day: i64) -> Option<NaiveDate> {
    DateTime::from_timestamp(day.checked_mul(86_400)?, 0).map(|at| at.date_naive())
}

/// The beginning of the day of `time`, in milliseconds.
pub(in crate::store) fn day_of(time: DateTime<Utc>) -> i64 {
    time.timestamp_millis().div_euclid(DAY) * DAY
}

/// The keys that were sent to address `$1`, which is `$2` by now, or were before it was corrected.
macro_rules! whose {
    () => {
        "(SELECT number FROM delivery_key WHERE lower(email) = CAST($2 AS text) \
            UNION SELECT key FROM delivery_event WHERE action = 'email_changed' AND lower(detail) = 'was ' || CAST($1 AS text))"
    };
}

/// Whether an event names a customer of its platform who has address `$1`.
macro_rules! customers {
    () => {
        "EXISTS (SELECT 1 FROM delivery_customer c WHERE lower(c.email) = CAST($1 AS text) AND c.source = i.source \
            AND replace(body, '\"customer\":\"' || c.reference || '\"', '') <> body)"
    };
}

/// Whether column `$column` contains address `$1`.
macro_rules! contains {
    ($column:literal) => {
        concat!("replace(lower(", $column, "), CAST($1 AS text), '') <> lower(", $column, ")")
    };
}

/// Events that wait or were dismissed and may name address `$1`, in lower case, with whether they name a customer of a platform who has
/// it. They come first: whoever applies one holds its row, and has its keys written before the keys are looked at.
pub(in crate::store) const WAITING: &str = concat!(
    "SELECT number, body, CAST(CASE WHEN ",
    customers!(),
    " THEN 1 ELSE 0 END AS bigint) AS customers FROM delivery_inbox i \
        WHERE (due_at IS NOT NULL OR outcome = 'ignored' AND outcome <> 'issued' AND reason = 'dismissed') AND (",
    contains!("body"),
    " OR ",
    customers!(),
    ")"
);

/// Forgets event `$1`.
pub(in crate::store) const FORGET_EVENT: &str = "UPDATE delivery_inbox SET body = NULL, due_at = NULL, outcome = 'ignored', \
    reason = 'the customer was erased', version = version + 1 WHERE number = $1";

/// Whether an event of [`WAITING`] is about this person.
pub(in crate::store) fn is_about(row: &impl Columns, email: &Email) -> Result<bool, StoreError> {
    Ok(row.integer("customers")? == 1 || row.text_or_null("body")?.is_some_and(|body| names_buyer(body, email)))
}

/// Forgets the address in the reasons for which keys were revoked that had it before it was corrected. Returns their ids. It comes
/// before [`ERASE`], which forgets who had it.
pub(in crate::store) const ERASE_REASONS: &str = concat!(
    "UPDATE delivery_key SET revoked_reason = CASE WHEN CAST($2 AS text) IS NULL THEN revoked_reason ELSE 'erased' END \
        WHERE number IN ",
    whose!(),
    " AND ",
    contains!("revoked_reason"),
    " RETURNING id"
);

/// What forgets address `$1`, in lower case, which `$2` replaces, in this order, once the events that wait are forgotten. The first
/// one returns the ids of its keys.
pub(in crate::store) const ERASE: [&str; 6] = [
    concat!(
        "UPDATE delivery_key SET email = CAST($2 AS text), \
            revoked_reason = CASE WHEN ",
        contains!("revoked_reason"),
        " THEN 'erased' ELSE revoked_reason END WHERE lower(email) = CAST($1 AS text) RETURNING id"
    ),
    // Keys that were corrected have another buyer, whom their messages go to.
    "DELETE FROM delivery_message WHERE state = 0 AND lower(recipient) = CAST($1 AS text) \
        AND key IN (SELECT number FROM delivery_key WHERE lower(email) = CAST($2 AS text))",
    // The reason that a host's own mailer gives may quote the address.
    concat!(
        "UPDATE delivery_message SET \
            recipient = CASE WHEN lower(recipient) = CAST($1 AS text) THEN CAST($2 AS text) ELSE recipient END, \
            reason = CASE WHEN ",
        contains!("reason"),
        " THEN 'erased' ELSE reason END WHERE key IN ",
        whose!()
    ),
    concat!(
        "UPDATE delivery_event SET detail = CASE \
            WHEN lower(detail) = 'was ' || CAST($1 AS text) THEN 'was ' || CAST($2 AS text) ELSE 'erased' END WHERE key IN ",
        whose!(),
        // An address that contains this one is another person's.
        " AND (lower(detail) = 'was ' || CAST($1 AS text) OR action <> 'email_changed' AND ",
        contains!("detail"),
        ")"
    ),
    "DELETE FROM delivery_customer WHERE lower(email) = CAST($1 AS text) AND CAST($2 AS text) IS NOT NULL",
    "DELETE FROM delivery_lost WHERE lower(email) = CAST($1 AS text) AND CAST($2 AS text) IS NOT NULL",
];
