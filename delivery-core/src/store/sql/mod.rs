//! Code that both SQL stores share: the work queue, statements that both databases understand, and the conversion of
//! rows to values.
//!
//! # Which statements exist once
//!
//! Everything that is not performance-critical is written once, here, for the interface in [`session`]: products, posts
//! and files, lists, figures, the history of uses, the audit log, expiry, sign-ins, the keyring, secrets of platforms,
//! erasure, retries of messages, the claiming and pruning of platform events, the search for aliases, and the answers
//! to requests for lost keys. The few parts that differ come from a [`Dialect`](session::Dialect). [`search`] and
//! [`statements`] have further SQL that both databases understand, but that each store executes itself.
//!
//! # Which statements exist twice
//!
//! The folders `sqlite` and `postgres` each have their own statements for the following. Many of these take lists of
//! rows: JSON for `json_each` on SQLite, and an array for each column for `unnest` on PostgreSQL.
//!
//! * Loading and persisting a batch of operations, such as sales and uses. The rows are keys, uses, messages, requests
//!   with an `Idempotency-Key`, aliases, events, references and deals. On SQLite the single writer persists a batch
//!   with one statement. On PostgreSQL several servers write, so the statements check versions, return which keys they
//!   have written, and lock rows in the same order on every server.
//! * Leasing messages and renewing leases. On PostgreSQL several servers lease at the same time, so the statements skip
//!   locked rows and allow for clocks that differ. On SQLite nobody else writes, but a key's count of uses may still be
//!   pending in memory, so the newest count is taken from there.
//! * Listing failed messages. The statement is shared, but on SQLite it reads the keys from a view that adds the counts
//!   of uses, and pending counts are taken from memory here too.
//! * Saving a request for lost keys. SQLite commits many at once, so that a sale waits for one commit and not for many.
//! * Dumps, schemas and inspections, which concern a file on SQLite and a schema on PostgreSQL.

pub(super) mod alias;
pub(super) mod catalog;
mod erase;
mod events;
mod expiry;
mod figures;
mod files;
pub(super) mod history;
pub(super) mod inbox;
pub(super) mod keyring;
mod lost;
pub(super) mod messages;
mod migrations;
mod platform_secrets;
mod posts;
pub(super) mod records;
pub(super) mod request;
pub(super) mod rows;
pub(super) mod search;
pub(super) mod session;
mod sign_ins;
pub(super) mod statements;
mod work;

pub(super) use self::migrations::{Script, migrator};
#[cfg(feature = "postgres")]
pub(super) use self::work::Statement;
pub(super) use self::work::{Done, Work, WorkQueue};
