//! The plans by which PostgreSQL answers a query again and again, whatever its parameters are.

use delivery_core::store::{Inbox, InboxQuery, PostgresStore};
use sqlx::Executor;
use support::postgres::{postgres, unique};

use super::{hand, url_of};

/// In each session, PostgreSQL plans a prepared statement for its parameters five times. Then it may choose one plan for all
/// parameters.
const EXECUTIONS: usize = 30;

/// Events of platforms. One in a thousand is of the platform `rare`.
const EVENTS: &str = "INSERT INTO delivery_inbox (number, source, name, kind, received_at, outcome, keys, attempts, version) \
    SELECT i, CASE WHEN i % 1000 = 17 THEN 'rare' ELSE 'stripe' END, 'evt_' || i, 'sale', i, 'issued', '[]', 1, 1 \
    FROM generate_series(1, 100000) i";

#[tokio::test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn the_events_of_a_platform_are_found_without_those_of_others() {
    let (role, schema) = (unique(), unique());
    let settings = ["session_preload_libraries = 'auto_explain'", "auto_explain.log_min_duration = 0"];
    let url = url_of(postgres(), &role, &settings).await;
    let store = PostgresStore::options().schema(&schema).connect(&url).await.unwrap();
    let mut hand = hand(&schema).await;
    hand.execute(EVENTS).await.unwrap();
    hand.execute("ANALYZE delivery_inbox").await.unwrap();

    let rare = "rare".parse().unwrap();
    let query = InboxQuery { source: Some(rare), limit: 50, ..InboxQuery::default() };
    let before = postgres().log().len();
    for _ in 0..EXECUTIONS {
        let page = store.events(&query).await.unwrap();
        assert_eq!((page.items[0].number, page.items.len()), (99_017, 50));
    }
    let log = &postgres().log()[before..];
    let plans: Vec<&str> = log.lines().filter(|line| line.contains("on delivery_inbox i")).collect();
    let by_source = |plan: &&&str| plan.contains("delivery_inbox_by_source");
    assert_eq!((plans.len(), plans.iter().filter(by_source).count()), (EXECUTIONS, EXECUTIONS), "{plans:#?}");
}
