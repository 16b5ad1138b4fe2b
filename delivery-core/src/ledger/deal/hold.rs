//! What should hold of a deal's keys: when each expires, and whether it is revoked.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::paid::Paid;
use super::step::{Step, Why};
use super::view::{PaidUntil, View, last};
use super::{Cause, Kept};
use crate::product::ProductId;
use crate::terms::NEVER;

impl<'d> View<'d> {
    /// Brings `kept` up to date, and adds the steps that change the key's expiry and revocation.
    pub(super) fn settle(&self, kept: &mut Kept, steps: &mut Vec<Step<'_>>) {
        let paid = self.of_key(&kept.order, kept.product);
        // A refund and a dispute each revoke a key once. If the seller restores the key, it stays valid until the other
        // is reported.
        let (taken, disputed) =
            (Self::why_taken(&paid, kept.product), paid.iter().any(|it| it.is_disputed(kept.product)));
        if taken != kept.taken {
            steps.extend(kept.taken.map(|why| Step::Lift(kept.key, why)));
            steps.extend(taken.map(|why| Step::Revoke(kept.key, why)));
            // A key that is restored after a refund may still be disputed.
            steps.extend((kept.is_disputed && disputed).then_some(Step::Revoke(kept.key, Why::Disputed)));
            kept.taken = taken;
        }
        if disputed != kept.is_disputed {
            let step = if disputed { Step::Revoke } else { Step::Lift };
            steps.push(step(kept.key, Why::Disputed));
            kept.is_disputed = disputed;
        }
        let until = self.end_of(kept);
        if let Some(until) = until.filter(|until| Some(*until) != kept.until) {
            steps.push(Step::Until(kept.key, until));
            kept.until = Some(until);
        }
    }

    /// Returns why none of a key's payments counts any more; `None` if one does. Without any payment, this is
    /// [`Why::Cancelled`].
    fn why_taken(paid: &[&Paid<'_>], product: ProductId) -> Option<Why> {
        let causes = || paid.iter().filter(|paid| paid.is_reported()).map(|paid| paid.taken_back(product));
        if causes().any(|cause| cause.is_none()) {
            return None;
        }
        Some(if causes().any(|cause| cause == Some(Cause::Refund)) { Why::Refunded } else { Why::Cancelled })
    }

    /// Returns when a key expires; `None` if nothing known changes its expiry.
    fn end_of(&self, kept: &Kept) -> Option<DateTime<Utc>> {
        let ends = self.ends_of(kept);
        if self.subscriptions_of(kept).is_empty() {
            return kept.set.as_ref().map_or(kept.own, |set| Some(set.until));
        }
        if self.is_for_ever(kept.product) {
            return Some(kept.set.as_ref().map_or(NEVER, |set| set.until));
        }
        let Some(set) = &kept.set else { return last(ends.iter().map(|(_, end)| end)) };
        let is_later = |paid: &Paid<'_>, end: &PaidUntil| {
            let known = paid.names().filter_map(|part| set.known.get(part)).max();
            known.is_none_or(|known| end.paid > *known)
        };
        let later = ends.iter().filter(|(paid, end)| is_later(paid, end)).map(|(_, end)| end);
        Some(last(later).map_or(set.until, |later| later.max(set.until)))
    }

    /// Returns when the key that a payment is about to issue expires; `None` if the product's own validity decides
    /// that.
    pub(super) fn until(&self, paid: &Paid<'d>, product: ProductId) -> Option<DateTime<Utc>> {
        let subscription =
            paid.subscription.filter(|_| !self.is_for_ever(product) && self.is_subscribed(paid, product))?;
        last(self.ends(Some(subscription), product).iter().map(|(_, end)| end))
    }

    /// Returns the subscriptions that renew a key.
    fn subscriptions_of(&self, kept: &Kept) -> BTreeSet<&'d str> {
        let paid = self.of_key(&kept.order, kept.product).into_iter();
        paid.filter(|paid| self.is_subscribed(paid, kept.product)).filter_map(|paid| paid.subscription).collect()
    }

    /// Returns until when each payment for a key's subscriptions pays for the key's product.
    pub(super) fn ends_of(&self, kept: &Kept) -> Vec<(&Paid<'d>, PaidUntil)> {
        self.subscriptions_of(kept).into_iter().flat_map(|name| self.ends(Some(name), kept.product)).collect()
    }

    /// Returns the names of the payments [behind](Self::of_key) the keys of a product.
    pub(super) fn payers<'k>(&self, keys: impl IntoIterator<Item = &'k Kept>, product: ProductId) -> BTreeSet<&'d str> {
        let orders = keys.into_iter().filter(|kept| kept.product == product).map(|kept| &kept.order);
        orders.flat_map(|order| self.of_key(order, product)).map(|paid| paid.name).collect()
    }

    /// Returns whether any payment that would be [behind](Self::of_key) a key issued for `paid` is disputed.
    pub(super) fn is_disputed(&self, paid: &Paid<'d>, product: ProductId) -> bool {
        self.of_key(paid.name, product).iter().any(|paid| paid.is_disputed(product))
    }
}
