//! Tests that a line keeps the product that it was sold as, and that lines which are mapped later get keys too.

use super::world::*;
use super::*;

fn order(lines: Vec<Bought>) -> Report {
    charged("o", 0, Links::default(), lines)
}

#[test]
fn a_line_is_known_by_its_number_and_not_by_its_name() {
    // Two lines have the same name, but only the first one is mapped to a product.
    let named = |number: &str, line: Bought| Bought { line: number.to_owned(), names: vec!["x".to_owned()], ..line };
    let first = || named("l1", line("l1", 1, 1, Term::Unsaid));
    let mut world = World::of(&[order(vec![first(), named("l2", unmapped("l2", 1, Term::Unsaid))])]);
    assert_eq!((world.products(), world.serves("o")), (vec![1], false));
    world.report(&order(vec![first(), named("l2", line("l2", 2, 1, Term::Unsaid))]));
    assert_eq!((world.products(), world.serves("o")), (vec![1, 2], true));
    world.report(&refunded(ChargeRef::Order(id("o")), returned("r1", &[("l2", 1)])));
    assert_eq!(world.products(), [1]);
}

#[test]
fn a_line_that_is_mapped_to_another_product_later_stays_what_it_was_sold_as() {
    let mapped = |number: i64| order(vec![line("a", number, 1, Term::Unsaid)]);
    assert_eq!(World::of(&[mapped(1), mapped(2)]).products(), [1]);
}

#[test]
fn lines_that_become_known_as_a_product_that_was_sold_add_to_its_key() {
    let one = || order(vec![line("l1", 1, 2, Term::Unsaid), unmapped("l2", 1, Term::Unsaid)]);
    let both = || order(vec![line("l1", 1, 2, Term::Unsaid), line("l2", 1, 1, Term::Unsaid)]);
    let mut world = World::of(&[one()]);
    assert_eq!((world.report(&both()), world.added), (ReportOutcome::Issued, 1));
    for known in [both(), one()] {
        assert_eq!((world.report(&known), world.added), (ReportOutcome::Known, 1));
    }
    // In the end, the key is valid if only the first line is refunded, whether the other line is mapped before or after
    // that refund.
    let returned = || refunded(ChargeRef::Order(id("o")), returned("r1", &[("l1", 2)]));
    for reports in [[one(), returned(), both()], [one(), both(), returned()]] {
        assert_eq!(World::of(&reports).products(), [1], "{reports:#?}");
    }
}

#[test]
fn pieces_that_are_added_to_an_order_add_to_its_key() {
    let pieces = |pieces: u64| order(vec![line("a", 1, pieces, Term::Unsaid)]);
    for reports in [[pieces(1), pieces(3)], [pieces(3), pieces(1)]] {
        let mut world = World::of(&reports);
        let one_back = |refund: &str| refunded(ChargeRef::Order(id("o")), returned(refund, &[("a", 1)]));
        assert_eq!(world.deal.keys.iter().map(|kept| kept.pieces).sum::<u64>(), 3, "{reports:#?}");
        world.report(&one_back("r1"));
        world.report(&one_back("r2"));
        assert_eq!(world.products(), [1]);
        world.report(&one_back("r3"));
        assert_eq!(world.products(), [0; 0]);
    }
}

#[test]
fn an_order_of_other_things_needs_the_seller() {
    let fee = || unmapped("fee", 1, Term::Once);
    for (links, lines, is_served) in [
        (Links::default(), vec![line("a", 1, 1, Term::Unsaid)], true),
        (Links::default(), vec![line("a", 1, 1, Term::Unsaid), unmapped("b", 1, Term::Unsaid)], false),
        (Links::default(), vec![unmapped("b", 1, Term::Unsaid)], false),
        (Links::default(), vec![line("a", 1, 1, Term::Unsaid), fee()], false),
        // A fee that is sold together with the plan needs no product.
        (of_subscription(), vec![line("a", 1, 1, period(0, 30)), fee()], true),
        (of_subscription(), vec![fee()], false),
        // A line for usage before the payment pays for no time to come, so it needs no product.
        (of_subscription(), vec![unmapped("b", 1, period(-30, 0))], true),
    ] {
        let mut world = World::of(&[charged("o", 0, links, lines.clone())]);
        assert_eq!(world.serves("o"), is_served, "{lines:?}");
        world.report(&order_refunded("o"));
        assert!(world.serves("o"), "what was refunded needs nobody: {lines:?}");
    }
}
