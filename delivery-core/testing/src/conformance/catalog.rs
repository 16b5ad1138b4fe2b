//! Products and posts.

use std::sync::Arc;

use super::fixtures::{at, edit, product};
use super::{Case, cases};
use delivery_core::HostRef;
use delivery_core::post::NewPost;
use delivery_core::product::{Listing, NewProduct, Product, ProductId, Refs};
use delivery_core::store::{CatalogEditor, PostQuery, Posts, StoreError};
use delivery_core::terms::{OwnTerms, UseLimit, Validity};

/// An editable catalog with posts.
pub trait Shop: CatalogEditor + Posts {}

impl<S: CatalogEditor + Posts> Shop for S {}

cases![
    /// What every [`CatalogEditor`] and [`Posts`] promise.
    CATALOG: dyn Shop, each_catalog_case,
    a_product_is_found_as_it_was_added,
    an_unknown_product_is_not_found,
    products_are_listed_by_number,
    an_updated_product_is_served_at_once,
    an_archived_product_is_not_listed_and_still_found,
    a_product_is_found_by_what_the_host_calls_it,
    a_product_is_found_by_what_platforms_call_it,
    posts_are_listed_newest_first_by_category_and_time,
    a_post_is_changed_and_deleted_at_once,
    a_list_is_the_same_while_nothing_changes_and_holds_a_mebibyte,
];

pub(super) type Port = Arc<dyn Shop>;

/// Updates a product that the catalog has, whatever it was before.
async fn update(catalog: &Port, id: ProductId, product: NewProduct) -> Arc<Product> {
    catalog.update_product(id, product, None, edit()).await.expect("updated").expect("known")
}

/// Returns a post that is published at this minute.
fn new_post(title: &str, category: &str, minutes: i64, content: &str) -> NewPost {
    let category = category.parse().expect("a category");
    NewPost::new(title, category, at(minutes)).expect("a title").content(content).expect("content")
}

async fn a_product_is_found_as_it_was_added(catalog: Port) {
    let plain = NewProduct::new("Plain").expect("a name").content("x").expect("content");
    let terms = OwnTerms { validity: Validity::from_days(-1).ok(), limit: UseLimit::from_count(2_147_483_647).ok() };
    let rich = NewProduct::new("Größe'\"; --").expect("a name").content("# T\r\n\t😀").expect("content");
    let rich = rich.description("a\nb").expect("a description").kind("e-book").expect("a type");
    let rich = rich.price("999999999999999.9999".parse().expect("a price")).terms(terms);
    for product in [plain, rich] {
        let added = catalog.add_product(product, edit()).await.expect("added");
        let found = catalog.product(added.id()).await.expect("found").expect("known");
        assert_eq!(added, found);
        let again = catalog.product(added.id()).await.expect("found").expect("known");
        assert_eq!(found, again);
    }
}

async fn an_unknown_product_is_not_found(catalog: Port) {
    for id in [1, 7, i64::MAX] {
        assert_eq!(catalog.product(product(id)).await.expect("answered"), None);
    }
}

async fn products_are_listed_by_number(catalog: Port) {
    assert!(catalog.products().await.expect("listed").is_empty());
    let mut expected = Vec::new();
    for name in ["b", "a", "c"] {
        let product = catalog.add_product(NewProduct::new(name).expect("a name"), edit()).await.expect("added");
        expected.push(Listing::of(&product));
        assert_eq!(*catalog.products().await.expect("listed"), expected, "a list is never older than its answer");
    }
    assert!(expected.is_sorted_by_key(|listing| listing.id));
}

async fn an_updated_product_is_served_at_once(catalog: Port) {
    let facts = |name| NewProduct::new(name).expect("a name").content("x").expect("content");
    let added = catalog.add_product(facts("old"), edit()).await.expect("added");
    for name in ["new", "newer", "newer"] {
        assert!(catalog.product(added.id()).await.expect("found").is_some());
        let updated = update(&catalog, added.id(), facts(name)).await;
        assert_eq!((updated.id(), updated.name()), (added.id(), name));
        assert_eq!(catalog.product(added.id()).await.expect("found"), Some(updated.clone()));
        assert_eq!(*catalog.products().await.expect("listed"), [Listing::of(&updated)]);
    }
    // An update based on another version than the stored one changes nothing.
    let (read, is) = (facts("new"), facts("newer"));
    let changed = catalog.update_product(added.id(), facts("newest"), Some(&read), edit()).await;
    assert!(matches!(changed, Err(StoreError::Conflict { .. })), "{changed:?}");
    assert_eq!(catalog.product(added.id()).await.expect("found").expect("known").facts(), &is);
    let changed = catalog.update_product(added.id(), facts("newest"), Some(&is), edit()).await;
    assert_eq!(changed.expect("updated").expect("known").name(), "newest");
    assert_eq!(catalog.update_product(product(99), facts("new"), None, edit()).await.expect("answered"), None);
    assert_eq!(catalog.product(product(99)).await.expect("answered"), None);
}

async fn an_archived_product_is_not_listed_and_still_found(catalog: Port) {
    let facts = |name| NewProduct::new(name).expect("a name");
    let [kept, old] = [
        catalog.add_product(facts("kept"), edit()).await.expect("added"),
        catalog.add_product(facts("old"), edit()).await.expect("added"),
    ];
    assert_eq!(catalog.products().await.expect("listed").len(), 2);
    assert_eq!(catalog.archived_products().await.expect("listed"), []);
    for _ in 0..2 {
        let archived = catalog.set_archived(old.id(), true, edit()).await.expect("archived").expect("known");
        assert!(archived.is_archived());
        assert_eq!(catalog.product(old.id()).await.expect("found"), Some(archived));
        assert_eq!(*catalog.products().await.expect("listed"), [Listing::of(&kept)]);
        assert_eq!(catalog.archived_products().await.expect("listed"), [Listing::of(&old)]);
    }
    assert!(update(&catalog, old.id(), facts("newer")).await.is_archived(), "an update does not sell it again");
    for _ in 0..2 {
        let restored = catalog.set_archived(old.id(), false, edit()).await.expect("restored").expect("known");
        assert!(!restored.is_archived());
        assert_eq!(catalog.product(old.id()).await.expect("found"), Some(restored));
        assert_eq!(catalog.products().await.expect("listed").len(), 2, "it is sold again");
        assert_eq!(catalog.archived_products().await.expect("listed"), []);
    }
    for id in [old.id(), kept.id()] {
        catalog.set_archived(id, true, edit()).await.expect("archived");
    }
    let archived = catalog.archived_products().await.expect("listed");
    assert_eq!(archived.iter().map(|listed| listed.id).collect::<Vec<_>>(), [kept.id(), old.id()], "by their number");
    for archived in [true, false] {
        assert_eq!(catalog.set_archived(product(99), archived, edit()).await.expect("answered"), None);
    }
}

async fn a_product_is_found_by_what_platforms_call_it(catalog: Port) {
    let facts = |names: &[(&str, &str)]| {
        let names =
            names.iter().map(|(source, name)| (source.parse().expect("a platform"), name.parse().expect("a name")));
        NewProduct::new("Guide").expect("a name").refs(Refs::new(names).expect("few"))
    };
    let named = async |source: &str, name: &str| {
        let (source, name) = (source.parse().expect("a platform"), name.parse().expect("a name"));
        catalog.product_named(&source, &name).await.expect("answered")
    };
    let many = [("stripe", "plink_1"), ("shopify", "BOOK-1"), ("shopify", "variant:1 'ä\"\\")];
    let added = catalog.add_product(facts(&many), edit()).await.expect("added");
    assert_eq!(catalog.product(added.id()).await.expect("found"), Some(added.clone()));
    let other = catalog.add_product(facts(&[("paddle", "plink_1")]), edit()).await.expect("added");
    for (source, name) in many {
        assert_eq!(named(source, name).await, Some(added.id()), "{source} {name}");
    }
    assert_eq!(named("paddle", "plink_1").await, Some(other.id()));
    assert_eq!((named("stripe", "PLINK_1").await, named("shopify", "plink_1").await), (None, None));
    // A name belongs to one product only, and a refused change has no effect.
    let taken = facts(&[("polar", "new"), ("stripe", "plink_1")]);
    let refused = catalog.add_product(taken.clone(), edit()).await.expect_err("the name is taken");
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    let refused = catalog.update_product(other.id(), taken, None, edit()).await.expect_err("the name is taken");
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert_eq!((named("polar", "new").await, named("paddle", "plink_1").await), (None, Some(other.id())));
    // A name that was removed from a product is free again.
    update(&catalog, added.id(), facts(&[("stripe", "plink_2")])).await;
    let freed = [("stripe", "plink_1"), ("shopify", "BOOK-1")];
    update(&catalog, other.id(), facts(&freed)).await;
    for (source, name) in freed {
        assert_eq!(named(source, name).await, Some(other.id()), "{source} {name}");
    }
    assert_eq!((named("stripe", "plink_2").await, named("paddle", "plink_1").await), (Some(added.id()), None));
    catalog.set_archived(added.id(), true, edit()).await.expect("archived");
    assert_eq!(named("stripe", "plink_2").await, Some(added.id()), "also of an archived product");
}

async fn a_product_is_found_by_what_the_host_calls_it(catalog: Port) {
    let name = |text: &str| text.parse::<HostRef>().expect("a name");
    let facts = |called: &str| NewProduct::new("Guide").expect("a name").host_ref(name(called));
    let added = catalog.add_product(facts("0197-a"), edit()).await.expect("added");
    let other = catalog.add_product(facts("0197-b"), edit()).await.expect("added");
    assert_eq!(catalog.product_called(&name("0197-a")).await.expect("found"), Some(added.clone()));
    assert_eq!(catalog.product_called(&name("0197-A")).await.expect("answered"), None);
    let refused = catalog.add_product(facts("0197-b"), edit()).await.expect_err("the name is taken");
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    let refused =
        catalog.update_product(added.id(), facts("0197-b"), None, edit()).await.expect_err("the name is taken");
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert_eq!(catalog.product_called(&name("0197-b")).await.expect("found"), Some(other));
    let renamed = catalog.update_product(added.id(), facts("0197-c"), None, edit()).await.expect("updated");
    assert_eq!(catalog.product_called(&name("0197-c")).await.expect("found"), renamed);
    assert_eq!(catalog.product_called(&name("0197-a")).await.expect("answered"), None);
    assert_eq!(catalog.products().await.expect("listed").len(), 2);
}

async fn posts_are_listed_newest_first_by_category_and_time(catalog: Port) {
    for (title, category, minutes) in
        [("old", "news", 0), ("new", "news", 2), ("tip", "tips", 1), ("tip too", "tips", 1), ("soon", "news", 9)]
    {
        catalog.add_post(new_post(title, category, minutes, "x"), edit()).await.expect("added");
    }
    let category = |name: &str| Some(name.parse().expect("a category"));
    for (category, limit, expected) in [
        (None, 10, vec!["new", "tip too", "tip", "old"]),
        (None, 2, vec!["new", "tip too"]),
        (category("news"), 10, vec!["new", "old"]),
        (category("NEWS"), 10, vec![]),
        (category("%"), 10, vec![]),
    ] {
        let query = PostQuery { category, until: at(5), before: None, limit };
        let posts = catalog.posts(&query).await.expect("listed");
        assert_eq!(posts.iter().map(delivery_core::post::Post::title).collect::<Vec<_>>(), expected, "{query:?}");
    }
    // A list is continued behind its last post, also among posts of one second.
    let (mut query, mut titles) = (PostQuery { category: None, until: at(5), before: None, limit: 1 }, Vec::new());
    while let Some(post) = catalog.posts(&query).await.expect("listed").first() {
        titles.push(post.title().to_owned());
        (query.until, query.before) = (post.published_at(), Some(post.id()));
    }
    assert_eq!(titles, ["new", "tip too", "tip", "old"]);
}

async fn a_post_is_changed_and_deleted_at_once(catalog: Port) {
    let new = |title: &str, minutes| new_post(title, "news", minutes, &format!("# {title}"));
    let listed = async || -> Vec<String> {
        let query = PostQuery { category: None, until: at(5), before: None, limit: 9 };
        let posts = catalog.posts(&query).await.expect("listed");
        posts.iter().map(|post| format!("{} {}", post.title(), post.content())).collect()
    };
    let first = catalog.add_post(new("one", 1), edit()).await.expect("added");
    let second = catalog.add_post(new("two", 2), edit()).await.expect("added");
    assert_eq!(listed().await, ["two # two", "one # one"]);
    let updated =
        catalog.update_post(first.id(), new("three", 3), None, edit()).await.expect("updated").expect("known");
    assert_eq!((updated.id(), updated.title()), (first.id(), "three"));
    assert_eq!(catalog.post(first.id()).await.expect("found"), Some(updated));
    assert_eq!(listed().await, ["three # three", "two # two"]);
    // An update based on another version than the stored one changes nothing.
    let changed = catalog.update_post(first.id(), new("four", 4), Some(&new("one", 1)), edit()).await;
    assert!(matches!(changed, Err(StoreError::Conflict { .. })), "{changed:?}");
    assert_eq!(listed().await, ["three # three", "two # two"]);
    let changed = catalog.update_post(first.id(), new("three", 3), Some(&new("three", 3)), edit()).await;
    assert!(changed.expect("updated").is_some());
    assert!(catalog.delete_post(second.id(), edit()).await.expect("deleted"));
    assert!(!catalog.delete_post(second.id(), edit()).await.expect("answered"), "it is gone");
    assert_eq!(catalog.update_post(second.id(), new("x", 1), None, edit()).await.expect("answered"), None);
    assert_eq!(catalog.post(second.id()).await.expect("answered"), None);
    assert_eq!(listed().await, ["three # three"]);
    let third = catalog.add_post(new("four", 4), edit()).await.expect("added");
    assert!(third.id() != second.id(), "a number is given once");
}

async fn a_list_is_the_same_while_nothing_changes_and_holds_a_mebibyte(catalog: Port) {
    let query = PostQuery { category: None, until: at(60), before: None, limit: 100 };
    let add = async |bytes: usize, minutes: i64| {
        catalog.add_post(new_post("t", "news", minutes, &"x".repeat(bytes)), edit()).await.expect("added");
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
    add(1 << 20, 10).await;
    let longest = catalog.posts(&query).await.expect("listed");
    assert_eq!(longest.iter().map(|post| post.content().len()).collect::<Vec<_>>(), [1 << 20], "it fits by itself");
}
