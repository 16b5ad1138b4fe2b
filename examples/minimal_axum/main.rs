//! The smallest axum application that sells: the code of the project's README. It is for developers who want to embed the
//! API in an application of their own.
//!
//! Copy this folder out of the repository and start from it. `Cargo.toml` says which two lines to change; `cargo run`
//! in the folder then starts the copy. `embed_axum` adds tables of the application's own, its own sign-in and a guarded
//! download. If you want to sell without writing code, run `axum_server`.
//!
//! ```console
//! $ export KEY_SECRET=a-signing-secret WEBHOOK_SECRET=a-webhook-secret ADMIN_TOKEN=the-sellers-token
//! $ cargo run --example minimal_axum
//! ```
//!
//! Add a product, send a paid order, and fetch the product with the key from the answer:
//!
//! ```console
//! $ curl -s http://127.0.0.1:3000/api/admin/product -H "Authorization: Bearer the-sellers-token" \
//!     -H "Content-Type: application/json" -d '{"name":"Field Guide","content":"# Field Guide","price":9.99}'
//! $ curl -s http://127.0.0.1:3000/api/webhook/order -H "Content-Type: application/json" \
//!     -d '{"order_id":"1","product_id":1,"customer_email":"ada@example.com","secret":"a-webhook-secret"}'
//! $ curl -s "http://127.0.0.1:3000/api/product?product_id=1" -H "Authorization: Bearer dlv_…"
//! ```
//!
//! E-mails are retried for five days, so they go out once you put the address of your mail server into `main`. Before you
//! sell, make secrets of your own with `openssl rand -hex 32` and keep them: without `KEY_SECRET` the keys you sold stop
//! working. Also set `MAIL_FROM`, and `BASE_URL`, the address that e-mails name.

use std::{net::SocketAddr, sync::Arc};

use axum::{Router, routing::get};
use delivery_axum::delivery_core::{delivery::Settings, mail::SmtpMailer, store::SqliteStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings::read(|name| std::env::var(name).ok())?; // KEY_SECRET, WEBHOOK_SECRET, ADMIN_TOKEN, …
    let store = Arc::new(SqliteStore::open("delivery.db").await?);
    let mailer: SmtpMailer = "smtps://user:password@mail.example.com".parse()?;
    let delivery = settings.builder(store, Arc::new(mailer)).build();
    let running = delivery.start().await?; // sends e-mails from here on

    let app = Router::new().route("/", get(|| async { "A shop" })).merge(delivery_axum::router(delivery));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    running.stop().await;
    Ok(())
}
