//! Products that several servers serve.

use std::time::Duration;

use delivery_core::product::NewProduct;
use delivery_core::store::{Backend, Catalog, CatalogEditor, PostgresStore};

use crate::postgres_server::{postgres, unique};

/// In real time: other servers are promised a change within a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_product_that_one_server_changes_is_served_by_the_other_within_a_second() {
    let Some(database) = postgres() else { return };
    let schema = unique();
    let store = async || PostgresStore::options().schema(&schema).connect(&database.url()).await.unwrap();
    let (one, other) = (store().await, store().await);
    let facts = |name| NewProduct::new(name).unwrap().content("# It").unwrap();
    let id = one
        .add_product(
            facts("old"),
            delivery_core::store::Edit::new(delivery_core::key::Actor::admin(), chrono::DateTime::UNIX_EPOCH),
        )
        .await
        .unwrap()
        .id();
    let served = async |name: &str, is_archived: bool| {
        let within = async {
            loop {
                let product = other.product(id).await.unwrap().unwrap();
                if product.name() == name && product.is_archived() == is_archived {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(1), within).await.expect(name);
    };
    served("old", false).await;
    for name in ["new", "newer"] {
        one.update_product(
            id,
            facts(name),
            None,
            delivery_core::store::Edit::new(delivery_core::key::Actor::admin(), chrono::DateTime::UNIX_EPOCH),
        )
        .await
        .unwrap()
        .unwrap();
        assert_eq!(one.product(id).await.unwrap().unwrap().name(), name, "here at once");
        served(name, false).await;
    }
    one.archive_product(
        id,
        delivery_core::store::Edit::new(delivery_core::key::Actor::admin(), chrono::DateTime::UNIX_EPOCH),
    )
    .await
    .unwrap()
    .unwrap();
    served("newer", true).await;
    assert!(other.products().await.unwrap().is_empty());
    one.close().await;
    other.close().await;
}
