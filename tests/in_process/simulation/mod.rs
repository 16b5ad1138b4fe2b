//! Simulation: five days of a mail server that fails, hangs and hangs up, of a commerce platform that reports in any order, and
//! of a store that fails now and then, in milliseconds, for a hundred seeds or more. Time, chance and faults come from the seed
//! alone.
//!
//! `SIMULATION_SEEDS=100000 cargo test --test in_process simulation` looks longer; `SIMULATION_SEED=7` runs one again.

mod platform;
mod world;

use std::time::Duration;

use self::world::World;

/// How long e-mails are tried, and the whole takes.
const DAYS: u64 = 5;
/// Between two looks at the clock: shorter than any retry that matters over days.
const STEP: Duration = Duration::from_mins(15);

#[test]
fn every_paid_order_ends_with_one_key_and_a_message() {
    let seeds = match number("SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..support::rounds_of("SIMULATION_SEEDS", 100, 500).into(),
    };
    let many = seeds.end - seeds.start >= 100;
    let mut total = Totals::default();
    for seed in seeds {
        let run = simulate(seed, async |world: &mut World| {
            world.work().await;
            tokio::time::advance(STEP).await;
        });
        total.orders += run.orders;
        total.sales += run.sales;
        total.messages += run.messages;
        total.store_failures += run.store_failures;
        total.mail_failures += run.mail_failures;
    }
    println!("{total:?}");
    // A world in which nothing fails would prove nothing.
    assert!(!many || total.store_failures.min(total.mail_failures) > total.orders && total.messages > total.orders);
    assert!(!many || total.sales > total.orders / 4);
}

#[test]
fn the_running_worker_sends_them_too() {
    simulate(0, async |world: &mut World| {
        // Long enough for many rounds of the workers, and for an e-mail that hangs. They rest for what is left of the step.
        const AWAKE: Duration = Duration::from_secs(30);
        world.start().await;
        tokio::time::sleep(AWAKE).await;
        world.stop().await;
        tokio::time::advance(STEP.saturating_sub(AWAKE)).await;
    });
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().unwrap())
}

/// What a world was like.
#[derive(Debug, Default)]
struct Totals {
    orders: usize,
    sales: usize,
    messages: usize,
    store_failures: usize,
    mail_failures: usize,
}

fn simulate(seed: u64, mut pass: impl AsyncFnMut(&mut World)) -> Totals {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let lived = std::panic::AssertUnwindSafe(|| {
        runtime.block_on(async {
            let mut world = World::new(seed).await;
            while world.elapsed() < Duration::from_hours(24 * DAYS) {
                world.buy().await;
                pass(&mut world).await;
            }
            world.heal();
            world.work().await;
            world.judge().await
        })
    });
    std::panic::catch_unwind(lived).unwrap_or_else(|panic| {
        eprintln!("SIMULATION_SEED={seed} shows it again");
        std::panic::resume_unwind(panic)
    })
}
