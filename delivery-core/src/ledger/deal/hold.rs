//! The state that a deal's keys should have: when each expires, and whether it is revoked.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::paid::Paid;
use super::step::{Step, Why};
use super::view::{PaidUntil, View, last};
use super::{Cause, Kept};
use crate::product::ProductId;
use crate::terms::NEVER;

impl<'d> View<'d> {
    /// Decides the expiry and the revocation of a key. Records both in `kept`, and adds the steps that change the key
    /// accordingly.
    pub(super) fn settle(&self, kept: &mut Kept, steps: &mut Vec<Step<'_>>) {
        let paid = self.of_key(&kept.order, kept.product);
        // A refund revokes a key only once, and so does a dispute. If the seller restores the key, the same cause does
        // not revoke it again. The other cause still revokes the key if it is reported later.
        let (taken, disputed) =
            (Self::why_taken(&paid, kept.product), paid.iter().any(|it| it.is_disputed(kept.product)));
        if taken != kept.taken {
            steps.extend(kept.taken.map(|why| Step::Lift(kept.key, why)));
            steps.extend(taken.map(|why| Step::Revoke(kept.key, why)));
            // A key whose revocation for a refund is lifted may still be disputed. It is then revoked again, for the
            // dispute.
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

    /// Returns why a key must be revoked; `None` if at least one of its reported payments was neither refunded nor
    /// cancelled. The cause is [`Why::Refunded`] if any payment was refunded. Otherwise, it is [`Why::Cancelled`]: all
    /// reported payments were cancelled, or no payment was reported.
    fn why_taken(paid: &[&Paid<'_>], product: ProductId) -> Option<Why> {
        let causes = || paid.iter().filter(|paid| paid.is_reported()).map(|paid| paid.taken_back(product));
        if causes().any(|cause| cause.is_none()) {
            return None;
        }
        Some(if causes().any(|cause| cause == Some(Cause::Refund)) { Why::Refunded } else { Why::Cancelled })
    }

    /// Returns when a key should expire; `None` if no known fact determines its expiry.
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

    /// Returns the expiry of a key that is about to be issued for a payment. Returns `None` if the product's own
    /// validity determines the expiry.
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

    /// Returns the payments of the subscriptions that renew a key, each with the time until which it pays for the key's
    /// product.
    pub(super) fn ends_of(&self, kept: &Kept) -> Vec<(&Paid<'d>, PaidUntil)> {
        self.subscriptions_of(kept).into_iter().flat_map(|name| self.ends(Some(name), kept.product)).collect()
    }

    /// Returns the names of the payments that [pay for](Self::of_key) a key in `keys`. Keys for other products than
    /// `product` are ignored.
    pub(super) fn payers<'k>(&self, keys: impl IntoIterator<Item = &'k Kept>, product: ProductId) -> BTreeSet<&'d str> {
        let orders = keys.into_iter().filter(|kept| kept.product == product).map(|kept| &kept.order);
        orders.flat_map(|order| self.of_key(order, product)).map(|paid| paid.name).collect()
    }

    /// Returns whether a new key issued for `paid` would be disputed. This is the case if any of the
    /// [payments for the key](Self::of_key) is disputed.
    pub(super) fn is_disputed(&self, paid: &Paid<'d>, product: ProductId) -> bool {
        self.of_key(paid.name, product).iter().any(|paid| paid.is_disputed(product))
    }

    /// Returns whether a dispute that the seller may still win would concern a new key issued for `paid`.
    pub(super) fn can_be_won(&self, paid: &Paid<'d>, product: ProductId) -> bool {
        self.of_key(paid.name, product).iter().any(|paid| paid.can_be_won(product))
    }
}
