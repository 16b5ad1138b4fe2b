//! Crash torture: servers, as a seller starts them, are killed with SIGKILL again and again in the middle of orders and
//! fetches, and sometimes while they start. What clients were told must hold, and what is written must be whole.
//!
//! `CRASH_ROUNDS=1000 cargo test --test servers crash -- --nocapture` goes on for longer.

pub mod clients;
mod evidence;
mod shop;

use std::time::Duration;

use self::shop::Shop;
use support::wait_for;

#[test]
fn over_a_sqlite_file_on_axum() {
    torture(Shop::over_sqlite("axum_server"));
}

#[test]
fn over_a_sqlite_file_on_rocket() {
    torture(Shop::over_sqlite("rocket_server"));
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn over_postgres_on_axum_and_rocket_at_once() {
    let database = support::postgres::postgres();
    torture(Shop::over_postgres(database));
}

fn torture(mut shop: Shop) {
    let rounds = support::rounds_of("CRASH_ROUNDS", 3, 8);
    for _ in 0..rounds {
        shop.start();
        shop.crash();
        evidence::whole(&shop);
    }
    shop.start();
    shop.release_messages();
    let keys = shop.book.keys();
    wait_for(Duration::from_mins(2), || evidence::messages(&shop.mail, &keys).len() == keys.len());
    // With what only the write-ahead log holds, and without.
    evidence::nothing_secret(&shop, &keys);
    shop.stop();
    evidence::whole(&shop);
    evidence::one_key_an_order(&shop);
    evidence::one_name_a_message(&evidence::messages(&shop.mail, &keys), rounds);
    evidence::nothing_secret(&shop, &keys);
    // The first one made the database.
    let mut starts = shop.starts.split_off(shop.sites.len());
    starts.sort();
    println!(
        "{}: {rounds} crashes, {} orders, {} uses, {} e-mails, starts {:?} to {:?}",
        shop.name,
        keys.len(),
        shop.book.uses().values().sum::<u64>(),
        shop.mail.received().len(),
        starts[0],
        starts[starts.len() - 1],
    );
}
