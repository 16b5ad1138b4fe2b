//! Products that several servers serve.

use delivery_core::Delivery;
use delivery_core::key::Actor;
use delivery_core::order::Source;
use delivery_core::product::{Product, RefName, Refs};
use delivery_core::store::{Backend, Catalog, CatalogEditor, ProductNames};
use delivery_testing::Shop;

use super::two_servers;
use crate::fixtures::{by_admin, facts, until};
use crate::places::postgresql;
use support::postgres::unique;

/// In real time: other servers are promised a change within a second. A busy machine gets three.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_product_that_one_server_changes_is_served_by_the_other_within_a_second() {
    let schema = unique();
    let (one, other) = (postgresql(&schema, false).await, postgresql(&schema, false).await);
    let id = one.add_product(facts("old"), by_admin()).await.unwrap().id();
    let served = async |name: &str, is_archived: bool| {
        let is_served = async || {
            let product = other.product(id).await.unwrap().unwrap();
            product.name() == name && product.is_archived() == is_archived
        };
        until(name, 3, is_served).await;
    };
    served("old", false).await;
    for name in ["new", "newer"] {
        one.update_product(id, facts(name), None, by_admin()).await.unwrap().unwrap();
        assert_eq!(one.product(id).await.unwrap().unwrap().name(), name, "here at once");
        served(name, false).await;
    }
    one.set_archived(id, true, by_admin()).await.unwrap().unwrap();
    served("newer", true).await;
    assert!(other.products().await.unwrap().is_empty());
    one.close().await;
    other.close().await;
}

/// A sale may follow at once, so the other server must not repeat what it answered before.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn a_name_that_one_server_adds_is_found_by_the_other_at_once() {
    let schema = unique();
    let (one, other) = (postgresql(&schema, false).await, postgresql(&schema, false).await);
    let (source, name): (Source, RefName) = ("own".parse().unwrap(), "guide".parse().unwrap());
    assert_eq!(other.product_named(&source, &name).await.unwrap(), None);
    let refs = Refs::new([(source.clone(), name.clone())]).unwrap();
    let id = one.add_product(facts("Guide").refs(refs), by_admin()).await.unwrap().id();
    assert_eq!(other.product_named(&source, &name).await.unwrap(), Some(id));
    one.update_product(id, facts("Guide"), None, by_admin()).await.unwrap().unwrap();
    assert_eq!(other.product_named(&source, &name).await.unwrap(), None);
    one.close().await;
    other.close().await;
}

/// What each server has read may be half a second old.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
async fn sellers_who_change_different_fields_on_two_servers_all_succeed() {
    let [Shop { delivery: one, product, .. }, Shop { delivery: other, .. }] = two_servers().await;
    let id = product.id();
    assert_eq!(other.product(id).await.unwrap().unwrap().name(), product.name());
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
