//! Playing a timeline: in its order, in another one, and with a server that is killed in the middle.

use delivery_core::http::Endpoint;
use delivery_core::store::{CatalogEditor, Ledger, Posts};
use delivery_testing::Fixture;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::file::{Event, Step, Timeline};
use super::judge;
use super::shop::Shop;

/// The end of a server that nobody has asked to end: at which step, and whether the event of that step was kept by then. The
/// platform had no answer, and sends it again.
#[derive(Debug, Clone, Copy)]
struct Kill {
    step: usize,
    is_retry: bool,
}

/// What is wrong when everything happens in its order.
pub async fn in_order<F>(place: F, timeline: &Timeline) -> Vec<String>
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    live(place, timeline, None).await
}

/// What is wrong when the server is killed once, where chance says.
pub async fn killed<F>(place: F, timeline: &Timeline, seed: u64) -> Vec<String>
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let mut chance = chance(timeline, seed);
    let steps = timeline.steps.iter().enumerate();
    let sent: Vec<usize> = steps.filter(|(_, step)| step.send.is_some()).map(|(number, _)| number).collect();
    let kill = Kill { step: sent[chance.random_range(0..sent.len())], is_retry: chance.random_bool(0.5) };
    let found = live(place, timeline, Some(kill)).await;
    found.into_iter().map(|found| format!("{kill:?}: {found}")).collect()
}

/// What is wrong at the last check when all events come twice by then, in the orders that chance says.
pub async fn shuffled<F>(place: F, timeline: &Timeline, seed: u64) -> Vec<String>
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let mut chance = chance(timeline, seed);
    let Some(last) = timeline.steps.iter().rfind(|step| !step.check.is_empty()) else { return Vec::new() };
    let mut events: Vec<&Event> = timeline.steps.iter().filter_map(|step| step.send.as_ref()).collect();
    events.shuffle(&mut chance);
    let first = events.clone();
    events.shuffle(&mut chance);
    let shop = Shop::open(place.open().await, timeline, last.at).await;
    let mut wrong = Vec::new();
    for (number, event) in first.into_iter().chain(events).enumerate() {
        wrong.extend(shop.send(&timeline.platform, event, number).await.err());
        shop.work().await;
    }
    for (product, expected) in &last.check {
        wrong.extend(judge::keys(&shop, *product, expected, true).await.err());
    }
    shop.close().await;
    wrong
}

/// A chance of its own for each timeline.
fn chance(timeline: &Timeline, seed: u64) -> StdRng {
    let name: u64 = timeline.name.bytes().map(u64::from).sum();
    StdRng::seed_from_u64(seed * 100_000 + name)
}

async fn live<F>(mut place: F, timeline: &Timeline, kill: Option<Kill>) -> Vec<String>
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let begin = timeline.steps.first().and_then(|step| step.at);
    let mut shop = Shop::open(place.open().await, timeline, begin).await;
    let mut wrong = Vec::new();
    for (number, step) in timeline.steps.iter().enumerate() {
        if let Some(at) = step.at {
            shop.wait_until(at).await;
        }
        let kill = kill.filter(|kill| kill.step == number);
        if let (Some(event), Some(Kill { is_retry: true, .. })) = (&step.send, kill) {
            wrong.extend(shop.send(&timeline.platform, event, number).await.err());
        }
        if kill.is_some() {
            place.crash();
            shop.restart(place.open().await).await;
        }
        let taken = take(&shop, &timeline.platform, number, step).await;
        shop.work().await;
        let mut found: Vec<String> = taken.err().into_iter().collect();
        for (product, expected) in &step.check {
            found.extend(judge::keys(&shop, *product, expected, false).await.err());
        }
        wrong.extend(found.into_iter().map(|found| format!("step {}: {found}", number + 1)));
    }
    wrong.extend(judge::end(&shop, &timeline.end).await);
    shop.close().await;
    wrong
}

/// What somebody does in this step.
async fn take(shop: &Shop, platform: &str, number: usize, step: &Step) -> Result<(), String> {
    if let Some(event) = &step.send {
        shop.send(platform, event, number).await?;
        let outcome = shop.outcome().await.unwrap_or_default();
        if !step.expect.is_empty() && !step.expect.contains(&outcome) {
            return Err(format!("the outcome is {outcome:?}, and should be one of {:?}", step.expect));
        }
    }
    if let Some(other) = &step.seller {
        let id = shop.key_of(other.product).await?.id;
        shop.order(Endpoint::ChangeKey, &json!({ "id": id, "expires_at": other.expires_at })).await?;
    }
    if let Some(product) = step.fetch {
        let key = shop.key_of(product).await?;
        shop.fetch(&shop.text_of(&key)?, product).await?;
    }
    if let Some(added) = &step.apply {
        let mut body = added.clone();
        body["id"] = shop.waiting().await.into_iter().next().ok_or("no event needs attention")?;
        shop.order(Endpoint::ApplyEvent, &body).await?;
    }
    if let Some(address) = &step.resend {
        shop.ask_for_keys(address).await?;
    }
    Ok(())
}
