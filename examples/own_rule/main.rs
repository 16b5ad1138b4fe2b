//! A developer proves a rule of their own with `delivery-testing`.
//!
//! The rule: a customer gets a loyalty discount from the tenth use on, unless the key was revoked. Generated histories of
//! keys show whether it holds for every key there can be, and a failure shrinks to the shortest history that breaks it.
//!
//! ```console
//! $ cargo run --example own_rule
//! ```

use delivery_core::key::{Change, Key};
use delivery_core::store::MemoryStore;
use delivery_testing::{conformance, strategies};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// The rule under test: percent off the next purchase.
fn discount(key: &Key) -> u8 {
    match (key.revoked_at(), key.used()) {
        (Some(_), _) | (None, 0..10) => 0,
        (None, 10..100) => 5,
        (None, _) => 10,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(2000) });

    // Using a key never makes its discount smaller, and revoking it always ends it.
    runner.run(&strategies::history(), |(granted, changes)| {
        let mut key = Key::from(granted);
        for change in changes {
            let Ok(changed) = key.apply(&change) else { continue };
            if matches!(change, Change::Use { .. }) {
                prop_assert!(discount(&changed) >= discount(&key));
            } else {
                prop_assert_eq!(discount(&changed), 0);
            }
            key = changed;
        }
        Ok(())
    })?;
    println!("the discount holds for 2000 histories");

    // The same cases prove a store of your own: put its constructor in the place of `MemoryStore::new`.
    let runtime = tokio::runtime::Runtime::new()?;
    for case in conformance::LEDGER {
        runtime.block_on(case.run(|| async { MemoryStore::new() }));
        println!("ok  {}", case.name());
    }
    Ok(())
}
