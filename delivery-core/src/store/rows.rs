//! Between rows of SQL tables and values. Whatever does not parse is [`StoreError::Corrupt`]: these tables have one kind of
//! writer.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{LetterId, MessageId, ParkedLetter, Receipt, StoreError};
use crate::email::Email;
use crate::key::{Fingerprint, Key, KeyId, NewKey, RingVersion};
use crate::order::OrderRef;
use crate::post::{Category, NewPost, Post, PostId};
use crate::product::{Listing, NewProduct, Price, Product, ProductId};
use crate::terms::{OwnTerms, UseLimit, Validity};
use crate::text::Invalid;

/// The columns of a row, by name; the databases' rows implement it.
pub(super) trait Columns {
    fn integer(&self, name: &'static str) -> Result<i64, StoreError>;
    fn integer_or_null(&self, name: &'static str) -> Result<Option<i64>, StoreError>;
    fn text(&self, name: &'static str) -> Result<&str, StoreError>;
    fn text_or_null(&self, name: &'static str) -> Result<Option<&str>, StoreError>;
    fn bytes(&self, name: &'static str) -> Result<&[u8], StoreError>;
}

/// Implements [`Columns`] for the row of a database driver.
macro_rules! columns {
    ($row:ty) => {
        impl crate::store::rows::Columns for $row {
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
        }
    };
}
pub(super) use columns;

/// The columns that [`key`] reads, and two more, of `delivery_key k`: a literal, so that statements are put together at
/// compile time.
macro_rules! key_columns {
    () => {
        "k.number, k.id, k.ring, k.product, k.email, k.source, k.order_id, k.issued_at, k.expires_at, k.max_uses, \
         k.used, k.last_use, k.revoked_at"
    };
}
pub(super) use key_columns;

/// The columns that [`product`] reads, of `delivery_product`.
macro_rules! product_columns {
    () => {
        "id, name, description, kind, content, price, days, uses"
    };
}
pub(super) use product_columns;

/// A key as its row has it.
pub(super) fn key(row: &impl Columns) -> Result<Key, StoreError> {
    let order = match (row.text_or_null("source")?, row.text_or_null("order_id")?) {
        (Some(source), Some(id)) => {
            Some(OrderRef { source: parsed(source.parse(), "order source")?, id: parsed(id.parse(), "order number")? })
        }
        _ => None,
    };
    let granted = NewKey {
        id: key_id(row)?,
        ring: ring_version(row.integer("ring")?)?,
        product: product_id(row.integer("product")?)?,
        email: parsed(row.text("email")?.parse::<Email>(), "e-mail address")?,
        order,
        issued_at: seconds(row.integer("issued_at")?)?,
        expires_at: seconds(row.integer("expires_at")?)?,
        limit: parsed(UseLimit::from_count(row.integer("max_uses")?), "use limit")?,
    };
    let used = u64::try_from(row.integer("used")?).map_err(|_| StoreError::corrupt("a count below zero"))?;
    let revoked_at = row.integer_or_null("revoked_at")?.map(milliseconds).transpose()?;
    Ok(Key::restore(Arc::new(granted), used, revoked_at))
}

/// The mark of a store that is moved, of `delivery_move`.
#[cfg(feature = "sqlite")]
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Which move.
    pub(super) id: Vec<u8>,
    pub(super) finished_at: Option<DateTime<Utc>>,
}

#[cfg(feature = "sqlite")]
pub(super) fn mark(row: &impl Columns) -> Result<Mark, StoreError> {
    let finished_at = row.integer_or_null("finished_at")?.map(milliseconds).transpose()?;
    Ok(Mark { id: row.bytes("id")?.to_owned(), finished_at })
}

pub(super) fn ring_version(stored: i64) -> Result<RingVersion, StoreError> {
    let version = u16::try_from(stored).map_err(|_| StoreError::corrupt("a ring version out of range"))?;
    Ok(RingVersion::from_stored(version))
}

/// The fingerprints of a ring, as they are stored.
pub(super) fn fingerprints(stored: Vec<Vec<u8>>) -> Vec<Fingerprint> {
    stored.into_iter().filter_map(|bytes| bytes.try_into().ok()).map(Fingerprint::from_bytes).collect()
}

pub(super) fn key_id(row: &impl Columns) -> Result<KeyId, StoreError> {
    let bytes = row.bytes("id")?.try_into().map_err(|_| StoreError::corrupt("a key id of another length"))?;
    Ok(KeyId::from_bytes(bytes))
}

pub(super) fn product(row: &impl Columns) -> Result<Product, StoreError> {
    let days = row.integer_or_null("days")?.map(Validity::from_days).transpose();
    let uses = row.integer_or_null("uses")?.map(UseLimit::from_count).transpose();
    let terms = OwnTerms { validity: parsed(days, "validity")?, limit: parsed(uses, "use limit")? };
    let described = NewProduct::new(row.text("name")?).and_then(|facts| {
        let description = row.text("description").unwrap_or_default();
        facts.description(description)?.kind(row.text("kind").unwrap_or_default())
    });
    let facts = parsed(described, "product")?.content(row.text("content")?);
    let facts = parsed(facts, "product")?.price(price(row)?).terms(terms);
    Ok(Product::new(product_id(row.integer("id")?)?, facts))
}

pub(super) fn listing(row: &impl Columns) -> Result<Listing, StoreError> {
    Ok(Listing {
        id: product_id(row.integer("id")?)?,
        name: row.text("name")?.to_owned(),
        description: row.text("description")?.to_owned(),
        kind: row.text("kind")?.to_owned(),
        price: price(row)?,
    })
}

pub(super) fn post(row: &impl Columns) -> Result<Post, StoreError> {
    let category = parsed(Category::new(row.text("category")?), "category")?;
    let titled = NewPost::new(row.text("title")?, category, seconds(row.integer("published_at")?)?);
    let facts = parsed(titled, "title")?.content(row.text("content")?);
    Ok(Post::new(parsed(PostId::new(row.integer("id")?), "post number")?, parsed(facts, "content")?))
}

/// A letter that is given up, of `delivery_letter`; its key is read elsewhere.
pub(super) fn parked_letter(row: &impl Columns, key: Key) -> Result<ParkedLetter, StoreError> {
    Ok(ParkedLetter {
        letter: LetterId::new(row.integer("letter")?),
        key,
        attempts: attempts(row)?,
        parked_at: milliseconds(row.integer("due_at")?)?,
        reason: row.text("reason")?.to_owned(),
    })
}

/// The receipt and `Message-ID` of a letter's row.
pub(super) fn receipt(row: &impl Columns) -> Result<(Receipt, MessageId), StoreError> {
    let receipt = Receipt { letter: LetterId::new(row.integer("letter")?), fence: row.integer("fence")? };
    Ok((receipt, parsed(MessageId::new(row.text("message_id")?), "message id")?))
}

pub(super) fn attempts(row: &impl Columns) -> Result<u32, StoreError> {
    u32::try_from(row.integer("attempts")?).map_err(|_| StoreError::corrupt("attempts out of range"))
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
    value.map_err(|error| StoreError::corrupt_because(what, error))
}

fn price(row: &impl Columns) -> Result<Price, StoreError> {
    parsed(row.text("price")?.parse(), "price")
}
