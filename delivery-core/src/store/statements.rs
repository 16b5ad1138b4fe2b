//! Statements that both databases understand, and the walk through a search.

use std::future::Future;

use chrono::DateTime;

use super::lists::fitting;
use super::rows::{Columns, key_columns, milliseconds, parsed, product_columns};
use super::{KeyQuery, Outcome, Page, ParkedLetter, Route, StoreError, Use, UseId};
use crate::key::{Key, KeyId, Standing};
use crate::post::PostId;

/// Keys that a search looks through at a time, once the first few were not enough.
const SLICE: usize = 1000;

/// A key's uses, newest first, from use number `$1` on: the chain that each use continues.
pub(super) const CHAIN: &str = "WITH RECURSIVE chain (number, at, previous) AS ( \
        SELECT number, at, previous FROM delivery_use WHERE number = $1 \
        UNION ALL \
        SELECT u.number, u.at, u.previous FROM chain c JOIN delivery_use u ON u.number = c.previous) \
    SELECT number, at FROM chain LIMIT $2";

/// The use before use number `$1` of the key with id `$2`.
pub(super) const BEFORE: &str =
    "SELECT u.previous FROM delivery_use u JOIN delivery_key k ON k.number = u.key WHERE u.number = $1 AND k.id = $2";

/// Letters that were given up, oldest first.
pub(super) const PARKED: &str = concat!(
    "SELECT l.number AS letter, l.attempts, l.due_at, coalesce(l.reason, '') AS reason, ",
    key_columns!(),
    " FROM delivery_letter l JOIN delivery_key k ON k.number = l.key WHERE l.state = 2 ORDER BY l.number LIMIT $1"
);

/// The move that a store is part of.
#[cfg(feature = "sqlite")]
pub(super) const MARK: &str = "SELECT id, finished_at FROM delivery_move";

pub(super) const PRODUCT: &str = concat!("SELECT ", product_columns!(), " FROM delivery_product WHERE id = $1");

pub(super) const PRODUCTS: &str = "SELECT id, name, description, kind, price FROM delivery_product ORDER BY id";

pub(super) const ADD_PRODUCT: &str = "INSERT INTO delivery_product (name, description, kind, content, price, days, uses) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id";

pub(super) const ADD_POST: &str =
    "INSERT INTO delivery_post (title, category, content, published_at) VALUES ($1, $2, $3, $4) RETURNING id";

/// Posts until `$1`, newest first, at most `$2`: their numbers, and how long they are, which neither database reads the
/// content for.
pub(super) const POSTS: &str = "SELECT id, CAST(octet_length(content) AS bigint) AS length FROM delivery_post \
    WHERE published_at <= $1 ORDER BY published_at DESC, id DESC LIMIT $2";

/// The same, of category `$3`.
pub(super) const POSTS_OF_CATEGORY: &str = "SELECT id, CAST(octet_length(content) AS bigint) AS length FROM delivery_post \
    WHERE published_at <= $1 AND category = $3 ORDER BY published_at DESC, id DESC LIMIT $2";

/// The numbers of the first posts that fit into a list.
pub(super) fn listed(rows: &[impl Columns]) -> Result<Vec<PostId>, StoreError> {
    let lengths = rows.iter().map(|row| Columns::integer(row, "length"));
    let lengths = lengths.map(|length| length.map(|length| usize::try_from(length).unwrap_or(usize::MAX)));
    let fit = fitting(lengths.collect::<Result<Vec<_>, _>>()?);
    let id = |row| parsed(PostId::new(Columns::integer(row, "id")?), "post number");
    rows.iter().take(fit).map(id).collect()
}

/// Keys below id `$1`, newest first, at most `$2`, by the condition with the best index and by standing; [`KeyQuery::fits`]
/// judges the rest. `exhausted` is the condition for keys that are used up.
pub(super) fn keys(query: &KeyQuery, exhausted: &str) -> String {
    let condition = match query {
        KeyQuery { order: Some(_), .. } => " AND k.order_id = $3 AND k.source = $4",
        KeyQuery { email: Some(_), .. } => " AND k.email = $3",
        // Few are revoked, and have an index; a shop may have one product.
        KeyQuery { product: Some(_), standing: Some((Standing::Revoked, _)), .. } => " AND +k.product = $3",
        KeyQuery { product: Some(_), .. } => " AND k.product = $3",
        _ => "",
    };
    let standing = query.standing.map(|(standing, at)| {
        // A key expires at a whole second. The number stands in the text: a parameter would have no fixed place.
        let at = at.timestamp();
        match standing {
            Standing::Revoked => " AND k.revoked_at IS NOT NULL".to_owned(),
            Standing::Expired => format!(" AND k.revoked_at IS NULL AND k.expires_at <= {at}"),
            Standing::Valid => format!(" AND k.revoked_at IS NULL AND k.expires_at > {at}"),
            Standing::Exhausted => format!(" AND k.revoked_at IS NULL AND k.expires_at > {at} AND {exhausted}"),
        }
    });
    format!(
        "SELECT {} FROM delivery_key k WHERE k.id < $1{condition}{} ORDER BY k.id DESC LIMIT $2",
        key_columns!(),
        standing.unwrap_or_default()
    )
}

/// Binds what [`keys`] wants.
macro_rules! bind_search {
    ($statement:expr, $query:expr, $before:expr, $most:expr) => {{
        let statement = $statement.bind(crate::store::statements::below($before)).bind(limit($most));
        match $query {
            KeyQuery { order: Some(order), .. } => statement.bind(order.id.as_str()).bind(order.source.as_str()),
            KeyQuery { email: Some(email), .. } => statement.bind(email.as_str()),
            KeyQuery { product: Some(product), .. } => statement.bind(product.get()),
            _ => statement,
        }
    }};
}
pub(super) use bind_search;

/// `$1` of [`keys`]: the id, or what is above every id.
pub(super) fn below(before: Option<KeyId>) -> Vec<u8> {
    before.map_or_else(|| vec![u8::MAX; 17], |id| id.as_bytes().to_vec())
}

/// Looks through slices of candidates until a page is full: most are keys that fit, so one slice is mostly enough.
/// `candidates` answers those below an id, newest first, and at most so many unless there are more that it knows anyway;
/// and whether there are others.
pub(super) async fn search<F>(
    query: &KeyQuery,
    candidates: impl Fn(Option<KeyId>, usize) -> F,
) -> Result<Page<Key, KeyId>, StoreError>
where
    F: Future<Output = Result<(Vec<Key>, bool), StoreError>>,
{
    let size = query.page_size();
    let (mut items, mut before, mut slice) = (Vec::new(), query.before, size + 1);
    loop {
        let (found, more) = candidates(before, slice).await?;
        before = found.last().map(Key::id);
        items.extend(found.into_iter().filter(|key| query.fits(key)));
        if !more || items.len() > size {
            break;
        }
        // What is rare must not cost a query for every few rows.
        slice = SLICE.max(slice);
    }
    let more = items.len() > size;
    items.truncate(size);
    let next = items.last().map(Key::id).filter(|_| more);
    Ok(Page { items, next })
}

/// A page of at most `size` from the rows of [`CHAIN`], of which one more was asked for.
pub(super) fn history_page(rows: &[impl Columns], size: usize) -> Result<Page<Use, UseId>, StoreError> {
    let at = |row| milliseconds(Columns::integer(row, "at")?).map(|at| Use { at });
    let items = rows.iter().take(size).map(at).collect::<Result<Vec<_>, _>>()?;
    let last = rows.get(size.saturating_sub(1)).filter(|_| rows.len() > size);
    let next = last.map(|row| row.integer("number").map(UseId::new)).transpose()?;
    Ok(Page { items, next })
}

/// Those that can be read: one that cannot hides no other.
pub(super) fn readable(letters: impl Iterator<Item = Result<ParkedLetter, StoreError>>) -> Vec<ParkedLetter> {
    let unreadable = |error: &StoreError| {
        tracing::error!(error = error as &dyn std::error::Error, "a parked letter cannot be read");
    };
    letters.filter_map(|letter| letter.inspect_err(unreadable).ok()).collect()
}

/// A route as its column has it.
pub(super) fn stored_route(route: Route) -> String {
    data_encoding::HEXLOWER.encode(route.as_bytes())
}

/// What becomes of a letter's row.
pub(super) struct Settled<'a> {
    pub(super) state: i64,
    /// In milliseconds; that of queueing, if none.
    pub(super) due_at: Option<i64>,
    pub(super) reason: Option<&'a str>,
    /// Attempts to take back.
    pub(super) given_back: i64,
    pub(super) route: Option<String>,
}

pub(super) fn settled(outcome: &Outcome) -> Settled<'_> {
    const WAITING: i64 = 0;
    const SENT: i64 = 1;
    const PARKED: i64 = 2;
    let (state, at, reason, given_back, route) = match outcome {
        Outcome::Sent { at } => (SENT, Some(at), None, 0, None),
        Outcome::Retry { due, reason, route } => {
            (WAITING, Some(due), Some(reason.as_str()), 0, route.map(stored_route))
        }
        Outcome::Postpone { due, reason } => (WAITING, Some(due), Some(reason.as_str()), 1, None),
        Outcome::Park { at, reason, route } => (PARKED, Some(at), Some(reason.as_str()), 0, Some(stored_route(*route))),
        Outcome::Release => (WAITING, None, None, 1, None),
    };
    let due_at = at.map(DateTime::timestamp_millis);
    Settled { state, due_at, reason, given_back, route }
}

/// Binds what `ADD_PRODUCT` wants.
macro_rules! bind_product {
    ($statement:expr, $product:expr) => {
        $statement
            .bind($product.name())
            .bind($product.description())
            .bind($product.kind())
            .bind($product.content())
            .bind($product.price().to_string())
            .bind($product.terms().validity.map(crate::terms::Validity::as_days))
            .bind($product.terms().limit.map(crate::terms::UseLimit::as_count))
    };
}
pub(super) use bind_product;

/// Binds what `ADD_POST` wants.
macro_rules! bind_post {
    ($statement:expr, $post:expr) => {
        $statement
            .bind($post.title())
            .bind($post.category().as_str())
            .bind($post.content())
            .bind($post.published_at().timestamp())
    };
}
pub(super) use bind_post;

/// As a database counts.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
