//! Products that several servers serve.

use std::sync::Arc;
use std::time::Duration;

use delivery_core::Delivery;
use delivery_core::key::Actor;
use delivery_core::product::{NewProduct, Product};
use delivery_core::store::{Backend, Catalog, CatalogEditor, PostgresStore};

use delivery_testing::RecordingMailer;

use support::postgres::{postgres, unique};

/// In real time: other servers are promised a change within a second.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_product_that_one_server_changes_is_served_by_the_other_within_a_second() {
    let database = postgres();
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

/// What each server has read may be half a second old.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn sellers_who_change_different_fields_on_two_servers_all_succeed() {
    let database = postgres();
    let schema = unique();
    let server = async || {
        let store = PostgresStore::options().schema(&schema).connect(&database.url()).await.unwrap();
        let keyring = "what-keys-are-signed-with".parse().unwrap();
        Delivery::builder(Arc::new(store), Arc::new(RecordingMailer::default()), keyring).build()
    };
    let (one, other) = (server().await, server().await);
    let id = one.add_product(NewProduct::new("Guide").unwrap().content("x").unwrap()).await.unwrap().id();
    assert_eq!(other.product(id).await.unwrap().unwrap().name(), "Guide");
    let describe = |delivery: &Delivery, text: String| {
        let delivery = delivery.clone();
        async move {
            let revise =
                |product: &Product| product.facts().clone().description(format!("{} {text}", product.description()));
            delivery.desk(&Actor::admin()).revise_product(id, revise).await.unwrap().unwrap().unwrap();
        }
    };
    // The other one has read it before.
    describe(&one, "first".to_owned()).await;
    describe(&other, "second".to_owned()).await;
    assert_eq!(one.product(id).await.unwrap().unwrap().description().trim(), "first second");
    let changes = (0..12).map(|number| describe(if number % 2 == 0 { &one } else { &other }, format!("[{number}]")));
    futures_util::future::join_all(changes).await;
    let described = other.product(id).await.unwrap().unwrap().description().to_owned();
    assert!((0..12).all(|number| described.contains(&format!("[{number}]"))), "{described}");
    one.close().await;
    other.close().await;
}
