//! What should hold of a deal's keys: until when each lives, and whether it is revoked.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::paid::Paid;
use super::step::{Step, Why};
use super::view::{PaidUntil, View, last};
use super::{Cause, Kept, Set};
use crate::product::ProductId;
use crate::terms::NEVER;

impl<'d> View<'d> {
    /// Settles until when a key lives and whether it is revoked.
    pub(super) fn settle(&self, kept: &mut Kept, steps: &mut Vec<Step<'_>>) {
        let paid = self.of_key(&kept.order, kept.product);
        // Each is carried out once: what the seller restores stays restored until the other is reported.
        let (taken, disputed) =
            (Self::why_taken(&paid, kept.product), paid.iter().any(|it| it.is_disputed(kept.product)));
        if taken != kept.taken {
            steps.extend(kept.taken.map(|why| Step::Lift(kept.key, why)));
            steps.extend(taken.map(|why| Step::Revoke(kept.key, why)));
            // The key that is given back may be disputed still.
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

    /// Why no payment counts any more of those by which a key lives; `None` if one does.
    fn why_taken(paid: &[&Paid<'_>], product: ProductId) -> Option<Why> {
        let causes = || paid.iter().filter(|paid| paid.is_reported()).map(|paid| paid.taken_back(product));
        if causes().any(|cause| cause.is_none()) {
            return None;
        }
        Some(if causes().any(|cause| cause == Some(Cause::Refund)) { Why::Refunded } else { Why::Cancelled })
    }

    /// When a key ends; `None` if nothing is known that would change it.
    fn end_of(&self, kept: &Kept) -> Option<DateTime<Utc>> {
        let ends = self.ends_of(kept);
        if self.subscriptions_of(kept).is_empty() {
            return kept.set.as_ref().map_or(kept.own, |set| Some(set.until));
        }
        if self.is_for_ever(kept.product) {
            return Some(kept.set.as_ref().filter(|set| !set.is_granted).map_or(NEVER, |set| set.until));
        }
        let all = || ends.iter().map(|(_, end)| end);
        let is_overruled = |set: &&Set| !(set.is_granted && all().any(|end| end.is_named));
        let Some(set) = kept.set.as_ref().filter(is_overruled) else { return last(all()) };
        let is_later = |paid: &Paid<'_>, end: &PaidUntil| {
            let known = paid.names().filter_map(|part| set.known.get(part)).max();
            known.is_none_or(|known| end.paid > *known)
        };
        let later = ends.iter().filter(|(paid, end)| is_later(paid, end)).map(|(_, end)| end);
        Some(last(later).map_or(set.until, |later| later.max(set.until)))
    }

    /// When the key ends that a payment is about to issue; `None` if by the product's own days.
    pub(super) fn until(&self, paid: &Paid<'d>, product: ProductId) -> Option<DateTime<Utc>> {
        let subscription =
            paid.subscription.filter(|_| !self.is_for_ever(product) && self.is_subscribed(paid, product))?;
        last(self.ends(Some(subscription), product).iter().map(|(_, end)| end))
    }

    /// The subscriptions that a key lives by.
    fn subscriptions_of(&self, kept: &Kept) -> BTreeSet<&'d str> {
        let paid = self.of_key(&kept.order, kept.product).into_iter();
        paid.filter(|paid| self.is_subscribed(paid, kept.product)).filter_map(|paid| paid.subscription).collect()
    }

    /// Until when each payment for its subscriptions pays for the product of a key.
    pub(super) fn ends_of(&self, kept: &Kept) -> Vec<(&Paid<'d>, PaidUntil)> {
        self.subscriptions_of(kept).into_iter().flat_map(|name| self.ends(Some(name), kept.product)).collect()
    }

    /// The names of the payments by which keys of a product live.
    pub(super) fn payers<'k>(&self, keys: impl IntoIterator<Item = &'k Kept>, product: ProductId) -> BTreeSet<&'d str> {
        let orders = keys.into_iter().filter(|kept| kept.product == product).map(|kept| &kept.order);
        orders.flat_map(|order| self.of_key(order, product)).map(|paid| paid.name).collect()
    }

    /// Whether a payment by which a key of a product would live is disputed.
    pub(super) fn is_disputed(&self, paid: &Paid<'d>, product: ProductId) -> bool {
        self.of_key(paid.name, product).iter().any(|paid| paid.is_disputed(product))
    }
}
