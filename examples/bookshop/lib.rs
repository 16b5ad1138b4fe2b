//! What `embed_axum` and `embed_rocket` share: a bookshop with its own tables of books and orders, its own staff and its
//! own way of sending mail. The two programs differ in the framework and in the database.
//!
//! Read it beside one of them, if you embed the API in an application that exists. If yours has no orders and no sign-in
//! of its own yet, copy `minimal_axum` or `minimal_rocket` instead.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delivery_core::delivery::{Builder, Stores};
use delivery_core::http::{Endpoint, Page};
use delivery_core::key::Actor;
use delivery_core::look::Look;
use delivery_core::mail::{MailError, MailLinks, Mailer, Message};
use delivery_core::order::Order;
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::seller::{Head, Seller};
use delivery_core::{Delivery, Invalid, describe_metrics};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// What can go wrong at the start.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The tables of the application, in SQL that both databases accept. The ids of books are UUIDs.
pub const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS book (id TEXT PRIMARY KEY, title TEXT NOT NULL, text TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS shop_order (id TEXT PRIMARY KEY, book TEXT NOT NULL REFERENCES book, email TEXT NOT NULL)",
];

/// The books that the application sells: id, title, text.
pub const BOOKS: [(&str, &str, &str); 2] = [
    ("0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a01", "Field Guide", "# Birds"),
    ("0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a02", "Cook Book", "# Soups"),
];

/// Adds an order, or leaves an existing one unchanged. Returns the book and the address of the stored order, which must
/// be those of the new one.
pub const ADD_ORDER: &str = "INSERT INTO shop_order (id, book, email) VALUES ($1, $2, $3) \
    ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING book, email";

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

/// The application's own sign-in, which replaces the admin token. A real one looks the session up. Its cookies must be
/// `SameSite=Strict`, or browsers may send them with requests from other sites too.
#[derive(Debug)]
struct Staff;

#[async_trait]
impl Seller for Staff {
    async fn authenticate(&self, head: &Head<'_>) -> Option<Actor> {
        // HTTP/2 clients may send several `cookie` lines.
        let lines = head.headers.get_all("cookie").iter().filter_map(|line| line.to_str().ok());
        let session = lines.flat_map(|line| line.split("; ")).find_map(|cookie| cookie.strip_prefix("session="))?;
        (session == "demo-session-of-ada").then(|| "ada".parse().ok()).flatten()
    }
}

/// Starts to put the service together. There is no webhook here, so it needs no secret of a platform.
///
/// # Errors
///
/// The signing secret, the shop's name or its colour is invalid.
pub fn service(stores: impl Into<Stores>, base_url: &str) -> Result<Builder, Failure> {
    // In production, read the secret from your configuration. Never keep it in the source.
    let keyring = "a signing secret for this demo".parse()?;
    // The desk uses the application's own sign-in. Visitors who are not signed in are redirected to `/staff`.
    let look = Look::default().name("Bookshop")?.colour("#7a3b00".parse()?).sign_in_at("/staff");
    let builder = Delivery::builder(stores, Arc::new(Terminal), keyring).seller(Arc::new(Staff));
    // The API's own endpoint for products is not mounted, so e-mails link only to the buyer's page.
    let links = MailLinks { page: Some(format!("{base_url}/key")), ..MailLinks::default() };
    Ok(builder.base_url(base_url).mail_links(links).pages(look))
}

/// The endpoints of the service that are mounted. Buyers may check their keys, the staff may issue keys by hand, and
/// both have their pages.
pub fn endpoints() -> impl Iterator<Item = Endpoint> {
    let pages = Page::ALL.iter().map(|page| Endpoint::Page(*page));
    [Endpoint::Validate, Endpoint::IssueKey, Endpoint::OpenApi].into_iter().chain(pages)
}

/// Adds each of the application's books as a product with the book's id, unless that product exists.
///
/// # Errors
///
/// The store cannot be read or written.
pub async fn offer_books(delivery: &Delivery) -> Result<(), Failure> {
    for (id, title, text) in BOOKS {
        if delivery.product_called(&id.parse()?).await?.is_none() {
            delivery.add_product(NewProduct::new(title)?.content(text)?.host_ref(id.parse()?)).await?;
        }
    }
    Ok(())
}

/// The product id of a book; `None` if there is no such book.
///
/// # Errors
///
/// The store cannot be read.
pub async fn book(delivery: &Delivery, id: &str) -> Result<Option<ProductId>, Failure> {
    let Ok(host_ref) = id.parse() else { return Ok(None) };
    Ok(delivery.product_called(&host_ref).await?.map(|product| product.id()))
}

/// The folder with the books as files. The application keeps them itself, so the service knows nothing of them.
pub const FOLDER: &str = "books";

/// Writes the books as files.
///
/// # Errors
///
/// The folder cannot be written to.
pub fn shelve() -> std::io::Result<()> {
    std::fs::create_dir_all(FOLDER)?;
    BOOKS.iter().try_for_each(|(id, _, text)| std::fs::write(format!("{FOLDER}/{id}.md"), text))
}

/// The file name of the book with this product id; `None` if there is no such book.
///
/// # Errors
///
/// The store cannot be read.
pub async fn file(delivery: &Delivery, product: ProductId) -> Result<Option<String>, Failure> {
    let product = delivery.product(product).await?;
    Ok(product.and_then(|product| product.host_ref().map(|id| format!("{id}.md"))))
}

/// Converts an order of the application to an order of the service.
///
/// # Errors
///
/// The order's id or the address is invalid.
pub fn order(id: &str, product: ProductId, email: &str) -> Result<Order, Invalid> {
    Order::new("bookshop", id, product, email)
}

/// How often the values of histograms are merged.
const UPKEEP: Duration = Duration::from_secs(5);

/// Starts to collect metrics. Must be called in a Tokio runtime.
///
/// # Errors
///
/// Another metrics recorder is already installed.
pub fn metrics() -> Result<PrometheusHandle, Failure> {
    let handle = PrometheusBuilder::new().install_recorder()?;
    describe_metrics();
    let upkeep = handle.clone();
    tokio::spawn(async move {
        // Otherwise values that nobody collects take ever more memory.
        loop {
            tokio::time::sleep(UPKEEP).await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}

/// The README of the project, as a test: it embeds the API as this bookshop does.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
