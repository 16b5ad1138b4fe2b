//! The counted fetch as one writes it by hand for PostgreSQL: a pool, and one transaction for each use.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Executor, Row};

use crate::bare::{announce, terminated};

const SCHEMA: &str = "
    CREATE TABLE product (id BIGINT PRIMARY KEY, name TEXT, content TEXT);
    CREATE TABLE api_key (key TEXT PRIMARY KEY, product BIGINT, expires_at TIMESTAMPTZ, max_uses BIGINT,
        used BIGINT NOT NULL DEFAULT 0);";

async fn open(url: &str) -> PgPool {
    PgPoolOptions::new().max_connections(20).connect(url).await.unwrap()
}

/// Makes the tables with these keys in a database of their own, and answers its address.
pub async fn fill(server: &str, keys: &[String]) -> String {
    open(server).await.execute("CREATE DATABASE by_hand").await.unwrap();
    let url = format!("{}/by_hand", server.rsplit_once('/').unwrap().0);
    let pool = open(&url).await;
    pool.execute(SCHEMA).await.unwrap();
    let content = "A line of Markdown.\n".repeat(100);
    sqlx::query("INSERT INTO product VALUES (1, 'Guide', $1)").bind(content).execute(&pool).await.unwrap();
    let insert = "INSERT INTO api_key SELECT key, 1, '2035-06-13T00:00:00Z', -1, 0 FROM unnest($1::text[]) AS key";
    sqlx::query(insert).bind(keys).execute(&pool).await.unwrap();
    pool.execute("VACUUM ANALYZE api_key").await.unwrap();
    pool.close().await;
    url
}

#[derive(Deserialize)]
struct KeyParams {
    key: String,
    product_id: i64,
}

async fn product(
    State(pool): State<Arc<PgPool>>,
    Query(params): Query<KeyParams>,
) -> Result<Json<Value>, (StatusCode, &'static str)> {
    let update = "UPDATE api_key SET used = used + 1 WHERE key = $1 AND product = $2 AND expires_at > now() \
                  AND (max_uses < 0 OR used < max_uses) RETURNING used";
    let failed = |error: sqlx::Error| {
        eprintln!("{error}");
        (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL")
    };
    let counted = sqlx::query(update).bind(params.key).bind(params.product_id).fetch_optional(&*pool).await;
    counted.map_err(failed)?.ok_or((StatusCode::UNAUTHORIZED, "INVALID_KEY"))?;
    let select = "SELECT id, name, content FROM product WHERE id = $1";
    let row = sqlx::query(select).bind(params.product_id).fetch_one(&*pool).await.map_err(failed)?;
    let (id, name, content): (i64, String, String) = (row.get(0), row.get(1), row.get(2));
    Ok(Json(json!({ "product": { "id": id, "name": name, "type": "digital", "content": content } })))
}

pub fn serve(url: &str) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let app = Router::new().route("/api/product", get(product)).with_state(Arc::new(open(url).await));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        announce(listener.local_addr().unwrap());
        axum::serve(listener, app).with_graceful_shutdown(terminated()).await.unwrap();
    });
}
