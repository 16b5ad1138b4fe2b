//! Tests that a key is revoked when its money goes back, and restored when the seller keeps the money after all.

use super::world::*;
use super::*;

/// An order of two pieces of one product, and one piece of another.
fn sale() -> Report {
    charged("o", 0, with_payment(), vec![line("a", 1, 2, Term::Unsaid), line("b", 2, 1, Term::Unsaid)])
}

fn at(day_: i64, cause: Cause) -> Report {
    Report::Refunded(Refund { cause, at: Some(day(day_)), ..Refund::full(by_payment()) })
}

#[test]
fn what_became_of_the_money_counts_in_every_order_and_once() {
    let full = || refunded(by_payment(), Extent::Full);
    let by_invoice = || {
        let links = Links { invoice: Some(id("inv")), ..Links::default() };
        charged("o", 0, links, vec![line("a", 1, 1, Term::Unsaid)])
    };
    let link = || Report::Linked(Links { invoice: Some(id("inv")), payment: Some(id("pay")), ..Links::default() });
    let other = || Some(id("pay2"));
    let beside = || Report::Linked(Links { invoice: Some(id("inv")), payment: other(), ..Links::default() });
    let other_full = || refunded(ChargeRef::Payment(id("pay2")), Extent::Full);
    let part = |refund: &str, lines: &[(&str, u64)]| refunded(ChargeRef::Order(id("o")), returned(refund, lines));
    let money = |refund: &str, amount: u64| {
        let lines = vec![Returned { line: Some("m".to_owned()), name: String::new(), pieces: 0, amount: Some(amount) }];
        refunded(ChargeRef::Order(id("o")), Extent::Lines { refund: refund.to_owned(), lines })
    };
    let of_money = || {
        let line = Bought { amount: Some(1900), ..line("m", 1, 1, Term::Unsaid) };
        charged("o", 0, Links::default(), vec![line])
    };
    // An order of three pieces, reported when one piece was already gone. `early` contains the refund that returned the
    // piece; it is empty if the piece was removed from the order without a refund.
    let of_pieces = |early: &[&str]| {
        let early = early.iter().map(|refund| (*refund).to_owned()).collect();
        let line = Bought { amount: Some(3), early, ..line("m", 1, 2, Term::Unsaid) };
        charged("o", 0, Links::default(), vec![line])
    };
    let left_of_it = |early: &[&str]| {
        let mut charged = charge_of(of_pieces(early));
        charged.lines[0].pieces = 1;
        Report::Charged(charged)
    };
    let piece = |refund: &str| {
        let line = Returned { line: Some("m".to_owned()), name: String::new(), pieces: 1, amount: Some(1) };
        refunded(ChargeRef::Order(id("o")), Extent::Lines { refund: refund.to_owned(), lines: vec![line] })
    };
    let failed = |at: i64| Report::Kept { of: by_payment(), at: day(at) };
    let stands = |at: i64| Report::Charged(Charged { stands_at: Some(day(at)), ..charge_of(sale()) });
    let reversed = |lines: &[(&str, u64)]| {
        let Extent::Lines { lines, .. } = returned("", lines) else { unreachable!("lines") };
        Report::Disputed(dispute(ChargeRef::Order(id("o")), "c1", lines))
    };
    let ended = || Report::Won(ended(ChargeRef::Order(id("o")), "a2"));
    let cases: Vec<(&str, Vec<Report>, &[i64])> = vec![
        ("paid", vec![sale()], &[1, 2]),
        ("refunded by its payment", vec![sale(), full()], &[]),
        ("refunded by its order", vec![sale(), order_refunded("o")], &[]),
        ("a part of the money", vec![sale(), refunded(by_payment(), Extent::Partial { refund: "p1".into() })], &[1, 2]),
        ("a line", vec![sale(), part("r1", &[("b", 1)])], &[1]),
        ("one of two pieces", vec![sale(), part("r1", &[("a", 1)])], &[1, 2]),
        ("pieces that add up", vec![sale(), part("r1", &[("a", 1)]), part("r2", &[("a", 1)])], &[2]),
        ("all pieces of a line", vec![sale(), part("r1", &[("a", u64::MAX)])], &[2]),
        ("a part of a line's money", vec![of_money(), money("r1", 900)], &[1]),
        ("a line's money that adds up", vec![of_money(), money("r1", 900), money("r2", 1000)], &[]),
        ("a piece refunded early counts once", vec![of_pieces(&["r1"]), piece("r1"), piece("r2")], &[1]),
        ("all three pieces", vec![of_pieces(&["r1"]), piece("r1"), piece("r2"), piece("r3")], &[]),
        (
            "what was left after a removal, reported again after a refund",
            vec![of_pieces(&[]), piece("r1"), left_of_it(&["r1"]), piece("r2")],
            &[],
        ),
        ("what was left after a removal", vec![of_pieces(&[]), piece("r2"), piece("r3")], &[]),
        ("disputed", vec![sale(), disputed("d1")], &[]),
        ("a lost dispute", vec![sale(), disputed("d1"), lost("d1")], &[]),
        ("won", vec![sale(), disputed("d1"), won("d1")], &[1, 2]),
        ("won, and disputed again", vec![sale(), disputed("d1"), won("d1"), disputed("d2")], &[]),
        ("won, and refunded", vec![sale(), disputed("d1"), won("d1"), full()], &[]),
        ("another dispute was won", vec![sale(), disputed("d1"), won("d3")], &[]),
        ("ends that name no dispute", vec![sale(), disputed("a1"), won("a2"), disputed("a3"), won("a4")], &[1, 2]),
        ("a line is charged back", vec![sale(), reversed(&[("b", 1)])], &[1]),
        ("a line's chargeback is reversed", vec![sale(), reversed(&[("b", 1)]), ended()], &[1, 2]),
        ("by invoice", vec![by_invoice(), link(), full()], &[]),
        ("one of two payments of an invoice", vec![by_invoice(), link(), beside(), full()], &[1]),
        ("both payments of an invoice", vec![by_invoice(), link(), beside(), full(), other_full()], &[]),
        ("by invoice, won", vec![by_invoice(), link(), disputed(""), won("")], &[1]),
    ];
    for (case, reports, expected) in cases {
        for order in orders(&reports) {
            let mut world = World::of(&order);
            world.retry();
            assert_eq!(world.products(), expected, "{case}: {order:#?}");
        }
    }
    // If the money went back before the sale is known, nothing is issued. The sale is therefore always reported first.
    for (case, rest, expected) in [
        ("a refund that failed", vec![at(5, Cause::Refund), failed(6)], &[1, 2][..]),
        ("refunded again", vec![at(5, Cause::Refund), failed(6), at(7, Cause::Refund)], &[]),
        ("a failure of the same second", vec![at(5, Cause::Refund), failed(5)], &[1, 2]),
        ("cancelled", vec![at(5, Cause::Cancellation), stands(4)], &[]),
        ("cancelled in the same second", vec![at(5, Cause::Cancellation), stands(5)], &[]),
        ("cancelled by mistake", vec![at(5, Cause::Cancellation), stands(6)], &[1, 2]),
        ("cancelled for good", vec![at(5, Cause::Cancellation), stands(6), at(7, Cause::Cancellation)], &[]),
    ] {
        for order in orders(&rest) {
            let world = World::of(&[vec![sale()], order.clone()].concat());
            assert_eq!(world.products(), expected, "{case}: {order:#?}");
        }
    }
}

#[test]
fn a_payment_that_was_authorised_sells_when_it_is_taken() {
    let open = Report::Charged(Charged { is_open: true, ..charge_of(sale()) });
    let mut world = World::of(std::slice::from_ref(&open));
    assert!(world.keys.is_empty());
    world.report(&captured(2, None, vec![offer(1, 2), offer(2, 1)]));
    assert_eq!(world.products(), [1, 2]);
    world.report(&open);
    assert_eq!(world.products(), [1, 2]);
    // If the capture is reported first, the report of the order issues the keys.
    assert_eq!(World::of(&[captured(2, None, Vec::new()), open.clone()]).products(), [1, 2]);
    let late = captured(2, None, vec![offer(1, 2)]);
    assert!(World::of(&[open, refunded(by_payment(), Extent::Full), late]).keys.is_empty());
}

#[test]
fn what_is_missing_of_an_order_that_is_disputed_waits() {
    let one = charged("o", 0, with_payment(), vec![line("a", 1, 2, Term::Unsaid), unmapped("b", 1, Term::Unsaid)]);
    let mut world = World::of(&[one, disputed("d1"), sale()]);
    assert_eq!((world.products(), world.waiting.len()), (vec![], 1));
    world.report(&won("d1"));
    world.retry();
    assert_eq!(world.products(), [1, 2]);
}

#[test]
fn a_partial_refund_is_noted_once_whenever_the_sale_comes() {
    let part = |refund: &str| refunded(by_payment(), Extent::Partial { refund: refund.to_owned() });
    for order in orders(&[sale(), part("p1"), part("p2")]) {
        assert_eq!(World::of(&order).notes, 2 * 2, "two refunds, two keys: {order:#?}");
    }
    // A refund of lines that is reported again under the same id is not noted again.
    let line = || refunded(ChargeRef::Order(id("o")), returned("r1", &[("a", 1)]));
    assert_eq!(World::of(&[sale(), line(), line()]).notes, 2);
}

#[test]
fn what_a_report_about_money_comes_to() {
    let full = refunded(by_payment(), Extent::Full);
    let part =
        || Dispute { extent: Extent::Partial { refund: "d".to_owned() }, ..dispute(by_payment(), "d", Vec::new()) };
    for (reports, expected) in [
        (vec![full.clone()], ReportOutcome::Revoked(Some("no sale of this payment is known here"))),
        (vec![sale(), full.clone()], ReportOutcome::Revoked(None)),
        (vec![full, sale()], ReportOutcome::Nothing("the money went back before")),
        (vec![sale(), refunded(by_payment(), Extent::Partial { refund: "p".into() })], ReportOutcome::PartlyRefunded),
        (vec![sale(), disputed("d"), won("d")], ReportOutcome::Restored),
        (vec![disputed("d"), sale()], ReportOutcome::Waits("the payment is disputed")),
        (vec![Report::Kept { of: by_payment(), at: day(1) }], ReportOutcome::Nothing("the money stays")),
        (vec![Report::Disputed(part())], ReportOutcome::PartlyRefunded),
        (vec![Report::Disputed(part()), Report::Disputed(part())], ReportOutcome::Known),
        (vec![disputed("d"), Report::Won(part())], ReportOutcome::Nothing("it changes no key")),
    ] {
        let (last, before) = reports.split_last().unwrap();
        assert_eq!(World::of(before).report(last), expected, "{reports:#?}");
    }
}

#[test]
fn deals_that_turn_out_to_be_one_know_what_both_knew() {
    let mut world = World::of(&[sale()]);
    let other = World::of(&[refunded(by_payment(), Extent::Full)]);
    world.deal.merge(other.deal);
    world.report(&Report::Linked(Links { order: Some(id("o")), ..with_payment() }));
    assert!(world.products().is_empty());
}

#[test]
fn facts_are_read_back_as_they_were_written() {
    let reports = [
        sale(),
        disputed("d1"),
        lost("d2"),
        paid("c", 1, period(1, 31)),
        said(2, Standing::Active, Term::Until(day(9))),
    ];
    let world = World::of(&reports);
    let text = serde_json::to_string(&world.deal).unwrap();
    assert_eq!(serde_json::from_str::<Deal>(&text).unwrap(), world.deal, "{text}");
}

/// A case: its name, its reports, and the day and amount of each payment that is expected from the reports.
type Received = (&'static str, Vec<Report>, &'static [(i64, u64)]);

#[test]
fn a_payment_is_received_once_in_whatever_form_it_is_reported() {
    let eur = |units| Amount { units, currency: "EUR".parse().unwrap() };
    let with = |total: Option<Amount>, report: Report| Report::Charged(Charged { total, ..charge_of(report) });
    let session = |total| {
        let links = Links { invoice: Some(id("inv")), ..of_subscription() };
        with(total, charged("session", 0, links, vec![line("plan", 1, 1, Term::Unsaid)]))
    };
    let invoice = |name: &str, at, total| {
        let links = Links { invoice: Some(id(name)), is_first: at == 0, ..of_subscription() };
        with(total, charged(name, at, links, vec![line("plan", 1, 1, Term::Unsaid)]))
    };
    let authorised = |report: Report| Report::Charged(Charged { is_open: true, ..charge_of(report) });
    let order = || with(Some(eur(700)), charged("o", 0, with_payment(), vec![line("a", 1, 1, Term::Unsaid)]));
    let captured = |total| captured(3, total, Vec::new());
    let at_time = |stands: i64, total| {
        Report::Charged(Charged { stands_at: Some(day(stands)), total: Some(eur(total)), ..charge_of(order()) })
    };
    let foreign = || with(Some(eur(700)), charged("o", 0, with_payment(), vec![unmapped("a", 1, Term::Unsaid)]));
    let cases: Vec<Received> = vec![
        ("an order", vec![order()], &[(0, 700)]),
        ("an order, reported twice", vec![order(), order()], &[(0, 700)]),
        ("an order that says no amount", vec![paid("o", 0, Term::Unsaid)], &[]),
        ("an order and its invoice", vec![session(Some(eur(900))), invoice("inv", 0, Some(eur(900)))], &[(0, 900)]),
        ("only one of both says the amount", vec![session(None), invoice("inv", 0, Some(eur(900)))], &[(0, 900)]),
        (
            "a later charge",
            vec![invoice("inv", 0, Some(eur(900))), invoice("i2", 30, Some(eur(500)))],
            &[(0, 900), (30, 500)],
        ),
        ("authorised only", vec![authorised(order())], &[]),
        ("captured later", vec![authorised(order()), captured(None)], &[(3, 700)]),
        ("captured in part", vec![authorised(order()), captured(Some(eur(300)))], &[(3, 300)]),
        ("paid in part by a balance", vec![session(Some(eur(900))), invoice("inv", 0, Some(eur(400)))], &[(0, 400)]),
        ("the newest report counts", vec![at_time(1, 900), at_time(2, 700)], &[(0, 700)]),
        ("the larger of two of one time counts", vec![at_time(1, 900), at_time(1, 700)], &[(0, 900)]),
        ("for nothing that is sold here", vec![foreign()], &[]),
        ("for a product that was linked later", vec![foreign(), order()], &[(0, 700)]),
        ("refunded", vec![order(), order_refunded("o")], &[(0, 700)]),
    ];
    for (name, reports, expected) in cases {
        for reports in [reports.clone(), reports.into_iter().rev().collect()] {
            let mut deal = Deal::default();
            for report in &reports {
                deal.report(report, &|_| None, TimeDelta::zero());
            }
            let received: Vec<_> = deal.received().into_values().collect();
            let expected: Vec<_> = expected.iter().map(|(at, units)| (day(*at), eur(*units))).collect();
            let mut sorted = received.clone();
            sorted.sort();
            assert_eq!(sorted, expected, "{name}");
        }
    }
}
