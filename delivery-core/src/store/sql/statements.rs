//! Statements that both databases understand.

use chrono::DateTime;

use super::rows::{Columns, milliseconds, parsed, product_columns};
use crate::post::PostId;
use crate::store::cache::{PostVersion, fitting};
use crate::store::{FailedMessage, Outcome, Page, Route, StoreError, Use, UseId};

/// A key's uses, newest first, from use number `$1` on: the chain that each use continues.
pub(in crate::store) const CHAIN: &str = "WITH RECURSIVE chain (number, at, previous) AS ( \
        SELECT number, at, previous FROM delivery_use WHERE number = $1 \
        UNION ALL \
        SELECT u.number, u.at, u.previous FROM chain c JOIN delivery_use u ON u.number = c.previous) \
    SELECT number, at FROM chain LIMIT $2";

/// The use before use number `$1` of the key with id `$2`.
pub(in crate::store) const BEFORE: &str =
    "SELECT u.previous FROM delivery_use u JOIN delivery_key k ON k.number = u.key WHERE u.number = $1 AND k.id = $2";

/// Messages that failed for good, in the order in which they failed, with their keys from the table or view `$keys`.
macro_rules! FAILED {
    ($keys:literal) => {
        concat!(
            "SELECT m.number AS message, m.kind, m.recipient, m.attempts, m.due_at, coalesce(m.reason, '') AS reason, ",
            crate::store::sql::rows::key_columns!(),
            " FROM delivery_message m JOIN ",
            $keys,
            " k ON k.number = m.key WHERE m.state = 2 ORDER BY m.due_at, m.number LIMIT $1"
        )
    };
}
pub(in crate::store) use FAILED;

/// The transfer that a store is part of.
#[cfg(feature = "sqlite")]
pub(in crate::store) const TRANSFER: &str = "SELECT id, finished_at FROM delivery_transfer";

pub(in crate::store) const PRODUCT: &str =
    concat!("SELECT ", product_columns!(), " FROM delivery_product WHERE id = $1");

pub(in crate::store) const PRODUCT_CALLED: &str =
    concat!("SELECT ", product_columns!(), " FROM delivery_product WHERE host_ref = $1");

/// The product that platform `$1` calls `$2`.
pub(in crate::store) const PRODUCT_NAMED: &str =
    "SELECT product FROM delivery_product_ref WHERE source = $1 AND name = $2";

pub(in crate::store) const PRODUCTS: &str =
    "SELECT id, name, description, kind, price FROM delivery_product WHERE archived = 0 ORDER BY id";

pub(in crate::store) const ADD_PRODUCT: &str = concat!(
    "INSERT INTO delivery_product (name, description, kind, content, price, days, uses, host_ref, refs, language) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING ",
    product_columns!()
);

pub(in crate::store) const UPDATE_PRODUCT: &str = concat!(
    "UPDATE delivery_product SET name = $1, description = $2, kind = $3, content = $4, price = $5, days = $6, uses = $7, \
        host_ref = $8, refs = $9, language = $10 WHERE id = $11 RETURNING ",
    product_columns!()
);

pub(in crate::store) const ARCHIVE_PRODUCT: &str =
    concat!("UPDATE delivery_product SET archived = 1 WHERE id = $1 AND archived = 0 RETURNING ", product_columns!());

pub(in crate::store) const ADD_POST: &str = "INSERT INTO delivery_post (title, category, content, published_at) \
    VALUES ($1, $2, $3, $4) RETURNING id, title, category, content, published_at";

pub(in crate::store) const POST: &str =
    "SELECT id, title, category, content, published_at FROM delivery_post WHERE id = $1";

pub(in crate::store) const UPDATE_POST: &str = "UPDATE delivery_post \
    SET title = $1, category = $2, content = $3, published_at = $4, version = version + 1 WHERE id = $5 \
    RETURNING id, title, category, content, published_at";

pub(in crate::store) const DELETE_POST: &str =
    "DELETE FROM delivery_post WHERE id = $1 RETURNING id, title, category, content, published_at";

/// Adds entry `$1` to the audit log: of key row `$2`, of product `$3`, at `$4`, by `$5`, what was done and what else there is to
/// say.
pub(in crate::store) const LOG: &str =
    "INSERT INTO delivery_event (number, key, product, at, actor, action, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)";

/// Binds what [`LOG`] wants.
macro_rules! bind_log {
    ($statement:expr, $number:expr, ($key:expr, $product:expr), $action:expr, $edit:expr) => {
        $statement
            .bind(crate::ledger::plan::number_at($edit.at, $number))
            .bind::<Option<i64>>($key)
            .bind::<Option<i64>>($product)
            .bind($edit.at.timestamp_millis())
            .bind($edit.by.as_str().to_owned())
            .bind($action.as_str())
            .bind($edit.detail.clone())
    };
}
pub(in crate::store) use bind_log;

/// Posts until `$1`, newest first, at most `$2`: their numbers and versions, and how long they are, which neither database reads the
/// content for.
pub(in crate::store) const POSTS: &str = "SELECT id, version, CAST(octet_length(content) AS bigint) AS length FROM delivery_post \
    WHERE published_at <= $1 ORDER BY published_at DESC, id DESC LIMIT $2";

/// The same, of category `$3`.
pub(in crate::store) const POSTS_OF_CATEGORY: &str = "SELECT id, version, CAST(octet_length(content) AS bigint) AS length FROM delivery_post \
    WHERE published_at <= $1 AND category = $3 ORDER BY published_at DESC, id DESC LIMIT $2";

/// The first posts that fit into a list.
pub(in crate::store) fn listed(rows: &[impl Columns]) -> Result<Vec<PostVersion>, StoreError> {
    let lengths = rows.iter().map(|row| Columns::integer(row, "length"));
    let lengths = lengths.map(|length| length.map(|length| usize::try_from(length).unwrap_or(usize::MAX)));
    let fit = fitting(lengths.collect::<Result<Vec<_>, _>>()?);
    let id = |row| parsed(PostId::new(Columns::integer(row, "id")?), "post number");
    rows.iter().take(fit).map(|row| Ok((id(row)?, row.integer("version")?))).collect()
}

/// A page of at most `size` from the rows of [`CHAIN`], of which one more was asked for.
pub(in crate::store) fn history_page(rows: &[impl Columns], size: usize) -> Result<Page<Use, UseId>, StoreError> {
    let at = |row| milliseconds(Columns::integer(row, "at")?).map(|at| Use { at });
    let items = rows.iter().take(size).map(at).collect::<Result<Vec<_>, _>>()?;
    let last = rows.get(size.saturating_sub(1)).filter(|_| rows.len() > size);
    let next = last.map(|row| row.integer("number").map(UseId::new)).transpose()?;
    Ok(Page { items, next })
}

/// Those that can be read: one that cannot hides no other.
pub(in crate::store) fn readable(
    messages: impl Iterator<Item = Result<FailedMessage, StoreError>>,
) -> Vec<FailedMessage> {
    let unreadable = |error: &StoreError| {
        tracing::error!(error = error as &dyn std::error::Error, "a failed e-mail cannot be read");
    };
    messages.filter_map(|message| message.inspect_err(unreadable).ok()).collect()
}

/// A route as its column has it.
pub(in crate::store) fn stored_route(route: Route) -> String {
    data_encoding::HEXLOWER.encode(route.as_bytes())
}

/// What a message's row becomes when its lease ends.
pub(in crate::store) struct Completion<'a> {
    pub(in crate::store) state: i64,
    /// In milliseconds; `None`: when it was queued.
    pub(in crate::store) due_at: Option<i64>,
    pub(in crate::store) reason: Option<&'a str>,
    /// Attempts to take back.
    pub(in crate::store) given_back: i64,
    pub(in crate::store) route: Option<String>,
}

pub(in crate::store) fn completion(outcome: &Outcome) -> Completion<'_> {
    const QUEUED: i64 = 0;
    const SENT: i64 = 1;
    const FAILED: i64 = 2;
    let (state, at, reason, given_back, route) = match outcome {
        Outcome::Sent { at } => (SENT, Some(at), None, 0, None),
        Outcome::Retry { due, reason, route } => (QUEUED, Some(due), Some(reason.as_str()), 0, route.map(stored_route)),
        Outcome::Postpone { due, reason } => (QUEUED, Some(due), Some(reason.as_str()), 1, None),
        Outcome::Fail { at, reason, route } => (FAILED, Some(at), Some(reason.as_str()), 0, Some(stored_route(*route))),
        Outcome::Release => (QUEUED, None, None, 1, None),
    };
    let due_at = at.map(DateTime::timestamp_millis);
    Completion { state, due_at, reason, given_back, route }
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
            .bind($product.host_ref().map(crate::HostRef::as_str))
            .bind(crate::store::sql::inbox::text($product.refs())?)
            .bind($product.language().map(crate::Language::as_str))
    };
}
pub(in crate::store) use bind_product;

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
pub(in crate::store) use bind_post;

/// As a database counts.
pub(in crate::store) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
