//! An existing application: a bookshop with its own table of books and its own way of sending mail. Both embedding
//! examples mount the API in it; they differ only in the framework.

use std::sync::Arc;

use async_trait::async_trait;
use delivery_core::Delivery;
use delivery_core::mail::{MailError, Mailer, Message};
use delivery_core::product::{Listing, NewProduct, Product, ProductId};
use delivery_core::store::{Catalog, SqliteStore, StoreError};

/// What can go wrong at the start.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

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

/// The service: keys, orders and e-mails in a file of its own, books in the application's table.
///
/// # Errors
///
/// The file of the store cannot be opened.
pub async fn delivery() -> Result<Delivery, Failure> {
    let book = NewProduct::new("The Book")?.content("# Chapter 1")?.price("12.50".parse()?);
    let books = Arc::new(Books(vec![Arc::new(Product::new(ProductId::new(1)?, book))]));
    let store = Arc::new(SqliteStore::open("bookshop.db").await?);
    // From your configuration, never from the source, in production.
    let keyring = "a signing secret for this demo".parse()?;
    let (webhook, admin) = ("demo webhook secret".parse()?, "demo-admin-token".parse()?);
    let builder = Delivery::builder(store, Arc::new(Terminal), keyring).webhook_secret(webhook).admin_token(admin);
    Ok(builder.base_url("http://127.0.0.1:3000").catalog(books).build())
}

/// The README of the project, as a test: it embeds the API as this bookshop does.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
