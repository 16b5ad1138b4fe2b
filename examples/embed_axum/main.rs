//! A bookshop on axum and PostgreSQL that embeds the API. It is for developers of an existing application, and shows what
//! such an application often needs: its own pool, its own tables with UUIDs, an order and its key in one transaction, its
//! own sign-in, files of its own that a key opens, and metrics.
//!
//! If you need none of that, copy `minimal_axum` instead. What this program shares with `embed_rocket` is in `bookshop`.
//!
//! ```console
//! $ DATABASE_URL=postgres://user:password@localhost/shop cargo run --example embed_axum
//! $ curl -s http://127.0.0.1:3000/orders -H "Content-Type: application/json" \
//!     -d '{"id":"1001","book":"0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a01","email":"ada@example.com"}'
//! $ curl -s http://127.0.0.1:3000/download -H "Authorization: Bearer dlv_…"
//! ```

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use bookshop::Failure;
use delivery_axum::{Grant, GrantRejection, RequireKeyLayer};
use delivery_core::Delivery;
use delivery_core::store::PostgresStore;
use serde::Deserialize;
use sqlx::{Executor, PgPool};
use tokio::net::TcpListener;
use tower::ServiceExt;
use tower_http::services::ServeFile;

/// The application's state.
#[derive(Clone)]
struct App {
    pool: PgPool,
    delivery: Delivery,
}

/// A purchase of a book. The application handles the payment itself.
#[derive(Deserialize)]
struct NewOrder {
    id: String,
    book: String,
    email: String,
}

/// Writes the order and its key in one transaction: both are stored, or neither is.
async fn buy(State(app): State<App>, Json(new): Json<NewOrder>) -> Result<String, StatusCode> {
    let unavailable = |_| StatusCode::SERVICE_UNAVAILABLE;
    let book = bookshop::book(&app.delivery, &new.book).await.map_err(unavailable)?.ok_or(StatusCode::NOT_FOUND)?;
    let order = bookshop::order(&new.id, book, &new.email).map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)?;
    let name = new.id.parse().map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)?;
    let sale = app.delivery.prepare(order).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?.called(name);

    let failed = |_: sqlx::Error| StatusCode::SERVICE_UNAVAILABLE;
    let mut transaction = app.pool.begin().await.map_err(failed)?;
    // Limits the wait if another request is writing the same order. A request that waits occupies a connection of the
    // pool.
    transaction.execute("SET LOCAL lock_timeout = '2s'").await.map_err(failed)?;
    let (book, email): (String, String) = sqlx::query_as(bookshop::ADD_ORDER)
        .bind(&new.id)
        .bind(&new.book)
        .bind(&new.email)
        .fetch_one(&mut *transaction)
        .await
        .map_err(failed)?;
    if (book, email) != (new.book, new.email) {
        return Err(StatusCode::CONFLICT);
    }
    let issued = app.delivery.issue_in(&mut transaction, &sale).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    transaction.commit().await.map_err(failed)?;
    Ok(format!("{}\n", issued.committed().text.expose()))
}

/// Runs behind a layer that requires a key and counts a use. The answer is a link to the book,
/// valid for 24 hours, or until the key expires if that is sooner.
async fn download(State(app): State<App>, grant: Extension<Grant>) -> Result<String, StatusCode> {
    let key = grant.key();
    let name = bookshop::file(&app.delivery, key.product()).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let name = name.ok_or(StatusCode::NOT_FOUND)?;
    let ticket = app.delivery.ticket(key, &name);
    Ok(format!("You have opened it {} times. Download it: /books/{ticket}/{name}\n", key.used()))
}

/// Serves a book as a file. The buyer may download it any number of times, also in parts. The ticket is valid for this
/// name only.
async fn book(
    State(app): State<App>,
    Path((ticket, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response, GrantRejection> {
    app.delivery.check_ticket(&ticket, &name).await?;
    let Ok(file) = ServeFile::new(format!("{}/{name}", bookshop::FOLDER)).oneshot(request).await;
    Ok(file.map(Body::new))
}

fn app(app: App, metrics: impl Fn() -> String + Clone + Send + Sync + 'static) -> Router {
    let delivery = app.delivery.clone();
    let guard = RequireKeyLayer::new(&delivery).counting();
    Router::new()
        .route("/", get(async || "A bookshop\n"))
        .route("/orders", post(buy))
        .route("/download", get(download).route_layer(guard))
        .route("/books/{ticket}/{name}", get(book))
        .route("/metrics", get(async move || metrics()))
        .with_state(app)
        .merge(delivery_axum::router_of(delivery, bookshop::endpoints()))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("DATABASE_URL")
        .map_err(|_| "set DATABASE_URL to a PostgreSQL database: postgres://user:password@localhost/shop")?;
    let metrics = bookshop::metrics()?;
    bookshop::shelve()?;
    let pool = PgPool::connect(&url).await?;
    for table in bookshop::TABLES {
        pool.execute(table).await?;
    }
    for (id, title, text) in bookshop::BOOKS {
        let add = sqlx::query("INSERT INTO book (id, title, text) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING");
        add.bind(id).bind(title).bind(text).execute(&pool).await?;
    }
    // The store puts its tables into a separate schema of the application's database.
    let store = Arc::new(PostgresStore::with_pool(pool.clone()).await?);

    let bind = std::env::var("BIND").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(bind).await?;
    let address = listener.local_addr()?;
    let delivery = bookshop::service(store, &format!("http://{address}"))?.build();
    bookshop::offer_books(&delivery).await?;
    let running = delivery.start().await?;
    println!("listening on http://{address}");
    let router = app(App { pool, delivery }, move || metrics.render());
    axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    running.stop().await;
    Ok(())
}
