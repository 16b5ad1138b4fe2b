//! Tests that no key is valid longer than it is paid for, whatever a platform reports, in any order and however often.
//! The keys are compared with a simple [model] of what was paid.

mod model;
mod shop;

use proptest::prelude::*;
use proptest::sample::Index;

use self::model::{Model, number};
use self::shop::{Way, reports};
use super::world::*;
use super::*;

/// Each product's own validity in days, by the product's number.
const OWN: [i64; 4] = [0, 10, 15, 20];
/// The number of the sale that belongs to no subscription. The sales with smaller numbers belong to the subscription
/// `S`.
const ALONE: usize = 4;

/// The reports that were made so far, and the deal and keys that resulted.
#[derive(Debug, Default)]
struct Play {
    world: World,
    told: Vec<Report>,
    waiting: Vec<Report>,
    /// The latest expiry that the seller has set for each key.
    set: BTreeMap<KeyId, DateTime<Utc>>,
}

impl Play {
    /// Makes a report, and repeats the waiting reports until this changes nothing more.
    fn tell(&mut self, report: &Report) {
        self.told.push(report.clone());
        self.waiting.push(report.clone());
        for attempt in 0..20 {
            let before = self.keys();
            for report in std::mem::take(&mut self.waiting) {
                let offered = self.with_offers(&report);
                let came = self.world.report(&offered);
                let is_served = |charged: &Charged| self.world.serves(charged.order.as_str());
                let is_left = matches!(&report, Report::Charged(charged) if !is_served(charged));
                if is_left || matches!(came, ReportOutcome::Waits(_) | ReportOutcome::Lacks) {
                    self.waiting.push(report);
                }
            }
            if attempt > 0 && self.keys() == before {
                return;
            }
        }
        panic!("what waits changes something again and again: {:#?}", self.told);
    }

    /// Returns a report with the keys that the service would add to it. These are keys for the products that the report
    /// names. If the report names no product, but may be about an earlier sale, these are keys for all products that
    /// are known so far.
    fn with_offers(&self, told: &Report) -> Report {
        let offers = |lines: &[Bought], is_known: bool, at: DateTime<Utc>| {
            let named: BTreeSet<ProductId> = lines.iter().filter_map(|line| line.product).collect();
            let products = if named.is_empty() && is_known { self.world.deal.products() } else { named };
            let mut offers: Vec<Offer> = products.iter().map(|product| offer(product.get(), 2)).collect();
            for offer in &mut offers {
                offer.sale.key.expires_at = at + TimeDelta::days(OWN[usize::try_from(offer.product.get()).unwrap()]);
            }
            offers
        };
        let mut report = told.clone();
        match &mut report {
            Report::Charged(it) => it.offers = offers(&it.lines, it.links.subscription.is_some(), it.at),
            Report::Subscription(it) => it.offers = offers(&it.lines, true, it.at),
            Report::Captured(it) => {
                it.order = self.world.deal.authorised(it.payment.as_str()).map(id);
                it.offers = offers(&[], it.order.is_some(), it.at);
            }
            _ => {}
        }
        report
    }

    fn keys(&self) -> Vec<(KeyId, DateTime<Utc>, Option<Why>)> {
        self.world.keys.iter().map(|(key, held)| (*key, held.until, held.revoked)).collect()
    }

    /// Compares the keys with what the model says was paid, for each product in each group of sales. The sales of the
    /// subscription form one group. Each other sale is a group of its own.
    fn check(&self, way: Way) {
        let model = Model(&self.told);
        let (members, others): (Vec<usize>, Vec<usize>) = (0..=ALONE).partition(|sale| model.is_member(*sale));
        let groups = std::iter::once(members).chain(others.into_iter().map(|sale| vec![sale]));
        for (group, product) in groups.flat_map(|group| [1, 2, 3].map(|product| (group.clone(), product))) {
            let payers: Vec<usize> =
                group.iter().copied().filter(|it| model.products(*it).contains(&product)).collect();
            let left: Vec<usize> = payers.iter().copied().filter(|it| !model.is_gone(*it, product)).collect();
            let disputed: Vec<usize> = payers.iter().copied().filter(|it| model.is_disputed(*it, product)).collect();
            let is_its = |kept: &&Kept| {
                let sale = number(&kept.order).unwrap();
                kept.product.get() == product && group.contains(&sale) && self.world.keys[&kept.key].revoked.is_none()
            };
            let keys: Vec<&Kept> = self.world.deal.keys.iter().filter(is_its).collect();
            let told =
                || format!("{keys:#?} of {payers:?}, {left:?} are left, {disputed:?} disputed: {:#?}", self.told);
            assert!(keys.is_empty() || left.iter().any(|it| !disputed.contains(it)), "nothing is paid: {}", told());
            // No key is issued for a sale that is reported after its refund, but before the failure of that refund.
            let has_failed = self.told.iter().any(|report| matches!(report, Report::Kept { .. }));
            let is_owed = !left.is_empty() && disputed.is_empty() && !has_failed;
            assert!(!is_owed || !keys.is_empty(), "it is paid for and has no key: {}", told());
            // If orders are linked to one subscription only later, each of them may already have a key.
            let most = if way == Way::Linked { group.len() } else { left.len() };
            assert!(keys.len() <= most, "more keys than payments: {}", told());
            let paid = left.iter().map(|it| model.paid_until(*it, product, &payers, &left)).max();
            for key in &keys {
                let (held, set) = (&self.world.keys[&key.key], self.set.get(&key.key).copied());
                assert!(Some(held.until) <= paid.max(set), "longer than paid for, {paid:?}: {}", told());
                assert!(!disputed.contains(&number(&key.order).unwrap()), "its own sale is disputed: {}", told());
            }
        }
    }
}

proptest! {
    #[test]
    fn a_key_lives_no_longer_than_it_is_paid_for(
        (way, told, _) in reports(),
        others in prop::collection::vec((0..10_u8, any::<Index>(), 0..200_i64), 32),
    ) {
        let mut play = Play::default();
        for (report, (what, which, date)) in told.iter().zip(others) {
            play.tell(report);
            play.check(way);
            if what == 0 && let Some((key, held)) = play.world.keys.iter_mut().nth(which.index(4)) {
                held.until = day(date);
                let set = play.set.entry(*key).or_insert(day(date));
                *set = day(date).max(*set);
            }
            if what < 4 {
                // A copy of a report changes neither what was paid nor what the seller has set. At most, it issues one
                // key: that of a sale that was reported after its refund, but before the failure of that refund.
                let (before, copy) = (play.keys(), play.told[which.index(play.told.len())].clone());
                play.tell(&copy);
                let has_failed = play.told.iter().any(|report| matches!(report, Report::Kept { .. }));
                let is_old = |key: KeyId| !has_failed || before.iter().any(|(old, ..)| *old == key);
                let after: Vec<_> = play.keys().into_iter().filter(|(key, ..)| is_old(*key)).collect();
                assert_eq!(after, before, "a copy of {copy:#?} after {:#?}", play.told);
                play.check(way);
            }
        }
    }

    #[test]
    fn reports_come_to_the_same_in_any_order((way, one, other) in reports()) {
        let [one, other] = [one, other].map(|told| {
            let mut play = Play::default();
            // Failures of refunds are left out, because the result depends on their position: a sale that is reported
            // after its refund gets a key only if the failure of the refund is known by then.
            told.iter().filter(|report| !matches!(report, Report::Kept { .. })).for_each(|report| play.tell(report));
            let mut standing = play.world.standing();
            if way == Way::Linked {
                standing.dedup();
            }
            standing
        });
        prop_assert_eq!(one, other);
    }
}
