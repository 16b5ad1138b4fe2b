//! The API inside an existing axum application: beside routes of its own, one of them guarded by a key.
//!
//! ```console
//! $ cargo run --example embed_axum
//! $ curl -s http://127.0.0.1:3000/download -H "Authorization: Bearer dlv_…"
//! ```

use std::net::SocketAddr;

use axum::extract::FromRef;
use axum::{Router, routing::get};
use bookshop::Failure;
use delivery_axum::{Grant, Refused};
use delivery_core::Delivery;
use tokio::net::TcpListener;

/// The application's state, with the service in it.
#[derive(Clone)]
struct App {
    delivery: Delivery,
}

impl FromRef<App> for Delivery {
    fn from_ref(app: &App) -> Self {
        app.delivery.clone()
    }
}

async fn home() -> &'static str {
    "A bookshop\n"
}

/// A route of the application's own: whoever has a key may download, and each download is a use.
async fn download(grant: Grant) -> Result<String, Refused> {
    let key = grant.count_use(grant.key().product()).await?;
    Ok(format!("Here is your book. You have fetched it {} times.\n", key.used()))
}

fn app(delivery: Delivery) -> Router {
    Router::new()
        .route("/", get(home))
        .route("/download", get(download))
        .with_state(App { delivery: delivery.clone() })
        .merge(delivery_axum::router(delivery))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let delivery = bookshop::delivery().await?;
    let running = delivery.start().await?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("a bookshop at http://{}", listener.local_addr()?);
    axum::serve(listener, app(delivery).into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    running.stop().await;
    Ok(())
}
