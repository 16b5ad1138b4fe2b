//! A whole service in memory, for tests of a host application.

use std::sync::Arc;
use std::time::Duration;

use crate::MemoryStore;
use chrono::DateTime;
use delivery_core::Delivery;
use delivery_core::clock::Clock;
use delivery_core::delivery::{Builder, Issued, Stores};
use delivery_core::mail::Message;
use delivery_core::order::{Order, OrderRef, Source};
use delivery_core::product::{NewProduct, Product, ProductId};

use crate::{ManualClock, RecordingMailer};

/// A service over a [`MemoryStore`] with one product, a clock that stands still and a mailer that records.
///
/// ```
/// use delivery_testing::Shop;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let shop = Shop::new().await;
/// let sold = shop.paid("A-1").await;
/// assert!(shop.messages().await[0].text.contains(sold.text.expose()));
/// shop.advance(365);
/// assert!(shop.delivery.validate(sold.text.expose()).await.is_err(), "it has expired");
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Shop {
    /// The service.
    pub delivery: Delivery,
    /// The service's clock, which shows `2026-11-21T10:00:00Z` at first.
    pub clock: Arc<ManualClock>,
    /// The mailer that records the service's e-mails.
    pub mailer: Arc<RecordingMailer>,
    /// The product that [`paid`](Self::paid) sells. If the store already had products, this value contains only the id
    /// and the name of the first one.
    pub product: Arc<Product>,
}

impl Shop {
    /// Creates a shop with one product on the default terms: a year, without a use limit. The shop accepts orders with
    /// the secret `the platform's secret`, and the seller's calls with the token `the-seller's-token`.
    pub async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    /// Creates a shop like [`new`](Self::new), but lets `build` change the service, such as its terms, catalog or
    /// observer.
    pub async fn with(build: impl FnOnce(Builder) -> Builder) -> Self {
        Self::over(Arc::new(MemoryStore::new()), build).await
    }

    /// Creates a shop like [`with`](Self::with) on another store. If the store already has products, the shop sells the
    /// first one instead of adding one. A second shop on the same store acts as a second server, with a clock of its
    /// own.
    pub async fn over(stores: impl Into<Stores>, build: impl FnOnce(Builder) -> Builder) -> Self {
        let (clock, mailer) = (Arc::new(ManualClock::default()), Arc::new(RecordingMailer::default()));
        let keyring = "a signing secret for tests".parse().expect("a secret");
        let builder = Delivery::builder(stores, mailer.clone(), keyring)
            .webhook_secret("the platform's secret".parse().expect("a secret"))
            .admin_token("the-seller's-token".parse().expect("a token"))
            .clock(clock.clone());
        let delivery = build(builder).build();
        let product = if let Some(product) = Self::first_product(&delivery).await {
            product
        } else {
            let guide = NewProduct::new("Field Guide").and_then(|guide| guide.content("# Hello"));
            delivery.add_product(guide.expect("a product")).await.expect("a catalog that takes products")
        };
        Self { delivery, clock, mailer, product }
    }

    async fn first_product(delivery: &Delivery) -> Option<Arc<Product>> {
        let listed = delivery.products().await.expect("a catalog");
        let first = listed.first()?;
        let facts = NewProduct::new(first.name.clone()).expect("a name");
        Some(Arc::new(Product::new(first.id, facts)))
    }

    /// Reports that `buyer@example.com` has paid for the product with the platform's order `order`.
    pub async fn paid(&self, order: &str) -> Issued {
        self.paid_by(order, self.product.id(), "buyer@example.com").await
    }

    /// Reports that `email` has paid for a product.
    pub async fn paid_by(&self, order: &str, product: ProductId, email: &str) -> Issued {
        let reference = OrderRef { source: Source::webhook(), id: order.parse().expect("a number") };
        let order = Order { reference, product, email: email.parse().expect("an address") };
        self.delivery.order(order).await.expect("issued")
    }

    /// Sends the e-mails that are due, and returns all e-mails that the mailer has accepted so far, oldest first.
    pub async fn messages(&self) -> Vec<Message> {
        self.delivery.maintenance().outbox().work().await.expect("a store in memory");
        self.mailer.accepted()
    }

    /// Moves the clock forward by this number of days.
    pub fn advance(&self, days: u64) {
        self.clock.advance(Duration::from_secs(days * 86_400));
    }

    /// Returns the time that the clock shows.
    #[must_use]
    pub fn now(&self) -> DateTime<chrono::Utc> {
        self.clock.now()
    }
}
