//! Key searches, and pages of results.

use chrono::{DateTime, Utc};

use crate::email::Email;
use crate::host_ref::HostRef;
use crate::key::{Key, KeyId, Status};
use crate::order::{OrderId, Source};
use crate::product::ProductId;
use crate::store::{Period, StoreError};

/// The conditions of a search for keys. A condition that is `None` matches every key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal with `..Default::default()`")]
pub struct KeyQuery {
    /// Only keys whose buyer has this address, compared without regard to the case of ASCII letters.
    pub email: Option<Email>,
    /// Only keys bought with an order of this number, on any platform.
    pub order: Option<OrderId>,
    /// Only keys bought on this platform.
    pub source: Option<Source>,
    /// Only keys for this product.
    pub product: Option<ProductId>,
    /// Only keys that have this status at this time.
    pub status: Option<(Status, DateTime<Utc>)>,
    /// Only keys to which the host application gave this name.
    pub host_ref: Option<HostRef>,
    /// Only keys whose buyer's address begins with this text, compared without regard to the case of ASCII letters.
    pub email_prefix: Option<String>,
    /// Only keys that were made in this period. The time is taken from the key's id.
    pub period: Period,
    /// Only keys that are older than the key with this id. To continue a list, pass the [`Page::next`] of the previous
    /// page.
    pub before: Option<KeyId>,
    /// Keys per page, from 1 to 1,000; other values are clamped to this range.
    pub limit: usize,
}

impl KeyQuery {
    /// Returns whether `key` matches.
    #[must_use]
    pub fn matches(&self, key: &Key) -> bool {
        self.email.as_ref().is_none_or(|email| email.is_same(key.email()))
            && self.order.as_ref().is_none_or(|order| key.granted().order.as_ref().is_some_and(|it| it.id == *order))
            && self.source.as_ref().is_none_or(|from| key.granted().order.as_ref().is_some_and(|it| it.source == *from))
            && self.product.is_none_or(|product| product == key.product())
            && self.status.is_none_or(|(status, at)| key.status(at) == status)
            && self.host_ref.as_ref().is_none_or(|name| Some(name) == key.granted().host_ref.as_ref())
            && self.email_prefix.as_ref().is_none_or(|prefix| begins(key.email().as_str(), prefix))
            && self.period.has(key.id())
            && self.before.is_none_or(|before| key.id() < before)
    }

    /// Returns an upper bound: every key that matches has a smaller id. Returns `None` if the query sets no upper
    /// bound.
    #[must_use]
    pub fn below(&self) -> Option<KeyId> {
        self.before.into_iter().chain(self.period.until.map(KeyId::from_time)).min()
    }

    /// Returns the number of keys on a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        page_size(self.limit)
    }
}

fn begins(address: &str, prefix: &str) -> bool {
    address.as_bytes().get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix.as_bytes()))
}

pub(crate) fn page_size(limit: usize) -> usize {
    limit.clamp(1, 1000)
}

/// Converts [`StoreError::Unsupported`] to `None`. A store returns this error if it does not keep the requested
/// records.
pub(crate) fn or_none<T>(found: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::Unsupported) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A page of a longer list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Page<T, C> {
    /// The items on this page.
    pub items: Vec<T>,
    /// The cursor to pass as `before` to get the next page; `None` if this is the last page.
    pub next: Option<C>,
}

/// One use of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Use {
    /// When the key was used, to the millisecond.
    pub at: DateTime<Utc>,
}

/// Identifies one use of a key. It is also the cursor between the pages of a key's history: see [`Page::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UseId(i64);

impl UseId {
    /// Wraps a store's own number for a use.
    #[must_use]
    pub fn new(number: i64) -> Self {
        Self(number)
    }

    /// Returns the store's own number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}
