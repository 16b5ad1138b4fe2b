//! Stores for keys, purchases, messages, products and posts.
//!
//! | layer | what it does | who implements it |
//! |---|---|---|
//! | [`Ledger`] | issues, finds and changes keys, completes messages | this crate, for every store |
//! | planner | decides which rows to load and what to write, without I/O | this crate, for every store |
//! | [`Storage`] | loads and persists rows | your store |
//!
//! The SQLite and PostgreSQL stores load and persist the rows of many operations at once.
//!
//! The end of this page explains [how an operation gets to the disk](self#how-an-operation-gets-to-the-disk).
//!
//! # Implementing `Storage`
//!
//! To write a store of your own, implement [`Storage`], which loads and persists rows, and [`Backend`], whose methods
//! do all the rest: they search, lease messages, register signing secrets and so on. The store is then a [`Ledger`]. A
//! store contains no rules: the planner decides what a change, a repeated order or a refusal means, and the store
//! persists the planner's writes.
//!
//! Each trait lists under *To ensure correctness* what the rest of this crate relies on.
//!
//! The rows of a plan implement serde's traits, so a store may keep them in any format, such as JSON in a file.
//!
//! The project's `examples/own_store` is a complete store in some 200 lines. Test a store with the crate
//! `delivery-testing`. Its `conformance` suite has a case for every promise of every method, including cases in which a
//! store is closed and opened again, and in which two handles share a store. Its `histories` run the whole service on
//! the store, with restarts and crashes. Its `MemoryStore` is short enough to read alongside your own store.
//!
//! ## Unknown variants of enums
//!
//! Later versions of this crate may add variants to some enums that a store saves or matches. A store should save the
//! values of these enums as text (`as_str`, serde), and must not refuse a variant that it does not know:
//!
//! | enum | how to handle an unknown variant |
//! |---|---|
//! | [`MessageKind`](crate::ledger::MessageKind), [`Action`](crate::ledger::Action), [`EventOutcome`](crate::ledger::EventOutcome) | save its text, as for every known variant |
//! | [`Recipient`](crate::ledger::Recipient) | save its text; when a buyer is erased, do not change it |
//! | [`Status`](crate::key::Status), in a [`KeyQuery`] | find the keys for which [`Key::status`](crate::key::Key::status) returns it |
//! | [`StoreError`] | treat it as an error after which nothing was written |
//!
//! The enums [`Operation`](crate::ledger::Operation), [`Answer`](crate::ledger::Answer) and
//! [`Outcome`](crate::ledger::Outcome) are exhaustive: a store that matches them does not compile with a version that
//! has more variants.
//!
//! # Implementing `Catalog`
//!
//! An application with a product table of its own implements [`Catalog`] on that table and keeps one of the stores of
//! this crate as the ledger:
//!
//! ```
//! use std::sync::Arc;
//! use async_trait::async_trait;
//! use delivery_core::product::{Listing, Product, ProductId};
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
#![doc = include_str!("README.md")]

mod alias;
mod attempt;
#[cfg(any(feature = "sqlite", feature = "postgres", all(test, shuttle)))]
mod batch;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod cache;
mod catalog;
#[cfg(feature = "sqlite")]
mod clock;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod dump;
mod files;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod host;
mod inbox;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod inspection;
mod ledger;
mod lost;
mod period;
mod platform_secrets;
#[cfg(feature = "postgres")]
mod postgres;
mod query;
mod records;
mod request;
mod sign_in;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod storage;
mod subscribed;

use chrono::TimeDelta;

pub use self::alias::Aliases;
pub use self::attempt::Attempt;
pub(crate) use self::catalog::fitting;
pub use self::catalog::{Catalog, CatalogEditor, PostQuery, Posts, ProductNames};
pub use self::files::{FileRow, Files};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use self::host::{HostTransaction, HostTransactions};
pub use self::inbox::{Inbox, InboxQuery};
pub use self::ledger::Ledger;
pub use self::lost::{LOST_PAUSE, LostKeys, LostScan};
pub use self::period::Period;
pub use self::platform_secrets::{PlatformSecrets, SealedSecret};
#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresError, PostgresOptions, PostgresStore};
pub use self::query::{KeyQuery, Page, Use, UseId};
pub(crate) use self::query::{or_none, page_size};
pub use self::records::{
    AuditEntry, AuditQuery, Backlog, Day, ExpiryScan, Figures, MessageQuery, MessageState, Records, StoredMessage,
};
pub use self::request::Requests;
pub use self::sign_in::{SignIn, SignInId, SignIns};
#[cfg(feature = "sqlite")]
pub use self::sqlite::{Backup, SqliteError, SqliteStore, SqliteTransaction};
pub use self::storage::{Backend, Office, Persisted, Storage};
pub use self::subscribed::Subscribed;
pub use crate::ledger::StoreError;

/// The longest delay until a message is attempted again, or an event is applied again. If a message or an event is due
/// further in the future than this, a store assumes that a server with a wrong clock has set the due time, and makes
/// the message or event due at once. So a worker must not choose longer delays.
pub const MAX_RETRY_DELAY: TimeDelta = TimeDelta::hours(13);
/// The longest time for which a message may be leased. If a lease ends further in the future than this, a store assumes
/// that a server with a wrong clock has set the end of the lease, and makes the message due at once.
pub const LONGEST_LEASE: TimeDelta = TimeDelta::minutes(15);
