//! Computes until when each payment pays.
//!
//! A subscription's key is valid until the latest end of its payments, plus some days of grace. [`View::end`]
//! determines the end of the time that one payment pays for. It is the first of these that is known:
//!
//! - the end of the charge's own period
//! - a date that the platform names
//! - the end of a calendar period
//! - the beginning of the next charge
//! - for the newest charge, the end of the product's own validity

use std::collections::BTreeSet;
use std::ops::Bound;

use chrono::{DateTime, Utc};

use super::View;
use crate::ledger::deal::facts::Said;
use crate::ledger::deal::paid::Paid;
use crate::ledger::deal::term::{Own, Standing, Term, later};
use crate::product::ProductId;
use crate::terms::NEVER;

/// Until when a payment pays for a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ledger::deal) struct PaidUntil {
    /// The end of the time that is paid for.
    pub(in crate::ledger::deal) paid: DateTime<Utc>,
    /// The expiry of a key that has only this payment: `paid` plus the grace period, but not later than the end of the
    /// subscription. No grace period is added to the product's own validity.
    pub(in crate::ledger::deal) until: DateTime<Utc>,
    /// Whether the end follows from a date or a period that the platform names. If not, the end follows from the next
    /// charge or from the product's own validity.
    pub(in crate::ledger::deal) is_named: bool,
}

/// What is known about the time after a payment.
struct After<'p, 'd> {
    /// When the next charge was made.
    next: Option<DateTime<Utc>>,
    /// The next charge that was not refunded.
    next_left: Option<&'p Paid<'d>>,
    /// The dates that statements name.
    dates: &'p BTreeSet<DateTime<Utc>>,
    /// The subset of `dates` at which a trial ends.
    trials: &'p BTreeSet<DateTime<Utc>>,
}

impl<'d> View<'d> {
    /// Returns the payments by which a subscription charged for a product, each with the time until which it pays.
    /// Payments whose money went back or whose end is unknown are left out. The result is empty if the subscription
    /// does not charge for the product.
    pub(in crate::ledger::deal) fn ends(
        &self,
        subscription: Option<&'d str>,
        product: ProductId,
    ) -> Vec<(&Paid<'d>, PaidUntil)> {
        let charges = self.charges(subscription, product);
        let dates =
            |of_none| [false, true].map(|only_trials| self.dates((subscription, product, of_none), only_trials));
        let (of_product, also_of_none) = (dates(false), dates(true));
        let ended = self.ended(subscription);
        let mut ends = Vec::new();
        // The loop begins with the newest charge. `next` is the time of the charge that follows the current one.
        // `next_left` is the first later charge that was not refunded.
        let (mut next, mut next_left) = (None, None);
        for same_time in charges.chunk_by(|one, other| one.at == other.at).rev() {
            let left = || same_time.iter().copied().filter(|paid| paid.taken_back(product).is_none());
            for paid in left() {
                let Some(at) = paid.at else { continue };
                let [dates, trials] = if paid.names_none() { &also_of_none } else { &of_product };
                let after = After { next, next_left, dates, trials };
                let Some(mut end) = self.end(paid, product, at, &after) else { continue };
                if let Some(ended) = ended.filter(|ended| at < *ended) {
                    (end.paid, end.until) = (end.paid.min(ended), end.until.min(ended));
                }
                ends.push((paid, end));
            }
            next = same_time.first().and_then(|paid| paid.at).or(next);
            next_left = left().next().or(next_left);
        }
        ends
    }

    /// Returns whether the product's own terms say that its keys never expire.
    pub(in crate::ledger::deal) fn is_for_ever(&self, product: ProductId) -> bool {
        self.own(product).any(|own| own == Own::Never)
    }

    /// Returns what charges and statements report as the product's own validity.
    fn own(&self, product: ProductId) -> impl Iterator<Item = Own> {
        let said =
            self.deal.words.iter().flat_map(|said| &said.lines).filter(move |line| line.product == Some(product));
        self.paid.iter().filter_map(move |paid| paid.own(product)).chain(said.filter_map(|line| line.own))
    }

    /// Returns until when a payment pays for a product; `None` if that is unknown. `at` is the time of the payment.
    fn end(&self, paid: &Paid<'d>, product: ProductId, at: DateTime<Utc>, after: &After<'_, 'd>) -> Option<PaidUntil> {
        let named = |paid: DateTime<Utc>| PaidUntil { paid, until: later(paid, self.grace), is_named: true };
        if let Some(period) = self.period(paid, product, at) {
            return Some(named(date(after.trials, at, after.next).map_or(period, |trial| trial.max(period))));
        }
        // The next charge limits the dates even if it was refunded, because this payment paid for no date after that
        // charge.
        if let Some(date) = date(after.dates, at, after.next) {
            return Some(named(date));
        }
        if let Some(recurrence) = self.recurrence(paid) {
            return Some(named(recurrence.after(at)));
        }
        if let Some(next) = after.next_left {
            let begin = next.term(product).begin().or(next.at)?;
            return Some(PaidUntil { is_named: false, ..named(begin) });
        }
        let own = paid.own(product).or_else(|| self.own(product).next())?;
        let until = own.after(at);
        Some(PaidUntil { paid: until, until, is_named: false })
    }

    /// Returns the end of the period that a payment is for. If a later statement moved the end of that period, this is
    /// the new end. Returns `None` if no period is known, or if its original end was not after the payment.
    fn period(&self, paid: &Paid<'d>, product: ProductId, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let names = |said: &&Said| said.order.as_deref().is_some_and(|order| paid.is(order));
        let told = || self.words(paid.subscription).filter(names).max_by_key(|said| said.at).map(|said| said.term);
        let term = Some(paid.term(product))
            .filter(|term| term.end().is_some())
            .or_else(|| told().filter(|term| term.begin().is_some()))?;
        let until = term.end().filter(|until| *until > at)?;
        let moved = self.words_about((paid.subscription, product, paid.names_none())).filter(|said| {
            let is_its = said.standing == Standing::Active && said.term.begin() == term.begin();
            is_its && term.begin().is_some() && said.at >= at
        });
        Some(moved.max_by_key(|said| said.at).and_then(|said| said.term.end()).unwrap_or(until))
    }

    /// Returns the end dates in the statements [about](Self::words_about) a product. If `only_trials` is set, returns
    /// only the ends of trials.
    fn dates(&self, about: (Option<&'d str>, ProductId, bool), only_trials: bool) -> BTreeSet<DateTime<Utc>> {
        let words = self.words_about(about).filter(|said| match said.standing {
            Standing::Trialing => true,
            Standing::Active | Standing::Leaving => !only_trials,
            Standing::Ended | Standing::Unsaid => false,
        });
        let dates = words.filter_map(|said| match said.term {
            Term::Until(date) => Some(date),
            _ => None,
        });
        dates.collect()
    }

    /// Returns a subscription's statements about a product: those that name the product, and those that have no lines.
    /// If the statements name only things that are not sold here, all of them are returned.
    ///
    /// If `of_none` is set, the statements that name only such things are returned too. It is set for a payment without
    /// any line of a product that is sold here. The product of such a payment follows from other statements or from
    /// earlier payments, so a statement about something else may say until when the payment pays.
    fn words_about(
        &self,
        (subscription, product, of_none): (Option<&'d str>, ProductId, bool),
    ) -> impl Iterator<Item = &'d Said> {
        let is_of_none = |said: &Said| self.named(said).next().is_none();
        let is_any_named = !self.words(subscription).all(is_of_none);
        self.words(subscription).filter(move |said| {
            let is_about = said.lines.is_empty() || self.named(said).any(|named| named == product);
            !is_any_named || is_about || of_none && is_of_none(said)
        })
    }

    /// Returns when a subscription ended. This follows from the newest statement that says that the subscription ended,
    /// is active or is in a trial. Returns `None` if that statement does not say that the subscription ended, or if
    /// there is no such statement.
    fn ended(&self, subscription: Option<&'d str>) -> Option<DateTime<Utc>> {
        let words = self
            .words(subscription)
            .filter(|said| matches!(said.standing, Standing::Ended | Standing::Active | Standing::Trialing));
        let newest = words.max_by_key(|said| (said.at, said.standing == Standing::Ended))?;
        (newest.standing == Standing::Ended).then(|| newest.term.end().unwrap_or(newest.at))
    }
}

/// Chooses from `dates` the date until which a payment pays. `at` is the time of the payment, and `next` is the time of
/// the next charge. Returns the latest date that is after the payment and not after the next charge. If no date is in
/// that range, returns the earliest date after the payment.
fn date(dates: &BTreeSet<DateTime<Utc>>, at: DateTime<Utc>, next: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    let begin = Bound::Excluded(at);
    let end = next.map_or(Bound::Unbounded, Bound::Included);
    // If the next charge is not later than the payment, no date lies between the two, and `range` could panic.
    let before_next = if next.is_some_and(|next| next <= at) { None } else { dates.range((begin, end)).next_back() };
    before_next.or_else(|| dates.range((begin, Bound::Unbounded)).next()).copied()
}

/// Returns the expiry of a key whose payments have these `ends`: the latest [`until`](PaidUntil::until), at most
/// [`NEVER`]. Returns `None` if there are no ends.
pub(in crate::ledger::deal) fn last<'e>(ends: impl Iterator<Item = &'e PaidUntil>) -> Option<DateTime<Utc>> {
    ends.map(|end| end.until.min(NEVER)).max()
}
