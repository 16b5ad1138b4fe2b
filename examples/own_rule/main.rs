//! A developer proves a rule of their own with `delivery-testing`.
//!
//! The rule: a customer gets a loyalty discount from the tenth use on, unless the key was revoked. It is proved twice: over
//! every sequence of changes that a key can go through, and over histories of the whole service, by its naive model. A failure
//! shrinks to the shortest history that breaks the rule.
//!
//! ```console
//! $ cargo run --example own_rule
//! ```

use delivery_core::key::{Change, Key};
use delivery_testing::histories::{Model, Step};
use delivery_testing::strategies;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use proptest_state_machine::ReferenceStateMachine;

/// The rule under test: percent off the next purchase, by how often a key was used and whether it is revoked.
fn discount(used: u64, revoked: bool) -> u8 {
    match (revoked, used) {
        (true, _) | (false, 0..10) => 0,
        (false, 10..100) => 5,
        (false, _) => 10,
    }
}

fn of_key(key: &Key) -> u8 {
    discount(key.used(), key.revoked_at().is_some())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(2000) });

    // Using a key never makes its discount smaller, and revoking it always ends it.
    runner.run(&strategies::history(), |(granted, changes)| {
        let mut key = Key::from(granted);
        for change in changes {
            let Ok(changed) = key.apply(&change) else { continue };
            match change {
                Change::Use { .. } => prop_assert!(of_key(&changed) >= of_key(&key)),
                Change::Revoke { .. } => prop_assert_eq!(of_key(&changed), 0),
                Change::Restore { .. } | Change::SetTerms { .. } | Change::SetEmail { .. } => {}
            }
            key = changed;
        }
        Ok(())
    })?;
    println!("the discount holds for 2000 keys");

    // Whatever buyers, sellers, clocks and crashes do, nobody who did nothing loses a discount.
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(300) });
    runner.run(&Model::sequential_strategy(1..60), |(mut model, steps, _)| {
        let discounts = |model: &Model| -> Vec<u8> {
            model.keys.iter().map(|key| discount(key.used.unsigned_abs(), key.revoked)).collect()
        };
        for step in steps {
            let before = discounts(&model);
            model = Model::apply(model, &step);
            for (number, (before, after)) in before.into_iter().zip(discounts(&model)).enumerate() {
                // A refund revokes too.
                let refunded = matches!(step, Step::Event { .. });
                let revoked = refunded || matches!(step, Step::Revoke { key } if key == number);
                prop_assert!(after >= before || revoked, "key {} after {:?}", number, step);
            }
        }
        Ok(())
    })?;
    println!("the discount holds for 300 histories of the service");
    Ok(())
}
