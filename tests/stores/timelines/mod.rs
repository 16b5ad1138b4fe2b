//! Timelines: what platforms tell of sales and subscriptions, over up to two years, and what the keys, the inbox and the e-mails must
//! be by then. Whatever the store, and whether or not its server is killed on the way; those of [subscriptions](SUBSCRIPTIONS) also
//! in whatever order their events come.
//!
//! `TIMELINE=name cargo test --test stores timelines` plays those whose name contains that, all of them over every store;
//! `TIMELINE_SEED=7` repeats what chance said.

mod file;
mod judge;
mod play;
#[path = "../../in_process/platforms/proof.rs"]
mod proof;
mod shop;

use std::ops::Range;
use std::panic::AssertUnwindSafe;

use delivery_core::store::{CatalogEditor, Ledger, Posts};
use delivery_testing::Fixture;
use futures_util::FutureExt;

use self::file::Timeline;

/// Subscriptions, from the first charge to the last, on each platform.
const SUBSCRIPTIONS: &str = "subscriptions";
/// Sales that others had trouble with: from their bug reports, and from the fixtures of the platforms' own libraries.
const CASES: &str = "cases";

/// Places for a store, and of how many timelines one is played there.
type Places<P> = (P, usize);

async fn a_key_lives_as_long_as_its_subscription_is_paid<F>((place, share): Places<impl Fn() -> F>)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let play = async |timeline: &Timeline, _: u64| play::in_order(place(), timeline).await;
    each(chosen(SUBSCRIPTIONS, share), ONCE, play).await;
}

async fn a_key_lives_as_long_in_whatever_order_events_come<F>((place, share): Places<impl Fn() -> F>)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let timelines = chosen(SUBSCRIPTIONS, share).filter(|timeline| timeline.shuffle);
    let play = async |timeline: &Timeline, seed: u64| play::shuffled(place(), timeline, seed).await;
    each(timelines, seeds(1, 2), play).await;
}

async fn sales_that_others_had_trouble_with_end_well<F>((place, share): Places<impl Fn() -> F>)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let play = async |timeline: &Timeline, _: u64| play::in_order(place(), timeline).await;
    each(chosen(CASES, share), ONCE, play).await;
}

async fn a_server_that_is_killed_between_two_events_changes_nothing<F>((place, share): Places<impl Fn() -> F>)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let timelines = chosen(SUBSCRIPTIONS, share).chain(chosen(CASES, share));
    let play = async |timeline: &Timeline, seed: u64| play::killed(place(), timeline, seed).await;
    each(timelines, seeds(1, 2), play).await;
}

/// One of so many timelines of a folder, or those that were asked for.
fn chosen(folder: &str, share: usize) -> impl Iterator<Item = Timeline> {
    let name = std::env::var("TIMELINE").unwrap_or_default();
    let share = if name.is_empty() { share } else { 1 };
    let is_known = || [SUBSCRIPTIONS, CASES].iter().flat_map(|it| file::all(it)).any(|it| it.name.contains(&name));
    assert!(is_known(), "no timeline has {name} in its name");
    file::all(folder).into_iter().filter(move |timeline| timeline.name.contains(&name)).step_by(share)
}

/// A timeline that is played in order needs no seed.
const ONCE: Range<u64> = 0..1;

/// Fewer seeds, or more with `CI_LONG`, or the one that was asked for.
fn seeds(few: u64, many: u64) -> Range<u64> {
    match std::env::var("TIMELINE_SEED").map(|seed| seed.parse::<u64>().unwrap()) {
        Ok(seed) => seed..seed + 1,
        Err(_) => 0..support::rounds(few, many),
    }
}

/// Plays each timeline with each seed, one after another, and tells of all that went wrong.
async fn each(
    timelines: impl Iterator<Item = Timeline>,
    seeds: Range<u64>,
    play: impl AsyncFn(&Timeline, u64) -> Vec<String>,
) {
    let mut wrong = Vec::new();
    for timeline in timelines {
        for seed in seeds.clone() {
            let played = AssertUnwindSafe(play(&timeline, seed)).catch_unwind().await;
            let found = played.unwrap_or_else(|_| vec!["it panicked, as is told above".to_owned()]);
            wrong.extend(found.into_iter().map(|found| format!("{}, TIMELINE_SEED={seed}: {found}", timeline.name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each promise is a test over each store: all timelines in memory, and elsewhere a few.
macro_rules! over_every_store {
    ($($promise:ident),+ $(,)?) => {
        mod memory { $(test_of!($promise, (crate::fixtures::in_memory, 1));)+ }
        mod sqlite { $(test_of!($promise, (crate::places::in_a_folder, 8));)+ }
        mod postgres {
            $(test_of!(postgres $promise, (|| crate::places::in_a_schema(false), 16));)+
        }
    };
}

over_every_store! {
    a_key_lives_as_long_as_its_subscription_is_paid,
    a_key_lives_as_long_in_whatever_order_events_come,
    sales_that_others_had_trouble_with_end_well,
    a_server_that_is_killed_between_two_events_changes_nothing,
}
