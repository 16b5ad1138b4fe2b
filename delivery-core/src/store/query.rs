//! What to search for, and pages of what was found.

use chrono::{DateTime, Utc};

use crate::email::Email;
use crate::host_ref::HostRef;
use crate::key::{Key, KeyId, Status};
use crate::order::{OrderId, Source};
use crate::product::ProductId;

/// Which keys to look for; what is `None` does not narrow the search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal with `..Default::default()`")]
pub struct KeyQuery {
    /// Sent to this address, without regard to the case of ASCII letters.
    pub email: Option<Email>,
    /// Bought with an order of this number, wherever it was paid.
    pub order: Option<OrderId>,
    /// Bought there.
    pub source: Option<Source>,
    /// For this product.
    pub product: Option<ProductId>,
    /// With this status at this instant.
    pub status: Option<(Status, DateTime<Utc>)>,
    /// Under the host's own name.
    pub host_ref: Option<HostRef>,
    /// Older than this key: [`Page::next`] of the page before.
    pub before: Option<KeyId>,
    /// How many a page; 0 counts as 1, more than 1,000 as 1,000.
    pub limit: usize,
}

impl KeyQuery {
    /// Whether `key` matches.
    #[must_use]
    pub fn matches(&self, key: &Key) -> bool {
        self.email.as_ref().is_none_or(|email| email.is_same(key.email()))
            && self.order.as_ref().is_none_or(|order| key.granted().order.as_ref().is_some_and(|it| it.id == *order))
            && self.source.as_ref().is_none_or(|from| key.granted().order.as_ref().is_some_and(|it| it.source == *from))
            && self.product.is_none_or(|product| product == key.product())
            && self.status.is_none_or(|(status, at)| key.status(at) == status)
            && self.host_ref.as_ref().is_none_or(|name| Some(name) == key.granted().host_ref.as_ref())
            && self.before.is_none_or(|before| key.id() < before)
    }

    /// The number of keys on a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        page_size(self.limit)
    }
}

pub(crate) fn page_size(limit: usize) -> usize {
    limit.clamp(1, 1000)
}

/// A part of a longer list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Page<T, C> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins; `None` if this is the last.
    pub next: Option<C>,
}

/// One use of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Use {
    /// When, to the millisecond.
    pub at: DateTime<Utc>,
}

/// Where a page of a key's history ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UseId(i64);

impl UseId {
    /// A store's own number for a use.
    #[must_use]
    pub fn new(number: i64) -> Self {
        Self(number)
    }

    /// The store's own number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}
