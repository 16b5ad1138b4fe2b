//! The same service as one writes it by hand: axum and sqlx, a pool, one statement for each validation, one for each fetch,
//! one transaction for each order; SQLite with a write-ahead log, every commit synced.

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use rand::RngExt;
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Executor, Row};

use crate::bare::{announce, terminated};
use support::process::SECRET;

const SCHEMA: &str = "
    CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, content TEXT);
    CREATE TABLE api_key (key TEXT PRIMARY KEY, product INTEGER, email TEXT, expires_at INTEGER, max_uses INTEGER,
        used INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
    CREATE TABLE purchase (order_id TEXT, product INTEGER, key TEXT, PRIMARY KEY (order_id, product)) WITHOUT ROWID;
    CREATE TABLE message (id INTEGER PRIMARY KEY, key TEXT, email TEXT, sent INTEGER NOT NULL DEFAULT 0);";

/// After every key has expired.
const EXPIRES: i64 = 2_065_000_000;

async fn open(file: &Path) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
    SqlitePoolOptions::new().max_connections(8).connect_with(options).await.unwrap()
}

/// Makes a database with these keys.
pub async fn fill(file: &Path, keys: &[String]) {
    let pool = open(file).await;
    pool.execute(SCHEMA).await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    let content = "A line of Markdown.\n".repeat(100);
    sqlx::query("INSERT INTO product VALUES (1, 'Guide', $1)").bind(content).execute(&mut *transaction).await.unwrap();
    for key in keys {
        let insert = "INSERT INTO api_key VALUES ($1, 1, 'buyer@example.com', $2, -1, 0)";
        sqlx::query(insert).bind(key).bind(EXPIRES).execute(&mut *transaction).await.unwrap();
    }
    transaction.commit().await.unwrap();
    pool.execute("PRAGMA wal_checkpoint(TRUNCATE)").await.unwrap();
    pool.close().await;
}

type Answer = (StatusCode, Json<Value>);

#[derive(Deserialize)]
struct Asked {
    key: String,
    product_id: Option<i64>,
}

#[derive(Deserialize)]
struct Purchase {
    secret: String,
    order_id: String,
    product_id: i64,
    customer_email: String,
}

fn failed(status: StatusCode, code: &str) -> Answer {
    (status, Json(json!({ "error": { "code": code, "message": "No." } })))
}

fn broken(error: &sqlx::Error) -> Answer {
    eprintln!("{error}");
    failed(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL")
}

async fn validate(State(pool): State<Arc<SqlitePool>>, Query(asked): Query<Asked>) -> Answer {
    let select = "SELECT product, expires_at, max_uses, used FROM api_key WHERE key = $1";
    match sqlx::query(select).bind(asked.key).fetch_optional(&*pool).await {
        Ok(Some(row)) => {
            let expires = chrono::DateTime::from_timestamp(row.get(1), 0).unwrap().to_rfc3339();
            let (product, limit, used): (i64, i64, i64) = (row.get(0), row.get(2), row.get(3));
            let remaining = if limit < 0 { -1 } else { limit - used };
            let told = json!({ "valid": true, "product_id": product, "expires_at": expires, "used_count": used,
                "remaining_uses": remaining });
            (StatusCode::OK, Json(told))
        }
        Ok(None) => failed(StatusCode::UNAUTHORIZED, "INVALID_KEY"),
        Err(error) => broken(&error),
    }
}

async fn product(State(pool): State<Arc<SqlitePool>>, Query(asked): Query<Asked>) -> Answer {
    let update = "UPDATE api_key SET used = used + 1 WHERE key = $1 AND product = $2 AND expires_at > unixepoch() \
                  AND (max_uses < 0 OR used < max_uses) RETURNING used";
    let counted = sqlx::query(update).bind(asked.key).bind(asked.product_id).fetch_optional(&*pool).await;
    match counted {
        Ok(Some(_)) => {}
        Ok(None) => return failed(StatusCode::UNAUTHORIZED, "INVALID_KEY"),
        Err(error) => return broken(&error),
    }
    let select = "SELECT id, name, content FROM product WHERE id = $1";
    match sqlx::query(select).bind(asked.product_id).fetch_one(&*pool).await {
        Ok(row) => {
            let (id, name, content): (i64, String, String) = (row.get(0), row.get(1), row.get(2));
            let told = json!({ "product": { "id": id, "name": name, "type": "digital", "content": content } });
            (StatusCode::OK, Json(told))
        }
        Err(error) => broken(&error),
    }
}

async fn order(State(pool): State<Arc<SqlitePool>>, Json(order): Json<Purchase>) -> Answer {
    if order.secret != SECRET {
        return failed(StatusCode::UNAUTHORIZED, "UNAUTHORIZED");
    }
    match issue(&pool, &order).await {
        Ok(key) => (StatusCode::OK, Json(json!({ "success": true, "api_key": key, "message": "Sent." }))),
        Err(error) => broken(&error),
    }
}

async fn issue(pool: &SqlitePool, order: &Purchase) -> Result<String, sqlx::Error> {
    // Or a transaction that reads first would fail when another has written.
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    let known = sqlx::query("SELECT key FROM purchase WHERE order_id = $1 AND product = $2");
    let known = known.bind(&order.order_id).bind(order.product_id).fetch_optional(&mut *transaction).await?;
    if let Some(row) = known {
        return row.try_get(0);
    }
    #[expect(clippy::disallowed_methods, reason = "by hand one takes what is at hand")]
    let key = format!("key_{:032x}", rand::rng().random::<u128>());
    let insert = "INSERT INTO api_key VALUES ($1, $2, $3, $4, -1, 0)";
    let insert = sqlx::query(insert).bind(&key).bind(order.product_id).bind(&order.customer_email).bind(EXPIRES);
    insert.execute(&mut *transaction).await?;
    let insert = sqlx::query("INSERT INTO purchase VALUES ($1, $2, $3)").bind(&order.order_id);
    insert.bind(order.product_id).bind(&key).execute(&mut *transaction).await?;
    let insert = sqlx::query("INSERT INTO message (key, email) VALUES ($1, $2)").bind(&key).bind(&order.customer_email);
    insert.execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(key)
}

pub fn serve(file: &Path) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let pool = Arc::new(open(file).await);
        let app = Router::new()
            .route("/api/validate", get(validate))
            .route("/api/product", get(product))
            .route("/api/webhook/order", post(order))
            .with_state(pool);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        announce(listener.local_addr().unwrap());
        axum::serve(listener, app).with_graceful_shutdown(terminated()).await.unwrap();
    });
}
