//! Key search. This module builds a statement that both databases answer from indexes. The keys that it finds are
//! candidates; a loop reads and checks them until a page is full.
//!
//! Searches use the column `state`: 0 valid, 1 used up, 2 expired, 3 revoked. The database computes it from the other
//! columns of the row, with one exception: a key that expires keeps its state until
//! [`mark_expired`](crate::store::Records::mark_expired) sets it to 2. Searches are exact even before that, because
//! they also look for expired keys that are not marked yet.

use std::future::Future;

use crate::key::{Key, KeyId, Status};
use crate::order::Source;
use crate::store::sql::rows::key_columns;
use crate::store::sql::session::{Dialect, Value, values};
use crate::store::{KeyQuery, Page, StoreError};

/// The minimum number of keys that a search reads at a time after its first query. The first query reads only one key
/// more than a page has.
const CHUNK: usize = 1000;

/// A search by the beginning of an address counts as large if at least this number of keys match. SQLite sorts this
/// number of keys, or reads them one by one, in about 15 ms.
#[cfg(feature = "sqlite")]
const MANY: usize = 20_000;

/// Selects the numbers of at most `$2` keys that had expired at second `$1` and are not marked as expired.
macro_rules! unmarked {
    () => {
        "SELECT number FROM delivery_key WHERE state IN (0, 1) AND told IN (0, 1) AND expires_at <= $1 LIMIT $2"
    };
}
pub(in crate::store) use unmarked;

/// A statement that finds candidates for a search: keys that probably match. Callers do not keep the statement
/// prepared: its text contains the page size, so it is unlikely to be used again.
pub(in crate::store) struct Candidates {
    pub(in crate::store) sql: String,
    pub(in crate::store) parameters: Vec<Value>,
}

/// The one condition of a search, as SQL, for which the database has the best index.
enum By {
    /// A condition that only a few keys meet.
    Few(String),
    /// The condition that the address begins with a given text.
    Beginning(String),
    /// A condition on the product or on the source. Empty if all keys are searched.
    Part(String),
}

/// Returns a statement that finds at most `most` keys below id `before`, newest first. The statement selects by the
/// status, and by the one other condition of `query` that has the best index. It may also find keys that do not match,
/// so the caller checks every key with [`KeyQuery::matches`].
pub(in crate::store) fn candidates(
    query: &KeyQuery,
    dialect: Dialect,
    before: Option<KeyId>,
    most: usize,
) -> Candidates {
    // The table or view that contains the keys with their counts of uses.
    let table = match dialect {
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => "delivery_counted_key",
        #[cfg(feature = "postgres")]
        Dialect::Postgres => "delivery_key",
    };
    // An id has 16 bytes, so 17 bytes of 255 are greater than every id.
    let below = before.map_or_else(|| vec![u8::MAX; 17], |id| id.as_bytes().to_vec());
    let mut parameters = values![below];
    if let Some((_, at)) = query.status {
        // The time may be truncated to whole seconds, because a key expires at a whole second.
        parameters.push(at.timestamp().into());
    }
    // Both databases reject unused parameters. So the time is bound, as `$2`, only if there is a status. `own` is the
    // name of the next parameter, to which the value of the other condition is bound.
    let own = if query.status.is_some() { "$3" } else { "$2" };
    let mut condition = |condition: &str, value: Value| {
        parameters.push(value);
        condition.replace("$own", own)
    };
    let by = match query {
        KeyQuery { order: Some(order), .. } => {
            let keys = "k.number IN (SELECT p.key FROM delivery_purchase p WHERE p.order_id = $own \
                UNION ALL SELECT r.number FROM delivery_key r WHERE r.order_id = $own AND r.successor IS NOT NULL)";
            By::Few(condition(keys, order.as_str().into()))
        }
        KeyQuery { host_ref: Some(name), .. } => By::Few(condition("k.host_ref = $own", name.as_str().into())),
        KeyQuery { email: Some(email), .. } => {
            By::Few(condition("lower(k.email) = $own", email.as_str().to_ascii_lowercase().into()))
        }
        KeyQuery { email_prefix: Some(prefix), .. } => {
            // The upper bound is the prefix followed by U+10FFFF. This is the greatest character, and no address
            // contains it.
            let begins = "lower(k.email) >= $own AND lower(k.email) < $own || '\u{10ffff}'";
            By::Beginning(condition(begins, prefix.to_ascii_lowercase().into()))
        }
        KeyQuery { product: Some(product), .. } => By::Part(condition("k.product = $own", product.get().into())),
        KeyQuery { source: Some(source), .. } => {
            // The partial index contains the keys of all sources except `webhook`. The database uses this index only if
            // the statement repeats the condition of the index.
            let part = if *source == Source::webhook() {
                "k.source = $own"
            } else {
                "k.source = $own AND k.source <> 'webhook'"
            };
            By::Part(condition(part, source.as_str().into()))
        }
        _ => By::Part(String::new()),
    };
    let status = query.status.map(|(status, _)| status);
    let walks = match (by, dialect) {
        #[cfg(feature = "sqlite")]
        (By::Beginning(begins), Dialect::Sqlite) => by_beginning(&begins, status, most).into(),
        // PostgreSQL chooses between the index of addresses and the index of ids by its statistics.
        #[cfg(feature = "postgres")]
        (By::Beginning(begins), Dialect::Postgres) => vec![walk(&[&begins, among_few(status)], most)],
        (By::Few(condition), _) => vec![walk(&[&condition, among_few(status)], most)],
        (By::Part(condition), _) => by_state(status, &condition, most),
    };
    let walks: Vec<String> = walks.iter().map(|walk| format!("SELECT number FROM ({walk}) w")).collect();
    let sql = format!(
        "SELECT {} FROM {table} k WHERE k.number IN ({}) ORDER BY k.id DESC LIMIT {most}",
        key_columns!(),
        walks.join(" UNION ALL ")
    );
    Candidates { sql, parameters }
}

/// Returns two statements for SQLite that find the newest keys whose address meets the condition `begins`. In each
/// search, one of the statements gets a limit of 0 and finds no keys. The limit is a subquery that chooses between the
/// statements. SQLite evaluates a limit only once, before the statement runs.
///
/// - The first statement sorts all keys that meet the condition.
/// - The second statement reads the keys of the store from the newest on, until the page is full. It is used only if at
///   least [`MANY`] keys meet the condition, and if the newest [`MANY`] keys of the store contain enough matches to
///   fill the page.
#[cfg(feature = "sqlite")]
fn by_beginning(begins: &str, status: Option<Status>, most: usize) -> [String; 2] {
    let among_few = among_few(status);
    // The condition `begins`, written so that no index matches it.
    let unindexed = begins.replace("lower(k.email)", "lower(k.email) || ''");
    let are_many = format!(
        "(SELECT count(*) FROM (SELECT 1 FROM delivery_key k WHERE k.id < $1 AND {begins} LIMIT {MANY}) c) = {MANY}"
    );
    let fill_the_page = format!(
        "(SELECT count(*) FROM (SELECT 1 FROM \
            (SELECT k.* FROM delivery_key k WHERE k.id < $1 ORDER BY k.id DESC LIMIT {MANY}) k \
            WHERE {unindexed}{} LIMIT {most}) c) = {most}",
        and(&[among_few])
    );
    let limited = |walk: &str, [many, few]: [usize; 2]| {
        let limit =
            format!("CASE WHEN {are_many} THEN CASE WHEN {fill_the_page} THEN {many} ELSE {few} END ELSE {few} END");
        format!("SELECT number FROM ({walk}) w LIMIT ({limit})")
    };
    [limited(&walk(&[begins, among_few], most), [0, most]), limited(&walk(&[&unindexed, among_few], most), [most, 0])]
}

/// Returns the condition for a status, for searches by order, host reference, address or beginning of an address. Keys
/// that are valid and keys that are used up have the same condition here; the caller of [`candidates`] distinguishes
/// them. The condition is written so that no index matches it. So the planner of the database uses the index of the
/// order, reference or address.
fn among_few(status: Option<Status>) -> &'static str {
    match status {
        None => "",
        Some(Status::Revoked) => "k.revoked_at IS NOT NULL",
        Some(Status::Expired) => "k.revoked_at IS NULL AND k.expires_at + 0 <= $2",
        Some(Status::Valid | Status::Exhausted) => "k.revoked_at IS NULL AND k.expires_at + 0 > $2",
    }
}

/// Returns statements that together find the newest keys with a status. If `status` is `None`, they find keys with any
/// status. `part` is a condition on the product or the source; if `part` is empty, all keys are searched.
///
/// There is one statement for each state that such keys can have. It reads the newest entries of an index. If the
/// status depends on the time, a further statement finds keys whose state is out of date, such as expired keys that are
/// not marked yet.
fn by_state(status: Option<Status>, part: &str, most: usize) -> Vec<String> {
    let of = |state, time| walk(&[state, part, time], most);
    // The condition `part`, written so that the planner cannot use the index of the product or source. It then uses the
    // index of expiry times.
    let own = part.replace("k.product", "k.product + 0").replace("k.source", "k.source || ''");
    // Finds keys that a server with a fast clock marked as expired too early.
    let marked_early = || sorted(&["k.state = 2", FINITE, "k.expires_at > $2", &own], most);
    let not_marked = || sorted(&["k.state IN (0, 1)", FINITE, "k.expires_at <= $2", &own], most);
    match status {
        // The index of ids contains all keys, in the order of the result. The indexes of products and sources are
        // sorted by state first, so they need a statement for each state.
        None if part.is_empty() => vec![of("", "")],
        None => ["k.state = 0", "k.state = 1", "k.state = 2", "k.state = 3"].map(|state| of(state, "")).into(),
        Some(Status::Revoked) => vec![of("k.state = 3", "")],
        Some(Status::Expired) => vec![of("k.state = 2", "k.expires_at + 0 <= $2"), not_marked()],
        Some(Status::Valid) => vec![of("k.state = 0", "k.expires_at + 0 > $2"), marked_early()],
        Some(Status::Exhausted) => vec![of("k.state = 1", "k.expires_at + 0 > $2"), marked_early()],
    }
}

/// The condition for keys that have an expiry date.
const FINITE: &str = "k.told IN (0, 1)";

/// Returns a statement that selects keys below id `$1`, newest first. The database reads them in this order from an
/// index whose last column is the id.
fn walk(conditions: &[&str], most: usize) -> String {
    format!("SELECT k.number FROM delivery_key k WHERE k.id < $1{} ORDER BY k.id DESC LIMIT {most}", and(conditions))
}

/// Returns a statement like that of [`walk`], but for conditions that only a few keys meet. The statement first finds
/// these keys by an index that is not sorted by id, and then sorts them.
fn sorted(conditions: &[&str], most: usize) -> String {
    let conditions = and(conditions);
    format!(
        "WITH few AS MATERIALIZED (SELECT k.number, k.id FROM delivery_key k WHERE {}) \
            SELECT number FROM few WHERE id < $1 ORDER BY id DESC LIMIT {most}",
        conditions.trim_start_matches(" AND ")
    )
}

fn and(conditions: &[&str]) -> String {
    let said = conditions.iter().filter(|condition| !condition.is_empty());
    said.flat_map(|condition| [" AND ", condition]).collect()
}

/// Finds a page of keys: reads chunks of candidates until the page is full. Most candidates match, so one chunk is
/// usually enough.
///
/// `candidates(id, limit)` returns at most `limit` keys below `id`, newest first, and whether there may be more.
pub(in crate::store) async fn search<F>(
    query: &KeyQuery,
    candidates: impl Fn(Option<KeyId>, usize) -> F,
) -> Result<Page<Key, KeyId>, StoreError>
where
    F: Future<Output = Result<(Vec<Key>, bool), StoreError>>,
{
    let size = query.page_size();
    let (mut items, mut before, mut chunk) = (Vec::new(), query.below(), size + 1);
    loop {
        let (found, more) = candidates(before, chunk).await?;
        before = found.last().map(Key::id);
        items.extend(found.into_iter().filter(|key| query.matches(key)));
        let is_past = |id| query.period.since.is_some_and(|since| id < KeyId::from_time(since));
        if !more || items.len() > size || before.is_some_and(is_past) {
            break;
        }
        // If few candidates match, small chunks would take too many queries.
        chunk = CHUNK.max(chunk);
    }
    let more = items.len() > size;
    items.truncate(size);
    let next = items.last().map(Key::id).filter(|_| more);
    Ok(Page { items, next })
}
