//! A rule about keys, proved with proptest. It is for developers whose application decides something by a key.
//!
//! The rule: a customer gets a loyalty discount from the tenth use on, unless the key was revoked. Proptest makes 2,000
//! keys and applies to each a sequence of the changes that a key can go through. A failure shrinks to the shortest sequence
//! that breaks the rule.
//!
//! For a rule that also depends on orders or refunds, or to prove a store, copy `own_histories` instead.
//!
//! ```console
//! $ cargo run --example own_rule
//! ```

use delivery_core::key::{Change, Key};
use delivery_testing::strategies;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// The rule under test: percent off the next purchase.
fn discount(key: &Key) -> u8 {
    match (key.revoked_at().is_some(), key.used()) {
        (true, _) | (false, 0..10) => 0,
        (false, 10..100) => 5,
        (false, _) => 10,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(2000) });
    // Using a key never makes its discount smaller, and revoking it always ends it.
    runner.run(&strategies::history(), |(granted, changes)| {
        let mut key = Key::from(granted);
        for change in changes {
            let Ok(changed) = key.apply(&change) else { continue };
            match change {
                Change::Use { .. } => prop_assert!(discount(&changed) >= discount(&key)),
                Change::Revoke { .. } => prop_assert_eq!(discount(&changed), 0),
                Change::Restore { .. } | Change::SetTerms { .. } | Change::SetEmail { .. } => {}
            }
            key = changed;
        }
        Ok(())
    })?;
    println!("the discount holds for 2000 keys");
    Ok(())
}
