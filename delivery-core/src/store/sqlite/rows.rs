//! Between rows and values. Whatever does not parse is [`StoreError::Corrupt`]: these tables have one writer.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::error::store_error;
use super::view::Entry;
use crate::email::Email;
use crate::key::{Key, KeyId, NewKey, RingVersion};
use crate::order::OrderRef;
use crate::post::{Category, NewPost, Post, PostId};
use crate::product::{NewProduct, Price, Product, ProductId};
use crate::store::StoreError;
use crate::terms::{OwnTerms, UseLimit, Validity};
use crate::text::Invalid;

/// The columns that [`entry`] reads, of `delivery_key k`: a literal, so that statements are put together at compile time.
macro_rules! key_columns {
    () => {
        "k.number, k.id, k.ring, k.product, k.email, k.source, k.order_id, k.issued_at, k.expires_at, k.max_uses, \
         k.used, k.last_use, k.revoked_at"
    };
}
pub(super) use key_columns;

/// A key whose uses are all folded.
pub(super) fn entry(row: &SqliteRow) -> Result<Entry, StoreError> {
    let order = match (column::<Option<&str>>(row, "source")?, column::<Option<&str>>(row, "order_id")?) {
        (Some(source), Some(id)) => {
            Some(OrderRef { source: parsed(source.parse(), "order source")?, id: parsed(id.parse(), "order number")? })
        }
        _ => None,
    };
    let granted = NewKey {
        id: key_id(row)?,
        ring: RingVersion::from_stored(column(row, "ring")?),
        product: product_id(column(row, "product")?)?,
        email: parsed(column::<&str>(row, "email")?.parse::<Email>(), "e-mail address")?,
        order,
        issued_at: seconds(column(row, "issued_at")?)?,
        expires_at: seconds(column(row, "expires_at")?)?,
        limit: parsed(UseLimit::from_count(column(row, "max_uses")?), "use limit")?,
    };
    let used = u64::try_from(column::<i64>(row, "used")?).map_err(|_| StoreError::corrupt("a count below zero"))?;
    let revoked_at = column::<Option<i64>>(row, "revoked_at")?.map(milliseconds).transpose()?;
    let key = Key::restore(Arc::new(granted), used, revoked_at);
    Ok(Entry { key, number: column(row, "number")?, last_use: column(row, "last_use")?, unfolded: 0 })
}

pub(super) fn key_id(row: &SqliteRow) -> Result<KeyId, StoreError> {
    let bytes =
        column::<&[u8]>(row, "id")?.try_into().map_err(|_| StoreError::corrupt("a key id of another length"))?;
    Ok(KeyId::from_bytes(bytes))
}

pub(super) fn product(row: &SqliteRow) -> Result<Product, StoreError> {
    let terms = OwnTerms {
        validity: column::<Option<i64>>(row, "days")?
            .map(Validity::from_days)
            .transpose()
            .map_err(invalid("validity"))?,
        limit: column::<Option<i64>>(row, "uses")?
            .map(UseLimit::from_count)
            .transpose()
            .map_err(invalid("use limit"))?,
    };
    let facts = NewProduct::new(column::<String>(row, "name")?)
        .and_then(|facts| facts.description(column::<String>(row, "description").unwrap_or_default()))
        .and_then(|facts| facts.kind(column::<String>(row, "kind").unwrap_or_default()))
        .map_err(invalid("product"))?
        .content(column::<String>(row, "content")?)
        .map_err(invalid("product"))?
        .price(price(row)?)
        .terms(terms);
    Ok(Product::new(product_id(column(row, "id")?)?, facts))
}

pub(super) fn price(row: &SqliteRow) -> Result<Price, StoreError> {
    parsed(column::<&str>(row, "price")?.parse(), "price")
}

pub(super) fn post(row: &SqliteRow) -> Result<Post, StoreError> {
    let category = Category::new(column::<String>(row, "category")?).map_err(invalid("category"))?;
    let facts = NewPost::new(column::<String>(row, "title")?, category, seconds(column(row, "published_at")?)?)
        .map_err(invalid("title"))?
        .content(column::<String>(row, "content")?)
        .map_err(invalid("content"))?;
    Ok(Post::new(PostId::new(column(row, "id")?).map_err(invalid("post number"))?, facts))
}

/// One column of a row.
pub(super) fn column<'r, T>(row: &'r SqliteRow, name: &'static str) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(name).map_err(store_error)
}

pub(super) fn product_id(number: i64) -> Result<ProductId, StoreError> {
    parsed(ProductId::new(number), "product number")
}

pub(super) fn seconds(stored: i64) -> Result<DateTime<Utc>, StoreError> {
    DateTime::from_timestamp(stored, 0).ok_or(StoreError::corrupt("a time out of range"))
}

pub(super) fn milliseconds(stored: i64) -> Result<DateTime<Utc>, StoreError> {
    DateTime::from_timestamp_millis(stored).ok_or(StoreError::corrupt("a time out of range"))
}

pub(super) fn parsed<T>(value: Result<T, Invalid>, what: &'static str) -> Result<T, StoreError> {
    value.map_err(invalid(what))
}

fn invalid(what: &'static str) -> impl Fn(Invalid) -> StoreError {
    move |error| StoreError::corrupt_because(what, error)
}
