//! Files of products: what the daily pass deletes, what stays, and links of a bucket.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delivery_core::Delivery;
use delivery_core::delivery::Builder;
use delivery_core::files::{LinkTo, Links, path};
use delivery_core::http::{Call, Endpoint};
use delivery_core::object_store::memory::InMemory;
use delivery_core::object_store::{ObjectStore, ObjectStoreExt};
use delivery_core::product::{NewProduct, ObjectName, ProductId};
use delivery_core::store::StoreError;
use delivery_core::terms::OwnTerms;
use delivery_testing::{ManualClock, MemoryStore, RecordingMailer};
use futures_util::TryStreamExt;
use http::{HeaderValue, Method, header};

use super::calls::{TOKEN, by_seller, header_of};

struct Shop {
    delivery: Delivery,
    objects: Arc<InMemory>,
    clock: Arc<ManualClock>,
    product: ProductId,
}

/// A link of a bucket that says what it was made for.
#[derive(Debug)]
struct Bucket;

#[async_trait]
impl Links for Bucket {
    async fn link(&self, to: LinkTo<'_>) -> Result<String, StoreError> {
        assert!(to.disposition.starts_with("attachment; filename="), "{to:?}");
        Ok(format!("https://bucket.example/{}?lasts={}", to.path, to.lifetime.as_secs()))
    }
}

impl Shop {
    async fn open(secret: &str, objects: Arc<InMemory>, links: Option<Arc<dyn Links>>) -> Self {
        // Objects have the time of the system, so the clock begins with it.
        #[expect(clippy::disallowed_methods, reason = "objects in memory have the time of the system")]
        let clock = Arc::new(ManualClock::at(chrono::Utc::now()));
        let (store, mailer) = (Arc::new(MemoryStore::new()), Arc::new(RecordingMailer::default()));
        let builder = Delivery::builder(store, mailer, secret.parse().unwrap())
            .admin_token(TOKEN.parse().unwrap())
            .base_url("https://shop.example/shop")
            .clock(clock.clone())
            .files(objects.clone());
        let delivery = links.into_iter().fold(builder, Builder::file_links).build();
        let product = delivery.add_product(NewProduct::new("Guide").unwrap()).await.unwrap().id();
        Self { delivery, objects, clock, product }
    }

    async fn put(&self, name: &str, content: &'static str) {
        let kind = HeaderValue::from_static(if name.contains("png") { "image/png" } else { "application/pdf" });
        let call = Call { body: content.into(), ..Call::new(Method::PUT) }.header(header::CONTENT_TYPE, kind);
        let call = by_seller(call.query(format!("product_id={}&name={name}", self.product)));
        let reply = Endpoint::PutFile.call(&self.delivery, call).await;
        assert_eq!(reply.status(), 200, "{}", String::from_utf8_lossy(&reply.body()));
    }

    async fn delete(&self, name: &str) {
        let call = Call::new(Method::POST).json(format!(r#"{{"product_id":{},"name":"{name}"}}"#, self.product));
        let reply = Endpoint::DeleteFile.call(&self.delivery, by_seller(call)).await;
        assert_eq!(reply.status(), 200);
    }

    async fn count(&self) -> usize {
        self.objects.list(None).try_collect::<Vec<_>>().await.unwrap().len()
    }

    async fn prune(&self) -> usize {
        self.delivery.maintenance().prune_files().await.unwrap()
    }
}

const A_DAY: Duration = Duration::from_hours(24);

#[tokio::test]
async fn a_replaced_and_a_deleted_file_stay_for_two_days() {
    let shop = Shop::open("a signing secret", Arc::default(), None).await;
    shop.put("a.pdf", "one").await;
    shop.put("A.pdf", "two").await;
    shop.put("b.pdf", "three").await;
    shop.delete("b.pdf").await;
    assert_eq!((shop.count().await, shop.prune().await), (3, 0));
    shop.clock.advance(A_DAY + A_DAY);
    assert_eq!((shop.prune().await, shop.count().await), (0, 3), "not before two days are over");
    shop.clock.advance(Duration::from_millis(1));
    assert_eq!((shop.prune().await, shop.count().await), (2, 1));
    assert_eq!((shop.prune().await, shop.count().await), (0, 1), "once");
}

#[tokio::test]
async fn what_a_broken_upload_left_is_deleted_and_what_belongs_to_others_stays() {
    let objects = Arc::new(InMemory::new());
    let shop = Shop::open("a signing secret", objects.clone(), None).await;
    shop.put("a.pdf", "one").await;
    // An object of ours whose row was never written: another shop with the same secret wrote it.
    let twin = Shop::open("a signing secret", objects.clone(), None).await;
    twin.put("b.pdf", "two").await;
    let other = Shop::open("another signing secret", objects.clone(), None).await;
    other.put("c.pdf", "three").await;
    objects.put(&"notes.txt".into(), "of the host".into()).await.unwrap();
    objects.put(&path(ObjectName::from_bytes([7; 16])), "of a stranger".into()).await.unwrap();
    assert_eq!((shop.prune().await, shop.count().await), (0, 5));
    shop.clock.advance(A_DAY + A_DAY + Duration::from_secs(1));
    assert_eq!((shop.prune().await, shop.count().await), (1, 4), "the one of ours without a row");
    assert_eq!(shop.prune().await, 0);
}

#[tokio::test]
async fn a_file_whose_object_is_gone_is_not_served() {
    let shop = Shop::open("a signing secret", Arc::default(), None).await;
    shop.put("a.pdf", "one").await;
    let product = shop.delivery.product(shop.product).await.unwrap().unwrap();
    let object = product.files()[0].object;
    shop.objects.delete(&path(object)).await.unwrap();
    let reply = shop.download().await;
    assert_eq!(reply.status(), 500);
}

#[tokio::test]
async fn a_bucket_sends_the_file_itself() {
    let shop = Shop::open("a signing secret", Arc::default(), Some(Arc::new(Bucket))).await;
    shop.put("a.pdf", "one").await;
    let reply = shop.download().await;
    assert_eq!(reply.status(), 302);
    let location = header_of(&reply, "location").unwrap();
    assert!(location.starts_with("https://bucket.example/") && location.ends_with("?lasts=300"), "{location}");
    assert_eq!(header_of(&reply, "cache-control"), Some("no-store"));
}

/// A page may load pictures from its own host alone.
#[tokio::test]
async fn a_bucket_does_not_send_what_a_page_shows() {
    let shop = Shop::open("a signing secret", Arc::default(), Some(Arc::new(Bucket))).await;
    shop.put("a.png", "one").await;
    for (query, status) in [(Some("shown"), 200), (Some("x"), 302), (None, 302)] {
        assert_eq!(shop.download_as("a.png", query).await.status(), status, "{query:?}");
    }
}

impl Shop {
    async fn download(&self) -> delivery_core::http::Reply {
        self.download_as("a.pdf", None).await
    }

    async fn download_as(&self, name: &str, query: Option<&str>) -> delivery_core::http::Reply {
        let email = "buyer@example.com".parse().unwrap();
        let issued = self.delivery.issue_by_hand(self.product, email, OwnTerms::default(), false).await.unwrap();
        let product = self.delivery.fetch(issued.key.id(), self.product).await.unwrap();
        let links = self.delivery.file_links(&issued.key, &product);
        let link = links.iter().find(|link| link.file.name.as_str() == name).unwrap();
        let path = link.url.strip_prefix("https://shop.example/shop").expect("below the base URL").to_owned();
        assert!(Endpoint::File.is_at(&path), "{path}");
        let call = Call { path: Some(path), ..Call::new(Method::GET) };
        let call = if let Some(query) = query { call.query(query.to_owned()) } else { call };
        Endpoint::File.call(&self.delivery, call).await
    }
}
