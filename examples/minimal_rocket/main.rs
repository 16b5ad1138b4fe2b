//! The smallest Rocket application that sells: the code of the project's README. It is for developers who want to embed the
//! API in an application of their own.
//!
//! Copy this folder out of the repository and start from it. `Cargo.toml` says which two lines to change; `cargo run`
//! in the folder then starts the copy. `embed_rocket` adds tables of the application's own, its own sign-in and a
//! guarded download. If you want to sell without writing code, run `axum_server`.
//!
//! Rocket reads `Rocket.toml`, which has the settings, from the folder that you start the program in:
//!
//! ```console
//! $ cd examples/minimal_rocket
//! $ cargo run --example minimal_rocket
//! ```
//!
//! Add a product, send a paid order, and fetch the product with the key from the answer:
//!
//! ```console
//! $ curl -s http://127.0.0.1:8000/shop/api/admin/product -H "Authorization: Bearer the-sellers-token" \
//!     -H "Content-Type: application/json" -d '{"name":"Field Guide","content":"# Field Guide","price":9.99}'
//! $ curl -s http://127.0.0.1:8000/shop/api/webhook/order -H "Content-Type: application/json" \
//!     -d '{"order_id":"1","product_id":1,"customer_email":"ada@example.com","secret":"a-webhook-secret"}'
//! $ curl -s "http://127.0.0.1:8000/shop/api/product?product_id=1" -H "Authorization: Bearer dlv_…"
//! ```
//!
//! E-mails are retried for five days, so they go out once you put the address of your mail server into `launch`.

use std::sync::Arc;

use delivery_rocket::DeliveryFairing;
use delivery_rocket::delivery_core::{mail::SmtpMailer, store::SqliteStore};

#[rocket::launch]
fn launch() -> _ {
    // Rocket.toml, [default.delivery]: webhook_secret, admin_token, key_secret, mail_from; base_url = "https://…/shop"
    let fairing = DeliveryFairing::configured(|settings| async {
        let store = Arc::new(SqliteStore::open("delivery.db").await?);
        let mailer: SmtpMailer = "smtps://user:password@mail.example.com".parse()?;
        Ok(settings.builder(store, Arc::new(mailer)).build())
    });
    rocket::build().attach(fairing.at("/shop"))
}
