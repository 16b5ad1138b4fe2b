//! Persisting a batch: one statement for completed messages, one for new keys and one for changed keys.
//!
//! A statement for keys writes all rows that belong to its keys, and returns the numbers of the keys that it has
//! written. It leaves out a changed key, with all its rows, if the key's row no longer has the version that was loaded.
//! It leaves out a new key, with all its rows, if the key's id already exists, or if another key was already issued for
//! the same purchase. Outside a transaction each statement commits by itself. A batch that needs only one statement,
//! such as a batch of uses or of orders, is persisted in one round trip.
//!
//! All servers take locks in the same order, so that no two servers deadlock:
//!
//! - Rows of [platform events](super::inbox) and of requests with an `Idempotency-Key` are written first. Then aliases
//!   are inserted, in the order of their bytes.
//! - A statement locks messages by number, purchases by order and product, and keys by number.
//! - A batch that locks keys before it reads them locks them by number, and afterwards needs no lock of another key.
//! - A batch with platform events, key rotations or requests with an `Idempotency-Key` takes all its locks before it
//!   writes: first events, then [deals](super::inbox), then keys with their successors, each by number.

use std::collections::HashSet;

use sqlx::Row as _;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;

use super::alias;
use super::error::{may_have_happened, store_error};
use super::messages;
use super::session::Session;
use crate::key::Reason;
use crate::ledger::plan::{KeyWrite, PurchaseId, Writes};
use crate::store::sql::messages::{machine, skew_sql as skew};
use crate::store::{Persisted, StoreError};

/// SQL that inserts the uses in the parameters `$1` to `$5`, except uses whose keys are not in `written`. In each
/// statement of this module, `written` contains the keys that the statement has written.
macro_rules! uses {
    () => {
        "used AS ( \
            INSERT INTO delivery_use (number, key, at, used, previous) \
            SELECT u.* FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) \
                AS u (number, key, at, used, previous) \
            WHERE (u.key IN (SELECT number FROM written)) IS TRUE)"
    };
}

/// SQL that updates keys. The parameters `$6` to `$14` contain the keys' numbers, versions and states, `$28` their
/// e-mail addresses, and `$29` their successors.
macro_rules! change {
    () => {
        "WITH written AS ( \
            UPDATE delivery_key k SET expires_at = c.expires_at, max_uses = c.max_uses, used = c.used, \
                last_use = c.last_use, revoked_at = c.revoked_at, revoked_reason = c.revoked_reason, \
                revoked_by = c.revoked_by, email = c.email, successor = c.successor, version = k.version + 1, \
                state = delivery_state(c.revoked_at, k.lapsed, c.expires_at, c.max_uses, c.used), \
                told = delivery_told(k.noticed, c.expires_at) \
            FROM unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], \
                    $12::bigint[], $13::text[], $14::text[], $28::text[], $29::text[]) \
                AS c (number, version, expires_at, max_uses, used, last_use, revoked_at, revoked_reason, revoked_by, \
                    email, successor) \
            WHERE k.number = c.number AND k.version = c.version RETURNING k.number), "
    };
}

/// SQL that inserts the messages in the parameters `$21` to `$26`, except messages about keys that are not in
/// `written`. The parameter `$27` is this machine's time, in milliseconds.
macro_rules! messages {
    () => {
        concat!(
            ", queued AS ( \
                INSERT INTO delivery_message (number, key, kind, recipient, message_id, queued_at, due_at) \
                SELECT number, key, kind, recipient, message_id, at + skew, at + skew \
                FROM unnest($21::bigint[], $22::bigint[], $23::text[], $24::text[], $25::text[], $26::bigint[]) \
                    AS m (number, key, kind, recipient, message_id, at), (SELECT ",
            skew!("$27"),
            " AS skew) c WHERE (m.key IN (SELECT number FROM written)) IS TRUE)"
        )
    };
}

/// SQL that inserts the audit entries in the parameters `$15` to `$20`, except entries about keys that are not in
/// `written`.
macro_rules! audit_entries {
    () => {
        ", logged AS ( \
            INSERT INTO delivery_event (number, key, at, actor, action, detail) \
            SELECT e.* FROM unnest($15::bigint[], $16::bigint[], $17::bigint[], $18::text[], $19::text[], $20::text[]) \
                AS e (number, key, at, actor, action, detail) \
            WHERE (e.key IN (SELECT number FROM written)) IS TRUE)"
    };
}

macro_rules! written {
    () => {
        " SELECT array_agg(number) AS numbers FROM written"
    };
}

/// Updates keys of which only the count of uses has changed. This is the most frequent case. The parameters `$6` to
/// `$9` contain the keys' numbers, versions, counts of uses and newest uses.
const COUNT: &str = concat!(
    "WITH written AS ( \
        UPDATE delivery_key k SET used = c.used, last_use = c.last_use, version = k.version + 1, \
            state = CASE WHEN k.state = 0 AND c.used = k.max_uses THEN 1 ELSE k.state END \
        FROM unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]) AS c (number, version, used, last_use) \
        WHERE k.number = c.number AND k.version = c.version RETURNING k.number), ",
    uses!(),
    written!()
);

const CHANGE: &str = concat!(change!(), uses!(), audit_entries!(), messages!(), written!());

const ISSUE: &str = concat!(
    "WITH new AS ( \
        SELECT * FROM unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], \
                $12::bigint[], $13::text[], $14::text[], $28::bytea[], $29::bigint[], $30::bigint[], $31::text[], \
                $32::text[], $33::text[], $34::bigint[], $35::bigint[], $36::bigint[], $37::text[], $38::bigint[]) \
            AS n (number, version, expires_at, max_uses, used, last_use, revoked_at, revoked_reason, revoked_by, id, \
                secret_version, product, email, source, order_id, issued_at, granted_until, granted_uses, host_ref, heir_of)), \
    bought AS ( \
        INSERT INTO delivery_purchase (order_id, source, product, key) \
        SELECT order_id, source, product, number FROM new WHERE order_id IS NOT NULL AND heir_of IS NULL \
            AND NOT EXISTS (SELECT FROM delivery_key k WHERE k.id = new.id) \
        ON CONFLICT (order_id, source, product) DO NOTHING RETURNING key), \
    inherited AS ( \
        UPDATE delivery_purchase p SET key = n.number FROM new n \
        WHERE n.heir_of IS NOT NULL AND p.order_id = n.order_id AND p.source = n.source AND p.product = n.product AND p.key = n.heir_of), \
    written AS ( \
        INSERT INTO delivery_key (number, id, secret_version, product, email, source, order_id, issued_at, granted_until, \
            granted_uses, expires_at, max_uses, used, last_use, revoked_at, revoked_reason, revoked_by, version, host_ref, \
            noticed, state, told) \
        SELECT number, id, secret_version, product, email, source, order_id, issued_at, granted_until, granted_uses, \
            expires_at, max_uses, used, last_use, revoked_at, revoked_reason, revoked_by, version + 1, host_ref, \
            noticed, delivery_state(revoked_at, NULL, expires_at, max_uses, used), delivery_told(noticed, expires_at) \
        FROM (SELECT new.*, (SELECT h.noticed FROM delivery_key h WHERE h.number = new.heir_of) AS noticed FROM new) n \
        WHERE order_id IS NULL OR heir_of IS NOT NULL OR (number IN (SELECT key FROM bought)) IS TRUE \
        ON CONFLICT (id) DO NOTHING RETURNING number), ",
    uses!(),
    audit_entries!(),
    messages!(),
    written!()
);

/// Persists `writes`. Returns for each of [`Writes::keys`] whether it was written.
///
/// # Errors
///
/// The error of a statement that was refused. If an earlier statement has already committed a part of the batch, this
/// error is not returned. Instead, the keys of the refused statement and of the statements after it count as conflicts,
/// and are tried again. [`StoreError::Unknown`] if a statement has failed but may have been executed nevertheless.
pub(super) async fn persist(
    session: &mut Session<'_>,
    writes: &Writes,
    in_transaction: bool,
) -> Result<Vec<Persisted>, StoreError> {
    let mut persisted = vec![Persisted::Conflict; writes.keys.len()];
    // Writes with aliases are always in a transaction, which the caller rolls back after a conflict.
    if !alias::persist(session, &writes.aliases).await? {
        return Ok(persisted);
    }
    let mut began = false;
    if !writes.completed.is_empty() {
        let completed = messages::complete(session, &writes.completed).await;
        completed.map_err(|error| if may_have_happened(&error) { StoreError::unknown(error) } else { error })?;
        began = !in_transaction;
    }
    let (mut new, mut changed): (Vec<_>, Vec<_>) =
        writes.keys.iter().enumerate().partition(|(_, write)| write.loaded.is_none());
    new.sort_by_cached_key(|(_, write)| PurchaseId::of(write.row.key.granted()));
    changed.sort_unstable_by_key(|(_, write)| write.row.number);
    let tells = |unit: usize| writes.keys.get(unit).is_some_and(|write| write.loaded.is_some());
    let are_only_counted = writes.audit_entries.is_empty()
        && !writes.messages.iter().any(|message| tells(message.unit))
        && changed.iter().all(|(_, write)| write.is_only_counted());
    let change = if are_only_counted { COUNT } else { CHANGE };
    for (units, statement) in [(new, ISSUE), (changed, change)] {
        if units.is_empty() {
            continue;
        }
        let written = match run(session, statement, writes, &units).await {
            Ok(written) => written,
            Err(error) if may_have_happened(&error) => return Err(StoreError::unknown(error)),
            Err(error) if !began => return Err(error),
            Err(_) => break,
        };
        began = !in_transaction;
        let all = written.len() == units.len();
        let written: HashSet<i64> = if all { HashSet::new() } else { written.into_iter().collect() };
        for (unit, write) in units {
            if (all || written.contains(&write.row.number))
                && let Some(persisted) = persisted.get_mut(unit)
            {
                *persisted = Persisted::Written;
            }
        }
    }
    Ok(persisted)
}

/// Runs one statement for some keys, and returns the numbers of the keys that it has written.
async fn run(
    session: &mut Session<'_>,
    statement: &'static str,
    writes: &Writes,
    units: &[(usize, &KeyWrite)],
) -> Result<Vec<i64>, StoreError> {
    let of_these: HashSet<usize> = units.iter().map(|(unit, _)| *unit).collect();
    let these = |unit: usize| units.len() == writes.keys.len() || of_these.contains(&unit);
    let mut query = bind_uses(session.query(statement), writes, &these);
    if statement == COUNT {
        query = bind_counts(query, units);
    } else {
        query = bind_messages(bind_audit_entries(bind_state(query, units), writes, &these), writes, &these);
    }
    if statement == ISSUE {
        query = bind_granted(query, units);
    } else if statement == CHANGE {
        let emails = units.iter().map(|(_, write)| write.row.key.email().as_str().to_owned());
        let successors = units.iter().map(|(_, write)| write.row.key.successor().map(|id| id.to_string()));
        query = query.bind(emails.collect::<Vec<_>>()).bind(successors.collect::<Vec<_>>());
    }
    // Reads the reply to its end, although it has only one row. If the commit fails, the error follows the row.
    let told = query.fetch_all(&mut **session).await.map_err(store_error)?;
    let told = told.first().and_then(|row| row.try_get::<Option<Vec<i64>>, _>("numbers").ok());
    // If the reply cannot be read, returns `Unknown`. The statement was executed, and any other error would make the
    // caller execute it again.
    Ok(told.ok_or(StoreError::Unknown { source: None })?.unwrap_or_default())
}

type Bound<'q> = Query<'q, sqlx::Postgres, PgArguments>;

fn bind_uses<'q>(query: Bound<'q>, writes: &Writes, these: &impl Fn(usize) -> bool) -> Bound<'q> {
    let uses: Vec<_> = writes.uses.iter().filter(|used| these(used.unit)).collect();
    query
        .bind(uses.iter().map(|used| used.number).collect::<Vec<_>>())
        .bind(uses.iter().map(|used| used.key).collect::<Vec<_>>())
        .bind(uses.iter().map(|used| used.at.timestamp_millis()).collect::<Vec<_>>())
        .bind(uses.iter().map(|used| integer(used.used)).collect::<Vec<_>>())
        .bind(uses.iter().map(|used| used.previous).collect::<Vec<_>>())
}

fn bind_counts<'q>(query: Bound<'q>, units: &[(usize, &KeyWrite)]) -> Bound<'q> {
    let rows = || units.iter().map(|(_, write)| &write.row);
    query
        .bind(rows().map(|row| row.number).collect::<Vec<_>>())
        .bind(rows().map(|row| row.version).collect::<Vec<_>>())
        .bind(rows().map(|row| integer(row.key.used())).collect::<Vec<_>>())
        .bind(rows().map(|row| row.last_use).collect::<Vec<_>>())
}

fn bind_state<'q>(query: Bound<'q>, units: &[(usize, &KeyWrite)]) -> Bound<'q> {
    let rows = || units.iter().map(|(_, write)| (&write.row, write.row.key.state()));
    let revoked = || rows().map(|(_, state)| state.revoked.as_deref());
    query
        .bind(rows().map(|(row, _)| row.number).collect::<Vec<_>>())
        .bind(rows().map(|(row, _)| row.version).collect::<Vec<_>>())
        .bind(rows().map(|(_, state)| state.expires_at.timestamp()).collect::<Vec<_>>())
        .bind(rows().map(|(_, state)| state.limit.as_count()).collect::<Vec<_>>())
        .bind(rows().map(|(_, state)| integer(state.used)).collect::<Vec<_>>())
        .bind(rows().map(|(row, _)| row.last_use).collect::<Vec<_>>())
        .bind(revoked().map(|it| it.map(|it| it.at.timestamp_millis())).collect::<Vec<_>>())
        .bind(revoked().map(|it| it?.reason.as_ref().map(|why| Reason::as_str(why).to_owned())).collect::<Vec<_>>())
        .bind(revoked().map(|it| it.map(|it| it.by.as_str().to_owned())).collect::<Vec<_>>())
}

fn bind_audit_entries<'q>(query: Bound<'q>, writes: &Writes, these: &impl Fn(usize) -> bool) -> Bound<'q> {
    let entries: Vec<_> = writes.audit_entries.iter().filter(|entry| these(entry.unit)).collect();
    query
        .bind(entries.iter().map(|entry| entry.number).collect::<Vec<_>>())
        .bind(entries.iter().map(|entry| entry.key).collect::<Vec<_>>())
        .bind(entries.iter().map(|entry| entry.at.timestamp_millis()).collect::<Vec<_>>())
        .bind(entries.iter().map(|entry| entry.actor.as_str().to_owned()).collect::<Vec<_>>())
        .bind(entries.iter().map(|entry| entry.action.as_str().to_owned()).collect::<Vec<_>>())
        .bind(entries.iter().map(|entry| entry.detail.clone()).collect::<Vec<_>>())
}

fn bind_granted<'q>(query: Bound<'q>, units: &[(usize, &KeyWrite)]) -> Bound<'q> {
    let rows = || units.iter().map(|(_, write)| write.row.key.granted());
    let orders = || rows().map(|granted| granted.order.as_ref());
    query
        .bind(rows().map(|granted| granted.id.as_bytes().to_vec()).collect::<Vec<_>>())
        .bind(rows().map(|granted| i64::from(granted.secret.get())).collect::<Vec<_>>())
        .bind(rows().map(|granted| granted.product.get()).collect::<Vec<_>>())
        .bind(rows().map(|granted| granted.email.as_str().to_owned()).collect::<Vec<_>>())
        .bind(orders().map(|order| order.map(|order| order.source.as_str().to_owned())).collect::<Vec<_>>())
        .bind(orders().map(|order| order.map(|order| order.id.as_str().to_owned())).collect::<Vec<_>>())
        .bind(rows().map(|granted| granted.issued_at.timestamp()).collect::<Vec<_>>())
        .bind(rows().map(|granted| granted.expires_at.timestamp()).collect::<Vec<_>>())
        .bind(rows().map(|granted| granted.limit.as_count()).collect::<Vec<_>>())
        .bind(rows().map(|it| Some(it.host_ref.as_ref()?.as_str().to_owned())).collect::<Vec<_>>())
        .bind(units.iter().map(|(_, write)| write.heir_of).collect::<Vec<_>>())
}

fn bind_messages<'q>(query: Bound<'q>, writes: &Writes, these: &impl Fn(usize) -> bool) -> Bound<'q> {
    let messages: Vec<_> = writes.messages.iter().filter(|message| these(message.unit)).collect();
    query
        .bind(messages.iter().map(|message| message.number).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.key).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.kind.as_str().to_owned()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.recipient.to_string()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.id.as_str().to_owned()).collect::<Vec<_>>())
        .bind(messages.iter().map(|message| message.at.timestamp_millis()).collect::<Vec<_>>())
        .bind(machine())
}

fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
