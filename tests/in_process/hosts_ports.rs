//! Inside a host: a catalog, e-mails and a list of its own, and figures that never come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use delivery_core::Delivery;
use delivery_core::delivery::Builder;
use delivery_core::http::{Call, Endpoint};
use delivery_core::key::Actor;
use delivery_core::mail::Templates;
use delivery_core::product::{Listing, NewProduct, Product, ProductId};
use delivery_core::store::{Catalog, StoreError};
use delivery_testing::{Fault, Faulty, MemoryStore, Shop};
use futures_util::{FutureExt, stream};
use http::Method;
use serde_json::{Value, json};

use super::calls::{by_seller, call, order, product, work};

/// One book, until it is withdrawn.
#[derive(Debug)]
struct Books {
    book: Arc<Product>,
    withdrawn: AtomicBool,
}

#[async_trait]
impl Catalog for Books {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        let there = id == self.book.id() && !self.withdrawn.load(Ordering::Relaxed);
        Ok(there.then(|| self.book.clone()))
    }

    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        Ok(Arc::new(vec![Listing::of(&self.book)]))
    }
}

/// A shop of a host that sells these books.
async fn host(build: impl FnOnce(Builder) -> Builder) -> (Shop, Arc<Faulty<Books>>) {
    let book = NewProduct::new("The Book").unwrap().content("# Chapter 1").unwrap();
    let book = book.description("A novel").unwrap().price("12.50".parse().unwrap());
    let book = Arc::new(Product::new(product(42), book));
    let books = Arc::new(Faulty::new(Arc::new(Books { book, withdrawn: AtomicBool::default() })));
    let catalog = books.clone();
    (Shop::with(|builder| build(builder.catalog(catalog))).await, books)
}

async fn get(delivery: &Delivery, endpoint: Endpoint, query: &str) -> (u16, Value) {
    call(delivery, endpoint, Call::new(Method::GET).query(query)).await
}

#[tokio::test]
async fn an_order_of_a_withdrawn_product_is_still_answered_with_its_key() {
    let (Shop { delivery, .. }, books) = host(|builder| builder).await;
    let (status, sold) = order(&delivery, "A", 42).await;
    assert_eq!(status, 200);
    books.inner().withdrawn.store(true, Ordering::Relaxed);
    assert_eq!(order(&delivery, "A", 42).await, (200, sold.clone()), "a replay, however late");
    assert_eq!(order(&delivery, "B", 42).await.0, 404, "nothing new is sold");
    let query = format!("product_id=42&key={}", sold["api_key"].as_str().unwrap());
    assert_eq!(get(&delivery, Endpoint::Product, &query).await.0, 404);
    let (_, key) = get(&delivery, Endpoint::Validate, &query).await;
    assert_eq!(key["used_count"], 0, "what is not served is not counted");
}

#[tokio::test]
async fn products_managed_elsewhere_cannot_be_added_here() {
    let (Shop { delivery, .. }, _) = host(|builder| builder).await;
    let add = by_seller(Call::new(Method::POST).json(r#"{"name":"x","content":"y"}"#));
    assert_eq!(call(&delivery, Endpoint::AddProduct, add).await.0, 404);
    let listed = call(&delivery, Endpoint::Products, Call::new(Method::GET)).await;
    assert_eq!(listed.1["products"][0]["id"], 42);
}

#[tokio::test]
async fn a_host_may_show_description_and_price_in_the_list() {
    let listed = async |show: bool| {
        let (shop, _) = host(|builder| builder.list_details(show)).await;
        call(&shop.delivery, Endpoint::Products, Call::new(Method::GET)).await.1
    };
    let short = json!({ "id": 42, "name": "The Book", "type": "digital" });
    assert_eq!(listed(false).await, json!({ "products": [short] }));
    let whole = json!({ "id": 42, "name": "The Book", "type": "digital", "description": "A novel", "price": 12.5 });
    assert_eq!(listed(true).await, json!({ "products": [whole] }));
}

#[tokio::test]
async fn a_host_may_write_messages_of_its_own_from_an_address_of_its_own() {
    let mine = [
        ("purchase.subject", "{{ product.name }}\nis yours"),
        ("purchase.txt", "{{ key }} {{ max_uses }}"),
        ("purchase.html", "<b>{{ key }}</b>"),
    ];
    let templates = Templates::replacing(mine).unwrap();
    let sender = "Books <books@shop.example>".parse().unwrap();
    let (shop, _) = host(|builder| builder.templates(templates).sender(sender)).await;
    let (_, sold) = order(&shop.delivery, "A", 42).await;
    let message = shop.messages().await.remove(0);
    let key = sold["api_key"].as_str().unwrap();
    assert_eq!(message.subject, "The Book is yours");
    assert_eq!(message.text, format!("{key} -1"));
    assert_eq!(message.html, format!("<b>{key}</b>"));
    assert_eq!(message.from.address(), "books@shop.example");
    assert!(message.message_id.as_str().ends_with("@shop.example"));
}

#[tokio::test(start_paused = true)]
async fn an_e_mail_waits_a_minute_for_a_catalog_that_does_not_answer_and_not_for_hours() {
    let (shop, books) = host(|builder| builder).await;
    assert_eq!(order(&shop.delivery, "A", 42).await.0, 200);
    books.otherwise(Fault::Hang);
    assert_eq!(work(&shop.delivery).await.1, 1);
    assert_eq!(shop.mailer.attempts(), 0);
    books.heal();
    shop.clock.advance(Duration::from_mins(1));
    assert_eq!(work(&shop.delivery).await.0, 1);
}

#[tokio::test(start_paused = true)]
async fn an_e_mail_fails_if_its_product_can_never_be_read_but_not_while_the_catalog_is_away() {
    for (error, failures) in
        [(StoreError::corrupt("a price"), 1), (StoreError::Unsupported, 1), (StoreError::unavailable("away"), 0)]
    {
        let (shop, books) = host(|builder| builder).await;
        assert_eq!(order(&shop.delivery, "A", 42).await.0, 200);
        books.otherwise(Fault::Before(error.clone()));
        let mut failed = 0;
        for _ in 0..=6 * 24 {
            failed += work(&shop.delivery).await.2;
            shop.clock.advance(Duration::from_hours(1));
        }
        assert_eq!((failed, shop.mailer.attempts()), (failures, 0), "{error}");
        let messages = shop.delivery.failed_messages(10).await.unwrap();
        let reasons: Vec<_> = messages.iter().map(|message| message.reason.as_str()).collect();
        assert_eq!(reasons, vec!["the product cannot be read"; failures], "{error}");
    }
}

/// What was sent, and who holds it.
struct Sent {
    body: &'static str,
    _held: Arc<()>,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        self.body.as_bytes()
    }
}

#[tokio::test]
async fn what_a_stranger_sent_is_not_held_while_the_store_takes_its_time() {
    let store = Arc::new(Faulty::new(Arc::new(MemoryStore::new())));
    let Shop { delivery, .. } = Shop::over(store.clone(), |builder| builder).await;
    store.otherwise(Fault::Hang);
    let (body, held) = (r#"{"customer_email":"ada@example.com","more":"…"}"#, Arc::new(()));
    let length = body.len().to_string().parse().unwrap();
    let call = Call::new(Method::POST).json("").header(http::header::CONTENT_LENGTH, length);
    let body = bytes::Bytes::from_owner(Sent { body, _held: held.clone() });
    let body = stream::iter([Ok::<_, std::convert::Infallible>(body)]);
    let mut asked = std::pin::pin!(Endpoint::Resend.serve(&delivery, &call, body));
    assert!(asked.as_mut().now_or_never().is_none(), "the store does not answer");
    assert_eq!(Arc::strong_count(&held), 1);
}

#[tokio::test(start_paused = true)]
async fn figures_that_never_come_are_given_up_by_who_waits_in_line_too() {
    let store = Arc::new(Faulty::new(Arc::new(MemoryStore::new())));
    let Shop { delivery, .. } = Shop::over(store.clone(), |builder| builder).await;
    let actor = Actor::admin();
    let desk = delivery.desk(&actor);
    store.otherwise(Fault::Hang);
    let both = async { tokio::join!(desk.figures(7), desk.figures(7)) };
    let (first, second) = tokio::time::timeout(Duration::from_mins(6), both).await.expect("both are given up");
    assert!(first.is_err() && second.is_err());
    store.heal();
    assert!(desk.figures(7).await.is_ok());
}
