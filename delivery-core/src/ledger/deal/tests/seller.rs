//! Tests that later reports do not undo what the seller has changed.

use super::world::*;
use super::*;

fn first() -> Report {
    paid("c1", 0, period(0, 30))
}

#[test]
fn what_a_refund_took_back_and_the_seller_gave_again_stays() {
    let mut world = World::of(&[first(), order_refunded("c1")]);
    assert!(world.standing().is_empty());
    world.keys.values_mut().for_each(|key| key.revoked = None);
    for report in [order_refunded("c1"), first(), said(1, Standing::Active, Term::Unsaid)] {
        world.report(&report);
    }
    assert_eq!(world.standing().len(), 1);
}

#[test]
fn a_dispute_revokes_what_the_seller_gave_back_after_a_refund_until_it_is_won() {
    let sale = charged("o", 0, with_payment(), vec![line("a", 1, 1, Term::Unsaid)]);
    let mut world = World::of(&[sale, refunded(by_payment(), Extent::Full)]);
    world.keys.values_mut().for_each(|key| key.revoked = None);
    world.report(&disputed("d1"));
    assert!(world.standing().is_empty());
    world.report(&won("d1"));
    assert_eq!(world.standing().len(), 1);
}

#[test]
fn a_date_that_the_seller_sets_overrules_what_was_known_and_nothing_shortens_it() {
    let second = || paid("c2", 30, period(30, 60));
    for (case, set, later, expected) in [
        ("longer", 100, vec![], 100),
        ("longer than the next charge", 100, vec![second()], 100),
        ("shorter", 10, vec![], 10),
        ("shorter, and told again", 10, vec![first()], 10),
        ("shorter, and charged again", 10, vec![second()], 63),
        ("shorter, and refunded", 10, vec![second(), order_refunded("c2")], 10),
        ("an end later than the date that is shorter", 10, vec![said(20, Standing::Ended, Term::Until(day(20)))], 10),
        ("an end before the date that is longer", 100, vec![said(20, Standing::Ended, Term::Until(day(20)))], 100),
        ("the grace alone", 31, vec![second()], 63),
    ] {
        let mut world = World::of(&[first()]);
        assert_eq!(world.standing(), [(1, 33)]);
        world.keys.values_mut().for_each(|key| key.until = day(set));
        for report in later.iter().chain(&later) {
            world.report(report);
        }
        assert_eq!(world.standing(), [(1, expected)], "{case}");
    }
}

#[test]
fn a_date_that_was_set_of_a_key_without_a_subscription_stays() {
    let sale = || charged("o", 0, with_payment(), vec![line("a", 1, 1, Term::Unsaid)]);
    let mut world = World::of(&[sale()]);
    world.keys.values_mut().for_each(|key| key.until = day(20));
    for report in [sale(), refunded(by_payment(), Extent::Partial { refund: "p".into() })] {
        world.report(&report);
    }
    assert_eq!(world.standing(), [(1, 20)]);
}
