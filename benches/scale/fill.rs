//! Fills a store beside its own path, by statements that make the rows: key `i` is the same in both databases, and in
//! [`id`]. Each has an order, a use, an e-mail that was sent, an event of a platform and a payment.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use delivery_core::key::{KeyId, Keyring, Prefix};
use delivery_core::product::NewProduct;
use delivery_core::store::{CatalogEditor, Ledger, PostgresStore, Posts, SqliteStore};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};

/// What the keys are signed with.
pub const SECRET: &str = "a secret to sign keys with";
/// When the first order came, in milliseconds since 1970.
pub const START: i64 = 1_750_000_000_000;
/// Rows in one transaction.
const SLICE: i64 = 250_000;
/// Milliseconds between two orders.
const DISTANCE: i64 = 8_000;

pub fn keyring() -> Keyring {
    Keyring::new(Prefix::default(), &[SECRET.parse().unwrap()]).unwrap()
}

/// How long it takes.
#[expect(clippy::disallowed_methods, reason = "this is what is measured")]
pub async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    let done = work.await;
    (done, started.elapsed())
}

/// The id of key `number`: the time of its order, and a little scatter.
pub fn id(number: i64) -> KeyId {
    let text = format!("{:012x}700080000000{:08x}", START + number * DISTANCE, scatter(number));
    KeyId::from_bytes(u128::from_str_radix(&text, 16).unwrap().to_be_bytes())
}

fn scatter(number: i64) -> i64 {
    number * 2_654_435_761 % 4_294_967_296
}

/// Statements for keys `$1..=$2`, their uses and e-mails. `series` is the table of numbers `i`; `id` makes a key's id of
/// its TIME and SCATTER; `counted` adds how often keys were used, if that stands in their rows.
fn statements(series: &str, id: &str, counted: Option<&str>) -> Vec<String> {
    let (secret, at) = (keyring().newest().get(), format!("({START} + i * {DISTANCE})"));
    let scatter = "(i * 2654435761 % 4294967296)";
    let id = id.replace("TIME", &at).replace("SCATTER", scatter);
    let (columns, values) = if counted.is_some() { ("", "") } else { (", used, last_use", ", 1, i") };
    let mut statements = vec![
        format!(
            "{series} INSERT INTO delivery_key (number, id, secret_version, product, email, source, order_id, issued_at, \
             granted_until, granted_uses, expires_at, max_uses, revoked_at, revoked_by{columns}) \
             SELECT i, {id}, {secret}, 1, 'buyer' || {scatter} || '@example.com', 'webhook', 'order-' || i, {at} / 1000, \
             {at} / 1000 + 315360000, -1, {at} / 1000 + 315360000, -1, CASE WHEN i % 100000 = 7 THEN {at} END, \
             CASE WHEN i % 100000 = 7 THEN 'admin' END{values} FROM n"
        ),
        format!(
            "{series} INSERT INTO delivery_purchase (order_id, source, product, key) SELECT 'order-' || i, 'webhook', 1, i \
             FROM n"
        ),
        format!(
            "{series} INSERT INTO delivery_use (number, key, at, used, previous) SELECT i, i, {at}, 1, NULL FROM n"
        ),
        format!(
            "{series} INSERT INTO delivery_message (number, key, kind, recipient, message_id, state, attempts, token, \
             queued_at, due_at) SELECT i, i, 'purchase', 'buyer@example.com', 'message-' || i || '@example.com', 1, 1, 2, \
             {at}, {at} FROM n"
        ),
    ];
    statements.push(format!(
        "{series} INSERT INTO delivery_inbox (number, source, name, kind, order_id, received_at, outcome, keys, attempts, \
         version) SELECT i, CASE WHEN i % 1000 = 17 THEN 'gumroad' ELSE 'stripe' END, 'evt_' || i, \
         'checkout.session.completed', 'order-' || i, {at}, 'issued', '[]', 1, 1 FROM n"
    ));
    statements.push(format!(
        "{series} INSERT INTO delivery_payment (deal, name, at, units, currency) SELECT i, 'order-' || i, {at}, 1900, 'EUR' \
         FROM n"
    ));
    statements.extend(counted.map(|sql| format!("{series} {sql}")));
    statements
}

async fn make(store: &(impl Ledger + CatalogEditor + Posts)) {
    let product = NewProduct::new("Guide").unwrap().content("A line of Markdown.\n".repeat(100)).unwrap();
    store
        .add_product(
            product,
            delivery_core::ledger::Edit::new(delivery_core::key::Actor::admin(), chrono::DateTime::UNIX_EPOCH),
        )
        .await
        .unwrap();
    store.register(&keyring().fingerprints()).await.unwrap();
    store.close().await;
}

fn slices(keys: i64) -> impl Iterator<Item = (i64, i64)> {
    let first = (1..=keys).step_by(usize::try_from(SLICE).unwrap());
    first.map(move |first| (first, (first + SLICE - 1).min(keys)))
}

/// How long it took.
pub async fn sqlite(file: &Path, keys: i64) -> Duration {
    make(&SqliteStore::open(file).await.unwrap()).await;
    let options = SqliteConnectOptions::new().filename(file).journal_mode(SqliteJournalMode::Wal);
    let fast = options.synchronous(SqliteSynchronous::Off).pragma("cache_size", "-2000000");
    let mut connection = fast.disable_statement_logging().connect().await.unwrap();
    let series = "WITH RECURSIVE n (i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)";
    let counted = "INSERT INTO delivery_count (key, used, last_use) SELECT i, 1, i FROM n";
    let statements = statements(series, "unhex(printf('%012x700080000000%08x', TIME, SCATTER))", Some(counted));
    let filled = timed(async {
        for (first, last) in slices(keys) {
            let mut transaction = connection.begin().await.unwrap();
            for sql in &statements {
                let insert = sqlx::query(AssertSqlSafe(sql.clone())).bind(first).bind(last);
                insert.execute(&mut *transaction).await.unwrap();
            }
            sqlx::query("UPDATE delivery_watermark SET number = $1")
                .bind(last)
                .execute(&mut *transaction)
                .await
                .unwrap();
            transaction.commit().await.unwrap();
        }
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await.unwrap();
        // Or the system would still be writing while the store is measured.
        File::open(file).unwrap().sync_all().unwrap();
    });
    let ((), took) = filled.await;
    connection.close().await.unwrap();
    took
}

/// The address of a database of its own, how long it took, and how many bytes the schema has.
pub async fn postgres(server: &str, database: &str, keys: i64) -> (String, Duration, u64) {
    let create = format!("CREATE DATABASE {database}");
    let mut administrator = PgConnection::connect(server).await.unwrap();
    administrator.execute(AssertSqlSafe(create)).await.unwrap();
    let url = format!("{}/{database}", server.rsplit_once('/').unwrap().0);
    make(&PostgresStore::connect(&url).await.unwrap()).await;
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.options([("search_path", "delivery"), ("synchronous_commit", "off")]);
    let mut session = options.disable_statement_logging().connect().await.unwrap();
    let series = "WITH n (i) AS (SELECT generate_series($1, $2))";
    let hex = "decode(lpad(to_hex(TIME), 12, '0') || '700080000000' || lpad(to_hex(SCATTER), 8, '0'), 'hex')";
    let statements = statements(series, hex, None);
    let filled = timed(async {
        for (first, last) in slices(keys) {
            let mut transaction = session.begin().await.unwrap();
            for sql in &statements {
                let insert = sqlx::query(AssertSqlSafe(sql.clone())).bind(first).bind(last);
                insert.execute(&mut *transaction).await.unwrap();
            }
            transaction.commit().await.unwrap();
        }
        // As after a time of service.
        for finish in [
            "SELECT setval('delivery_number', max(number) + 1, false) FROM delivery_use",
            "VACUUM ANALYZE delivery_key",
            "VACUUM ANALYZE delivery_purchase",
            "VACUUM ANALYZE delivery_use",
            "VACUUM ANALYZE delivery_message",
            "VACUUM ANALYZE delivery_inbox",
            "VACUUM ANALYZE delivery_payment",
            "CHECKPOINT",
        ] {
            session.execute(finish).await.unwrap();
        }
    });
    let ((), took) = filled.await;
    let size: i64 = sqlx::query_scalar(
        "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relnamespace = 'delivery'::regnamespace \
         AND relkind = 'r'",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    session.close().await.unwrap();
    (url, took, size.unsigned_abs())
}
