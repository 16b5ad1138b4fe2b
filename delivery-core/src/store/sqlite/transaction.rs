//! A transaction of the host application: a connection, and the state that the store needs when the transaction ends.

use std::ops::{Deref, DerefMut};

use sqlx::sqlite::SqliteConnection;

use super::cache::Cache;
use crate::store::sql::session::Stale;

/// A transaction of the host application: a connection on which the service also [issues](crate::Delivery::issue_in),
/// [uses](crate::Delivery::use_in) and [changes](crate::Delivery::change_in) keys.
#[derive(Debug)]
pub struct SqliteTransaction<'t> {
    pub(super) connection: &'t mut SqliteConnection,
    pub(super) cache: &'t Cache,
    /// The highest row number in use, including the numbers that this transaction has used.
    pub(super) newest: &'t mut i64,
    /// Cached data that is outdated once the transaction is committed.
    pub(super) stale: &'t mut Vec<Stale>,
    /// The number of uses that this transaction has counted. Includes uses that the host application has undone by
    /// rolling back to a savepoint.
    pub(super) uses: &'t mut usize,
}

impl SqliteTransaction<'_> {
    /// Returns a handle to the same transaction, with a shorter lifetime.
    pub(in crate::store) fn reborrow(&mut self) -> SqliteTransaction<'_> {
        let Self { connection, cache, newest, stale, uses } = self;
        SqliteTransaction { connection, cache, newest, stale, uses }
    }
}

impl Deref for SqliteTransaction<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.connection
    }
}

impl DerefMut for SqliteTransaction<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.connection
    }
}
