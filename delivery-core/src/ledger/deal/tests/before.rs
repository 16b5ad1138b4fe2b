//! Deals that earlier versions stored. What these versions granted is kept until a charge names a date.

use super::world::*;
use super::*;

/// A sale, one renewal, and a sale of another product that was refunded.
const STORED: &str = r#"{
    "charges": {
        "o": {"payment": "pay", "sold": [
            {"key": "KEY1", "product": 1, "names": ["plan"], "lines": ["l1"], "pieces": 1},
            {"key": "KEY2", "product": 2, "names": ["b"], "lines": ["l2"], "pieces": 1, "is_taken_back": true}
        ], "returned": {"r1": [{"line": "l2", "name": "b", "pieces": 1}]}},
        "c1": {"is_renewal": true, "renewed": ["KEY1"]}
    },
    "payments": {"pay": {"partial": ["100"]}},
    "invoices": {"inv": "pay"}
}"#;

fn stored() -> World {
    let keys = [offer(1, 1).sale.key.id, offer(2, 1).sale.key.id];
    let text = STORED.replace("KEY1", &keys[0].to_string()).replace("KEY2", &keys[1].to_string());
    let held = |product, revoked| Held { product, until: day(700), revoked };
    World {
        deal: serde_json::from_str(&text).unwrap(),
        keys: [(keys[0], held(1, None)), (keys[1], held(2, Some(Why::Refunded)))].into(),
        ..World::default()
    }
}

#[test]
fn what_was_granted_stays_until_a_charge_names_a_date() {
    let named = || paid("c2", 60, period(60, 90));
    let unnamed = || paid("c2", 60, Term::Unsaid);
    for (case, reports, expected) in [
        ("a copy", vec![refunded(by_payment(), Extent::Partial { refund: "100".into() })], 700),
        ("a word", vec![said(50, Standing::Active, Term::Unsaid)], 700),
        ("a charge without a date", vec![unnamed()], 700),
        ("a charge with a date", vec![named()], 93),
        ("and the next", vec![named(), paid("c3", 90, period(90, 120))], 123),
        ("a charge with a date, refunded", vec![named(), order_refunded("c2")], 700),
    ] {
        let mut world = stored();
        for report in reports.iter().chain(&reports) {
            world.report(report);
        }
        assert_eq!(world.standing(), [(1, expected)], "{case}");
    }
}

#[test]
fn money_of_before_goes_back_and_comes_back() {
    let mut world = stored();
    world.report(&disputed("d1"));
    assert!(world.standing().is_empty());
    world.report(&won("d1"));
    assert_eq!(world.standing(), [(1, 700)]);
    for (of, stands) in [(order_refunded("c1"), 1), (order_refunded("o"), 0)] {
        world.report(&of);
        assert_eq!(world.standing().len(), stands, "the renewal was paid too: {of:?}");
    }
}

#[test]
fn what_was_read_is_written_as_this_version_writes() {
    let deal = stored().deal;
    let text = serde_json::to_string(&deal).unwrap();
    assert!(!text.contains("charges") && !text.contains("payments"), "{text}");
    assert_eq!(serde_json::from_str::<Deal>(&text).unwrap(), deal);
}
