//! The seller's lists as CSV tables (RFC 4180), and all data about one person as JSON. The columns of a table have the
//! names and values of the API's JSON. The tables of keys and of uses also have the name of the product.
//!
//! A table is sent while the store is read, a page at a time. It is therefore not a snapshot: changes that are made
//! during the export may be included or not.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use ::http::HeaderValue;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use csv::{Terminator, WriterBuilder};
use futures_util::StreamExt;
use futures_util::stream::{iter, once, try_unfold};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::api::admin::wire;
use super::error::ApiError;
use super::fields::Fault;
use super::{Call, Reply, filters, names, parameter};
use crate::clock::timestamp;
use crate::delivery::Delivery;
use crate::email::Email;
use crate::error::ErrorCode;
use crate::key::{Actor, Key};
use crate::product::ProductId;
use crate::store::{AuditQuery, InboxQuery, KeyQuery, MessageQuery, Page, StoreError, UseId};

/// How many rows are read at a time.
const ROWS: usize = 1_000;
/// Rows are collected and sent in pieces of at least this many bytes. The first piece and the last may be smaller.
const PIECE: usize = 32 << 10;
/// Tells spreadsheets that the table is UTF-8.
const BYTE_ORDER_MARK: &str = "\u{feff}";
/// The last line of a table if reading the store failed midway. This line is needed because a client of a Rocket server
/// cannot detect that a body is incomplete.
const INCOMPLETE: &str = "INCOMPLETE: the store could not be read. Download the table again.";

/// Returns the reply with all data about one person.
pub(super) async fn person(delivery: &Delivery, actor: &Actor, email: &Email) -> Result<Reply, ApiError> {
    let known = delivery.desk(actor).person(email).await?;
    let file = HeaderValue::from_static("attachment; filename=\"person.json\"");
    let person = wire::Person::of(email, &known, delivery.inner.clock.now());
    Ok(Reply::json(&person).with_header(&names::CONTENT_DISPOSITION, file))
}

/// Returns the table for which a call asks; `None` if the call asks for the data about a person.
pub(super) fn table(delivery: &Delivery, call: &Call) -> Result<Option<Table>, ApiError> {
    let what = parameter::WHAT.text(call)?.ok_or_else(|| Fault::missing(parameter::WHAT.name))?;
    // A malformed filter is an error even if the requested table does not use this filter.
    let keys = KeyQuery { limit: ROWS, ..filters::keys(delivery, call)? };
    let audit = AuditQuery { limit: ROWS, ..filters::audit(call)? };
    let inbox = InboxQuery { limit: ROWS, ..filters::inbox(call)? };
    let messages = MessageQuery { limit: ROWS, ..filters::messages(call)? };
    Ok(Some(match &*what {
        "person" => return Ok(None),
        "keys" => Table::Keys(keys),
        "uses" => Table::Uses(Some(keys)),
        "events" => Table::Audit(audit),
        "inbox" => Table::Inbox(inbox),
        "messages" => Table::Messages(messages),
        _ => return Err(Fault::malformed(parameter::WHAT.name, parameter::EXPECTED_WHAT).into()),
    }))
}

/// A table, with the query for the rows that were not read yet.
pub(super) enum Table {
    Keys(KeyQuery),
    /// The uses of the keys that match the query. The query is `None` once all matching keys were read, even if some
    /// uses of these keys were not read yet.
    Uses(Option<KeyQuery>),
    Audit(AuditQuery),
    Inbox(InboxQuery),
    Messages(MessageQuery),
}

/// Reads the rows of a table, a page at a time.
struct Reader {
    delivery: Delivery,
    actor: Actor,
    /// `None` after the last page.
    table: Option<Table>,
    /// When the export began. The table shows the status of each key at this time.
    now: DateTime<Utc>,
    /// Keys whose uses are to be read.
    keys: VecDeque<Key>,
    /// The position in the uses of the first key in `keys`. The next page contains only older uses than this one.
    /// `None` for the first page of a key.
    before: Option<UseId>,
    products: BTreeMap<ProductId, String>,
    _permit: OwnedSemaphorePermit,
}

impl Table {
    /// Returns the name of the table, which is the value of the parameter `what`, and its header line: the names of the
    /// columns, with commas between them.
    fn form(&self) -> (&'static str, &'static str) {
        match self {
            Self::Keys(_) => (
                "keys",
                "id,product_id,product,customer_email,source,order_id,status,issued_at,expires_at,max_uses,used_count,\
                 remaining_uses,revoked_at,revoked_reason",
            ),
            Self::Uses(_) => ("uses", "key_id,product_id,product,customer_email,used_at"),
            Self::Audit(_) => ("events", "at,actor,action,key_id,product_id,detail"),
            Self::Inbox(_) => {
                ("inbox", "id,platform,event,event_id,order_id,received_at,outcome,reason,key_id,key_ids")
            }
            Self::Messages(_) => {
                ("messages", "id,kind,key_id,recipient,state,attempts,queued_at,due_at,sent_at,failed_at,reason")
            }
        }
    }

    /// Returns the reply with this table. The first rows are read before the reply begins. If the store cannot be read,
    /// the reply is therefore an error.
    pub(super) async fn reply(self, delivery: &Delivery, actor: &Actor) -> Result<Reply, ApiError> {
        let (name, columns) = self.form();
        let permit = delivery.inner.exports.clone().try_acquire_owned().map_err(|_| ErrorCode::Unavailable)?;
        let (delivery, actor) = (delivery.clone(), actor.clone());
        let (now, keys, products) = (delivery.inner.clock.now(), VecDeque::new(), BTreeMap::new());
        let mut reader =
            Reader { delivery, actor, table: Some(self), now, keys, before: None, products, _permit: permit };
        let mut first = BYTE_ORDER_MARK.as_bytes().to_vec();
        first.extend(columns.as_bytes());
        first.extend(b"\r\n");
        first.extend(reader.page(columns).await?);
        let rest = try_unfold(reader, move |mut reader| async move {
            let rows = reader.rows(columns).await?;
            Ok(rows.map(|rows| (Bytes::from(rows), reader)))
        });
        let rest = rest.flat_map(|rows: Result<Bytes, StoreError>| {
            let pieces = match rows {
                Ok(rows) => vec![Ok(rows)],
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "an export was broken off");
                    let line = Bytes::from_static(INCOMPLETE.as_bytes());
                    vec![Ok(line), Err(io::Error::other(error))]
                }
            };
            iter(pieces)
        });
        let stream = once(async { Ok(Bytes::from(first)) }).chain(rest);
        let file = format!("attachment; filename=\"{name}.csv\"");
        let reply = Reply::empty(::http::StatusCode::OK).streamed(Box::pin(stream));
        let reply = reply.with_header(&names::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8"));
        Ok(reply.text_header(&names::CONTENT_DISPOSITION, &file))
    }
}

impl Reader {
    /// Returns the next lines, at least [`PIECE`] bytes unless the table ends before. Returns `None` after the last
    /// line.
    async fn rows(&mut self, columns: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let mut text = Vec::new();
        while self.table.is_some() && text.len() < PIECE {
            text.extend(self.page(columns).await?);
        }
        Ok((!text.is_empty()).then_some(text))
    }

    /// Returns the lines of the next page. There may be no lines although more pages follow.
    async fn page(&mut self, columns: &str) -> Result<Vec<u8>, StoreError> {
        let Some(table) = self.table.take() else { return Ok(Vec::new()) };
        let rows = self.values(table).await?;
        lines(rows.iter().map(|row| columns.split(',').map(|column| cell(&row[column]))))
    }

    /// Returns the rows of the next page as JSON objects. Sets `self.table` to the query for the page after it, if
    /// there is one.
    async fn values(&mut self, table: Table) -> Result<Vec<Value>, StoreError> {
        let (delivery, now) = (self.delivery.clone(), self.now);
        let desk = delivery.desk(&self.actor);
        match table {
            Table::Keys(query) => {
                let page = delivery.keys(&query).await?;
                let mut rows = rows(&wire::Keys::of(&page, now))?;
                for (row, key) in rows.iter_mut().zip(&page.items) {
                    row["product"] = self.product(key.product()).await?;
                }
                self.table = page.next.map(|next| Table::Keys(KeyQuery { before: Some(next), ..query }));
                Ok(rows)
            }
            Table::Uses(query) => self.uses(query).await,
            Table::Audit(query) => {
                let page = desk.audit(&query).await?;
                self.table = page.next.map(|next| Table::Audit(AuditQuery { before: Some(next), ..query }));
                rows(&wire::AuditLog::of(&page))
            }
            Table::Inbox(query) => {
                let page = delivery.events(&query).await?;
                self.table = page.next.map(|next| Table::Inbox(InboxQuery { before: Some(next), ..query }));
                rows(&wire::Inbox::of(&page))
            }
            Table::Messages(query) => {
                let page = desk.messages(&query).await?;
                self.table = page.next.map(|next| Table::Messages(MessageQuery { before: Some(next), ..query }));
                rows(&wire::Messages::of(&page))
            }
        }
    }

    /// Returns the next page of uses of the first key in `self.keys`. If no key is left, reads the next page of keys
    /// with `query`, and returns no uses.
    async fn uses(&mut self, query: Option<KeyQuery>) -> Result<Vec<Value>, StoreError> {
        let Some(key) = self.keys.front().cloned() else {
            let Some(query) = query else { return Ok(Vec::new()) };
            let page = self.delivery.keys(&query).await?;
            self.keys = page.items.into_iter().filter(|key| key.used() > 0).collect();
            let rest = page.next.map(|next| KeyQuery { before: Some(next), ..query });
            self.table = Some(Table::Uses(rest));
            return Ok(Vec::new());
        };
        let Page { items, next } = self.delivery.history(key.id(), self.before, ROWS).await?;
        self.before = next;
        if next.is_none() {
            self.keys.pop_front();
        }
        self.table = Some(Table::Uses(query));
        let (id, email, product) = (key.id().to_string(), key.email().as_str(), key.product());
        let name = self.product(product).await?;
        let row = |at| json!({ "key_id": id, "product_id": product.get(), "product": name, "customer_email": email, "used_at": timestamp(at) });
        Ok(items.iter().map(|used| row(used.at)).collect())
    }

    async fn product(&mut self, id: ProductId) -> Result<Value, StoreError> {
        if !self.products.contains_key(&id) {
            let found = self.delivery.product(id).await?;
            self.products.insert(id, found.map(|product| product.name().to_owned()).unwrap_or_default());
        }
        Ok(self.products.get(&id).map(String::as_str).into())
    }
}

/// Returns the items of a list as JSON values. `list` is a reply of the API that contains the list.
fn rows(list: &impl Serialize) -> Result<Vec<Value>, StoreError> {
    let list = serde_json::to_value(list)
        .map_err(|error| StoreError::corrupt_because("a row that cannot be encoded as JSON", error))?;
    let Value::Object(mut list) = list else { return Ok(Vec::new()) };
    let items = list.values_mut().find_map(Value::as_array_mut);
    Ok(items.map(std::mem::take).unwrap_or_default())
}

/// Returns the text of a cell. A text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets an
/// apostrophe in front, because a spreadsheet would interpret it as a formula. See
/// <https://owasp.org/www-community/attacks/CSV_Injection>.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        // The use limit and the remaining uses of a key without a limit are -1.
        Value::Number(number) if number.as_i64() == Some(-1) => "unlimited".to_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(" "),
        Value::String(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r']) => format!("'{text}"),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn lines<R: IntoIterator<Item = String>>(rows: impl IntoIterator<Item = R>) -> Result<Vec<u8>, StoreError> {
    let fault = |error| StoreError::corrupt_because("a row that cannot be encoded as CSV", error);
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).map_err(|error| fault(io::Error::other(error)))?;
    }
    writer.into_inner().map_err(|error| fault(error.into_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula() {
        for (value, expected) in [
            (json!("=1+1"), "'=1+1"),
            (json!("+1"), "'+1"),
            (json!("-1"), "'-1"),
            (json!("@SUM(A1)"), "'@SUM(A1)"),
            (json!("\t=1"), "'\t=1"),
            (json!("\r=1"), "'\r=1"),
            (json!("a=1"), "a=1"),
            (json!("'=1"), "'=1"),
            (json!(""), ""),
            (json!(-1), "unlimited"),
            (json!(0), "0"),
            (json!(null), ""),
            (json!(true), "true"),
            (json!(["a", "b"]), "a b"),
        ] {
            assert_eq!(cell(&value), expected);
        }
    }
}
