//! A schema that a store of another kind moves into.

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::Query;
use sqlx::{Connection, Postgres};

use super::connect::{Sessions, alone};
use super::error::store_error;
use super::{PostgresError, ring};
use crate::key::Fingerprint;
use crate::store::StoreError;
use crate::store::rows::{self, Mark};
use crate::store::statements::{MARK, limit};
use crate::store::transfer::{Chunk, Column, Table};

/// The schema, which no server writes to while this lives.
#[derive(Debug)]
pub(in crate::store) struct Arrival {
    session: PgConnection,
}

impl Arrival {
    /// None if a server, or another move, is using the schema.
    pub(in crate::store) async fn open(url: &str, schema: &str) -> Result<Option<Self>, PostgresError> {
        let mut session = Sessions::new(url, schema)?.prepare(schema).await?;
        let failed = |source| PostgresError::while_opening(schema, source);
        // The source may be read for longer than a server may be idle in a transaction.
        sqlx::query("SET idle_in_transaction_session_timeout = 0").execute(&mut session).await.map_err(failed)?;
        let alone = alone(&mut session).await.map_err(failed)?;
        Ok(alone.then_some(Self { session }))
    }

    /// The move that was begun or finished.
    pub(in crate::store) async fn mark(&mut self) -> Result<Option<Mark>, StoreError> {
        let mark = sqlx::query(MARK).fetch_optional(&mut self.session).await.map_err(store_error)?;
        mark.map(|row| rows::mark(&row)).transpose()
    }

    /// A name for a new move.
    pub(in crate::store) async fn new_mark(&mut self) -> Result<Vec<u8>, StoreError> {
        let id = sqlx::query_scalar("SELECT uuid_send(gen_random_uuid())").fetch_one(&mut self.session);
        id.await.map_err(store_error)
    }

    /// Whether nothing was sold or offered from here. Secrets may be enrolled: without a key they mean nothing.
    pub(in crate::store) async fn is_empty(&mut self) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT NOT EXISTS (SELECT FROM delivery_key) AND NOT EXISTS (SELECT FROM delivery_product) \
                           AND NOT EXISTS (SELECT FROM delivery_post)";
        sqlx::query_scalar(SQL).fetch_one(&mut self.session).await.map_err(store_error)
    }

    /// From here on no server can use the schema, until the move is finished.
    pub(in crate::store) async fn begin(&mut self, id: &[u8]) -> Result<(), StoreError> {
        let begin = sqlx::query("INSERT INTO delivery_move (one, id) VALUES (1, $1)").bind(id);
        begin.execute(&mut self.session).await.map(drop).map_err(store_error)
    }

    pub(in crate::store) async fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {}", table.name));
        let count: i64 = sqlx::query_scalar(sql).fetch_one(&mut self.session).await.map_err(store_error)?;
        Ok(count.unsigned_abs())
    }

    /// The next rows after number `after`.
    pub(in crate::store) async fn read(&mut self, table: &Table, after: i64) -> Result<Chunk, StoreError> {
        self.select(table, (after, i64::MAX)).await
    }

    async fn select(&mut self, table: &Table, (after, last): (i64, i64)) -> Result<Chunk, StoreError> {
        let (columns, name, number) = (table.list(), table.name, table.number());
        let sql =
            format!("SELECT {columns} FROM {name} WHERE {number} > $1 AND {number} <= $2 ORDER BY {number} LIMIT $3");
        let read = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(after).bind(last).bind(limit(table.chunk));
        table.chunk(&read.fetch_all(&mut self.session).await.map_err(store_error)?)
    }

    /// Makes the rows with a number above `after` up to `last` those of `chunk`.
    pub(in crate::store) async fn settle(
        &mut self,
        table: &Table,
        (after, last): (i64, i64),
        chunk: &Chunk,
    ) -> Result<(), StoreError> {
        if self.select(table, (after, last)).await? == *chunk {
            return Ok(());
        }
        let (name, number) = (table.name, table.number());
        let delete = format!("DELETE FROM {name} WHERE {number} > $1 AND {number} <= $2");
        let (columns, values) =
            (table.list(), chunk.0.iter().enumerate().map(parameter).collect::<Vec<_>>().join(", "));
        let insert = format!("INSERT INTO {name} ({columns}) SELECT * FROM unnest({values})");
        let mut transaction = self.session.begin().await.map_err(store_error)?;
        let delete = sqlx::query(sqlx::AssertSqlSafe(delete)).bind(after).bind(last);
        delete.execute(&mut *transaction).await.map_err(store_error)?;
        let insert = chunk.0.iter().fold(sqlx::query(sqlx::AssertSqlSafe(insert)), bind);
        insert.execute(&mut *transaction).await.map_err(store_error)?;
        transaction.commit().await.map_err(store_error)
    }

    /// Forgets what the source does not have: rows with a number above `last`.
    pub(in crate::store) async fn forget(&mut self, table: &Table, last: i64) -> Result<(), StoreError> {
        let sql = format!("DELETE FROM {} WHERE {} > $1", table.name, table.number());
        let forget = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(last);
        forget.execute(&mut self.session).await.map(drop).map_err(store_error)
    }

    /// Makes the schema ready to be served from: the secrets, the next numbers, and what the planner knows.
    pub(in crate::store) async fn prepare(&mut self, tables: &[Table], ring: &[Fingerprint]) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM delivery_ring").execute(&mut self.session).await.map_err(store_error)?;
        ring::add(&mut self.session, ring).await?;
        for table in tables {
            let (name, number) = (table.name, table.number());
            let sequence = match name {
                "delivery_use" => "'delivery_use_number'".to_owned(),
                _ => format!("pg_get_serial_sequence('{name}', '{number}')"),
            };
            let next = format!("SELECT setval({sequence}, coalesce(max({number}), 0) + 1, false) FROM {name}");
            for sql in [next, format!("ANALYZE {name}")] {
                sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut self.session).await.map_err(store_error)?;
            }
        }
        Ok(())
    }

    /// From here on servers can use the schema.
    pub(in crate::store) async fn finish(&mut self, at: DateTime<Utc>) -> Result<(), StoreError> {
        let finish = sqlx::query("UPDATE delivery_move SET finished_at = $1").bind(at.timestamp_millis());
        finish.execute(&mut self.session).await.map(drop).map_err(store_error)
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
