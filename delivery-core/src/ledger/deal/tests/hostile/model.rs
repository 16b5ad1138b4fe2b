//! A model that determines from the reports, as simply as possible, what was paid. The number in a name is that of a
//! sale: `s2` is the order of sale 2, `p2` is its payment, and `o0` is another name of sale 0. Two names belong
//! together if a report contains both.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};

use super::{ALONE, OWN};
use crate::ledger::deal::tests::world::GRACE;
use crate::ledger::deal::*;

/// The reports so far.
pub(super) struct Model<'r>(pub(super) &'r [Report]);

pub(super) fn number(name: &str) -> Option<usize> {
    name.get(1..)?.parse().ok()
}

fn named(line: &Bought) -> Option<i64> {
    line.product.map(ProductId::get)
}

impl<'r> Model<'r> {
    fn is_said(&self, one: &str, other: &str) -> bool {
        let is_in = |it: &Report, name: &str| it.references().iter().any(|(_, known)| known.as_str() == name);
        self.0.iter().any(|report| is_in(report, one) && is_in(report, other))
    }

    /// The charges that report a sale as paid. A charge that is only authorised does not count until a capture was
    /// reported.
    fn charges(&self, sale: usize) -> Vec<&'r Charged> {
        let is_captured = self.0.iter().any(|report| matches!(report, Report::Captured(_)));
        let charged =
            self.0.iter().filter_map(|it| if let Report::Charged(charged) = it { Some(charged) } else { None });
        let is_its = |it: &&Charged| number(it.order.as_str()) == Some(sale) && (!it.is_open || is_captured);
        charged.filter(is_its).collect()
    }

    fn words(&self) -> impl Iterator<Item = &'r SubscriptionReport> {
        self.0.iter().filter_map(|it| if let Report::Subscription(word) = it { Some(word) } else { None })
    }

    /// The reports that are known to be about the money of a sale.
    fn money(&self, sale: usize) -> Vec<&'r Report> {
        let (sold, is_member) = (format!("s{sale}"), self.is_said(&format!("s{sale}"), "S"));
        let is_its = |report: &&Report| {
            let (Report::Refunded(Refund { of, .. })
            | Report::Kept { of, .. }
            | Report::Disputed(Dispute { of, .. })
            | Report::Won(Dispute { of, .. })) = report
            else {
                return false;
            };
            let name = of.id().as_str();
            let is_same = number(name) == Some(sale);
            is_same && (name == sold || self.is_said(&sold, name) || (is_member && self.is_said(name, "S")))
        };
        self.0.iter().filter(is_its).collect()
    }

    fn at(&self, sale: usize) -> Option<DateTime<Utc>> {
        self.charges(sale).first().map(|charged| charged.at)
    }

    /// Whether a sale belongs to the subscription.
    pub(super) fn is_member(&self, sale: usize) -> bool {
        let is_session = |charged: &&Charged| charged.order.as_str() == "o0";
        sale != ALONE && (self.is_said(&format!("s{sale}"), "S") || self.charges(sale).iter().any(is_session))
    }

    fn lines(&self, sale: usize) -> Vec<&'r Bought> {
        self.charges(sale).iter().flat_map(|charged| &charged.lines).collect()
    }

    /// The lines that pay for a product. If no line names a product, these are all lines.
    fn lines_of(&self, sale: usize, product: i64) -> Vec<&'r Bought> {
        let lines = self.lines(sale);
        let is_bare = lines.iter().all(|line| line.product.is_none());
        lines.into_iter().filter(|line| is_bare || named(line) == Some(product)).collect()
    }

    fn is_once(&self, sale: usize, product: i64) -> bool {
        self.lines_of(sale, product).iter().any(|line| line.term == Term::Once)
    }

    /// The products that a sale pays for. These are the first of the following that exist:
    ///
    /// - the products that the sale's lines name
    /// - if the sale has no lines: the products in the newest statement that has lines and was made at most one hour
    ///   after the sale
    /// - the products of the newest earlier sale of the subscription that has products to be charged again. Products
    ///   that were sold only once are left out.
    ///
    /// The second and the third rule apply only to sales of a subscription. A statement is a platform's report about
    /// the subscription itself. If a line of a subscription's sale is for a period that is over, that line is ignored.
    pub(super) fn products(&self, sale: usize) -> BTreeSet<i64> {
        let (lines, Some(at)) = (self.lines(sale), self.at(sale)) else { return BTreeSet::new() };
        let is_now = |line: &&Bought| !self.is_member(sale) || line.term.end().is_none_or(|end| end > at);
        let now: Vec<&Bought> = lines.iter().copied().filter(is_now).collect();
        if !self.is_member(sale) || now.len() < lines.len() || lines.iter().any(|line| line.product.is_some()) {
            return now.into_iter().filter_map(named).collect();
        }
        let by = at + TimeDelta::hours(1);
        let newest = self.words().filter(|word| !word.lines.is_empty() && word.at <= by).max_by_key(|word| word.at);
        let said: BTreeSet<i64> = newest.into_iter().flat_map(|word| &word.lines).filter_map(named).collect();
        if lines.is_empty() && !said.is_empty() {
            return said;
        }
        let again =
            |sale| self.products(sale).into_iter().filter(|it| !self.is_once(sale, *it)).collect::<BTreeSet<_>>();
        let mut before = (0..sale).rev().filter(|before| self.is_member(*before)).map(again);
        before.find(|again| !again.is_empty()).unwrap_or_default()
    }

    /// Whether the money for a product was refunded, or the order was cancelled.
    pub(super) fn is_gone(&self, sale: usize, product: i64) -> bool {
        let (money, ours) = (self.money(sale), self.lines_of(sale, product));
        let kept = money.iter().filter_map(|it| if let Report::Kept { at, .. } = it { Some(*at) } else { None }).max();
        let stands = self.charges(sale).iter().filter_map(|charged| charged.stands_at).max();
        let mut returned = BTreeMap::new();
        for report in money {
            let Report::Refunded(Refund { extent, cause, at, .. }) = report else { continue };
            match (extent, cause) {
                (Extent::Full, Cause::Refund) if at.is_none() || *at > kept => return true,
                (Extent::Full, Cause::Cancellation) if at.is_none() || *at >= stands => return true,
                (Extent::Lines { refund, lines }, _) => {
                    let its = lines.iter().filter(|it| ours.iter().any(|line| it.line.as_ref() == Some(&line.line)));
                    returned.insert(refund, its.map(|it| it.pieces).sum::<u64>());
                }
                _ => {}
            }
        }
        returned.values().sum::<u64>() >= 2
    }

    /// Whether a dispute that was not won concerns the money for a product.
    pub(super) fn is_disputed(&self, sale: usize, product: i64) -> bool {
        let (mut lost, mut won, mut ends) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        for report in self.money(sale) {
            match report {
                Report::Disputed(Dispute { number, extent, .. }) => {
                    lost.insert(number, if let Extent::Lines { lines, .. } = extent { &lines[..] } else { &[] });
                }
                Report::Won(Dispute { end: Some(end), .. }) => _ = ends.insert(end),
                Report::Won(Dispute { number, .. }) => _ = won.insert(number),
                _ => {}
            }
        }
        lost.retain(|dispute, _| !won.contains(dispute));
        let ours = self.lines_of(sale, product);
        let is_ours = |it: &Returned| ours.iter().any(|line| it.line.as_ref() == Some(&line.line));
        lost.len() > ends.len() && lost.values().any(|lines| lines.is_empty() || lines.iter().any(is_ours))
    }

    /// The latest expiry that the reports could justify. It is the later of two times. One is the end of the product's
    /// own validity. The other is the latest of these, plus the grace period, but not after the end of the
    /// subscription:
    ///
    /// - an end that the sale names, or that a statement names for the sale's period
    /// - the end of a trial
    /// - a date that a statement names, if no other sale lies between this sale and the date
    /// - the first date that a statement names after this sale
    /// - the end of a calendar period
    /// - 3 days after the next sale that was not refunded, because that sale's period may begin later than the sale
    pub(super) fn paid_until(&self, sale: usize, product: i64, payers: &[usize], left: &[usize]) -> DateTime<Utc> {
        let at = self.at(sale).unwrap();
        let own = at + TimeDelta::days(OWN[usize::try_from(product).unwrap()]);
        if !self.is_member(sale) {
            return own;
        }
        let next =
            |others: &[usize]| others.iter().filter_map(|other| self.at(*other)).filter(|other| *other > at).min();
        let again: Vec<usize> = payers.iter().copied().filter(|payer| !self.is_once(*payer, product)).collect();
        let is_paid = |date: DateTime<Utc>| next(&again).is_none_or(|next| date <= next);
        let of_sale = |word: &&SubscriptionReport| {
            word.links.order.as_ref().and_then(|order| number(order.as_str())) == Some(sale)
        };
        let said = self.words().filter(of_sale).map(|word| word.term).filter(|term| term.begin().is_some());
        let terms: Vec<Term> = self.lines_of(sale, product).iter().map(|line| line.term).chain(said).collect();
        let is_moved = |term: Term| term.begin().is_some() && terms.iter().any(|other| other.begin() == term.begin());
        let mut ends: Vec<DateTime<Utc>> = terms.iter().filter_map(|term| term.end()).collect();
        ends.extend(next(left).map(|next| next + TimeDelta::days(3)));
        let is_any_named = self.words().flat_map(|word| &word.lines).any(|line| line.product.is_some());
        // A statement that names no product sold here applies to a sale that names no product.
        let names_none = self.lines(sale).iter().all(|line| line.product.is_none());
        let mut dates = BTreeSet::new();
        for word in self.words() {
            let mut products = word.lines.iter().filter_map(named).peekable();
            let is_of_none = names_none && products.peek().is_none();
            let is_about = word.lines.is_empty() || !is_any_named || is_of_none || products.any(|it| it == product);
            match (word.standing, word.term) {
                (Standing::Trialing, Term::Until(date)) if is_about && date > at => ends.push(date),
                (Standing::Active | Standing::Leaving, Term::Until(date)) if is_about && date > at => {
                    dates.insert(date);
                }
                (Standing::Active, Term::Period { until, .. }) if is_moved(word.term) => ends.push(until),
                _ => {}
            }
        }
        ends.extend(dates.iter().copied().filter(|date| is_paid(*date)).chain(dates.first().copied()));
        let every = self.words().map(|word| word.term).chain(self.lines(sale).into_iter().map(|line| line.term));
        ends.extend(every.filter_map(|term| if let Term::Every(every) = term { Some(every.after(at)) } else { None }));
        let says = |word: &&SubscriptionReport| {
            matches!(word.standing, Standing::Ended | Standing::Active | Standing::Trialing)
        };
        let newest =
            self.words().filter(says).max_by_key(|word| word.at).filter(|word| word.standing == Standing::Ended);
        let ended = newest.map(|word| word.term.end().unwrap_or(word.at)).filter(|ended| at < *ended);
        let end = ends.into_iter().max().map_or(own, |end| end + GRACE);
        own.max(ended.map_or(end, |ended| end.min(ended)))
    }
}
