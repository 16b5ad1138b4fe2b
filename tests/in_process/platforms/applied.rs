//! What events come to: refunds and disputes.

use std::time::Duration;

use delivery_core::key::{Actor, Change, Status};
use delivery_core::ledger::EventOutcome::{Ignored, Issued, NeedsAttention, PartialRefund, Restored, Revoked};
use delivery_core::platform::{Dispute, Event, Extent, Refund};

use super::shop::{Shop, dispute, id, order, refunded, sale};

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
        assert_eq!(shop.tell(Event::Won(dispute("A"))).await, Some(Restored));
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
        shop.tell(Event::Won(dispute("A"))).await;
        assert_eq!(shop.statuses().await, [Status::Revoked], "{meanwhile}");
        assert_eq!(shop.keys().await[0].state().revoked.as_ref().unwrap().by, Actor::admin());
    }
}

/// A platform may take back its own revocation later, so that of the seller takes its place.
#[tokio::test]
async fn what_the_seller_revokes_after_a_platform_stays_revoked() {
    let shop = Shop::with_guide().await;
    shop.tell(Event::Paid(sale("A", "guide"))).await;
    let key = shop.keys().await[0].id();
    assert_eq!(shop.tell(refunded("A")).await, Some(Revoked));
    shop.delivery.desk(&Actor::admin()).revoke(key, Some("abuse".parse().unwrap())).await.unwrap();
    let of = async || shop.keys().await[0].state().revoked.clone().unwrap();
    let (by, reason) = (of().await.by.clone(), of().await.reason.clone().unwrap());
    assert_eq!((by, reason.as_str()), (Actor::admin(), "abuse"));
    // Neither another refund nor a later charge of its subscription changes that.
    shop.tell(refunded("A")).await;
    shop.tell(Event::Won(dispute("A"))).await;
    assert_eq!(of().await.by, Actor::admin());
    assert_eq!(shop.statuses().await, [Status::Revoked]);
}

#[tokio::test]
async fn what_is_disputed_before_it_is_paid_waits_for_the_end_of_the_dispute() {
    let shop = Shop::with_guide().await;
    shop.tell(Event::Disputed(dispute("A"))).await;
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(NeedsAttention));
    assert_eq!(shop.keys().await, []);
    shop.tell(Event::Won(dispute("A"))).await;
    shop.delivery.maintenance().apply_events().await.unwrap();
    assert_eq!((shop.statuses().await, shop.sent().await), (vec![Status::Valid], 1));
    // A win that comes first cancels its dispute.
    shop.tell(Event::Won(dispute("B"))).await;
    shop.tell(Event::Disputed(dispute("B"))).await;
    assert_eq!(shop.tell(Event::Paid(sale("B", "guide"))).await, Some(Issued));
}

#[tokio::test]
async fn a_dispute_about_a_part_of_the_money_changes_nothing_nor_does_its_end() {
    let shop = Shop::with_guide().await;
    let part = || Dispute { extent: Extent::Partial { refund: "d1".to_owned() }, ..dispute("A") };
    shop.tell(Event::Paid(sale("A", "guide"))).await;
    assert_eq!(shop.tell(Event::Disputed(part())).await, Some(PartialRefund));
    assert_eq!(shop.statuses().await, [Status::Valid]);
    assert_eq!(shop.tell(Event::Won(part())).await, Some(Ignored));
    // It ends no dispute about all of it.
    shop.tell(Event::Disputed(dispute("A"))).await;
    assert_eq!(shop.tell(Event::Won(part())).await, Some(Ignored));
    assert_eq!(shop.statuses().await, [Status::Revoked]);
}

#[tokio::test]
async fn a_buyer_is_told_of_a_refund_that_revoked_a_key_and_of_nothing_else() {
    const BOUGHT: &str = "Your key for Guide";
    const REVOKED: &str = "Your key for Guide is no longer valid";
    let cancelled = || Event::Refunded(Refund::cancelled(id("A")));
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
            shop.sent().await;
        }
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
    assert_eq!(shop.delivery.maintenance().prune_events().await.unwrap(), 3);
    shop.tell(refunded("A")).await;
    assert_eq!(shop.tell(Event::Paid(sale("A", "guide"))).await, Some(Ignored));
    assert_eq!((shop.keys().await.len(), shop.keys().await[0].revoked_at()), (1, None));
}
