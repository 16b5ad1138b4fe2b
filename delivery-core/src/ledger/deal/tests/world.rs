//! A simple substitute for the store, which carries out a deal's steps on keys, and short functions that make reports.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use crate::key::{Key, KeyId, NewKey, SecretVersion};
use crate::ledger::NewSale;
use crate::ledger::deal::*;
use crate::order::OrderId;
use crate::product::ProductId;

/// How long a subscription's key is valid beyond the time that is paid for.
pub(super) const GRACE: TimeDelta = TimeDelta::days(3);

#[derive(Debug, Clone, Default)]
pub(super) struct World {
    pub(super) deal: Deal,
    pub(super) keys: BTreeMap<KeyId, Held>,
    pub(super) waiting: Vec<Report>,
    pub(super) notes: usize,
    /// The number of pieces whose uses were added to keys that existed already.
    pub(super) added: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) product: i64,
    pub(super) until: DateTime<Utc>,
    pub(super) revoked: Option<Why>,
}

impl World {
    pub(super) fn of(reports: &[Report]) -> Self {
        let mut world = Self::default();
        for report in reports {
            world.report(report);
        }
        world
    }

    pub(super) fn report(&mut self, report: &Report) -> ReportOutcome {
        let expiries: BTreeMap<KeyId, DateTime<Utc>> = self.keys.iter().map(|(id, held)| (*id, held.until)).collect();
        let Reported { came, mut steps, .. } = self.deal.report(report, &|key| expiries.get(&key).copied(), GRACE);
        while !steps.is_empty() {
            for step in steps {
                self.carry_out(step);
            }
            steps = self.deal.settle(report, GRACE);
        }
        if matches!(came, ReportOutcome::Waits(_) | ReportOutcome::Lacks) && !self.waiting.contains(report) {
            self.waiting.push(report.clone());
        }
        came
    }

    /// Whether no further line of an order needs to be mapped to a product by the seller.
    pub(super) fn serves(&self, order: &str) -> bool {
        self.deal.serves(&View::of(&self.deal, GRACE), order)
    }

    /// Reports the waiting reports again.
    pub(super) fn retry(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.report(&waiting);
        }
    }

    fn carry_out(&mut self, step: Step<'_>) {
        match step {
            Step::Issue(order, offer, until) => {
                let mut new = offer.sale.key.clone();
                new.expires_at = until.unwrap_or(new.expires_at);
                let key = Key::from(new);
                let (product, until) = (offer.product.get(), key.state().expires_at);
                assert!(self.keys.insert(key.id(), Held { product, until, revoked: None }).is_none());
                self.deal.sold(order, offer, &key);
            }
            Step::Revoke(key, why) => {
                let revoked = &mut self.keys.get_mut(&key).unwrap().revoked;
                if revoked.is_none_or(|first| first == Why::Disputed) {
                    *revoked = Some(why);
                }
            }
            Step::Lift(key, why) => drop(self.keys.get_mut(&key).unwrap().revoked.take_if(|it| *it == why)),
            Step::Until(key, until) => self.keys.get_mut(&key).unwrap().until = until,
            Step::Note(_) => self.notes += 1,
            Step::Add(_, offer, pieces) => self.added += offer.pieces - pieces,
        }
    }

    /// The products of keys that are not revoked, each with its key's expiry in days after 1 January 2026.
    pub(super) fn standing(&self) -> Vec<(i64, i64)> {
        let standing = self.keys.values().filter(|held| held.revoked.is_none());
        let mut standing: Vec<_> = standing.map(|held| (held.product, (held.until - day(0)).num_days())).collect();
        standing.sort_unstable();
        standing
    }

    pub(super) fn products(&self) -> Vec<i64> {
        self.standing().into_iter().map(|(product, _)| product).collect()
    }
}

/// All permutations of `reports`, each followed by itself once more, so that every report arrives twice.
pub(super) fn orders(reports: &[Report]) -> Vec<Vec<Report>> {
    fn permutations(reports: &[Report]) -> Vec<Vec<Report>> {
        if reports.len() < 2 {
            return vec![reports.to_vec()];
        }
        let mut all = Vec::new();
        for first in 0..reports.len() {
            let mut rest = reports.to_vec();
            let head = rest.remove(first);
            all.extend(permutations(&rest).into_iter().map(|tail| [vec![head.clone()], tail].concat()));
        }
        all
    }
    permutations(reports).into_iter().map(|order| [order.clone(), order].concat()).collect()
}

/// The time this number of days after 1 January 2026.
pub(super) fn day(days: i64) -> DateTime<Utc> {
    "2026-01-01T00:00:00Z".parse::<DateTime<Utc>>().unwrap() + TimeDelta::days(days)
}

pub(super) fn id(name: &str) -> OrderId {
    name.parse().unwrap()
}

pub(super) fn product(number: i64) -> ProductId {
    ProductId::new(number).unwrap()
}

/// An offer of a key that is valid for 365 days from 1 January 2026.
pub(super) fn offer(number: i64, pieces: u64) -> Offer {
    let identity = (KeyId::random(&crate::SystemClock, &crate::entropy::SystemEntropy), SecretVersion::from_stored(1));
    let email = "ada@example.com".parse().unwrap();
    let key = NewKey::on_terms(identity, product(number), email, crate::terms::Terms::default(), day(0));
    Offer { product: product(number), pieces, sale: NewSale::new(key, Vec::new()) }
}

/// A line of a product whose own validity is 365 days.
pub(super) fn line(name: &str, number: i64, pieces: u64, term: Term) -> Bought {
    let own = Some(Own::Days(365));
    Bought { product: Some(product(number)), own, ..unmapped(name, pieces, term) }
}

pub(super) fn unmapped(name: &str, pieces: u64, term: Term) -> Bought {
    Bought { names: vec![name.to_owned()], term, ..Bought::new(name, pieces) }
}

pub(super) fn charged(order: &str, at: i64, links: Links, lines: Vec<Bought>) -> Report {
    let mut pieces = BTreeMap::new();
    for line in &lines {
        if let Some(product) = line.product {
            *pieces.entry(product.get()).or_insert(0) += line.pieces;
        }
    }
    let missing = lines.iter().any(|line| line.product.is_none()).then(|| "no product".to_owned());
    let offers = pieces.into_iter().map(|(number, pieces)| offer(number, pieces)).collect();
    Report::Charged(Charged { links, lines, offers, missing, ..Charged::new(id(order), day(at)) })
}

pub(super) fn charge_of(report: Report) -> Charged {
    let Report::Charged(charged) = report else { unreachable!("a charge") };
    charged
}

/// A statement that the payment was taken. It names the order if it has `offers`.
pub(super) fn captured(at: i64, total: Option<Amount>, offers: Vec<Offer>) -> Report {
    let order = (!offers.is_empty()).then(|| id("o"));
    Report::Captured(Captured { payment: id("pay"), at: day(at), total, order, offers, missing: None })
}

/// References that name only the subscription.
pub(super) fn of_subscription() -> Links {
    Links { subscription: Some(id("sub")), ..Links::default() }
}

/// A charge of the subscription for one product.
pub(super) fn paid(order: &str, at: i64, term: Term) -> Report {
    charged(order, at, of_subscription(), vec![line("plan", 1, 1, term)])
}

pub(super) fn period(from: i64, until: i64) -> Term {
    Term::Period { from: day(from), until: day(until) }
}

pub(super) fn said(at: i64, standing: Standing, term: Term) -> Report {
    let lines = vec![unmapped("plan", 1, Term::Unsaid)];
    let word = SubscriptionReport::new(day(at), of_subscription(), (standing, term));
    Report::Subscription(SubscriptionReport { lines, ..word })
}

pub(super) fn refunded(of: ChargeRef, extent: Extent) -> Report {
    Report::Refunded(Refund { extent, ..Refund::full(of) })
}

pub(super) fn order_refunded(order: &str) -> Report {
    refunded(ChargeRef::Order(id(order)), Extent::Full)
}

pub(super) fn returned(refund: &str, lines: &[(&str, u64)]) -> Extent {
    let line = |(name, pieces): &(&str, u64)| Returned {
        line: Some((*name).to_owned()),
        name: (*name).to_owned(),
        pieces: *pieces,
        amount: None,
    };
    Extent::Lines { refund: refund.to_owned(), lines: lines.iter().map(line).collect() }
}

pub(super) fn by_payment() -> ChargeRef {
    ChargeRef::Payment(id("pay"))
}

pub(super) fn with_payment() -> Links {
    Links { payment: Some(id("pay")), ..Links::default() }
}

pub(super) fn disputed(number: &str) -> Report {
    Report::Disputed(dispute(by_payment(), number, Vec::new()))
}

pub(super) fn lost(number: &str) -> Report {
    Report::Disputed(Dispute { is_lost: true, ..dispute(by_payment(), number, Vec::new()) })
}

/// A dispute about `lines`. If `lines` is empty, the dispute is about the whole charge.
pub(super) fn dispute(of: ChargeRef, number: &str, lines: Vec<Returned>) -> Dispute {
    let extent = if lines.is_empty() { Extent::Full } else { Extent::Lines { refund: String::new(), lines } };
    Dispute { number: Some(number.to_owned()), extent, ..Dispute::from(of) }
}

/// A dispute that the seller won. If `number` begins with `a`, the report does not say which dispute ended.
pub(super) fn won(number: &str) -> Report {
    Report::Won(if number.starts_with('a') {
        ended(by_payment(), number)
    } else {
        dispute(by_payment(), number, Vec::new())
    })
}

/// The end of a dispute. It does not say which dispute ended.
pub(super) fn ended(of: ChargeRef, end: &str) -> Dispute {
    Dispute { end: Some(end.to_owned()), ..Dispute::from(of) }
}

/// The charge in `report`, with an offer of a key for each product in `numbers`. The service adds such offers to a
/// charge that names no product, for the products that are known from earlier reports about the same subscription.
pub(super) fn offered(report: Report, numbers: &[i64]) -> Report {
    let offers = numbers.iter().map(|number| offer(*number, 1)).collect();
    Report::Charged(Charged { offers, ..charge_of(report) })
}

/// A statement that the subscription that began with `order` is now for `line`.
pub(super) fn sells(order: &str, (at, date): (i64, i64), line: Bought, offer: Offer) -> Report {
    let (links, term) = (Links { order: Some(id(order)), ..of_subscription() }, Term::Until(day(date)));
    let word = SubscriptionReport::new(day(at), links, (Standing::Active, term));
    Report::Subscription(SubscriptionReport { lines: vec![line], offers: vec![offer], ..word })
}
