//! Deals come to the same in whatever order their events come, and however often.

use std::collections::BTreeMap;

use super::*;
use crate::key::{KeyId, NewKey};
use crate::store::Sale;

/// Keys, as far as a deal changes them.
#[derive(Debug, Clone, Default)]
struct World {
    deal: Deal,
    keys: BTreeMap<KeyId, (Option<Why>, i32)>,
    waiting: Vec<Report>,
    notes: usize,
}

fn order(name: &str) -> crate::order::OrderId {
    name.parse().unwrap()
}

fn offer(product: i64, name: &str, pieces: u64) -> Offer {
    let product = ProductId::new(product).unwrap();
    let id = KeyId::random(&crate::SystemClock, &crate::entropy::SystemEntropy);
    let version = crate::key::SecretVersion::from_stored(1);
    let (email, now) = ("ada@example.com".parse().unwrap(), chrono::DateTime::UNIX_EPOCH);
    let key = NewKey::on_terms((id, version), product, email, crate::terms::Terms::default(), now);
    Offer {
        product,
        names: vec![name.to_owned()],
        lines: vec![name.to_owned()],
        pieces,
        sale: Sale::new(key, Vec::new()),
    }
}

fn charged(name: &str, links: Links, is_renewal: bool, offers: Vec<Offer>) -> Report {
    Report::Charged(Charged { order: order(name), links, is_renewal, offers, unmapped: Vec::new(), missing: None })
}

fn paid() -> Report {
    let links = Links { payment: Some(order("pay")), ..Links::default() };
    charged("o", links, false, vec![offer(1, "a", 2), offer(2, "b", 1)])
}

fn refund(of: Of, extent: Extent) -> Report {
    Report::Refunded { of, extent, cause: Cause::Refund }
}

fn lines(refund: &str, lines: &[(&str, u64)]) -> Extent {
    let line = |(name, pieces): &(&str, u64)| Returned { line: None, name: (*name).to_owned(), pieces: *pieces };
    Extent::Lines { refund: refund.to_owned(), lines: lines.iter().map(line).collect() }
}

fn by_payment() -> Of {
    Of::Payment(order("pay"))
}

fn disputed(number: &str) -> Report {
    Report::Disputed { of: by_payment(), dispute: number.to_owned() }
}

fn won(number: &str) -> Report {
    let end = if number.starts_with('a') { End::Any(number.to_owned()) } else { End::Of(number.to_owned()) };
    Report::Won { of: by_payment(), end }
}

impl World {
    fn report(&mut self, report: &Report) {
        let (told, mut steps) = self.deal.report(report);
        while !steps.is_empty() {
            self.carry_out(steps, report);
            steps = self.deal.settle();
        }
        if matches!(told, Told::Waits(_)) && !self.waiting.contains(report) {
            self.waiting.push(report.clone());
        }
    }

    fn carry_out(&mut self, steps: Vec<Step<'_>>, report: &Report) {
        for step in steps {
            match (step, report) {
                (Step::Issue(offer), Report::Charged(charged)) => {
                    let key = offer.sale.key.id;
                    self.keys.insert(key, (None, 1));
                    self.deal.sold(charged.order.as_str(), offer, key);
                }
                (Step::Revoke(key, why), _) => {
                    let revoked = &mut self.keys.get_mut(&key).unwrap().0;
                    if revoked.is_none_or(|first| first == Why::Disputed) {
                        *revoked = Some(why);
                    }
                }
                (Step::Lift(key, why), _) => drop(self.keys.get_mut(&key).unwrap().0.take_if(|it| *it == why)),
                (Step::Renew(key), _) => self.keys.get_mut(&key).unwrap().1 += 1,
                (Step::Shorten(key), _) => self.keys.get_mut(&key).unwrap().1 -= 1,
                (Step::Note(_), _) => self.notes += 1,
                (Step::Issue(_) | Step::Add(..), _) => {}
            }
        }
    }

    /// The products of valid keys, and the periods that were paid.
    fn valid(&self) -> Vec<(i64, i32)> {
        let products: BTreeMap<KeyId, i64> = self
            .deal
            .charges
            .values()
            .flat_map(|charge| &charge.sold)
            .map(|sold| (sold.key, sold.product.get()))
            .collect();
        let mut valid: Vec<_> = self
            .keys
            .iter()
            .filter(|(_, (revoked, _))| revoked.is_none())
            .map(|(key, (_, periods))| (products[key], *periods))
            .collect();
        valid.sort_unstable();
        valid
    }
}

/// All orders of `reports`.
fn orders(reports: &[Report]) -> Vec<Vec<Report>> {
    if reports.len() < 2 {
        return vec![reports.to_vec()];
    }
    let mut all = Vec::new();
    for first in 0..reports.len() {
        let mut rest = reports.to_vec();
        let head = rest.remove(first);
        all.extend(orders(&rest).into_iter().map(|tail| [vec![head.clone()], tail].concat()));
    }
    all
}

#[test]
fn a_deal_comes_to_the_same_in_every_order_and_twice() {
    let full = || refund(by_payment(), Extent::Full);
    let renewed = |name: &str| {
        let links = Links { subscription: Some(order("sub")), ..Links::default() };
        charged(name, links, true, vec![offer(1, "a", 1)])
    };
    let first = || {
        let links = Links { subscription: Some(order("sub")), payment: Some(order("pay")), ..Links::default() };
        charged("o", links, false, vec![offer(1, "a", 1)])
    };
    let invoiced = || {
        let links = Links { invoice: Some(order("inv")), ..Links::default() };
        charged("o", links, false, vec![offer(1, "a", 1)])
    };
    let link =
        || Report::Linked(Links { invoice: Some(order("inv")), payment: Some(order("pay")), ..Links::default() });
    for (case, reports, valid) in [
        ("paid", vec![paid()], vec![(1, 1), (2, 1)]),
        ("refunded", vec![paid(), full()], vec![]),
        ("refunded by order", vec![paid(), refund(Of::Order(order("o")), Extent::Full)], vec![]),
        (
            "a part of the money",
            vec![paid(), refund(by_payment(), Extent::Partial { refund: "p1".to_owned() })],
            vec![(1, 1), (2, 1)],
        ),
        ("a line", vec![paid(), refund(Of::Order(order("o")), lines("r1", &[("b", 1)]))], vec![(1, 1)]),
        (
            "one of two pieces",
            vec![paid(), refund(Of::Order(order("o")), lines("r1", &[("a", 1)]))],
            vec![(1, 1), (2, 1)],
        ),
        (
            "pieces that add up",
            vec![
                paid(),
                refund(Of::Order(order("o")), lines("r1", &[("a", 1)])),
                refund(Of::Order(order("o")), lines("r2", &[("a", 1)])),
            ],
            vec![(2, 1)],
        ),
        ("disputed", vec![paid(), disputed("d1")], vec![]),
        ("won", vec![paid(), disputed("d1"), won("d1")], vec![(1, 1), (2, 1)]),
        ("won, and disputed again", vec![paid(), disputed("d1"), won("d1"), disputed("d2")], vec![]),
        ("won, and refunded", vec![paid(), disputed("d1"), won("d1"), full()], vec![]),
        ("by invoice", vec![invoiced(), link(), full()], vec![]),
        ("renewed", vec![first(), renewed("c1"), renewed("c2")], vec![(1, 3)]),
        (
            "renewed, and one refunded",
            vec![first(), renewed("c1"), refund(Of::Order(order("c1")), Extent::Full)],
            vec![(1, 1)],
        ),
        (
            "renewals that come before the sale, one refunded",
            vec![first(), renewed("c1"), renewed("c2"), refund(Of::Order(order("c1")), Extent::Full)],
            vec![(1, 2)],
        ),
        ("by invoice, won", vec![invoiced(), link(), disputed(""), won("")], vec![(1, 1)]),
    ] {
        for order in orders(&reports) {
            let mut world = World::default();
            for report in order.iter().chain(&order) {
                world.report(report);
                for waiting in std::mem::take(&mut world.waiting) {
                    world.report(&waiting);
                }
            }
            assert_eq!(world.valid(), valid, "{case}: {order:#?}");
        }
    }
    // A sale that is refunded takes its key along, whatever was renewed; a sale that was mapped otherwise stays what it was.
    let mapped = |product| charged("o", Links::default(), false, vec![offer(product, "a", 1)]);
    for (case, reports, valid) in [
        ("renewed, and the sale refunded", vec![renewed("c1"), first(), full()], vec![]),
        ("mapped to another product later", vec![mapped(1), mapped(2)], vec![(1, 1)]),
        ("another dispute was won", vec![paid(), disputed("d1"), won("d3")], vec![]),
        (
            "chargebacks with numbers of their own",
            vec![paid(), disputed("a1"), won("a2"), disputed("a3"), won("a4")],
            vec![(1, 1), (2, 1)],
        ),
    ] {
        let mut world = World::default();
        for report in reports.iter().chain(&reports) {
            world.report(report);
        }
        assert_eq!(world.valid(), valid, "{case}");
    }
    // Only what a charge names is renewed.
    let both = charged(
        "o",
        Links { subscription: Some(order("sub")), ..Links::default() },
        false,
        vec![offer(1, "a", 1), offer(2, "b", 1)],
    );
    let mut world = World::default();
    for report in [both, renewed("c1")] {
        world.report(&report);
    }
    assert_eq!(world.valid(), [(1, 2), (2, 1)]);
}

#[test]
fn what_is_missing_of_an_order_that_is_disputed_waits() {
    let [a, b] = [offer(1, "a", 1), offer(2, "b", 1)];
    let missing = |offers: Vec<Offer>, unmapped: &[(&str, &str)]| {
        let Report::Charged(charged) = paid() else { unreachable!("a charge") };
        let unmapped = unmapped.iter().map(|(line, name)| ((*line).to_owned(), (*name).to_owned())).collect();
        Report::Charged(Charged { offers, unmapped, missing: Some("no product".to_owned()), ..charged })
    };
    let mut world = World::default();
    world.report(&missing(vec![a.clone()], &[("b", "b")]));
    world.report(&disputed("d1"));
    let all = missing(vec![a, b], &[]);
    world.report(&all);
    assert_eq!((world.valid(), world.waiting.len()), (vec![], 1));
    world.report(&won("d1"));
    world.report(&all);
    assert_eq!(world.valid(), [(1, 1), (2, 1)]);
}

#[test]
fn a_line_is_known_by_its_number_and_not_by_its_name() {
    // Two lines with the same name: one is mapped by another name, one is not.
    let first = Offer { lines: vec!["l1".to_owned()], ..offer(1, "x", 1) };
    let second = Offer { lines: vec!["l2".to_owned()], ..offer(2, "x", 1) };
    let mut world = World::default();
    world.report(&charged("o", Links::default(), false, vec![first.clone()]));
    let line = |number: &str| vec![(number.to_owned(), "x".to_owned())];
    assert!(world.deal.serves("o", &line("l1")) && !world.deal.serves("o", &line("l2")));
    world.report(&charged("o", Links::default(), false, vec![first, second]));
    assert_eq!(world.valid(), [(1, 1), (2, 1)]);
    let returned = Returned { line: Some("l2".to_owned()), name: "x".to_owned(), pieces: 1 };
    let extent = Extent::Lines { refund: "r1".to_owned(), lines: vec![returned] };
    world.report(&refund(Of::Order(order("o")), extent));
    assert_eq!(world.valid(), [(1, 1)]);
}

#[test]
fn a_partial_refund_is_noted_once_whenever_the_sale_comes() {
    let partial = |refund: &str| refund_of_a_part(refund);
    for order in orders(&[paid(), partial("p1"), partial("p2")]) {
        let mut world = World::default();
        for report in order.iter().chain(&order) {
            world.report(report);
        }
        assert_eq!(world.notes, 2 * 2, "two refunds, two keys: {order:#?}");
    }
    // Lines that are refunded again under the same number are known.
    let line = || refund(Of::Order(order("o")), lines("r1", &[("a", 1)]));
    let mut world = World::default();
    for report in [paid(), line(), line()] {
        world.report(&report);
    }
    assert_eq!(world.notes, 2);
}

fn refund_of_a_part(refund: &str) -> Report {
    self::refund(by_payment(), Extent::Partial { refund: refund.to_owned() })
}

#[test]
fn a_line_that_becomes_known_is_served_also_if_the_others_were_refunded() {
    let lines_of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let one = Offer { lines: lines_of(&["l1"]), ..offer(1, "a", 1) };
    let both = Offer { lines: lines_of(&["l1", "l2"]), ..offer(1, "a", 2) };
    let returned = Returned { line: Some("l1".to_owned()), name: "a".to_owned(), pieces: 1 };
    let extent = Extent::Lines { refund: "r1".to_owned(), lines: vec![returned] };
    let sale = |offer: &Offer| charged("o", Links::default(), false, vec![offer.clone()]);
    for reports in [
        [sale(&one), refund(Of::Order(order("o")), extent.clone()), sale(&both)],
        [sale(&one), sale(&both), refund(Of::Order(order("o")), extent)],
    ] {
        let mut world = World::default();
        for report in &reports {
            world.report(report);
        }
        assert_eq!(world.valid(), [(1, 1)], "{reports:#?}");
    }
}

#[test]
fn lines_that_become_known_as_a_product_that_was_sold_add_to_its_key() {
    let lines = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let one = Offer { lines: lines(&["l1"]), ..offer(1, "a", 2) };
    let both = Offer { lines: lines(&["l1", "l2"]), ..offer(1, "a", 3) };
    let [first, second] = [one.clone(), both.clone()].map(|offer| charged("o", Links::default(), false, vec![offer]));
    let mut world = World::default();
    world.report(&first);
    assert_eq!(world.deal.report(&second), (Told::Issued, vec![Step::Add(one.sale.key.id, &both, 2)]));
    for known in [&second, &first] {
        assert_eq!(world.deal.report(known), (Told::Known, vec![]));
    }
    // A line that was sold as another product keeps no other line from its key.
    let other = Offer { lines: lines(&["l1", "l2"]), ..offer(2, "b", 2) };
    let mut world = World::default();
    for offer in [Offer { lines: lines(&["l1"]), ..offer(1, "a", 1) }, other] {
        world.report(&charged("o", Links::default(), false, vec![offer]));
    }
    assert_eq!(world.valid(), [(1, 1), (2, 1)]);
    // The second line has a key of its own: it was another product once.
    let other = Offer { lines: lines(&["l2"]), ..offer(2, "b", 1) };
    let mut world = World::default();
    world.report(&charged("o", Links::default(), false, vec![one, other]));
    assert_eq!(world.deal.report(&second), (Told::Known, vec![]));
}

#[test]
fn deals_that_turn_out_to_be_one_know_what_both_knew() {
    let mut sale = World::default();
    sale.report(&paid());
    let mut money = Deal::default();
    let refunded = refund(by_payment(), Extent::Full);
    assert_eq!(money.report(&refunded), (Told::Revoked, vec![]));
    sale.deal.merge(money);
    let link = Report::Linked(Links { order: Some(order("o")), payment: Some(order("pay")), ..Links::default() });
    sale.report(&link);
    assert_eq!(sale.valid(), []);
}

#[test]
fn what_a_refund_took_back_and_the_seller_gave_again_stays() {
    let mut world = World::default();
    world.report(&paid());
    world.report(&refund(by_payment(), Extent::Full));
    world.keys.values_mut().for_each(|key| key.0 = None);
    world.report(&refund(by_payment(), Extent::Full));
    world.report(&refund(Of::Order(order("o")), Extent::Full));
    assert_eq!(world.valid().len(), 2);
}

#[test]
fn facts_are_read_back_as_they_were_written() {
    let mut world = World::default();
    for report in [paid(), disputed("d1"), refund(Of::Order(order("o")), lines("r1", &[("a", 1)]))] {
        world.report(&report);
    }
    let text = serde_json::to_string(&world.deal).unwrap();
    assert_eq!(serde_json::from_str::<Deal>(&text).unwrap(), world.deal);
}
