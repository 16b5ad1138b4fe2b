//! Tests rare sequences of reports, each of which once had a wrong result.

use super::world::*;
use super::*;
use crate::terms::NEVER;

fn until(at: i64, date: i64) -> Report {
    said(at, Standing::Active, Term::Until(day(date)))
}

fn word(at: i64, term: Term) -> SubscriptionReport {
    let Report::Subscription(word) = said(at, Standing::Active, term) else { unreachable!("a word") };
    word
}

fn disputed_line(order: &str, line: &str) -> Report {
    let Extent::Lines { lines, .. } = returned("", &[(line, 1)]) else { unreachable!("lines") };
    Report::Disputed(dispute(ChargeRef::Order(id(order)), "d", lines))
}

#[test]
fn what_is_refunded_takes_what_it_paid_for_along() {
    let bare = |order: &str, at: i64| paid(order, at, Term::Unsaid);
    let price = || charged("c2", 31, of_subscription(), vec![unmapped("price", 1, period(31, 59))]);
    let lines = refunded(ChargeRef::Order(id("c2")), returned("r1", &[("price", 1)]));
    for (case, reports) in [
        (
            "a date that was named after it",
            vec![bare("c1", 0), until(0, 31), bare("c2", 31), until(31, 59), order_refunded("c2")],
        ),
        ("a price that is no product, by its lines", vec![paid("c1", 0, period(0, 31)), price(), lines]),
    ] {
        for order in orders(&reports) {
            let mut world = World::of(&order);
            world.retry();
            assert_eq!(world.standing(), [(1, 34)], "{case}: {order:#?}");
        }
    }
}

#[test]
fn an_order_that_was_guessed_to_begin_a_subscription_is_let_go_when_another_is_named() {
    let sale = || charged("o", 0, Links::default(), vec![line("plan", 1, 1, Term::Unsaid)]);
    let renewal =
        charged("c1", 10, Links { order: Some(id("o")), ..of_subscription() }, vec![line("plan", 1, 1, Term::Unsaid)]);
    let began = |order: &str| sells(order, (11, 40), line("plan", 1, 1, Term::Unsaid), offer(1, 1));
    let named = |order: &str| World::of(&[sale(), renewal.clone(), began(order)]).standing();
    assert_eq!(World::of(&[sale(), renewal.clone()]).standing(), [(1, 375)]);
    assert_eq!(named("o"), [(1, 43)]);
    assert_eq!(named("another"), [(1, 43), (1, 365)]);
}

#[test]
fn an_order_that_begins_two_subscriptions_pays_for_each() {
    let of = |name: &str| Links { subscription: Some(id(name)), ..Links::default() };
    let began = |name: &str, at: i64, until: i64, plan: &str, number: i64| {
        let (links, lines) = (Links { order: Some(id("o")), ..of(name) }, vec![line(plan, number, 1, Term::Unsaid)]);
        let (standing, term, offers) = (Standing::Active, Term::Until(day(until)), vec![offer(number, 1)]);
        Report::Subscription(SubscriptionReport { at: day(at), links, lines, standing, term, offers })
    };
    let ended = |name: &str, at: i64| {
        let said = (Standing::Ended, Term::Until(day(at)));
        Report::Subscription(SubscriptionReport::new(day(at), of(name), said))
    };
    let two = || charged("o", 0, Links::default(), vec![line("a", 1, 1, Term::Unsaid), line("b", 2, 1, Term::Unsaid)]);
    let week = || charged("c1", 7, of("weekly"), vec![line("b", 2, 1, Term::Unsaid)]);
    let monthly = || began("monthly", 0, 31, "a", 1);
    for (case, reports, expected) in [
        ("each by its words", vec![two(), monthly(), began("weekly", 1, 7, "b", 2)], vec![(1, 34), (2, 10)]),
        (
            "one is charged again",
            vec![two(), monthly(), began("weekly", 1, 14, "b", 2), week()],
            vec![(1, 34), (2, 17)],
        ),
        ("one ends", vec![two(), monthly(), began("weekly", 1, 7, "b", 2), ended("weekly", 5)], vec![(1, 34), (2, 5)]),
    ] {
        for order in orders(&reports) {
            let mut world = World::of(&order);
            world.retry();
            let mut standing = world.standing();
            // If a charge is reported before its order, the charge gets a key of its own. That key expires at the same
            // time as the order's key.
            standing.dedup();
            assert_eq!(standing, expected, "{case}: {order:#?}");
        }
    }
    // If both subscriptions are for the same product, its key is valid as long as one of them is paid.
    let one = vec![line("a", 1, 1, Term::Unsaid), line("b", 1, 1, Term::Unsaid)];
    let sold = || charged("o", 0, Links::default(), one.clone());
    for order in orders(&[sold(), monthly(), began("yearly", 0, 365, "b", 1)]) {
        assert_eq!(World::of(&order).standing(), [(1, 368)], "{order:#?}");
    }
}

#[test]
fn a_key_whose_charge_turns_out_to_be_for_another_product_is_that_of_a_sale_without_one() {
    let plan = |number: i64| line(&format!("v{number}"), number, 1, Term::Unsaid);
    let sale = charged("o", 0, Links::default(), vec![plan(1)]);
    let bare = |order: &str, at| offered(charged(order, at, of_subscription(), Vec::new()), &[1, 2]);
    let dispute = Report::Disputed(dispute(ChargeRef::Order(id("c2")), "d", Vec::new()));
    let word = |at: i64| sells("o", (at, at + 30), plan(2), offer(2, 1));
    let orders_of = |world: &World| world.deal.keys.iter().map(|kept| kept.order.clone()).collect::<Vec<_>>();
    // The sale waits for the disputed charge, until a statement says that this charge is for the other product.
    let began = sells("o", (1, 2), unmapped("v9", 1, Term::Unsaid), offer(1, 1));
    let mut world = World::of(&[began, bare("c1", 30), bare("c2", 80), dispute, sale, word(60)]);
    world.report(&bare("c1", 30));
    assert_eq!((world.products(), orders_of(&world)), (vec![1], vec!["c1".to_owned()]));
    // The charge `c1` turns out to be for the other product too.
    world.report(&word(10));
    assert_eq!((world.standing(), orders_of(&world)), (vec![(1, 365)], vec!["o".to_owned()]));
}

#[test]
fn a_word_about_another_product_moves_no_date() {
    for term in [Term::Until(day(400)), period(0, 400)] {
        let ours = || {
            Report::Subscription(SubscriptionReport {
                lines: vec![line("plan", 1, 1, Term::Unsaid)],
                ..word(1, Term::Until(day(31)))
            })
        };
        let others = Report::Subscription(SubscriptionReport {
            lines: vec![unmapped("other", 1, Term::Unsaid)],
            ..word(2, term)
        });
        for paid in [paid("c1", 0, period(0, 31)), paid("c1", 0, Term::Unsaid)] {
            assert_eq!(World::of(&[paid, ours(), others.clone()]).standing(), [(1, 34)]);
        }
    }
}

#[test]
fn a_dispute_about_a_line_concerns_no_other() {
    let both = |order: &str, from: i64, until: i64| {
        let lines = ["a", "b"].into_iter().zip([1, 2]).map(|(name, number)| line(name, number, 1, period(from, until)));
        charged(order, from, of_subscription(), lines.collect())
    };
    let refund = refunded(ChargeRef::Order(id("c1")), returned("r1", &[("b", 1)]));
    for order in orders(&[both("c1", 0, 31), both("c2", 31, 59), refund, disputed_line("c1", "a")]) {
        let mut world = World::of(&order);
        world.retry();
        assert_eq!(world.standing(), [(2, 62)], "{order:#?}");
    }
}

#[test]
fn a_sale_that_comes_after_its_dispute_or_refund_waits_only_for_what_can_still_change() {
    const FAILED: &str = "its refund failed, and its sale has no key: apply the event of the sale, or issue a key by hand, \
        then put this event aside";
    const LOST: &str = "a dispute about this subscription was lost, so it has no valid key: issue a key by hand, or put \
        this event aside";
    let sale = || charged("o", 0, with_payment(), vec![line("a", 1, 1, Term::Unsaid)]);
    let refund = || Report::Refunded(Refund { at: Some(day(5)), ..Refund::full(by_payment()) });
    let failed = || Report::Kept { of: by_payment(), at: day(6) };
    let gone = ReportOutcome::Nothing("the money went back before");
    // The same sale without an offer, as when the buyer has no address. Such a sale waits for the seller.
    let unsold = || offered(sale(), &[]);
    let of_charge = dispute(ChargeRef::Order(id("c1")), "d", Vec::new());
    let lost_charge = || Report::Disputed(Dispute { is_lost: true, ..of_charge.clone() });
    let period_of = |name: &str, from| paid(name, from, period(from, from + 30));
    for (case, before, last, expected) in [
        ("an open dispute", vec![disputed("d1")], sale(), ReportOutcome::Waits("the payment is disputed")),
        ("a lost dispute", vec![disputed("d1"), lost("d1")], sale(), gone),
        ("only the loss is known", vec![lost("d1")], sale(), gone),
        ("won after all", vec![disputed("d1"), lost("d1"), won("d1")], sale(), ReportOutcome::Issued),
        ("a refund that may fail", vec![refund()], sale(), ReportOutcome::Nothing(REFUNDED)),
        ("a refund that is final", vec![refunded(by_payment(), Extent::Full)], sale(), gone),
        ("a refund and a lost dispute", vec![refund(), lost("d1")], sale(), gone),
        (
            "a dispute that was won before",
            vec![won("d1"), sale()],
            disputed("d1"),
            ReportOutcome::Nothing("the seller has won this dispute"),
        ),
        ("the refund fails afterwards", vec![refund(), sale()], failed(), ReportOutcome::Waits(FAILED)),
        (
            "the key was issued by another report",
            vec![refund(), sale(), failed(), sale()],
            failed(),
            ReportOutcome::Restored,
        ),
        ("it fails before the sale", vec![refund(), failed()], sale(), ReportOutcome::Issued),
        ("the sale came first", vec![sale(), refund()], failed(), ReportOutcome::Restored),
        ("no sale is known", vec![refund()], failed(), ReportOutcome::Restored),
        (
            "a disputed sale",
            vec![disputed("d1"), refund(), sale()],
            failed(),
            ReportOutcome::Waits("the payment is disputed"),
        ),
        ("a sale that has its key already", vec![sale(), refund()], sale(), gone),
        ("only a part was refunded", vec![unsold()], failed(), ReportOutcome::Nothing("the money stays")),
        (
            "a charge after a lost one",
            vec![lost_charge(), period_of("c1", 0)],
            period_of("c2", 31),
            ReportOutcome::Waits(LOST),
        ),
    ] {
        assert_eq!(World::of(&before).report(&last), expected, "{case}");
    }
}

#[test]
fn a_product_that_is_disputed_waits_while_others_are_issued() {
    let lines = || vec![line("a", 1, 1, Term::Unsaid), line("b", 2, 1, Term::Unsaid)];
    let mut world = World::of(&[disputed_line("o", "a")]);
    assert_eq!(
        world.report(&charged("o", 0, Links::default(), lines())),
        ReportOutcome::Waits("the payment is disputed")
    );
    assert_eq!(world.products(), [2]);
    world.report(&Report::Won(dispute(ChargeRef::Order(id("o")), "d", Vec::new())));
    world.retry();
    assert_eq!(world.products(), [1, 2]);
}

#[test]
fn what_was_authorised_and_taken_waits_for_its_key() {
    let sale = charge_of(charged("o", 0, with_payment(), vec![line("a", 1, 1, Term::Unsaid)]));
    let mut world = World::default();
    assert_eq!(world.report(&Report::Charged(Charged { is_open: true, ..sale })), ReportOutcome::Authorised);
    assert_eq!(world.report(&captured(2, None, Vec::new())), ReportOutcome::Lacks);
    assert_eq!(world.report(&captured(2, None, vec![offer(1, 1)])), ReportOutcome::Issued);
}

#[test]
fn the_date_of_the_seller_stays_under_another_name_and_with_another_grace() {
    let sale = || charged("o", 0, of_subscription(), vec![line("plan", 1, 1, Term::Unsaid)]);
    let mut world = World::of(&[sale()]);
    world.keys.values_mut().for_each(|held| held.until = day(10));
    // The same payment is reported again, under the name of its invoice.
    world.report(&Report::Linked(Links { order: Some(id("in_1")), is_first: true, ..of_subscription() }));
    assert_eq!(world.standing(), [(1, 10)]);
    let charge = || paid("c1", 0, period(0, 30));
    let mut world = World::of(&[charge()]);
    world.keys.values_mut().for_each(|held| held.until = day(10));
    world.report(&charge());
    let copy = charge();
    let Reported { steps, .. } = world.deal.report(&copy, &|_| Some(day(10)), TimeDelta::days(10));
    assert!(steps.is_empty(), "{steps:?}");
}

#[test]
fn a_product_that_never_expires_is_known_by_words_too_and_later() {
    let never = |line: Bought| Bought { own: Some(Own::Never), ..line };
    let first = || paid("c1", 0, period(0, 31));
    let later = charged("c2", 31, of_subscription(), vec![never(line("plan", 1, 1, period(31, 59)))]);
    let mut offer = offer(2, 1);
    offer.sale.key.expires_at = NEVER;
    let bare = charged("c2", 31, of_subscription(), Vec::new());
    let big = sells("c1", (31, 59), never(line("big", 2, 1, Term::Unsaid)), offer);
    for (case, reports) in [("later", vec![first(), later]), ("by a word", vec![first(), bare, big])] {
        let world = World::of(&reports);
        assert_eq!(world.keys.values().map(|held| held.until).max(), Some(NEVER), "{case}");
    }
}

#[test]
fn a_refund_that_failed_before_another_was_made_restores_nothing() {
    let sale = charged("o", 0, with_payment(), vec![line("a", 1, 1, Term::Unsaid)]);
    let refund = Refund { at: Some(day(7)), ..Refund::full(by_payment()) };
    let mut world = World::of(&[sale, Report::Refunded(refund)]);
    let came = world.report(&Report::Kept { of: by_payment(), at: day(6) });
    assert_eq!((came, world.products()), (ReportOutcome::Nothing("the money stays"), vec![]));
}

#[test]
fn a_part_of_a_payment_that_two_charges_are_is_noted_once() {
    let of_invoice = || Links { invoice: Some(id("in_1")), ..of_subscription() };
    let session = charged("session", 0, of_invoice(), vec![line("link", 1, 1, Term::Unsaid)]);
    let links = Links { payment: Some(id("pay")), is_first: true, ..of_invoice() };
    let invoice = charged("in_1", 0, links, vec![unmapped("price", 1, period(0, 31))]);
    let part = refunded(by_payment(), Extent::Partial { refund: "p1".to_owned() });
    for order in orders(&[session, invoice, part]) {
        assert_eq!(World::of(&order).notes, 1, "{order:#?}");
    }
}

#[test]
fn a_word_whose_product_is_disputed_waits_for_what_the_dispute_is_about() {
    let bare = |order: &str, at| offered(charged(order, at, of_subscription(), Vec::new()), &[1]);
    let word = |at: i64, number: i64| {
        let sold = line(&format!("v{number}"), number, 1, Term::Unsaid);
        sells("o", (at, at + 30), sold, offer(number, 1))
    };
    let dispute = Report::Disputed(dispute(ChargeRef::Order(id("c2")), "d", Vec::new()));
    // Until the last statement is known, the charge `c2` may be for either product.
    let mut world = World::of(&[word(0, 1), bare("c1", 45), bare("c2", 90), dispute, word(30, 2), word(60, 1)]);
    world.retry();
    assert_eq!(world.products(), [2]);
}
