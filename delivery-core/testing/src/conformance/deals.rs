//! Deals: a sale or subscription is found by each of its references, and has one key whatever the order of the reports.

use super::events::{
    all, another, charged, inbox, keys, name, paid, receive, receive_at_once, refunded, reported, shop,
};
use super::fixtures::{Port, day, find, now, rotate, successor};
use delivery_core::key::{Actor, Key, KeyId, Status};
use delivery_core::ledger::{
    Bought, ChargeRef, Charged, EventOutcome, Links, ReferenceKind, Report, Standing, SubscriptionReport, Term,
};
use delivery_core::order::Source;

pub(super) async fn a_sale_is_found_by_each_of_its_references(ledger: Port) {
    let links = |payment: &str, invoice: &str| Links {
        payment: Some(name(payment)).filter(|it| it.as_str() != "-"),
        invoice: Some(name(invoice)).filter(|it| it.as_str() != "-"),
        ..Links::default()
    };
    let linked = |event: &str, links: Links| reported(event, Report::Linked(links));
    // The refunds of A and B name the payment. A's refund arrives after the sale, B's before it. The payments of C and
    // D are connected with the sale only by an invoice. That link is reported after C's sale and before D's.
    receive(&ledger, paid("a1", "A", links("pi_a", "-"))).await;
    receive(&ledger, refunded("a2", ChargeRef::Payment(name("pi_a")))).await;
    receive(&ledger, refunded("b1", ChargeRef::Payment(name("pi_b")))).await;
    let late = receive(&ledger, paid("b2", "B", links("pi_b", "-"))).await;
    assert_eq!((late.issued.len(), late.event.outcome), (0, Some(EventOutcome::Ignored)));
    receive(&ledger, paid("c1", "C", links("-", "in_c"))).await;
    receive(&ledger, refunded("c2", ChargeRef::Payment(name("pi_c")))).await;
    receive(&ledger, linked("c3", links("pi_c", "in_c"))).await;
    receive(&ledger, linked("d1", links("pi_d", "in_d"))).await;
    receive(&ledger, paid("d2", "D", links("-", "in_d"))).await;
    receive(&ledger, refunded("d3", ChargeRef::Payment(name("pi_d")))).await;
    // Merged deals are found by all references of either.
    receive(&ledger, refunded("c4", ChargeRef::Order(name("C")))).await;
    receive(&ledger, refunded("c5", ChargeRef::Payment(name("pi_c")))).await;
    let sold = keys(&ledger).await;
    assert_eq!(sold.len(), 3);
    assert!(sold.iter().all(|key| key.status(now()) == Status::Revoked), "{sold:?}");
    receive(&ledger, paid("e1", "E", Links::default())).await;
    assert_eq!(keys(&ledger).await.iter().filter(|key| key.status(now()) == Status::Valid).count(), 1);
}

pub(super) async fn a_deal_is_found_by_each_of_its_references_and_merged_deals_are_one(ledger: Port) {
    let found =
        async |kind, reference: &str| inbox(&ledger).deal(&shop(), kind, &name(reference)).await.expect("answered");
    let (order, payment, invoice) = (ReferenceKind::Order, ReferenceKind::Payment, ReferenceKind::Invoice);
    assert_eq!(found(order, "A").await, None);
    let links = Links { invoice: Some(name("in_a")), ..Links::default() };
    let sold = receive(&ledger, paid("evt_1", "A", links)).await.issued.first().expect("a key").id();
    let deal = found(order, "A").await.expect("a deal");
    assert_eq!(deal.keys().collect::<Vec<_>>(), [sold]);
    assert_eq!(found(invoice, "in_a").await, Some(deal.clone()));
    // A reference with another platform, kind or name does not find the deal.
    let other: Source = "paddle".parse().expect("a platform");
    assert_eq!(inbox(&ledger).deal(&other, order, &name("A")).await.expect("answered"), None);
    assert_eq!((found(payment, "A").await, found(order, "B").await), (None, None));
    // A refunded payment turns out to be the payment of the invoice.
    receive(&ledger, refunded("evt_2", ChargeRef::Payment(name("pi_a")))).await;
    let refund = found(payment, "pi_a").await.expect("a deal");
    assert_eq!((refund.keys().count(), found(order, "A").await), (0, Some(deal)));
    let links = Links { payment: Some(name("pi_a")), invoice: Some(name("in_a")), ..Links::default() };
    receive(&ledger, reported("evt_3", Report::Linked(links))).await;
    let merged = found(order, "A").await.expect("a deal");
    assert_eq!((merged.merged(), merged.keys().collect::<Vec<_>>()), (None, vec![sold]));
    for (kind, reference) in [(payment, "pi_a"), (invoice, "in_a")] {
        assert_eq!(found(kind, reference).await.as_ref(), Some(&merged), "{reference}");
    }
}

pub(super) async fn a_sale_and_its_refund_that_race_leave_no_valid_key(ledger: Port) {
    for round in 0..16 {
        let (order, payment) = (format!("order {round}"), format!("pi {round}"));
        let links = Links { payment: Some(name(&payment)), ..Links::default() };
        let events = [
            paid(&format!("sale {round}"), &order, links),
            refunded(&format!("refund {round}"), ChargeRef::Payment(name(&payment))),
            refunded(&format!("cancelled {round}"), ChargeRef::Order(name(&order))),
        ];
        receive_at_once(&ledger, events).await;
    }
    let valid = keys(&ledger).await.into_iter().filter(|key| key.status(now()) == Status::Valid);
    assert_eq!(valid.count(), 0);
}

pub(super) async fn a_refund_revokes_the_key_that_took_the_place_of_the_one_sold(ledger: Port) {
    let sold = receive(&ledger, paid("evt_1", "A", Links::default())).await.issued.remove(0);
    let mut last = sold.id();
    for _ in 0..2 {
        last = rotate(&ledger, last, successor(another(), now(), Actor::admin())).await.into_key().id();
    }
    let refund = receive(&ledger, refunded("evt_2", ChargeRef::Order(name("A")))).await;
    assert_eq!(refund.event.keys, [last]);
    assert!(find(&ledger, last).await.revoked_at().is_some());
    assert_eq!(keys(&ledger).await.len(), 3);
}

pub(super) async fn charges_of_a_subscription_that_race_have_one_key_that_lives_as_long_as_it_is_paid(ledger: Port) {
    for round in 0..8 {
        let links = || Links { subscription: Some(name(&format!("sub {round}"))), ..Links::default() };
        // Four charges, each for the 30 days after those of the previous one.
        let charges = (0..4).map(|number| {
            let (from, until) = (day(30 * number), day(30 * number + 30));
            let sold = charged(&format!("charge {round} {number}"), links());
            let line = Bought { term: Term::Period { from, until }, ..sold.lines.first().expect("a line").clone() };
            let charged = Charged { at: from, lines: vec![line], ..sold };
            reported(&format!("charged {round} {number}"), Report::Charged(charged))
        });
        let received = receive_at_once(&ledger, charges).await;
        let outcomes = |outcome| received.iter().filter(|it| it.event.outcome == Some(outcome)).count();
        assert_eq!((outcomes(EventOutcome::Issued), outcomes(EventOutcome::Renewed)), (1, 3), "{received:#?}");
        let issued: Vec<KeyId> = received.iter().flat_map(|it| &it.issued).map(Key::id).collect();
        let [id] = issued[..] else { panic!("one key: {issued:?}") };
        let expires_at = async || find(&ledger, id).await.expires_at();
        assert_eq!((keys(&ledger).await.len(), expires_at().await), (round + 1, day(123)), "three days of grace");
        // The end of the subscription shortens the key's validity, although a longer time was charged before.
        let word = SubscriptionReport::new(day(100), links(), (Standing::Ended, Term::Until(day(100))));
        let ended = reported(&format!("ended {round}"), Report::Subscription(word));
        let received = receive(&ledger, ended).await;
        assert_eq!((received.event.outcome, received.changed.len()), (Some(EventOutcome::Ended), 1));
        assert_eq!(expires_at().await, day(100));
        assert_eq!(all(&ledger, Some(EventOutcome::Ended)).await.len(), round + 1);
    }
}
