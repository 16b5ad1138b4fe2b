//! Code that both SQL stores share: the work queue, statements that both databases understand, and the conversion of
//! rows to values.

pub(super) mod catalog;
mod erase;
mod events;
mod expiry;
mod figures;
mod files;
pub(super) mod inbox;
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
