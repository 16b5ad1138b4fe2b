//! The API inside an existing Rocket application: beside routes of its own, one of them guarded by a key.
//!
//! ```console
//! $ cargo run --example embed_rocket
//! $ curl -s http://127.0.0.1:3000/download -H "Authorization: Bearer dlv_…"
//! ```

use bookshop::Failure;
use delivery_core::Delivery;
use delivery_rocket::{DeliveryFairing, Grant, Refused};
use rocket::config::{Config, LogLevel};
use rocket::fairing::AdHoc;
use rocket::{Build, Rocket, get, routes};

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

fn app(delivery: Delivery) -> Rocket<Build> {
    // Rocket's own log would have the keys in the queries of requests.
    let config = Config { port: 3000, log_level: LogLevel::Off, ..Config::default() };
    rocket::custom(config).mount("/", routes![home, download]).attach(DeliveryFairing::new(delivery)).attach(
        AdHoc::on_liftoff("Announcement", |rocket| {
            Box::pin(
                async move { println!("a bookshop at http://{}:{}", rocket.config().address, rocket.config().port) },
            )
        }),
    )
}

#[rocket::main]
async fn main() -> Result<(), Failure> {
    app(bookshop::delivery().await?).launch().await?;
    Ok(())
}
