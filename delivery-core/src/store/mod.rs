//! What must be kept: the [`Ledger`] of keys, orders and letters, and the [`Catalog`] of products and posts.
//!
//! Stores are only atomic; they know no rule. A key changes by [`Key::apply`](crate::key::Key::apply) and nothing else.
//!
//! # Implementing `Ledger`
//!
//! Three promises carry everything above:
//!
//! 1. [`issue`](Ledger::issue) makes the key, the identity of its order and the letter to send *one* commit, and makes
//!    at most one key for an order and product, however many calls race.
//! 2. [`change`](Ledger::change) applies changes to one key one after another, each to the result of the one before.
//! 3. Whatever a method acknowledges is durable: it survives a crash at the next instruction. An operation whose caller
//!    went away either happens entirely or not at all.
//!
//! Run `testing::conformance` over an implementation: it has a case for what each method promises. What a case cannot try, a
//! crash and what is there when the store is opened again, is yours to test. The in-memory store is the reference, short
//! enough to be read beside it.
//!
//! # Implementing `Catalog`
//!
//! An application that has its own product table implements [`Catalog`] on it and keeps one of our stores as the
//! ledger. Only [`product`](Catalog::product) and [`products`](Catalog::products) are required:
//!
//! ```
//! use std::sync::Arc;
//! use async_trait::async_trait;
//! use delivery_core::product::{Listing, NewProduct, Product, ProductId};
//! use delivery_core::store::{Catalog, StoreError};
//!
//! #[derive(Debug)]
//! struct OneBook(Arc<Product>);
//!
//! #[async_trait]
//! impl Catalog for OneBook {
//!     async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
//!         Ok((id == self.0.id()).then(|| self.0.clone()))
//!     }
//!     async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
//!         Ok(Arc::new(vec![Listing::of(&self.0)]))
//!     }
//! }
//! ```

#[cfg(any(feature = "sqlite", feature = "postgres", all(test, shuttle)))]
mod commit;
mod error;
mod lists;
mod memory;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod operation;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod rows;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod shelf;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod statements;
mod steady;
#[cfg(all(feature = "sqlite", feature = "postgres"))]
mod tables;
#[cfg(all(feature = "sqlite", feature = "postgres"))]
mod transfer;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

pub use self::error::StoreError;
pub(crate) use self::lists::fitting;
pub use self::memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresError, PostgresStore};
pub use self::queue::{Letter, LetterId, MessageId, Outcome, ParkedLetter, Receipt, Route};
#[cfg(feature = "sqlite")]
pub use self::sqlite::{SqliteError, SqliteStore};
#[cfg(all(feature = "sqlite", feature = "postgres"))]
pub use self::transfer::{Moved, Progress, Transfer, TransferError};
use crate::email::Email;
use crate::key::{Change, Fingerprint, Key, KeyId, NewKey, Refusal, Standing};
use crate::order::OrderRef;
use crate::post::{Category, NewPost, Post};
use crate::product::{Listing, NewProduct, Product, ProductId};

/// Keys, orders and letters: what must be atomic together. See the [module documentation](self) for how to implement it.
#[async_trait]
pub trait Ledger: Debug + Send + Sync + 'static {
    /// Remembers the secrets that keys of this ledger are signed with, by their fingerprints. What [`Fingerprint::accepts`]
    /// does not accept is refused: it wants to know the version under which the newest key was signed. Nothing is written
    /// where nothing changes.
    ///
    /// # Errors
    ///
    /// [`StoreError::ForeignSecret`] or [`StoreError::RetiredSecret`] for a ring that is not accepted; nothing is
    /// remembered then.
    async fn enroll(&self, ring: &[Fingerprint]) -> Result<(), StoreError>;

    /// Issues a key: the key, the identity of its order and, if `letter` is given, a letter due at once are one commit.
    /// If the order and product have a key already, that key is the answer and nothing is written, not even a letter.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was issued.
    async fn issue(&self, key: NewKey, letter: Option<MessageId>) -> Result<Issue, StoreError>;

    /// The key as the last acknowledged change left it; `None` if it is unknown.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError>;

    /// Applies `change` by [`Key::apply`], durably before it answers: the key as changed, or the refusal, which changed
    /// nothing; `None` if the key is unknown. Changes to one key are applied one after another.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the change did not happen.
    async fn change(&self, id: KeyId, change: Change) -> Result<Option<Result<Key, Refusal>>, StoreError>;

    /// Keys that fit `query`, newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError>;

    /// The uses of a key, newest first, as far as they were not pruned; `before` continues a page.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError>;

    /// Forgets when keys were used before `before`, and answers how many uses that were; counts stay as they are. A key's
    /// history then ends at its newest forgotten use.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the history may not have been pruned.
    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError>;

    /// Leases up to `limit` letters that are due at `now`, oldest first, until `lease_until`. A leased letter is given
    /// to nobody else until its lease is over or it is settled. Each claim counts as an attempt.
    ///
    /// Several servers' clocks differ: a store that has a clock of its own corrects the times of its callers by it. And a
    /// time that no clock should have written delays no letter: one that is due more than [`FARTHEST`] after `now`, or leased
    /// for longer than [`LONGEST_LEASE`], is due at once, and one that was queued after `now` counts as queued now.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was leased.
    async fn claim_letters(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError>;

    /// Makes the leases of `receipts` last until `lease_until`; what was settled or went to somebody else stays as it is.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if they may end before.
    async fn renew_letters(&self, receipts: &[Receipt], lease_until: DateTime<Utc>) -> Result<(), StoreError>;

    /// Ends a lease with what became of the letter. A receipt whose lease went to somebody else changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the outcome may not have been kept; the lease then runs out and the letter is claimed again.
    async fn settle_letter(&self, receipt: Receipt, outcome: Outcome) -> Result<(), StoreError>;

    /// Letters that were given up, oldest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    async fn parked_letters(&self, limit: usize) -> Result<Vec<ParkedLetter>, StoreError>;

    /// Makes a parked letter due at `now`, with its attempts counted anew; whether there was such a letter.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the letter may still be parked.
    async fn unpark_letter(&self, letter: LetterId, now: DateTime<Utc>) -> Result<bool, StoreError>;

    /// Makes letters due at `now` that failed by another way than `route`, or all that failed without one: those that are
    /// parked, with their attempts counted anew, and those that wait for their next attempt, unless a mail server may have
    /// taken them. Answers how many.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if some may still be parked.
    async fn unpark_letters(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError>;

    /// Answers if the store can answer: what a readiness probe asks.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it cannot.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Finishes what is under way and lets go of the store; afterwards every method fails. Called at shutdown.
    async fn close(&self) {}
}

/// Products and posts. See the [module documentation](self) for how to implement it.
#[async_trait]
pub trait Catalog: Debug + Send + Sync + 'static {
    /// The product with this number. Hand out the same `Arc` while the product stays the same: it carries the encoded
    /// answer.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError>;

    /// All products, by number, without their content. Hand out the same `Arc` while nothing changes: the list is then
    /// encoded once.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError>;

    /// Adds a product durably under a number of its own. By default [`StoreError::Unsupported`]: products are managed
    /// elsewhere.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was added.
    async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        let _ = product;
        Err(StoreError::Unsupported)
    }

    /// Posts that fit `query`, newest first, as far as they hold 1 MiB of content together. Hand out the same `Arc` while
    /// nothing changes: the list is then encoded once. By default none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell.
    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        let _ = query;
        Ok(Arc::default())
    }

    /// Adds a post durably under a number of its own. By default [`StoreError::Unsupported`].
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was added.
    async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        let _ = post;
        Err(StoreError::Unsupported)
    }
}

/// The farthest that a letter's next attempt is ahead: whoever retries letters keeps below it.
pub const FARTHEST: TimeDelta = TimeDelta::hours(13);
/// The longest that a lease is ahead.
pub const LONGEST_LEASE: TimeDelta = TimeDelta::minutes(15);

/// What [`Ledger::issue`] came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a key is new or it is not")]
pub enum Issue {
    /// The key was issued now.
    New(Key),
    /// The order and product have this key already; nothing was written.
    Existing(Key),
}

impl Issue {
    /// The key, new or not.
    #[must_use]
    pub fn into_key(self) -> Key {
        match self {
            Self::New(key) | Self::Existing(key) => key,
        }
    }
}

/// Which keys to look for; what is `None` does not narrow the search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal with `..Default::default()`")]
pub struct KeyQuery {
    /// Sent to this address.
    pub email: Option<Email>,
    /// Bought with this order.
    pub order: Option<OrderRef>,
    /// For this product.
    pub product: Option<ProductId>,
    /// With this standing at this instant.
    pub standing: Option<(Standing, DateTime<Utc>)>,
    /// Older than this key: [`Page::next`] of the page before.
    pub before: Option<KeyId>,
    /// How many a page; 0 counts as 1, more than 1,000 as 1,000.
    pub limit: usize,
}

impl KeyQuery {
    /// Whether `key` is one of them.
    #[must_use]
    pub fn fits(&self, key: &Key) -> bool {
        self.email.as_ref().is_none_or(|email| email == key.email())
            && self.order.as_ref().is_none_or(|order| Some(order) == key.granted().order.as_ref())
            && self.product.is_none_or(|product| product == key.product())
            && self.standing.is_none_or(|(standing, at)| key.standing(at) == standing)
            && self.before.is_none_or(|before| key.id() < before)
    }

    pub(crate) fn page_size(&self) -> usize {
        page_size(self.limit)
    }
}

pub(crate) fn page_size(limit: usize) -> usize {
    limit.clamp(1, 1000)
}

/// Which posts to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct PostQuery {
    /// Of this category; of any if `None`.
    pub category: Option<Category>,
    /// Published at this instant or before.
    pub until: DateTime<Utc>,
    /// At most so many.
    pub limit: usize,
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
