//! Clients of a shop that may crash, and what they were told.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use support::process::Server;

/// How often a key serves. Setting: `KEY_USES`.
pub const USES: u64 = 20;
const CLIENTS: u64 = 8;

/// What clients know.
#[derive(Default)]
pub struct Book {
    orders: Mutex<BTreeMap<String, Order>>,
    answered: AtomicUsize,
    done: AtomicBool,
    /// How long each client waits between two requests.
    pause: Duration,
    /// The database may be unavailable, or another server may hold a row for long: what is answered 503 is in doubt.
    outages: bool,
}

/// Ends the clients of a test when it is dropped, also where the test fails.
pub struct Done<'a>(pub &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Default, Clone)]
struct Order {
    /// As it was answered. An order without one is in doubt: it was sent, and the server was killed before it answered.
    key: Option<String>,
    /// Fetches that were sent.
    attempted: u64,
    /// Fetches that were served.
    acknowledged: u64,
}

impl Book {
    /// Of clients that wait so long between two requests, and whether an answer of 503 is in doubt.
    pub fn new(pause: Duration, outages: bool) -> Self {
        Self { pause, outages, ..Self::default() }
    }

    /// Orders and fetches, until the book is closed.
    pub fn fill(&self, servers: &[Server], seed: u64, crash: impl FnOnce()) {
        self.done.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let mut chance = StdRng::seed_from_u64(seed + client);
                scope.spawn(move || {
                    while !self.done.load(Ordering::Relaxed) {
                        self.act(servers.choose(&mut chance).unwrap(), &mut chance);
                        thread::park_timeout(self.pause);
                    }
                });
            }
            // Also where that panics: clients that never end would hide it.
            let _done = Done(&self.done);
            crash();
        });
    }

    /// How many requests were answered so far.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    fn is_certain(&self, status: u16) -> bool {
        !(self.outages && status == 503)
    }

    fn act(&self, server: &Server, chance: &mut StdRng) {
        let known = self.orders.lock().unwrap().len();
        let order = match chance.random_range(0..20) {
            _ if known == 0 => "order 0".to_owned(),
            0..8 => format!("order {known}"),
            // Another client is in the middle of it.
            8..11 => format!("order {}", known - 1),
            11..14 => format!("order {}", chance.random_range(0..known)),
            // The newest often enough to use them up.
            14..17 => {
                return self.fetch(server, &format!("order {}", chance.random_range(known.saturating_sub(4)..known)));
            }
            _ => return self.fetch(server, &format!("order {}", chance.random_range(0..known))),
        };
        self.order(server, &order);
    }

    fn order(&self, server: &Server, id: &str) {
        self.orders.lock().unwrap().entry(id.to_owned()).or_default();
        let Some((status, answer)) = server.try_order(id).filter(|answer| self.is_certain(answer.0)) else { return };
        self.answered.fetch_add(1, Ordering::Relaxed);
        // The head can arrive without its body.
        let Some(key) = answer["api_key"].as_str() else { return assert_eq!((status, answer.is_null()), (200, true)) };
        let mut orders = self.orders.lock().unwrap();
        let known = orders.get_mut(id).unwrap();
        assert_eq!(known.key.get_or_insert_with(|| key.to_owned()), key, "{id} has one key for ever");
    }

    fn fetch(&self, server: &Server, id: &str) {
        let key = {
            let mut orders = self.orders.lock().unwrap();
            let Some(known) = orders.get_mut(id).filter(|known| known.key.is_some()) else { return };
            known.attempted += 1;
            known.key.clone().unwrap()
        };
        let target = format!("/api/product?key={key}&product_id=1");
        let answer = server.try_call("GET", &target, "", "");
        let Some((status, answer)) = answer.filter(|answer| self.is_certain(answer.0)) else { return };
        self.answered.fetch_add(1, Ordering::Relaxed);
        let mut orders = self.orders.lock().unwrap();
        let known = orders.get_mut(id).unwrap();
        match status {
            200 => known.acknowledged += 1,
            _ => assert!(status == 403 && known.attempted > USES, "{status} {answer} after {}", known.attempted),
        }
        assert!(known.acknowledged <= USES, "{id} was served {} times", known.acknowledged);
    }

    /// Leaves nothing in doubt: what was sent and not answered is sent again, and what a key has left is asked for.
    pub fn finish(&self, server: &Server) {
        let orders = self.orders.lock().unwrap().clone();
        for (id, order) in orders {
            if order.key.is_none() {
                let is_known = || self.orders.lock().unwrap()[&id].key.is_some();
                for _ in (0..5).take_while(|_| !is_known()) {
                    self.order(server, &id);
                }
            } else if order.attempted == order.acknowledged {
                continue;
            }
            let mut orders = self.orders.lock().unwrap();
            let known = orders.get_mut(&id).unwrap();
            let (_, answer) = server.validate(known.key.as_ref().expect("an answer"));
            let used = answer["used_count"].as_u64().unwrap();
            let possible = known.acknowledged..=known.attempted.min(USES);
            assert!(possible.contains(&used), "{id} has {used} uses of {possible:?}");
            (known.acknowledged, known.attempted) = (used, used);
        }
    }

    /// The key of each order, without doubt.
    pub fn keys(&self) -> BTreeMap<String, String> {
        let orders = self.orders.lock().unwrap();
        orders.iter().map(|(id, order)| (id.clone(), order.key.clone().unwrap())).collect()
    }

    /// How often each order's key was used, without doubt.
    pub fn uses(&self) -> BTreeMap<String, u64> {
        self.orders.lock().unwrap().iter().map(|(id, order)| (id.clone(), order.acknowledged)).collect()
    }
}
