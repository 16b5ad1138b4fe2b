//! A shop, its platform, which repeats what was not acknowledged, and its mail server.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::delivery::Running;
use delivery_core::limit::{Quota, Quotas};
use delivery_core::mail::{MailError, Mailer, Message};
use delivery_core::product::NewProduct;
use delivery_core::store::KeyQuery;
use delivery_core::{Clock, Delivery};
use delivery_testing::{Faulty, MemoryStore, SeededEntropy};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::Totals;
use super::platform::Platform;
use crate::calls;

/// Orders are paid in the first two days.
const SELLING: Duration = Duration::from_hours(48);
/// The mail server is as it should be again from then on.
const MENDED: Duration = Duration::from_hours(4 * 24);

/// Tokio's paused time.
#[derive(Debug)]
struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_255_200, 0).unwrap() + TimeDelta::from_std(self.monotonic()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A mail server with moods.
#[derive(Debug)]
struct Post {
    chance: Mutex<StdRng>,
    /// How likely an attempt is to fail.
    failing: f64,
    started: Instant,
    taken: Mutex<Vec<Taken>>,
    failures: Mutex<usize>,
}

#[derive(Debug)]
struct Taken {
    name: String,
    text: String,
    /// It was taken, and the client does not know.
    hung_up: bool,
}

#[async_trait]
impl Mailer for Post {
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        let (fails, how) = {
            let mut chance = self.chance.lock().unwrap();
            (chance.random_bool(self.failing), chance.random_range(0..4))
        };
        let fails = fails && self.started.elapsed() < MENDED;
        let hangs_up = fails && how == 0;
        if !fails || hangs_up {
            let (name, text) = (message.message_id.to_string(), message.text.clone());
            self.taken.lock().unwrap().push(Taken { name, text, hung_up: hangs_up });
        }
        if fails {
            *self.failures.lock().unwrap() += 1;
        }
        match how {
            _ if !fails => Ok(()),
            0 => Err(MailError::transient("hung up after the dot")),
            1 => std::future::pending().await,
            2 => std::panic::resume_unwind(Box::new("the client of the mail server panicked")),
            _ => Err(MailError::transient("421 try again later")),
        }
    }
}

/// The copies of an e-mail: another is sent only if the server hung up after the last.
fn sent_once<'t>(taken: &'t [Taken], of: &str, is_its: impl Fn(&Taken) -> bool) -> Vec<&'t Taken> {
    let messages: Vec<&Taken> = taken.iter().filter(|taken| is_its(taken)).collect();
    let hung_up = messages.iter().filter(|message| message.hung_up).count();
    assert!(messages.len() <= hung_up + 1, "{of} has {} e-mails, {hung_up} unknown", messages.len());
    messages
}

pub struct World {
    delivery: Delivery,
    running: Option<Running>,
    store: Arc<Faulty<MemoryStore>>,
    post: Arc<Post>,
    started: Instant,
    chance: StdRng,
    /// Orders that are paid, when, and how often they will still be sent without need.
    orders: Vec<(String, Duration, u32)>,
    platform: Platform,
    /// Keys that orders were answered with.
    keys: HashMap<String, HashSet<String>>,
    failures: usize,
}

impl World {
    pub async fn new(seed: u64) -> Self {
        let mut chance = StdRng::seed_from_u64(seed);
        #[expect(clippy::disallowed_methods, reason = "the runtime's clock is paused")]
        let started = Instant::now();
        let post = Arc::new(Post {
            chance: Mutex::new(StdRng::seed_from_u64(seed + 1)),
            failing: chance.random_range(0.0..1.0),
            started,
            taken: Mutex::default(),
            failures: Mutex::default(),
        });
        let store = Arc::new(Faulty::new(Arc::new(MemoryStore::new())));
        let plenty = Quota::per_minute(u32::MAX).unwrap();
        let delivery = Delivery::builder(store.clone(), post.clone(), "a secret for simulations".parse().unwrap())
            .webhook_secret(calls::SECRET.parse().unwrap())
            .clock(Arc::new(Paused(started)))
            .entropy(Arc::new(SeededEntropy::new(seed)))
            .quotas(Quotas { webhook: plenty, events: plenty, ..Quotas::default() })
            .build();
        delivery.add_product(NewProduct::new("Guide").unwrap().content("x").unwrap()).await.unwrap();
        delivery.register().await.unwrap();
        let orders = (0..chance.random_range(1..6)).map(|order| {
            let paid = Duration::from_secs(chance.random_range(0..SELLING.as_secs()));
            (format!("order {order}"), paid, chance.random_range(0..3))
        });
        let orders = orders.collect();
        let platform = Platform::new(&mut chance);
        store.by_chance(seed, 8);
        let (keys, failures) = (HashMap::new(), 0);
        Self { delivery, running: None, store, post, started, chance, orders, platform, keys, failures }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The platform sends the orders that are paid and not acknowledged, and some that are.
    pub async fn buy(&mut self) {
        for (order, paid, again) in &mut self.orders {
            let known = self.keys.contains_key(order);
            if self.started.elapsed() < *paid || known && (*again == 0 || self.chance.random_bool(0.99)) {
                continue;
            }
            *again -= u32::from(known);
            let (status, answer) = calls::order(&self.delivery, order, 1).await;
            if status == 200 {
                self.keys.entry(order.clone()).or_default().insert(answer["api_key"].as_str().unwrap().to_owned());
            } else {
                assert_eq!(status, 503);
                self.failures += 1;
            }
        }
        let elapsed = self.started.elapsed();
        self.failures += self.platform.report(&self.delivery, elapsed, &mut self.chance).await;
    }

    /// The worker sends what is due; a store that fails stops it for now.
    pub async fn work(&mut self) {
        self.failures += usize::from(self.delivery.maintenance().apply_events().await.is_err());
        self.failures += usize::from(self.delivery.maintenance().outbox().work().await.is_err());
    }

    /// The worker runs by itself.
    pub async fn start(&mut self) {
        if self.running.is_none() {
            self.running = self.delivery.start().await.ok();
        }
    }

    /// The worker ends in order, as when the process is stopped.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.finish_sending().await;
        }
    }

    /// The store is well again.
    pub fn heal(&self) {
        self.store.heal();
    }

    /// What must be true at the end.
    pub async fn judge(&mut self) -> Totals {
        let query = KeyQuery { limit: 1000, ..KeyQuery::default() };
        let issued = self.delivery.keys(&query).await.unwrap().items;
        let now = Paused(self.started).now();
        let (valid, revoked) = self.platform.judge(&issued, now);
        assert_eq!(issued.len(), self.orders.len() + valid.len() + revoked.len(), "one key for each order");
        let taken = self.post.taken.lock().unwrap();
        for (order, ..) in &self.orders {
            let keys = self.keys.get(order).expect("an order that was acknowledged");
            assert_eq!(keys.len(), 1, "{order} has one key, however often it was sent");
            let key = keys.iter().next().unwrap();
            let messages = sent_once(&taken, order, |taken| taken.text.contains(key));
            assert!(!messages.is_empty(), "no e-mail for {order}");
            assert!(messages.iter().all(|message| message.name == messages[0].name), "one name for an e-mail");
        }
        for (key, is_valid) in valid.iter().map(|key| (key, true)).chain(revoked.iter().map(|key| (key, false))) {
            let messages = sent_once(&taken, "a sale", |taken| taken.name.contains(&key.id().to_string()));
            assert!(!is_valid || !messages.is_empty(), "no e-mail for a sale");
        }
        let (store_failures, mail_failures) = (self.failures, *self.post.failures.lock().unwrap());
        Totals {
            orders: self.orders.len(),
            sales: self.platform.sales(),
            messages: taken.len(),
            store_failures,
            mail_failures,
        }
    }
}
