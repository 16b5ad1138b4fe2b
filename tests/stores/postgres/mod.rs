//! Many servers over one PostgreSQL database: what they share, what they refuse, and what they do while it is away.

mod backlog;
mod catalog;
mod locks;
mod payments;
mod plans;
mod pool;
mod trips;
mod two;
mod unavailable;
mod unknown;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use delivery_core::Delivery;
use delivery_core::http::Endpoint;
use delivery_core::ledger::NewSale;
use delivery_core::store::{Backend, CatalogEditor, Ledger, PostgresError, PostgresStore};
use delivery_testing::{RecordingMailer, Shop};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use support::postgres::{Postgres, postgres, unique};
use tokio::task::JoinSet;

use crate::fixtures::{FIRST_VERSION, by_admin, by_key, call, e_mail, facts, key, now, shop, sold, until};
use crate::places::postgresql;

/// A server with one product, over a schema.
async fn server(url: &str, schema: &str) -> Shop {
    shop(Arc::new(PostgresStore::options().schema(schema).connect(url).await.unwrap())).await
}

/// A server over a new schema, and the name of that.
async fn new_server() -> (Delivery, String) {
    let schema = unique();
    (server(&postgres().url(), &schema).await.delivery, schema)
}

/// Makes a role that has these settings. Returns the URL by which the role reaches the database.
async fn url_of(database: &Postgres, role: &str, settings: &[&str]) -> String {
    let mut administrator = administrator(database).await;
    administrator.execute(AssertSqlSafe(format!("CREATE ROLE {role} SUPERUSER LOGIN"))).await.unwrap();
    for setting in settings {
        administrator.execute(AssertSqlSafe(format!("ALTER ROLE {role} SET {setting}"))).await.unwrap();
    }
    database.url().replace("postgres@", &format!("{role}@"))
}

/// A server whose sessions are those of a new role.
async fn server_of(database: &Postgres, role: &str, settings: &[&str]) -> Delivery {
    server(&url_of(database, role, settings).await, &unique()).await.delivery
}

/// Two servers over one new schema.
async fn two_servers() -> [Shop; 2] {
    let (url, schema) = (postgres().url(), unique());
    [server(&url, &schema).await, server(&url, &schema).await]
}

/// The keys of `count` orders, which are numbered from 0.
async fn sell(delivery: &Delivery, count: usize) -> Vec<String> {
    let mut keys = Vec::new();
    for number in 0..count {
        keys.push(sold(delivery, &number.to_string()).await);
    }
    keys
}

/// Whether a session waits for a lock of this one.
async fn blocks(holder: i32, watcher: &mut PgConnection) -> bool {
    const WAITS: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))";
    sqlx::query_scalar(WAITS).bind(holder).fetch_one(watcher).await.unwrap()
}

async fn count(session: &mut PgConnection, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(session).await.unwrap()
}

/// A session by hand, in a schema.
pub async fn hand(schema: &str) -> PgConnection {
    let mut hand = administrator(postgres()).await;
    hand.execute(AssertSqlSafe(format!("SET search_path TO {schema}"))).await.unwrap();
    hand
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn ten_servers_may_start_on_an_empty_database_at_once() {
    let (url, schema) = (postgres().url(), unique());
    let mut starting = JoinSet::new();
    for _ in 0..10 {
        let (url, schema) = (url.clone(), schema.clone());
        // Without a product: on a busy machine, ten that are added at once wait longer for their lock than a seller has to.
        starting.spawn(async move {
            let store = PostgresStore::options().schema(&schema).connect(&url).await.unwrap();
            let keyring = "a signing secret for tests".parse().unwrap();
            Delivery::builder(Arc::new(store), Arc::new(RecordingMailer::default()), keyring).build().register().await
        });
    }
    assert!(starting.join_all().await.iter().all(Result::is_ok));
}

async fn administrator(database: &Postgres) -> PgConnection {
    PgConnection::connect(&database.url()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_role_needs_no_more_than_a_schema_of_its_own() {
    let database = postgres();
    let mut administrator = administrator(database).await;
    administrator.execute("CREATE ROLE modest LOGIN; REVOKE CREATE ON DATABASE postgres FROM PUBLIC").await.unwrap();
    let url = database.url().replace("postgres@", "modest@");
    let refused = PostgresStore::options().schema("of_the_modest").connect(&url).await.unwrap_err();
    assert!(matches!(refused, PostgresError::Forbidden { .. }), "{refused:?}");
    assert!(refused.to_string().contains("CREATE SCHEMA \"of_the_modest\" AUTHORIZATION"), "{refused}");
    administrator.execute("CREATE SCHEMA of_the_modest AUTHORIZATION modest").await.unwrap();
    let modest = server(&url, "of_the_modest").await;
    sold(&modest.delivery, "A").await;
}

/// PostgreSQL would compile a question that it takes for dear: for longer than it takes to answer a hundred of ours.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn no_question_is_compiled_before_it_is_answered() {
    let database = postgres();
    let delivery = server_of(database, "talkative", &["log_min_messages = debug1"]).await;
    let key = sold(&delivery, "A").await;
    for endpoint in [Endpoint::Validate, Endpoint::Product] {
        assert_eq!(call(&delivery, endpoint, by_key(&key)).await.0, 200);
    }
    let log = database.log();
    assert!(log.contains("DEBUG:  "), "it tells what it does");
    assert!(!log.contains("JIT"), "what it compiles would stand here");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_schema_of_the_first_version_is_brought_up_to_date() {
    let url = postgres().url();
    let key = sold(&server(&url, "of_before").await.delivery, "A").await;
    let first = format!("SET search_path = of_before; {FIRST_VERSION}");
    administrator(postgres()).await.execute(AssertSqlSafe(first)).await.unwrap();
    let store = Arc::new(PostgresStore::options().schema("of_before").connect(&url).await.unwrap());
    let (platform, name) = ("stripe".parse().unwrap(), "plink_1".parse().unwrap());
    assert!(!store.office().unwrap().is_dismissed(&platform, &name).await.unwrap());
    assert_eq!(call(&shop(store).await.delivery, Endpoint::Validate, by_key(&key)).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn what_would_lose_or_mistake_data_is_refused_in_a_sentence_without_the_password() {
    let database = postgres();
    let hasty = url_of(database, "hasty", &["synchronous_commit = off"]).await;
    drop(server(&database.url(), "from_the_future").await);
    let later = "INSERT INTO from_the_future._delivery_migrations \
        (version, description, success, checksum, execution_time) VALUES (999, 'later', true, '', 0)";
    administrator(database).await.execute(later).await.unwrap();
    let nobody = database.url().replace("postgres@", "nobody:hunter2@");
    for (url, schema, said) in [
        (hasty.as_str(), "some_schema", "synchronous_commit = off"),
        (&database.url(), "from_the_future", "newer version"),
        (&database.url(), "Quoted", "schema must be"),
        (&database.url(), "", "schema must be"),
        (&nobody, "some_schema", "cannot be connected to"),
        ("postgres://a:hunter2@127.0.0.1:1/x", "some_schema", "cannot be connected to"),
        ("mysql://a:hunter2@127.0.0.1/x", "some_schema", "must be an address"),
    ] {
        let refused = PostgresStore::options().schema(schema).connect(url).await.unwrap_err();
        let whole = delivery_core::explain(&refused);
        assert!(whole.contains(said) && !whole.contains("hunter2"), "{url}: {whole}");
    }
}

/// In real time: a store gives a server fifteen seconds to answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    // The kernel takes the connection; nobody ever reads from it.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://user@{}/x", silent.local_addr().unwrap());
    let refused = PostgresStore::connect(&url).await.unwrap_err();
    assert!(matches!(refused, PostgresError::Silent), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_host_that_is_dead_or_silent_is_passed_over() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("@127.0.0.1:1,{},", silent.local_addr().unwrap());
    let server = server(&postgres().url().replace('@', &dead), &unique()).await;
    sold(&server.delivery, "A").await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_server_that_keeps_nothing_through_a_crash_is_refused() {
    let database = Postgres::start();
    let mut administrator = administrator(&database).await;
    let mut set = async |setting: &str, to: &str| {
        for statement in [format!("ALTER SYSTEM SET {setting} = {to}"), "SELECT pg_reload_conf()".to_owned()] {
            administrator.execute(AssertSqlSafe(statement)).await.unwrap();
        }
    };
    let opened_before = PostgresStore::options().schema("before").connect(&database.url()).await.unwrap();
    let idle = PostgresStore::options().schema("idle").connect(&database.url()).await.unwrap();
    idle.add_product(facts("Guide"), by_admin()).await.unwrap();
    let issue = async |number| idle.issue(NewSale::new(key(number, -1), Vec::new())).await;
    // Each of its writers has a share of the keys.
    for number in 1..20 {
        issue(number).await.unwrap();
    }
    for (number, setting) in [(1, "fsync"), (2, "full_page_writes")] {
        set(setting, "off").await;
        // The server reads its settings in its own time.
        let said = format!("{setting} = off");
        let is_refused = async || match PostgresStore::connect(&database.url()).await {
            Ok(store) => {
                store.close().await;
                false
            }
            Err(refused) => refused.to_string().contains(&said),
        };
        until(setting, 30, is_refused).await;
        // A test server may lose what it likes.
        let options = PostgresStore::options().schema("careless").losing_data_in_a_crash();
        let careless = options.connect(&database.url()).await.unwrap();
        careless.issue(NewSale::new(key(number, -1), Vec::new())).await.unwrap();
        careless.ping().await.unwrap();
        // Nothing can be sold from now on, and readiness says so.
        let is_not_ready = async || {
            opened_before.ping().await.is_err_and(|error| error.to_string().contains("fsync or full_page_writes off"))
        };
        until("not ready", 30, is_not_ready).await;
        // A writer looks every five seconds of the server's own time. One that was idle longer looks before it writes.
        tokio::time::sleep(Duration::from_secs(6)).await;
        for number in 20..40 {
            let refused = issue(number).await.unwrap_err();
            assert!(refused.to_string().contains("fsync or full_page_writes off"), "{refused}");
        }
        set(setting, "on").await;
        until("ready again", 30, async || opened_before.ping().await.is_ok()).await;
        for number in 1..20 {
            until("writing again", 30, async || issue(number).await.is_ok()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_message_that_cannot_be_read_fails_and_holds_no_lease() {
    let schema = unique();
    let store = postgresql(&schema, false).await;
    store.issue(NewSale::new(key(1, 1), e_mail("a"))).await.unwrap();
    let (now, minute) = (now(), TimeDelta::minutes(1));
    assert_eq!(store.claim_messages(now, now + minute, 10).await.unwrap().len(), 1);
    let mut hand = hand(&schema).await;
    hand.execute("UPDATE delivery_key SET email = 'nobody'").await.unwrap();
    assert!(store.claim_messages(now + minute * 2, now + minute * 3, 10).await.unwrap().is_empty());
    let state = sqlx::query_as::<_, (i16, i16)>("SELECT state::int2, leased::int2 FROM delivery_message");
    assert_eq!(state.fetch_one(&mut hand).await.unwrap(), (2, 0));
}
