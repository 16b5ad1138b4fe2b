//! A schema that a store of another kind moves into.

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, Executor, Postgres};

use super::connect::prepare_transfer;
use super::error::store_error;
use super::options::{address, place};
use super::schema_lock::{alone, leave};
use super::session::Session;
use super::{PostgresError, keyring};
use crate::key::Fingerprint;
use crate::store::StoreError;
use crate::store::sql::rows::{self, TransferState};
use crate::store::sql::statements::TRANSFER;
use crate::store::sql::tables::{Chunk, Column, Place, Table, bind_place};

/// The schema, which once locked no server uses while this lives.
#[derive(Debug)]
pub(in crate::store) struct TransferTarget {
    session: PgConnection,
}

impl TransferTarget {
    /// Looks at the schema, beside its servers if it has any.
    pub(in crate::store) async fn open(url: &str, schema: &str) -> Result<Self, PostgresError> {
        Ok(Self { session: prepare_transfer(address(url)?, &place(schema)?).await? })
    }

    /// Keeps servers and other moves out from now on; whether none is there.
    pub(in crate::store) async fn lock(&mut self) -> Result<bool, StoreError> {
        alone(&mut self.session).await.map_err(store_error)
    }

    /// The transfer that was begun or finished.
    pub(in crate::store) async fn state(&mut self) -> Result<Option<TransferState>, StoreError> {
        let state = sqlx::query(TRANSFER).fetch_optional(&mut self.session).await.map_err(store_error)?;
        state.map(|row| rows::transfer(&row)).transpose()
    }

    /// A name for a new transfer.
    pub(in crate::store) async fn new_id(&mut self) -> Result<Vec<u8>, StoreError> {
        let id = sqlx::query_scalar("SELECT uuid_send(gen_random_uuid())").fetch_one(&mut self.session);
        id.await.map_err(store_error)
    }

    /// Whether nothing was sold or offered from here. Secrets may be registered: without a key they mean nothing.
    pub(in crate::store) async fn is_empty(&mut self) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT NOT EXISTS (SELECT FROM delivery_key) AND NOT EXISTS (SELECT FROM delivery_product) \
                           AND NOT EXISTS (SELECT FROM delivery_post)";
        sqlx::query_scalar(SQL).fetch_one(&mut self.session).await.map_err(store_error)
    }

    /// From here on no server can use the schema, until the move is finished.
    pub(in crate::store) async fn begin(&mut self, id: &[u8]) -> Result<(), StoreError> {
        let begin = sqlx::query("INSERT INTO delivery_transfer (one, id) VALUES (1, $1)").bind(id);
        begin.execute(&mut self.session).await.map(drop).map_err(store_error)
    }

    pub(in crate::store) async fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        let count = sqlx::query_scalar(AssertSqlSafe(table.count())).fetch_one(&mut self.session);
        count.await.map(i64::unsigned_abs).map_err(store_error)
    }

    /// The next rows after `after`.
    pub(in crate::store) async fn read(&mut self, table: &Table, after: &Place) -> Result<Chunk, StoreError> {
        let read = bind_place!(sqlx::query(AssertSqlSafe(table.select("delivery_key"))), after, table);
        table.chunk(&read.fetch_all(&mut self.session).await.map_err(store_error)?)
    }

    /// Makes the rows after `after` begin with `chunk`. If they begin with others, they are all deleted: what was copied of an
    /// older source must not be in the way of the newer one, which may have it under other numbers.
    pub(in crate::store) async fn write(
        &mut self,
        table: &Table,
        after: &Place,
        chunk: &Chunk,
    ) -> Result<(), StoreError> {
        if self.read(table, after).await? == *chunk {
            return Ok(());
        }
        let (name, columns) = (table.name, table.columns());
        let values = chunk.columns.iter().enumerate().map(parameter).collect::<Vec<_>>().join(", ");
        let insert = format!("INSERT INTO {name} ({columns}) SELECT * FROM unnest({values})");
        let mut transaction = self.session.begin().await.map_err(store_error)?;
        let delete = bind_place!(sqlx::query(AssertSqlSafe(table.delete())), after);
        delete.execute(&mut *transaction).await.map_err(store_error)?;
        let insert = chunk.columns.iter().fold(sqlx::query(AssertSqlSafe(insert)), bind);
        insert.execute(&mut *transaction).await.map_err(store_error)?;
        transaction.commit().await.map_err(store_error)
    }

    /// Deletes what the source does not have: rows after `last`.
    pub(in crate::store) async fn truncate(&mut self, table: &Table, last: &Place) -> Result<(), StoreError> {
        let delete = bind_place!(sqlx::query(AssertSqlSafe(table.delete())), last);
        delete.execute(&mut self.session).await.map(drop).map_err(store_error)
    }

    /// Makes the schema ready to be served from: the secrets, the next numbers, and what the planner knows.
    pub(in crate::store) async fn prepare(&mut self, keyring: &[Fingerprint]) -> Result<(), StoreError> {
        // Keys may name uses that were pruned and a product that is gone: no other may get these numbers.
        const PREPARE: [&str; 5] = [
            "DELETE FROM delivery_keyring",
            "SELECT setval('delivery_number', greatest((SELECT max(number) FROM delivery_use), \
             (SELECT max(last_use) FROM delivery_key), (SELECT max(number) FROM delivery_key), \
             (SELECT max(number) FROM delivery_deal), 0) + 1, false)",
            "SELECT setval(pg_get_serial_sequence('delivery_product', 'id'), greatest((SELECT max(id) FROM delivery_product), \
             (SELECT max(product) FROM delivery_key), 0) + 1, false)",
            "SELECT setval(pg_get_serial_sequence('delivery_post', 'id'), \
             coalesce((SELECT max(id) FROM delivery_post), 0) + 1, false)",
            "ANALYZE delivery_product, delivery_post, delivery_key, delivery_purchase, delivery_use, delivery_message, \
             delivery_inbox, delivery_deal, delivery_reference",
        ];
        for statement in PREPARE {
            self.session.execute(statement).await.map_err(store_error)?;
        }
        keyring::add(&mut Session::Host(&mut self.session), keyring).await
    }

    /// Lets go of the schema.
    pub(in crate::store) async fn leave(self) -> Result<(), StoreError> {
        leave(self.session).await.map_err(store_error)
    }

    /// From here on servers can use the schema.
    pub(in crate::store) async fn finish(mut self, at: DateTime<Utc>) -> Result<(), StoreError> {
        let finish = sqlx::query("UPDATE delivery_transfer SET finished_at = $1").bind(at.timestamp_millis());
        let finished = finish.execute(&mut self.session).await.map_err(store_error)?;
        match finished.rows_affected() {
            1 => self.leave().await,
            _ => Err(StoreError::corrupt("a transfer that was finished and never begun")),
        }
    }
}

fn parameter((index, column): (usize, &Column)) -> String {
    let kind = match column {
        Column::Integers(_) => "bigint",
        Column::Texts(_) => "text",
        Column::Bytes(_) => "bytea",
    };
    format!("${}::{kind}[]", index + 1)
}

fn bind<'q>(query: Query<'q, Postgres, PgArguments>, column: &'q Column) -> Query<'q, Postgres, PgArguments> {
    match column {
        Column::Integers(values) => query.bind(values),
        Column::Texts(values) => query.bind(values),
        Column::Bytes(values) => query.bind(values),
    }
}
