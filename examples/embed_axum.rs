//! The API inside an existing axum application: routes of its own, its own product table, and a route guarded by a key.
//!
//! ```console
//! $ cargo run --example embed_axum
//! $ curl -s http://127.0.0.1:3000/download -H "Authorization: Bearer dlv_…"
//! ```

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::FromRef;
use axum::{Router, routing::get};
use delivery_axum::{Grant, Refused};
use delivery_core::Delivery;
use delivery_core::mail::{MailError, Mailer, Message};
use delivery_core::product::{Listing, NewProduct, Product, ProductId};
use delivery_core::store::{Catalog, SqliteStore, StoreError};
use tokio::net::TcpListener;

/// The application's own table of books. A real one would be in its database.
#[derive(Debug)]
struct Books(Vec<Arc<Product>>);

#[async_trait]
impl Catalog for Books {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        Ok(self.0.iter().find(|book| book.id() == id).cloned())
    }

    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        Ok(Arc::new(self.0.iter().map(|book| Listing::of(book)).collect()))
    }
}

/// The application's own way of sending mail.
#[derive(Debug)]
struct Terminal;

#[async_trait]
impl Mailer for Terminal {
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        println!("To: {}\nSubject: {}\n\n{}", message.to, message.subject, message.text);
        Ok(())
    }
}

/// The application's state, with the service in it.
#[derive(Clone, FromRef)]
struct App {
    delivery: Delivery,
}

/// A route of the application's own: whoever has a key may download, and each download is a use.
async fn download(grant: Grant) -> Result<String, Refused> {
    let key = grant.count_use(grant.key().product()).await?;
    Ok(format!("Here is your book. You have fetched it {} times.\n", key.used()))
}

fn app(delivery: Delivery) -> Router {
    Router::new()
        .route("/", get(|| async { "A bookshop\n" }))
        .route("/download", get(download))
        .with_state(App { delivery: delivery.clone() })
        .merge(delivery_axum::router(delivery))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let book = NewProduct::new("The Book")?.content("# Chapter 1")?.price("12.50".parse()?);
    let books = Arc::new(Books(vec![Arc::new(Product::new(ProductId::new(1)?, book))]));
    let store = Arc::new(SqliteStore::open("embed_axum.db").await?);
    // From your configuration, never from the source, in production.
    let keyring = "a signing secret for this demo".parse()?;
    let (webhook, admin) = ("demo webhook secret".parse()?, "demo-admin-token".parse()?);
    let delivery = Delivery::builder(store, Arc::new(Terminal), keyring, webhook, admin).catalog(books).build();

    let running = delivery.start().await?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("a bookshop at http://{}", listener.local_addr()?);
    axum::serve(listener, app(delivery).into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    running.stop().await;
    Ok(())
}
