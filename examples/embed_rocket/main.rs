//! A bookshop on Rocket and SQLite that embeds the API. It is for developers of an existing application, and shows what
//! such an application often needs: its own tables with UUIDs in the same file, an order and its key in one transaction, its
//! own sign-in, files of its own that a key opens, and metrics.
//!
//! If you need none of that, copy `minimal_rocket` instead. What this program shares with `embed_axum` is in `bookshop`.
//!
//! ```console
//! $ cargo run --example embed_rocket
//! $ curl -s http://127.0.0.1:3000/orders -H "Content-Type: application/json" \
//!     -d '{"id":"1001","book":"0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a01","email":"ada@example.com"}'
//! $ curl -s http://127.0.0.1:3000/download -H "Authorization: Bearer dlv_…"
//! ```

use std::sync::Arc;

use bookshop::Failure;
use delivery_core::Delivery;
use delivery_core::store::SqliteStore;
use delivery_rocket::{DeliveryFairing, Grant, GrantRejection, RequireKey};
use rocket::config::{Config, LogLevel};
use rocket::fairing::AdHoc;
use rocket::fs::NamedFile;
use rocket::http::Status;
use rocket::serde::Deserialize;
use rocket::serde::json::Json;
use rocket::{Build, Rocket, State, get, post, routes};
use sqlx::Executor;

/// A purchase of a book. The application handles the payment itself.
#[derive(Deserialize)]
#[serde(crate = "rocket::serde")]
struct NewOrder {
    id: String,
    book: String,
    email: String,
}

/// Renders the answer of `/metrics`.
struct Metrics(Box<dyn Fn() -> String + Send + Sync>);

#[get("/")]
fn home() -> &'static str {
    "A bookshop\n"
}

#[get("/metrics")]
fn metrics(metrics: &State<Metrics>) -> String {
    (metrics.0)()
}

/// Writes the order and its key in one transaction: both are stored, or neither is.
#[post("/orders", data = "<new>")]
async fn buy(
    new: Json<NewOrder>,
    store: &State<Arc<SqliteStore>>,
    delivery: &State<Delivery>,
) -> Result<String, Status> {
    let NewOrder { id, book, email } = new.into_inner();
    let product = bookshop::book(delivery, &book).await.map_err(|_| Status::ServiceUnavailable)?;
    let order = bookshop::order(&id, product.ok_or(Status::NotFound)?, &email);
    let name = id.parse().map_err(|_| Status::UnprocessableEntity)?;
    let sale = delivery.prepare(order.map_err(|_| Status::UnprocessableEntity)?).await;
    let sale = sale.map_err(|_| Status::ServiceUnavailable)?.called(name);

    let service = delivery.inner().clone();
    let committed = store.transaction(move |mut transaction| {
        Box::pin(async move {
            let add = sqlx::query_as(bookshop::ADD_ORDER).bind(&id).bind(&book).bind(&email);
            let stored: (String, String) = add.fetch_one(&mut *transaction).await?;
            let is_repeated = stored == (book, email);
            Ok::<_, Failure>(if is_repeated { Some(service.issue_in(&mut transaction, &sale).await?) } else { None })
        })
    });
    let issued = committed.await.map_err(|_| Status::ServiceUnavailable)?.ok_or(Status::Conflict)?;
    Ok(format!("{}\n", issued.committed().text.expose()))
}

/// Runs behind a fairing that requires a key and counts a use. The answer is a link to the book,
/// valid for 24 hours, or until the key expires if that is sooner.
#[get("/download")]
async fn download(grant: Grant, delivery: &State<Delivery>) -> Result<String, Status> {
    let key = grant.key();
    let name = bookshop::file(delivery, key.product()).await.map_err(|_| Status::ServiceUnavailable)?;
    let name = name.ok_or(Status::NotFound)?;
    let ticket = delivery.ticket(key, &name);
    Ok(format!("You have opened it {} times. Download it: /books/{ticket}/{name}\n", key.used()))
}

/// Serves a book as a file. The buyer may download it any number of times. The ticket is valid for this name only.
#[get("/books/<ticket>/<name>")]
async fn book(ticket: &str, name: &str, delivery: &State<Delivery>) -> Result<Option<NamedFile>, GrantRejection> {
    delivery.check_ticket(ticket, name).await?;
    Ok(NamedFile::open(format!("{}/{name}", bookshop::FOLDER)).await.ok())
}

fn app(store: Arc<SqliteStore>, delivery: Delivery, metrics: Metrics, port: u16) -> Rocket<Build> {
    // Rocket's own log would contain the queries of requests, with the keys in them.
    let config = Config { port, log_level: LogLevel::Off, ..Config::default() };
    rocket::custom(config)
        .mount("/", routes![home, buy, download, book, self::metrics])
        .manage(store)
        .manage(metrics)
        .attach(DeliveryFairing::new(delivery).endpoints(bookshop::endpoints()))
        .attach(RequireKey::at("/download").counting())
        .attach(AdHoc::on_liftoff("Announcement", |rocket| {
            let (address, port) = (rocket.config().address, rocket.config().port);
            Box::pin(async move { println!("listening on http://{address}:{port}") })
        }))
}

#[rocket::main]
async fn main() -> Result<(), Failure> {
    let metrics = bookshop::metrics()?;
    bookshop::shelve()?;
    let store = Arc::new(SqliteStore::open("bookshop.db").await?);
    let prepared = store.transaction(|mut transaction| {
        Box::pin(async move {
            for table in bookshop::TABLES {
                transaction.execute(table).await?;
            }
            for (id, title, text) in bookshop::BOOKS {
                let add = sqlx::query("INSERT INTO book (id, title, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING");
                add.bind(id).bind(title).bind(text).execute(&mut *transaction).await?;
            }
            Ok::<(), Failure>(())
        })
    });
    prepared.await?;
    let port = std::env::var("PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(3000);
    let delivery = bookshop::service(store.clone(), &format!("http://127.0.0.1:{port}"))?.build();
    bookshop::offer_books(&delivery).await?;
    let metrics = Metrics(Box::new(move || metrics.render()));
    app(store, delivery, metrics, port).launch().await?;
    Ok(())
}
