//! What events come to: renewals, refunds, disputes.

use std::time::Duration;

use delivery_core::key::{Actor, Change, Status};
use delivery_core::platform::{Event, Refund};
use delivery_core::store::EventOutcome::{Ignored, Issued, NeedsAttention, PartialRefund, Renewed, Restored, Revoked};

use super::shop::{Shop, dispute, order, refunded, renewed, sale, subscribed};

#[tokio::test]
async fn a_subscription_renews_its_key_and_a_refund_gives_the_days_back() {
    let shop = Shop::with_guide().await;
    let days = async || {
        assert_eq!(shop.keys().await.len(), 1);
        shop.days().await
    };
    assert_eq!(shop.tell(subscribed("A")).await, Some(Issued));
    assert_eq!((shop.tell(renewed("c1")).await, days().await), (Some(Renewed), 60));
    assert_eq!((shop.tell(renewed("c1")).await, days().await), (Some(Ignored), 60));
    assert_eq!((shop.tell(renewed("c2")).await, days().await), (Some(Renewed), 90));
    assert_eq!((shop.tell(refunded("c1")).await, days().await), (Some(Revoked), 60));
    assert_eq!((shop.tell(refunded("c1")).await, days().await), (Some(Revoked), 60));
    assert_eq!(shop.statuses().await, [Status::Valid]);
    // Refunded before it was charged.
    shop.tell(refunded("c3")).await;
    assert_eq!((shop.tell(renewed("c3")).await, days().await), (Some(Ignored), 60));
    // From the later of now and the expiry.
    shop.clock.advance(Duration::from_hours(24 * 100));
    shop.tell(renewed("c4")).await;
    assert_eq!((days().await, shop.statuses().await), (130, vec![Status::Valid]));
    shop.tell(refunded("A")).await;
    assert_eq!((shop.tell(renewed("c5")).await, shop.statuses().await), (Some(Renewed), vec![Status::Revoked]));
    assert_eq!(shop.sent().await, 2, "the key, and that it was revoked");
}

#[tokio::test]
async fn the_first_sale_of_a_subscription_that_comes_late_has_the_key_of_its_renewal() {
    let shop = Shop::with_guide().await;
    assert_eq!(shop.tell(renewed("c1")).await, Some(Issued));
    assert_eq!(shop.tell(subscribed("A")).await, Some(Issued));
    assert_eq!((shop.keys().await.len(), shop.sent().await), (1, 1));
    assert_eq!(shop.days().await, 60, "two periods were paid");
    shop.tell(refunded("c1")).await;
    assert_eq!((shop.statuses().await, shop.days().await), (vec![Status::Valid], 30));
    shop.tell(refunded("A")).await;
    assert_eq!(shop.statuses().await, [Status::Revoked]);
}

#[tokio::test]
async fn a_renewal_that_was_refunded_before_the_sale_came_leaves_the_sale_its_own_key() {
    let shop = Shop::with_guide().await;
    shop.tell(renewed("c1")).await;
    shop.tell(refunded("c1")).await;
    assert_eq!(shop.tell(subscribed("A")).await, Some(Issued));
    assert_eq!(shop.statuses().await, [Status::Valid, Status::Revoked]);
}

#[tokio::test]
async fn a_restore_lifts_only_what_its_own_dispute_made() {
    for (case, before, between, valid) in [
        ("nothing else", None, None, true),
        ("refunded before", Some(refunded("A")), None, false),
        ("refunded meanwhile", None, Some(refunded("A")), false),
    ] {
        let shop = Shop::with_guide().await;
        shop.tell(Event::Paid(sale("A", "guide"))).await;
        if let Some(event) = before {
            shop.tell(event).await;
        }
        assert_eq!(shop.tell(Event::Disputed(dispute("A"))).await, Some(Revoked));
        assert_eq!(shop.statuses().await, [Status::Revoked], "{case}");
        if let Some(event) = between {
            shop.tell(event).await;
        }
        assert_eq!(shop.tell(Event::Restored(dispute("A"))).await, Some(Restored));
        assert_eq!(shop.statuses().await == [Status::Valid], valid, "{case}");
    }
    // The seller's own revocation stays, before the dispute or meanwhile.
    for meanwhile in [false, true] {
        let shop = Shop::with_guide().await;
        shop.tell(Event::Paid(sale("A", "guide"))).await;
        let key = shop.keys().await[0].id();
        let revoke = || shop.delivery.revoke(key);
        if !meanwhile {
            revoke().await.unwrap();
        }
        shop.tell(Event::Disputed(dispute("A"))).await;
        if meanwhile {
            revoke().await.unwrap();
        }
        shop.tell(Event::Restored(dispute("A"))).await;
        assert_eq!(shop.statuses().await, [Status::Revoked], "{meanwhile}");
        assert_eq!(shop.keys().await[0].state().revoked.as_ref().unwrap().by, Actor::admin());
    }
}

#[tokio::test]
async fn what_is_disputed_before_it_is_paid_waits_for_the_end_of_the_dispute() {
    let shop = Shop::with_guide().await;
    shop.tell(Event::Disputed(dispute("A"))).await;
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(NeedsAttention));
    assert_eq!(shop.keys().await, []);
    shop.tell(Event::Restored(dispute("A"))).await;
    shop.delivery.apply_events().await.unwrap();
    assert_eq!((shop.statuses().await, shop.sent().await), (vec![Status::Valid], 1));
    // A win that comes first cancels its dispute.
    shop.tell(Event::Restored(dispute("B"))).await;
    shop.tell(Event::Disputed(dispute("B"))).await;
    assert_eq!(shop.tell(Event::Paid(sale("B", "guide"))).await, Some(Issued));
}

#[tokio::test]
async fn a_buyer_is_told_of_a_refund_that_revoked_a_key_and_of_nothing_else() {
    const BOUGHT: &str = "Your key for Guide";
    const REVOKED: &str = "Your key for Guide is no longer valid";
    let cancelled = || Event::Refunded(Refund::cancelled("A".to_owned()));
    let part = || Event::Refunded(Refund::of(order("A"), false, None));
    let paid = || Event::Paid(sale("A", "guide"));
    for (events, subjects) in [
        (vec![paid(), refunded("A")], &[BOUGHT, REVOKED][..]),
        (vec![paid(), refunded("A"), refunded("A")], &[BOUGHT, REVOKED]),
        // Nothing was sold.
        (vec![refunded("A"), paid()], &[]),
        (vec![paid(), part()], &[BOUGHT]),
        (vec![paid(), cancelled()], &[BOUGHT]),
        (vec![paid(), Event::Disputed(dispute("A"))], &[BOUGHT]),
        (vec![paid(), Event::Disputed(dispute("A")), refunded("A")], &[BOUGHT, REVOKED]),
    ] {
        let shop = Shop::with_guide().await;
        for event in events {
            shop.tell(event).await;
        }
        shop.sent().await;
        let mut sent: Vec<String> = shop.mailer.accepted().into_iter().map(|message| message.subject).collect();
        sent.sort();
        assert_eq!(sent, subjects);
    }
}

#[tokio::test]
async fn a_refund_revokes_once_also_after_the_seller_restored_the_key() {
    let shop = Shop::with_guide().await;
    shop.tell(Event::Paid(sale("A", "guide"))).await;
    assert_eq!(shop.tell(Event::Refunded(Refund::of(order("A"), false, None))).await, Some(PartialRefund));
    assert_eq!(shop.statuses().await, [Status::Valid]);
    assert_eq!(shop.tell(refunded("A")).await, Some(Revoked));
    let by = Actor::admin();
    let restore = Change::Restore { at: delivery_core::Clock::now(shop.clock.as_ref()), by };
    shop.delivery.change(shop.keys().await[0].id(), restore).await.unwrap();
    // Also when the inbox has forgotten it.
    shop.clock.advance(Duration::from_hours(24 * 31));
    assert_eq!(shop.delivery.prune_events().await.unwrap(), 3);
    shop.tell(refunded("A")).await;
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(Ignored));
    assert_eq!((shop.keys().await.len(), shop.keys().await[0].revoked_at()), (1, None));
}
