//! Tests each rule that determines until when a product is paid.

use super::world::*;
use super::*;

fn until(at: i64, standing: Standing, date: i64) -> Report {
    said(at, standing, Term::Until(day(date)))
}

fn ended(at: i64) -> Report {
    until(at, Standing::Ended, at)
}

#[test]
fn a_key_lives_as_long_as_it_is_paid_for_in_every_order() {
    use Standing::{Active, Leaving, Trialing};
    let month = Term::Every(Recurrence::Months(1));
    let first = || paid("c1", 0, period(0, 31));
    let bare = |order: &str, at: i64| paid(order, at, Term::Unsaid);
    let cases: Vec<(&str, Vec<Report>, i64)> = vec![
        ("its own period, and the grace", vec![first()], 34),
        ("the next period", vec![first(), paid("c2", 32, period(31, 59))], 62),
        ("paid three weeks late", vec![first(), paid("c2", 52, period(31, 59))], 62),
        ("a period before the charge pays for nothing", vec![first(), paid("c2", 40, period(1, 31))], 34),
        ("a date of its own", vec![paid("c1", 0, Term::Until(day(20)))], 23),
        ("a trial's date beside a period", vec![first(), until(5, Trialing, 45)], 48),
        ("a period, and not a word", vec![first(), until(1, Active, 40)], 34),
        ("a word, and not the recurrence", vec![paid("c1", 0, month), until(1, Active, 40)], 43),
        ("the latest date without a charge before it", vec![bare("c1", 0), until(1, Active, 31)], 34),
        (
            "each charge has its date",
            vec![bare("c1", 0), until(0, Active, 31), bare("c2", 31), until(31, Active, 59)],
            62,
        ),
        ("a date that is not paid", vec![bare("c1", 0), until(0, Active, 31), until(31, Standing::Unsaid, 40)], 34),
        ("leaving at the end of what is paid", vec![bare("c1", 0), until(3, Leaving, 31)], 34),
        ("calendar months: the last of the next", vec![paid("c1", 30, month)], 58 + 3),
        ("the beginning of the next charge", vec![bare("c1", 0), paid("c2", 32, period(31, 59))], 62),
        ("the product's own days, without grace", vec![bare("c1", 10)], 375),
        ("ended: cut, without grace", vec![first(), ended(20)], 20),
        ("ended after what was paid: no longer", vec![first(), ended(60)], 34),
        ("ended within the grace", vec![first(), ended(32)], 32),
        ("reinstated", vec![first(), ended(20), said(21, Active, Term::Unsaid)], 34),
        ("at the same time the end counts", vec![first(), ended(20), said(20, Active, Term::Unsaid)], 20),
        ("a charge after the end", vec![first(), ended(20), paid("c2", 25, period(25, 55))], 58),
        ("the date was moved", vec![first(), said(10, Active, period(0, 50))], 53),
        ("an earlier word moves nothing", vec![paid("c1", 11, period(0, 31)), said(10, Active, period(0, 50))], 34),
        ("another period's word moves nothing", vec![first(), said(10, Active, period(1, 50))], 34),
        ("a refunded charge does not count", vec![first(), paid("c2", 31, period(31, 59)), order_refunded("c2")], 34),
        ("nor does the first", vec![first(), paid("c2", 31, period(31, 59)), order_refunded("c1")], 62),
    ];
    for (case, reports, expected) in cases {
        for order in orders(&reports) {
            let mut world = World::of(&order);
            world.retry();
            assert_eq!(world.standing(), [(1, expected)], "{case}: {order:#?}");
        }
    }
}

#[test]
fn a_product_without_a_key_of_the_subscription_gets_one() {
    let both =
        || charged("o", 0, of_subscription(), vec![line("plan", 1, 1, period(0, 31)), line("book", 2, 1, Term::Once)]);
    let other = || charged("c2", 10, of_subscription(), vec![line("big", 3, 1, period(10, 41))]);
    for order in orders(&[both(), other(), paid("c3", 31, period(31, 59))]) {
        // A book that was sold together with the plan keeps its own validity. The key for `big` expires after its only
        // paid period, plus the grace period.
        assert_eq!(World::of(&order).standing(), [(1, 62), (2, 365), (3, 44)], "{order:#?}");
    }
}

#[test]
fn a_charge_that_names_no_product_pays_for_what_was_paid_before_or_is_said() {
    let nothing = |order: &str, at: i64| charged(order, at, of_subscription(), Vec::new());
    let price =
        |order: &str, at: i64, term: Term| charged(order, at, of_subscription(), vec![unmapped("price", 1, term)]);
    let now_big = |at: i64, date: i64| sells("c1", (at, date), line("big", 2, 1, Term::Unsaid), offer(2, 1));
    let first = || paid("c1", 0, period(0, 31));
    for (case, reports, expected) in [
        ("before", vec![first(), price("c2", 31, period(31, 59))], &[(1, 62)][..]),
        ("said", vec![first(), nothing("c2", 10), now_big(10, 31)], &[(1, 34), (2, 34)]),
    ] {
        for order in orders(&reports) {
            let mut world = World::of(&order);
            world.retry();
            assert_eq!(world.standing(), expected, "{case}: {order:#?}");
        }
    }
}

#[test]
fn an_order_and_its_invoice_are_one_charge() {
    let session = |invoice: Option<&str>| {
        let links = Links { invoice: invoice.map(id), ..of_subscription() };
        charged("session", 0, links, vec![line("link", 1, 1, Term::Unsaid)])
    };
    let invoice = || {
        let links = Links { invoice: Some(id("in_1")), payment: Some(id("pay")), is_first: true, ..of_subscription() };
        charged("in_1", 0, links, vec![unmapped("price", 1, period(0, 31))])
    };
    let next = || {
        let links = Links { invoice: Some(id("in_2")), ..of_subscription() };
        charged("in_2", 31, links, vec![unmapped("price", 1, period(31, 59))])
    };
    for named in [Some("in_1"), None] {
        for order in orders(&[session(named), invoice(), next()]) {
            let mut world = World::of(&order);
            world.retry();
            assert_eq!(world.standing(), [(1, 62)], "{order:#?}");
            world.report(&refunded(by_payment(), Extent::Full));
            assert_eq!(world.standing(), [(1, 62)], "the next charge was paid");
            world.report(&order_refunded("in_2"));
            assert!(world.standing().is_empty(), "{order:#?}");
        }
    }
}

#[test]
fn a_product_that_never_expires_never_does() {
    let of_own = |own: Own| {
        let line = Bought { own: Some(own), ..line("plan", 1, 1, period(0, 31)) };
        let mut charged = charge_of(charged("c1", 0, of_subscription(), vec![line]));
        charged.offers.iter_mut().for_each(|offer| offer.sale.key.expires_at = crate::terms::NEVER);
        Report::Charged(charged)
    };
    for (own, is_for_ever) in [(Own::Never, true), (Own::Unlimited, false)] {
        let world = World::of(&[of_own(own), ended(20)]);
        let held = world.keys.values().next().unwrap();
        assert_eq!((held.until == crate::terms::NEVER, held.revoked), (is_for_ever, None), "{own:?}");
    }
}

#[test]
fn what_a_report_about_a_subscription_comes_to() {
    let first = || paid("c1", 0, period(0, 31));
    for (reports, expected) in [
        (vec![first()], ReportOutcome::Issued),
        (vec![first(), first()], ReportOutcome::Known),
        (vec![first(), paid("c2", 31, period(31, 59))], ReportOutcome::Renewed),
        (vec![paid("c2", 31, period(31, 59)), first()], ReportOutcome::Renewed),
        (vec![first(), ended(20)], ReportOutcome::Ended),
        (vec![first(), ended(20), said(21, Standing::Active, Term::Unsaid)], ReportOutcome::Renewed),
        (vec![first(), until(5, Standing::Leaving, 31)], ReportOutcome::Nothing("it changes no key")),
        (vec![ended(20)], ReportOutcome::Nothing("it changes no key")),
        (vec![paid("c1", 40, period(0, 31))], ReportOutcome::Nothing("it pays for nothing to come")),
        (vec![first(), order_refunded("c1")], ReportOutcome::Revoked(None)),
        (vec![charged("c1", 0, of_subscription(), Vec::new())], ReportOutcome::Known),
    ] {
        let (last, before) = reports.split_last().unwrap();
        assert_eq!(World::of(before).report(last), expected, "{reports:#?}");
    }
}

#[test]
fn what_a_seller_is_shown_of_a_subscription() {
    let world = World::of(&[paid("c1", 0, period(0, 31)), ended(20)]);
    let shown = world.deal.subscription("c1", product(1)).unwrap();
    assert_eq!((shown.name, shown.paid_until), ("sub", Some(day(20))));
    // `paid_until` is `None` if no report states when the paid time ends, or if the charge was refunded.
    for world in
        [World::of(&[paid("c1", 0, Term::Unsaid)]), World::of(&[paid("c1", 0, period(0, 31)), order_refunded("c1")])]
    {
        let shown = world.deal.subscription("c1", product(1)).unwrap();
        assert_eq!((shown.name, shown.paid_until), ("sub", None));
    }
    let sale = World::of(&[charged("o", 0, Links::default(), vec![line("a", 1, 1, Term::Unsaid)])]);
    assert_eq!(sale.deal.subscription("o", product(1)), None);
}

#[test]
fn a_charge_that_names_no_product_pays_once_for_what_is_charged_again() {
    // A later charge that names no product does not pay for a book that was sold once, together with the plan.
    let both = vec![line("plan", 1, 1, period(0, 31)), line("book", 2, 1, Term::Once)];
    let next = charged("c2", 31, of_subscription(), vec![unmapped("price", 1, period(31, 59))]);
    let world = World::of(&[charged("c1", 0, of_subscription(), both), offered(next, &[1, 2])]);
    assert_eq!(world.standing(), [(1, 62), (2, 365)]);
    // The charge `c2` pays for the product of the order `o`, even if the only known statement is about something else.
    let reports = [
        charged("o", 0, Links::default(), vec![line("v1", 1, 1, Term::Unsaid)]),
        offered(charged("c2", 31, of_subscription(), Vec::new()), &[1]),
        sells("o", (40, 59), unmapped("v9", 1, Term::Unsaid), offer(1, 1)),
    ];
    for order in orders(&reports) {
        let mut world = World::of(&order);
        world.retry();
        assert_eq!(world.standing(), [(1, 62)], "{order:#?}");
    }
    // The buyer changed from `v1` to `v9`, which is mapped to no product. The dates in the statement about `v9` count
    // for charges that name no product.
    let reports = [
        charged("o", 0, Links::default(), vec![line("v1", 1, 1, Term::Unsaid)]),
        sells("o", (0, 31), line("v1", 1, 1, Term::Unsaid), offer(1, 1)),
        sells("o", (31, 59), unmapped("v9", 1, Term::Unsaid), offer(1, 1)),
        offered(charged("c2", 31, of_subscription(), Vec::new()), &[1]),
    ];
    for order in orders(&reports) {
        let mut world = World::of(&order);
        world.retry();
        assert_eq!(world.standing(), [(1, 62)], "{order:#?}");
    }
    // Even if the plan is mapped to no product, a later charge does not pay for the book.
    let plan = || unmapped("plan", 1, Term::Unsaid);
    let reports = [
        charged("o", 0, Links::default(), vec![plan(), line("book", 2, 1, Term::Unsaid)]),
        offered(charged("r", 31, of_subscription(), vec![plan()]), &[2]),
        sells("o", (0, 31), plan(), offer(2, 1)),
        sells("o", (31, 59), plan(), offer(2, 1)),
    ];
    for order in orders(&reports) {
        assert_eq!(World::of(&order).standing(), [(2, 365)], "{order:#?}");
    }
}
