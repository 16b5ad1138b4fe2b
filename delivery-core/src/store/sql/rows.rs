//! Conversion of SQL rows to values. If a value does not parse, the error is [`StoreError::Corrupt`], because only this
//! software writes these tables.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::email::Email;
use crate::host_ref::HostRef;
use crate::key::{Actor, Key, KeyId, KeyState, NewKey, Revocation, SecretVersion};
use crate::language::Language;
use crate::ledger::plan::Row;
use crate::ledger::{FailedMessage, Lease, LeasedMessage, MessageId, MessageNumber};
use crate::order::OrderRef;
use crate::post::{NewPost, Post, PostId};
use crate::product::{Listing, NewProduct, Price, Product, ProductId};
use crate::store::StoreError;
use crate::terms::{OwnTerms, UseLimit, Validity};
use crate::text::Invalid;

/// A row whose columns are read by name.
pub(in crate::store) trait Columns {
    fn integer(&self, name: &'static str) -> Result<i64, StoreError>;
    fn integer_or_null(&self, name: &'static str) -> Result<Option<i64>, StoreError>;
    fn text(&self, name: &'static str) -> Result<&str, StoreError>;
    fn text_or_null(&self, name: &'static str) -> Result<Option<&str>, StoreError>;
    fn bytes(&self, name: &'static str) -> Result<&[u8], StoreError>;
    fn bytes_or_null(&self, name: &'static str) -> Result<Option<&[u8]>, StoreError>;
}

/// Implements [`Columns`] for the row of a database driver.
macro_rules! columns {
    ($row:ty) => {
        impl crate::store::sql::rows::Columns for $row {
            fn integer(&self, name: &'static str) -> Result<i64, StoreError> {
                sqlx::Row::try_get(self, name).map_err(store_error)
            }
            fn integer_or_null(&self, name: &'static str) -> Result<Option<i64>, StoreError> {
                sqlx::Row::try_get(self, name).map_err(store_error)
            }
            fn text(&self, name: &'static str) -> Result<&str, StoreError> {
                sqlx::Row::try_get(self, name).map_err(store_error)
            }
            fn text_or_null(&self, name: &'static str) -> Result<Option<&str>, StoreError> {
                sqlx::Row::try_get(self, name).map_err(store_error)
            }
            fn bytes(&self, name: &'static str) -> Result<&[u8], StoreError> {
                sqlx::Row::try_get(self, name).map_err(store_error)
            }
            fn bytes_or_null(&self, name: &'static str) -> Result<Option<&[u8]>, StoreError> {
                sqlx::Row::try_get(self, name).map_err(store_error)
            }
        }
    };
}
pub(in crate::store) use columns;

/// The columns that [`key`] reads from a table or view, which must have the alias `k`. This is a macro, so that
/// `concat!` can use it.
macro_rules! key_columns {
    () => {
        "k.number, k.id, k.secret_version, k.product, k.email, k.source, k.order_id, k.issued_at, k.granted_until, \
         k.granted_uses, k.expires_at, k.max_uses, k.used, k.last_use, k.revoked_at, k.revoked_reason, k.revoked_by, \
         k.successor, \
         k.version, k.host_ref"
    };
}
pub(in crate::store) use key_columns;

/// The columns of `delivery_product` that [`product`] reads.
macro_rules! product_columns {
    () => {
        "id, name, description, kind, content, price, days, uses, archived, host_ref, refs, language"
    };
}
pub(in crate::store) use product_columns;

pub(in crate::store) fn key(row: &impl Columns) -> Result<Row, StoreError> {
    let order = match (row.text_or_null("source")?, row.text_or_null("order_id")?) {
        (Some(source), Some(id)) => {
            Some(OrderRef { source: parsed(source.parse(), "order source")?, id: parsed(id.parse(), "order number")? })
        }
        _ => None,
    };
    let granted = NewKey {
        id: key_id(row)?,
        secret: secret_version(row.integer("secret_version")?)?,
        product: product_id(row.integer("product")?)?,
        email: parsed(row.text("email")?.parse::<Email>(), "e-mail address")?,
        order,
        issued_at: seconds(row.integer("issued_at")?)?,
        expires_at: seconds(row.integer("granted_until")?)?,
        limit: parsed(UseLimit::from_count(row.integer("granted_uses")?), "use limit")?,
        host_ref: host_ref(row)?,
    };
    let state = KeyState {
        expires_at: seconds(row.integer("expires_at")?)?,
        limit: parsed(UseLimit::from_count(row.integer("max_uses")?), "use limit")?,
        used: u64::try_from(row.integer("used")?).map_err(|_| StoreError::corrupt("a count below zero"))?,
        revoked: revocation(row)?.map(Arc::new),
    };
    Ok(Row {
        key: Key::new(Arc::new(granted), state),
        number: row.integer("number")?,
        version: row.integer("version")?,
        last_use: row.integer_or_null("last_use")?,
        may_be_stale: false,
    })
}

fn host_ref(row: &impl Columns) -> Result<Option<HostRef>, StoreError> {
    parsed(row.text_or_null("host_ref")?.map(str::parse).transpose(), "name of the host's")
}

fn revocation(row: &impl Columns) -> Result<Option<Revocation>, StoreError> {
    let Some(at) = row.integer_or_null("revoked_at")? else { return Ok(None) };
    let reason = row.text_or_null("revoked_reason")?.map(str::parse).transpose();
    let by = Actor::from_stored(row.text_or_null("revoked_by")?.unwrap_or("system"));
    let (reason, by) = (parsed(reason, "reason")?, parsed(by, "actor")?);
    let successor = row.text_or_null("successor")?.map(str::parse).transpose();
    Ok(Some(Revocation { at: milliseconds(at)?, reason, by, successor: parsed(successor, "successor")? }))
}

pub(in crate::store) fn secret_version(stored: i64) -> Result<SecretVersion, StoreError> {
    let version = u16::try_from(stored).map_err(|_| StoreError::corrupt("a secret version out of range"))?;
    Ok(SecretVersion::from_stored(version))
}

pub(in crate::store) fn key_id(row: &impl Columns) -> Result<KeyId, StoreError> {
    let bytes = row.bytes("id")?.try_into().map_err(|_| StoreError::corrupt("a key id of another length"))?;
    Ok(KeyId::from_bytes(bytes))
}

pub(in crate::store) fn product(row: &impl Columns) -> Result<Product, StoreError> {
    let days = row.integer_or_null("days")?.map(Validity::from_days).transpose();
    let uses = row.integer_or_null("uses")?.map(UseLimit::from_count).transpose();
    let terms = OwnTerms { validity: parsed(days, "validity")?, limit: parsed(uses, "use limit")? };
    let described = NewProduct::new(row.text("name")?).and_then(|facts| {
        let description = row.text("description").unwrap_or_default();
        facts.description(description)?.kind(row.text("kind").unwrap_or_default())
    });
    let facts = parsed(described, "product")?.content(row.text("content")?);
    let facts = parsed(facts, "product")?.price(price(row)?).terms(terms);
    let facts = match host_ref(row)? {
        Some(host_ref) => facts.host_ref(host_ref),
        None => facts,
    };
    let language = parsed(row.text_or_null("language")?.map(str::parse::<Language>).transpose(), "language")?;
    let facts = match language {
        Some(language) => facts.language(language),
        None => facts,
    };
    let refs = serde_json::from_str(row.text("refs")?);
    let facts = facts.refs(refs.map_err(|error| StoreError::corrupt_because("names of a product", error))?);
    Ok(Product::new(product_id(row.integer("id")?)?, facts).archived(row.integer("archived")? != 0))
}

pub(in crate::store) fn listing(row: &impl Columns) -> Result<Listing, StoreError> {
    Ok(Listing {
        id: product_id(row.integer("id")?)?,
        name: row.text("name")?.to_owned(),
        description: row.text("description")?.to_owned(),
        kind: row.text("kind")?.to_owned(),
        price: price(row)?,
    })
}

pub(in crate::store) fn post(row: &impl Columns) -> Result<Post, StoreError> {
    let category = parsed(row.text("category")?.parse(), "category")?;
    let titled = NewPost::new(row.text("title")?, category, seconds(row.integer("published_at")?)?);
    let facts = parsed(titled, "title")?.content(row.text("content")?);
    Ok(Post::new(parsed(PostId::new(row.integer("id")?), "post number")?, parsed(facts, "content")?))
}

pub(in crate::store) fn failed_message(row: &impl Columns, key: Key) -> Result<FailedMessage, StoreError> {
    Ok(FailedMessage {
        message: MessageNumber::new(row.integer("message")?),
        kind: parsed(row.text("kind")?.parse(), "kind of message")?,
        recipient: parsed(row.text("recipient")?.parse(), "recipient")?,
        key,
        attempts: attempts(row)?,
        failed_at: milliseconds(row.integer("due_at")?)?,
        reason: row.text("reason")?.to_owned(),
    })
}

/// Converts a row to a message and its lease.
pub(in crate::store) fn message(row: &impl Columns, key: Key) -> Result<LeasedMessage, StoreError> {
    Ok(LeasedMessage {
        lease: Lease { message: MessageNumber::new(row.integer("message")?), token: row.integer("token")? },
        kind: parsed(row.text("kind")?.parse(), "kind of message")?,
        recipient: parsed(row.text("recipient")?.parse(), "recipient")?,
        message_id: parsed(MessageId::new(row.text("message_id")?), "message id")?,
        key,
        attempt: attempts(row)?,
        queued_at: milliseconds(row.integer("queued_at")?)?,
    })
}

fn attempts(row: &impl Columns) -> Result<u32, StoreError> {
    u32::try_from(row.integer("attempts")?).map_err(|_| StoreError::corrupt("attempts out of range"))
}

pub(in crate::store) fn product_id(number: i64) -> Result<ProductId, StoreError> {
    parsed(ProductId::new(number), "product number")
}

pub(in crate::store) fn seconds(stored: i64) -> Result<DateTime<Utc>, StoreError> {
    DateTime::from_timestamp(stored, 0).ok_or(StoreError::corrupt("a time out of range"))
}

pub(in crate::store) fn milliseconds(stored: i64) -> Result<DateTime<Utc>, StoreError> {
    DateTime::from_timestamp_millis(stored).ok_or(StoreError::corrupt("a time out of range"))
}

pub(in crate::store) fn parsed<T>(value: Result<T, Invalid>, what: &'static str) -> Result<T, StoreError> {
    value.map_err(|error| StoreError::corrupt_because(what, error))
}

fn price(row: &impl Columns) -> Result<Price, StoreError> {
    parsed(row.text("price")?.parse(), "price")
}
