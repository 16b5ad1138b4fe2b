//! The same service as a careful developer writes it by hand in an afternoon: axum and sqlx, SQLite with a write-ahead log,
//! every commit synced. SQLite has one writer at a time, so one connection writes and requests wait for it in line; a pool
//! reads beside it. A validation is one statement that reads. A fetch is one statement that counts and one that reads. An
//! order is one transaction. Nothing is batched.

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use rand::RngExt;
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Connection, Executor, Row};
use tokio::sync::Mutex;

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

fn options(file: &Path) -> SqliteConnectOptions {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full)
}

struct Database {
    readers: SqlitePool,
    /// Not a pool of one, which tests a connection each time before another request gets it.
    writer: Mutex<SqliteConnection>,
}

impl Database {
    async fn open(file: &Path) -> Self {
        let writer = Mutex::new(SqliteConnection::connect_with(&options(file)).await.unwrap());
        // No connection to a file is ever lost.
        let readers = SqlitePoolOptions::new().max_connections(8).test_before_acquire(false);
        Self { readers: readers.connect_with(options(file)).await.unwrap(), writer }
    }
}

/// Makes a database with these keys.
pub async fn fill(file: &Path, keys: &[String]) {
    let mut connection = SqliteConnection::connect_with(&options(file)).await.unwrap();
    connection.execute(SCHEMA).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    let content = "A line of Markdown.\n".repeat(100);
    sqlx::query("INSERT INTO product VALUES (1, 'Guide', $1)").bind(content).execute(&mut *transaction).await.unwrap();
    for key in keys {
        let insert = "INSERT INTO api_key VALUES ($1, 1, 'buyer@example.com', $2, -1, 0)";
        sqlx::query(insert).bind(key).bind(EXPIRES).execute(&mut *transaction).await.unwrap();
    }
    transaction.commit().await.unwrap();
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await.unwrap();
    connection.close().await.unwrap();
}

type Answer = (StatusCode, Json<Value>);

#[derive(Deserialize)]
struct KeyParams {
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

async fn validate(State(database): State<Arc<Database>>, Query(params): Query<KeyParams>) -> Answer {
    let select = "SELECT product, expires_at, max_uses, used FROM api_key WHERE key = $1";
    match sqlx::query(select).bind(params.key).fetch_optional(&database.readers).await {
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

async fn product(State(database): State<Arc<Database>>, Query(params): Query<KeyParams>) -> Answer {
    let update = "UPDATE api_key SET used = used + 1 WHERE key = $1 AND product = $2 AND expires_at > unixepoch() \
                  AND (max_uses < 0 OR used < max_uses) RETURNING used";
    let update = sqlx::query(update).bind(params.key).bind(params.product_id);
    let counted = update.fetch_optional(&mut *database.writer.lock().await).await;
    match counted {
        Ok(Some(_)) => {}
        Ok(None) => return failed(StatusCode::UNAUTHORIZED, "INVALID_KEY"),
        Err(error) => return broken(&error),
    }
    let select = "SELECT id, name, content FROM product WHERE id = $1";
    match sqlx::query(select).bind(params.product_id).fetch_one(&database.readers).await {
        Ok(row) => {
            let (id, name, content): (i64, String, String) = (row.get(0), row.get(1), row.get(2));
            let told = json!({ "product": { "id": id, "name": name, "type": "digital", "content": content } });
            (StatusCode::OK, Json(told))
        }
        Err(error) => broken(&error),
    }
}

async fn order(State(database): State<Arc<Database>>, Json(order): Json<Purchase>) -> Answer {
    if order.secret != SECRET {
        return failed(StatusCode::UNAUTHORIZED, "UNAUTHORIZED");
    }
    let issued = issue(&mut *database.writer.lock().await, &order).await;
    match issued {
        Ok(key) => (StatusCode::OK, Json(json!({ "success": true, "api_key": key, "message": "Sent." }))),
        Err(error) => broken(&error),
    }
}

async fn issue(writer: &mut SqliteConnection, order: &Purchase) -> Result<String, sqlx::Error> {
    let mut transaction = writer.begin().await?;
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
        let database = Arc::new(Database::open(file).await);
        let app = Router::new()
            .route("/api/validate", get(validate))
            .route("/api/product", get(product))
            .route("/api/webhook/order", post(order))
            .with_state(database);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        announce(listener.local_addr().unwrap());
        axum::serve(listener, app).with_graceful_shutdown(terminated()).await.unwrap();
    });
}
