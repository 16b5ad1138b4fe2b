//! What things cost: `cargo bench -p delivery-benches --bench delivery`. Compare ratios inside one run; absolute figures are the machine's.

use std::future::Future;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request};
use chrono::{DateTime, Utc};
use criterion::{BatchSize, Bencher, Criterion, Throughput, criterion_group, criterion_main};
use delivery_core::http::{Call, Endpoint};
use delivery_core::key::{Change, Key, KeyId, Keyring, NewKey, Prefix, SecretVersion};
use delivery_core::ledger::{MessageId, NewSale, Notice};
use delivery_core::limit::{Identity, MemoryLimiter, Policy, Quota, Quotas, RateLimiter, Subject};
use delivery_core::mail::{MailError, Mailer, Message};
use delivery_core::order::{OrderRef, Source};
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::store::{Backend, CatalogEditor, Ledger, PostgresStore, SqliteStore};
use delivery_core::terms::{OwnTerms, Terms};
use delivery_core::{Clock, Delivery, SystemClock};
use delivery_rocket::DeliveryFairing;
use delivery_testing::MemoryStore;
use http_body_util::BodyExt;
use rocket::config::LogLevel;
use rocket::local::asynchronous::Client;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::runtime::Runtime;
use tower::ServiceExt;

criterion_group!(benches, keyring, rules, limiter, ledgers, postgres, requests);
criterion_main!(benches);

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_255_200, 0).unwrap()
}

fn ring() -> Keyring {
    Keyring::new(Prefix::default(), &["a secret to sign keys with".parse().unwrap()]).unwrap()
}

fn new_key(number: u128) -> NewKey {
    let identity = (KeyId::from_bytes(number.to_be_bytes()), SecretVersion::from_stored(1));
    let email = "buyer@example.com".parse().unwrap();
    NewKey::on_terms(identity, ProductId::new(1).unwrap(), email, Terms::default(), now())
}

fn spend() -> Change {
    Change::use_of(ProductId::new(1).unwrap(), now())
}

fn keyring(criterion: &mut Criterion) {
    let (ring, id) = (ring(), KeyId::from_bytes([7; 16]));
    let text = ring.text(id, ring.newest());
    let forged = text.expose().replace("dlv_", "dlv_0")[..text.expose().len()].to_owned();
    let mut group = criterion.benchmark_group("keyring");
    group.bench_function("mint", |bencher| bencher.iter(|| ring.text(black_box(id), ring.newest())));
    group.bench_function("verify", |bencher| bencher.iter(|| ring.verify(black_box(text.expose()))));
    group.bench_function("refuse", |bencher| bencher.iter(|| ring.verify(black_box(&forged))));
    group.finish();
}

fn rules(criterion: &mut Criterion) {
    let (key, change) = (Key::from(new_key(1)), spend());
    criterion.bench_function("rules/apply", |bencher| bencher.iter(|| black_box(&key).apply(black_box(&change))));
}

fn limiter(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let limiter = MemoryLimiter::new(Arc::new(SystemClock::default()));
    let quota = Quota::per_minute(100).unwrap();
    let mut group = criterion.benchmark_group("limiter");
    let key = Subject { policy: Policy::Product, identity: Identity::Key(1) };
    group.bench_function("one_key", |bencher| bencher.to_async(&runtime).iter(|| limiter.admit(&key, quota)));
    let mut address = 0;
    group.bench_function("a_million_addresses", |bencher| addresses(bencher, &runtime, &limiter, &mut address));
    // Each of them once a minute, as a flood that no limit stops.
    let (limiter, mut address) = (MemoryLimiter::new(Arc::new(Hurried::default())), 0);
    group.bench_function("a_million_quiet_addresses", |bencher| addresses(bencher, &runtime, &limiter, &mut address));
    group.finish();
}

/// Each of a million addresses asks in its turn, after `address`.
fn addresses(bencher: &mut Bencher<'_>, runtime: &Runtime, limiter: &MemoryLimiter, address: &mut u32) {
    let quota = Quota::per_minute(100).unwrap();
    bencher.to_async(runtime).iter(|| {
        *address = (*address + 1) % 1_000_000;
        let subject = Subject { policy: Policy::Validate, identity: Identity::V4(Ipv4Addr::from_bits(*address)) };
        async move { limiter.admit(&subject, quota).await }
    });
}

/// The system's clock, 60 µs further with each look: a million requests take a minute, and a look what it takes.
#[derive(Debug, Default)]
struct Hurried(AtomicU64);

impl Clock for Hurried {
    fn now(&self) -> DateTime<Utc> {
        SystemClock::default().now()
    }

    fn monotonic(&self) -> Duration {
        SystemClock::default().monotonic() + Duration::from_micros(60 * self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn ledgers(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let sqlite = runtime.block_on(SqliteStore::open(folder.path().join("bench.db"))).unwrap();
    ledger(criterion, &runtime, "memory", &MemoryStore::new());
    ledger(criterion, &runtime, "sqlite", &sqlite);
}

/// Each measurement is a round of `callers` operations at once.
fn ledger(criterion: &mut Criterion, runtime: &Runtime, name: &str, ledger: &dyn Ledger) {
    const KEYS: u128 = 10_000;
    runtime.block_on(async {
        let issued = (1..=KEYS).map(|number| ledger.issue(NewSale::new(new_key(number), Vec::new())));
        all(issued).await;
    });
    let mut next = KEYS;
    let mut group = criterion.benchmark_group(format!("ledger/{name}"));
    for callers in [1_u64, 64] {
        group.throughput(Throughput::Elements(callers));
        group.bench_function(format!("change/{callers}"), |bencher| {
            bencher.to_async(runtime).iter(|| {
                next += u128::from(callers);
                let ids = (0..callers).map(|caller| new_key((next * 7919 + u128::from(caller)) % KEYS + 1).id);
                all(ids.map(|id| ledger.change(id, spend(), Vec::new())).collect::<Vec<_>>())
            });
        });
        group.bench_function(format!("issue/{callers}"), |bencher| {
            bencher.to_async(runtime).iter_batched(
                || {
                    let numbers = next + 1..=next + u128::from(callers);
                    next += u128::from(callers);
                    numbers.map(order).collect::<Vec<_>>()
                },
                |orders| {
                    all(orders
                        .into_iter()
                        .map(|(key, message)| ledger.issue(NewSale::new(key, vec![Notice::purchase(message)])))
                        .collect::<Vec<_>>())
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// Uses of 1,000 keys on PostgreSQL: this store's batches, on sessions of its own and on a pool of the host's, beside one
/// transaction for each use.
fn postgres(criterion: &mut Criterion) {
    if !support::programs::is_there("postgres") {
        println!("LEFT OUT: PostgreSQL, which is not on this machine");
        return;
    }
    let server = support::postgres::postgres();
    let runtime = Runtime::new().unwrap();
    let schema = support::postgres::unique();
    let store = runtime.block_on(PostgresStore::options().schema(&schema).connect(&server.url())).unwrap();
    runtime.block_on(all((0..1000)
        .map(|number| store.issue(NewSale::new(new_key(number), Vec::new())))
        .collect::<Vec<_>>()));
    let options: PgConnectOptions = server.url().parse().unwrap();
    let options = options.options([("search_path", schema.as_str())]);
    let pool = runtime.block_on(PgPoolOptions::new().max_connections(20).connect_with(options)).unwrap();
    let pooled = PostgresStore::options().schema(&schema).with_pool(pool.clone());
    let stores = [("batched", store), ("batched_on_a_pool", runtime.block_on(pooled).unwrap())];
    let key = |number: u128| KeyId::from_bytes((number % 1000).to_be_bytes());
    let mut group = criterion.benchmark_group("postgres");
    for callers in [1_u32, 64, 256] {
        group.throughput(Throughput::Elements(callers.into()));
        for (name, store) in &stores {
            group.bench_function(format!("use/{name}/{callers}"), |bencher| {
                bencher.to_async(&runtime).iter(|| {
                    all((0..callers)
                        .map(|number| store.change(key(number.into()), spend(), Vec::new()))
                        .collect::<Vec<_>>())
                });
            });
        }
        group.bench_function(format!("use/one_transaction_each/{callers}"), |bencher| {
            bencher.to_async(&runtime).iter(|| {
                all((0..callers).map(|number| one_transaction(&pool, key(number.into()))).collect::<Vec<_>>())
            });
        });
    }
    group.finish();
    for (_, store) in &stores {
        runtime.block_on(store.close());
    }
}

/// As it is written by hand: lock, count, append.
async fn one_transaction(pool: &PgPool, id: KeyId) {
    const LOCK: &str = "SELECT number, used, last_use FROM delivery_key WHERE id = $1 FOR UPDATE";
    const APPEND: &str = "INSERT INTO delivery_use (number, key, at, used, previous) VALUES (nextval('delivery_number') + 999, $1, 0, $2, NULL)";
    let mut transaction = pool.begin().await.unwrap();
    let locked = sqlx::query_as::<_, (i64, i64, Option<i64>)>(LOCK).bind(id.as_bytes().as_slice());
    let (number, used, _) = locked.fetch_one(&mut *transaction).await.unwrap();
    let count = sqlx::query("UPDATE delivery_key SET used = $1 WHERE number = $2").bind(used + 1).bind(number);
    count.execute(&mut *transaction).await.unwrap();
    sqlx::query(APPEND).bind(number).bind(used + 1).execute(&mut *transaction).await.unwrap();
    transaction.commit().await.unwrap();
}

fn order(number: u128) -> (NewKey, MessageId) {
    let reference = OrderRef { source: Source::webhook(), id: number.to_string().parse().unwrap() };
    (new_key(number).bought_with(reference), MessageId::new(format!("{number}@example.com")).unwrap())
}

/// Runs all of them at once on this task.
async fn all<F: Future<Output: std::fmt::Debug>>(futures: impl IntoIterator<Item = F>) {
    let mut waiting: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if waiting.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl Mailer for Nowhere {
    async fn send(&self, _: &Message) -> Result<(), MailError> {
        Ok(())
    }
}

fn requests(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = runtime.block_on(SqliteStore::open(folder.path().join("bench.db"))).unwrap();
    let store = Arc::new(store);
    let (webhook, admin) = ("a webhook's secret".parse().unwrap(), "an-admins-own-token".parse().unwrap());
    let plenty = Quota::per_minute(u32::MAX).unwrap();
    let quotas = Quotas {
        product: plenty,
        validate: plenty,
        webhook: plenty,
        admin: plenty,
        failures: plenty,
        events: plenty,
        ..Quotas::default()
    };
    let delivery = Delivery::builder(store.clone(), Arc::new(Nowhere), ring())
        .webhook_secret(webhook)
        .admin_token(admin)
        .quotas(quotas)
        .build();
    let key = runtime.block_on(async {
        let product = NewProduct::new("Guide").unwrap().content("A line of Markdown.\n".repeat(100)).unwrap();
        let product = store
            .add_product(
                product,
                delivery_core::ledger::Edit::new(delivery_core::key::Actor::admin(), chrono::DateTime::UNIX_EPOCH),
            )
            .await
            .unwrap();
        let email = "buyer@example.com".parse().unwrap();
        delivery.issue_by_hand(product.id(), email, OwnTerms::default(), false).await.unwrap().text
    });
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let through_core = |endpoint: Endpoint, query: String| {
        let (delivery, call) = (delivery.clone(), Call::new(Method::GET).query(query).from(peer.ip()));
        async move { endpoint.call(&delivery, call).await }
    };
    let router: axum::Router = delivery_axum::router(delivery.clone());
    let through_axum = |endpoint: Endpoint, query: String| {
        let router = router.clone();
        async move {
            let mut request = Request::get(format!("{}?{query}", endpoint.path())).body(Body::empty()).unwrap();
            request.extensions_mut().insert(ConnectInfo(peer));
            let body = router.oneshot(request).await.unwrap().into_body();
            body.collect().await.unwrap().to_bytes()
        }
    };
    let quiet = rocket::Config { log_level: LogLevel::Off, ..rocket::Config::release_default() };
    let rocket = rocket::custom(quiet).attach(DeliveryFairing::new(delivery.clone()));
    let rocket = runtime.block_on(Client::untracked(rocket)).unwrap();
    let through_rocket = |endpoint: Endpoint, query: String| {
        let rocket = &rocket;
        async move {
            let request = rocket.get(format!("{}?{query}", endpoint.path())).remote(peer);
            request.dispatch().await.into_bytes().await
        }
    };
    let good = format!("key={}&product_id=1", key.expose());
    let forged = good.replace("dlv_", "dlv_0");
    let requests = [
        ("validate", Endpoint::Validate, &good),
        ("forged", Endpoint::Validate, &forged),
        ("fetch", Endpoint::Product, &good),
    ];
    let mut group = criterion.benchmark_group("request");
    for (name, endpoint, query) in requests {
        group.bench_function(format!("{name}/core"), |bencher| {
            bencher.to_async(&runtime).iter(|| through_core(endpoint, query.clone()));
        });
        group.bench_function(format!("{name}/axum"), |bencher| {
            bencher.to_async(&runtime).iter(|| through_axum(endpoint, query.clone()));
        });
        group.bench_function(format!("{name}/rocket"), |bencher| {
            bencher.to_async(&runtime).iter(|| through_rocket(endpoint, query.clone()));
        });
    }
    group.finish();
}
