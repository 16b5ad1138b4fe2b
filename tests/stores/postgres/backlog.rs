//! A long queue of e-mails in a database whose planner knows nothing of it yet.

use std::time::Duration;

use delivery_core::http::Endpoint;
use futures_util::{StreamExt, stream};
use sqlx::{AssertSqlSafe, Executor};

use super::{administrator, server};
use crate::fixtures::{order, patient_call};
use support::postgres::{Postgres, unique};
use support::wait_for;

/// E-mails in the queue.
const QUEUED: i64 = 2000;

/// Until a table is analyzed the planner assumes that few of its messages are queued.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn sending_an_e_mail_reads_no_others_of_the_queue() {
    // On a server of its own: where others hold a transaction open, PostgreSQL also reads what was deleted meanwhile.
    let database = Postgres::start();
    let (url, schema) = (database.url(), unique());
    let servers = [server(&url, &schema).await, server(&url, &schema).await];
    let mut connection = administrator(&database).await;
    let never = format!("ALTER TABLE {schema}.delivery_message SET (autovacuum_enabled = off)");
    connection.execute(AssertSqlSafe(never)).await.unwrap();
    let buy = async |number: usize| {
        patient_call(&servers[number % 2].delivery, Endpoint::Order, || order(&number.to_string())).await.0
    };
    let queued = usize::try_from(QUEUED).unwrap();
    let answers: Vec<u16> = stream::iter(0..queued).map(buy).buffer_unordered(100).collect().await;
    assert!(answers.iter().all(|status| *status == 200));
    assert_eq!(servers[0].delivery.maintenance().outbox().work().await.unwrap().sent, queued);
    // A session tells what it did when it ends.
    drop(servers);
    let statistics = "SELECT t.n_tup_upd, i.idx_tup_read + t.seq_tup_read FROM pg_stat_user_tables t JOIN pg_stat_user_indexes i USING (relid) \
        WHERE t.schemaname = $1 AND t.relname = 'delivery_message' AND i.indexrelname = 'delivery_message_queued'";
    let runtime = tokio::runtime::Handle::current();
    let mut read = 0;
    tokio::task::block_in_place(|| {
        wait_for(Duration::from_mins(1), || {
            let row = sqlx::query_as::<_, (i64, i64)>(statistics).bind(&schema).fetch_one(&mut connection);
            let updated;
            (updated, read) = runtime.block_on(row).unwrap();
            // Each is leased, and completed.
            updated >= 2 * QUEUED
        });
    });
    assert!(read < 10 * QUEUED, "{read} rows and entries of the queue's index were read for {QUEUED} e-mails");
}
