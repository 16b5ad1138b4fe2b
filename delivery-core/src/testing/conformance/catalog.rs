//! Products and posts.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Case, cases};
use crate::post::{Category, NewPost};
use crate::product::{Listing, NewProduct, ProductId};
use crate::store::{Catalog, PostQuery};
use crate::terms::{OwnTerms, UseLimit, Validity};

/// What every [`Catalog`] that takes products and posts promises.
pub const CATALOG: &[Case<dyn Catalog>] = cases![
    a_product_is_found_as_it_was_added,
    an_unknown_product_is_not_found,
    products_are_listed_by_number,
    posts_are_listed_newest_first_by_category_and_time,
    a_list_is_the_same_while_nothing_changes_and_holds_a_mebibyte,
];

type Port = Arc<dyn Catalog>;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_255_200, 0).unwrap_or_default()
}

async fn a_product_is_found_as_it_was_added(catalog: Port) {
    let plain = NewProduct::new("Plain").expect("a name").content("x").expect("content");
    let terms = OwnTerms { validity: Validity::from_days(-1).ok(), limit: UseLimit::from_count(2_147_483_647).ok() };
    let rich = NewProduct::new("Größe'\"; --").expect("a name").content("# T\r\n\t😀").expect("content");
    let rich = rich.description("a\nb").expect("a description").kind("e-book").expect("a type");
    let rich = rich.price("999999999999999.9999".parse().expect("a price")).terms(terms);
    for product in [plain, rich] {
        let added = catalog.add_product(product).await.expect("added");
        let found = catalog.product(added.id()).await.expect("found").expect("known");
        assert_eq!(added, found);
        let again = catalog.product(added.id()).await.expect("found").expect("known");
        assert_eq!(found, again);
    }
}

async fn an_unknown_product_is_not_found(catalog: Port) {
    for id in [1, 7, i64::MAX] {
        assert_eq!(catalog.product(ProductId::new(id).expect("1 or more")).await.expect("answered"), None);
    }
}

async fn products_are_listed_by_number(catalog: Port) {
    assert!(catalog.products().await.expect("listed").is_empty());
    let mut expected = Vec::new();
    for name in ["b", "a", "c"] {
        let product = catalog.add_product(NewProduct::new(name).expect("a name")).await.expect("added");
        expected.push(Listing::of(&product));
        assert_eq!(*catalog.products().await.expect("listed"), expected, "a list is never older than its answer");
    }
    assert!(expected.is_sorted_by_key(|listing| listing.id));
}

async fn posts_are_listed_newest_first_by_category_and_time(catalog: Port) {
    for (title, category, minutes) in
        [("old", "news", 0), ("new", "news", 2), ("tip", "tips", 1), ("tip too", "tips", 1), ("soon", "news", 9)]
    {
        let category = Category::new(category).expect("a category");
        let post = NewPost::new(title, category, now() + TimeDelta::minutes(minutes)).expect("a title");
        catalog.add_post(post.content("x").expect("content")).await.expect("added");
    }
    let category = |name| Some(Category::new(name).expect("a category"));
    for (category, limit, expected) in [
        (None, 10, vec!["new", "tip too", "tip", "old"]),
        (None, 2, vec!["new", "tip too"]),
        (category("news"), 10, vec!["new", "old"]),
        (category("NEWS"), 10, vec![]),
        (category("%"), 10, vec![]),
    ] {
        let query = PostQuery { category, until: now() + TimeDelta::minutes(5), limit };
        let posts = catalog.posts(&query).await.expect("listed");
        assert_eq!(posts.iter().map(crate::post::Post::title).collect::<Vec<_>>(), expected, "{query:?}");
    }
}

async fn a_list_is_the_same_while_nothing_changes_and_holds_a_mebibyte(catalog: Port) {
    let query = PostQuery { category: None, until: now() + TimeDelta::hours(1), limit: 100 };
    let add = async |bytes: usize, minutes: i64| {
        let category = Category::new("news").expect("a category");
        let post = NewPost::new("t", category, now() + TimeDelta::minutes(minutes)).expect("a title");
        catalog.add_post(post.content("x".repeat(bytes)).expect("content")).await.expect("added");
    };
    for minutes in 0..5 {
        add(400_000, minutes).await;
    }
    let first = catalog.posts(&query).await.expect("listed");
    assert_eq!(first.len(), 2, "the newest, as far as they fit");
    let again = catalog.posts(&query).await.expect("listed");
    assert!(Arc::ptr_eq(&first, &again), "nothing has changed");
    add(1, 9).await;
    let newer = catalog.posts(&query).await.expect("listed");
    assert_eq!(newer.iter().map(|post| post.content().len()).collect::<Vec<_>>(), [1, 400_000, 400_000]);
}
