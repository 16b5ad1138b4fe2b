//! The API inside an existing Rocket application: routes of its own, its own product table, and a route guarded by a key.
//!
//! ```console
//! $ cargo run --example embed_rocket
//! $ curl -s http://127.0.0.1:3000/download -H "Authorization: Bearer dlv_…"
//! ```

use std::sync::Arc;

use async_trait::async_trait;
use delivery_core::Delivery;
use delivery_core::mail::{MailError, Mailer, Message};
use delivery_core::product::{Listing, NewProduct, Product, ProductId};
use delivery_core::store::{Catalog, SqliteStore, StoreError};
use delivery_rocket::{DeliveryFairing, Grant, Refused};
use rocket::config::{Config, LogLevel};
use rocket::fairing::AdHoc;
use rocket::figment::Figment;
use rocket::{Build, Rocket, get, routes};

type Failure = Box<dyn std::error::Error + Send + Sync>;

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

#[get("/")]
fn home() -> &'static str {
    "A bookshop\n"
}

/// A route of the application's own: whoever has a key may download, and each download is a use.
#[get("/download")]
async fn download(grant: Grant) -> Result<String, Refused> {
    let key = grant.count_use(grant.key().product()).await?;
    Ok(format!("Here is your book. You have fetched it {} times.\n", key.used()))
}

async fn delivery() -> Result<Delivery, Failure> {
    let book = NewProduct::new("The Book")?.content("# Chapter 1")?.price("12.50".parse()?);
    let books = Arc::new(Books(vec![Arc::new(Product::new(ProductId::new(1)?, book))]));
    let store = Arc::new(SqliteStore::open("embed_rocket.db").await?);
    // From your configuration, never from the source, in production.
    let keyring = "a signing secret for this demo".parse()?;
    let (webhook, admin) = ("demo webhook secret".parse()?, "demo-admin-token".parse()?);
    Ok(Delivery::builder(store, Arc::new(Terminal), keyring, webhook, admin).catalog(books).build())
}

fn app(delivery: Delivery) -> Rocket<Build> {
    // Rocket's own log would have the keys in the queries of requests.
    let config = Config { port: 3000, log_level: LogLevel::Off, ..Config::default() };
    rocket::custom(Figment::from(config).merge(("ident", false)))
        .mount("/", routes![home, download])
        .attach(DeliveryFairing::new(delivery))
        .attach(AdHoc::on_liftoff("Announcement", |rocket| {
            Box::pin(
                async move { println!("a bookshop at http://{}:{}", rocket.config().address, rocket.config().port) },
            )
        }))
}

#[rocket::main]
async fn main() -> Result<(), Failure> {
    app(delivery().await?).launch().await?;
    Ok(())
}
