//! Generated histories of the whole service: orders, uses, refunds, moving clocks, failing mail servers and crashes. The
//! program is for developers with a store of their own, or with a rule that depends on what happens in a shop.
//!
//! It uses histories twice. First it runs them on a store, and compares every answer with a naive model. Then it proves a
//! rule on the model alone, without a store: a buyer loses a loyalty discount only if the key was revoked or replaced. A
//! failure shrinks to a shorter history that still fails.
//!
//! For a rule about one key, copy `own_rule` instead. If you write a store, start with `own_store`: it runs the conformance
//! cases, which find most mistakes sooner.
//!
//! ```console
//! $ cargo run --example own_histories
//! ```

use std::sync::Arc;

use delivery_testing::histories::{self, Key, Model, Step};
use delivery_testing::{Fixture, MemoryStore};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use proptest_state_machine::ReferenceStateMachine;

/// What survives when the service stops and starts again: for your own store, its file or its database.
struct Kept(Arc<MemoryStore>);

impl Fixture for Kept {
    type Store = MemoryStore;

    /// Opens your own store here.
    async fn open(&self) -> Arc<MemoryStore> {
        self.0.clone()
    }
}

/// The rule under test: percent off the next purchase. Histories are short, so the discount begins after a few uses.
fn discount(key: &Key) -> u8 {
    match (key.revoked, key.used) {
        (true, _) | (false, ..3) => 0,
        (false, 3..6) => 5,
        (false, _) => 10,
    }
}

fn discounts(model: &Model) -> Vec<u8> {
    model.keys.iter().map(discount).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Panics if the service answers differently from the model. For a store without products and posts: `check_ledger`.
    histories::check(|| Kept(Arc::default()), 16);
    println!("the store passes 16 histories");

    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(300) });
    runner.run(&Model::sequential_strategy(1..60), |(mut model, steps, _)| {
        for step in steps {
            let before = discounts(&model);
            model = Model::apply(model, &step);
            for (number, (before, after)) in before.into_iter().zip(discounts(&model)).enumerate() {
                let is_revoked = match step {
                    Step::Revoke { key } | Step::Rotate { key } => key == number,
                    // A refund or a dispute.
                    Step::Event { .. } => true,
                    _ => false,
                };
                prop_assert!(after >= before || is_revoked, "key {} after {:?}", number, step);
            }
        }
        Ok(())
    })?;
    println!("the discount holds for 300 histories");
    Ok(())
}
