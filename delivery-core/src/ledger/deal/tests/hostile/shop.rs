//! Makes the reports of a platform from a few random numbers.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::{ALONE, OWN};
use crate::ledger::deal::tests::world::*;
use crate::ledger::deal::*;

/// The way in which a platform names sales, subscriptions and money in its reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Each charge names its products and, except that of the sale `ALONE`, the subscription. Refunds name the order.
    /// Some later charges have only a line that the seller has not mapped to a product (`product: None`).
    Orders,
    /// Charges are invoices. The first charge is an order too. Refunds name the payment. A separate report may say
    /// which charge the payment paid.
    Invoices,
    /// Statements name products. Charges name none, except the first charge and that of the sale `ALONE`. The first
    /// charge names no subscription.
    Bare,
    /// Charges do not name the subscription. Only other reports say that the orders belong to it.
    Linked,
}

/// A shop: what it sells on which day, and how its platform reports this. If `is_terse` is set, invoices themselves
/// name their payments, and the sale `ALONE` is only authorised until its capture is reported.
#[derive(Debug, Clone)]
struct Shop {
    way: Way,
    is_terse: bool,
    sales: Vec<(i64, Vec<Bought>)>,
}

type Terms = [(u8, i64, i64); 3];
type Fact = (u8, usize, i64, i64, i64);

fn bought(line: i64, of: Option<i64>, term: Term) -> Bought {
    let own = of.map(|of| Own::Days(u16::try_from(OWN[usize::try_from(of).unwrap()]).unwrap()));
    let (line, names) = (format!("#{line}"), vec![format!("{of:?}")]);
    Bought { names, product: of.map(product), term, own, ..Bought::new(line, 2) }
}

/// The day and the lines of a sale. Only the first sale and the sale `ALONE` sell the book, which is product 3.
fn sold(way: Way, sale: usize, (later, products, is_bare, terms): (i64, u8, bool, Terms)) -> (i64, Vec<Bought>) {
    let (at, is_edge) = (10 + 30 * i64::try_from(sale).unwrap() + later, sale == 0 || sale == ALONE);
    let term = |product: i64| {
        let (kind, from, until) = terms[usize::try_from(product - 1).unwrap()];
        let term = match kind {
            0 | 1 => Term::Unsaid,
            2 => Term::Until(day(at + until)),
            3 => period(at + from, at + until),
            4 => Term::Every(Recurrence::Days(7 + u32::try_from(until + 5).unwrap() / 2)),
            _ => Term::Once,
        };
        match (way, product, term) {
            (Way::Bare, 3, _) | (Way::Orders, 3, Term::Unsaid) => Term::Once,
            (Way::Bare, ..) | (_, 1 | 2, Term::Once) if way == Way::Bare || sale == 0 => Term::Unsaid,
            (.., term) => term,
        }
    };
    let is_sold = |product: &i64| match product {
        1 => way == Way::Bare || products & 3 != 2,
        2 => way != Way::Bare && products & 2 != 0,
        _ => is_edge && products & 4 != 0,
    };
    let lines = [1, 2, 3].into_iter().filter(is_sold).map(|product| bought(product, Some(product), term(product)));
    let lines = match way {
        Way::Bare if !is_edge => Vec::new(),
        Way::Orders if !is_edge && is_bare && !matches!(term(2), Term::Every(_) | Term::Once) => {
            vec![bought(3, None, term(2))]
        }
        _ => lines.collect(),
    };
    (at, lines)
}

impl Shop {
    fn charged(&self, sale: usize) -> Charged {
        let (at, lines) = self.sales[sale].clone();
        let (order, is_first, is_alone) = (format!("s{sale}"), sale == 0, sale == ALONE);
        let is_named = !is_alone && self.way != Way::Linked && !(self.way == Way::Bare && is_first);
        let links = Links {
            order: None,
            payment: ((is_alone || self.way == Way::Invoices) && self.is_terse).then(|| id(&format!("p{sale}"))),
            invoice: (is_named && self.way != Way::Orders).then(|| id(&order)),
            subscription: is_named.then(|| id("S")),
            is_first: self.way == Way::Invoices && is_first,
        };
        let (at, stands_at, is_open) = (day(at), (self.way == Way::Linked).then(|| day(at)), is_alone && self.is_terse);
        Charged { stands_at, is_open, links, lines, ..Charged::new(id(&order), at) }
    }

    /// What is reported in addition to charges: the capture of the sale `ALONE`, and which names belong together.
    fn other_reports(&self) -> Vec<Report> {
        let captured = Captured {
            payment: id("p4"),
            at: day(self.sales[ALONE].0),
            total: None,
            order: None,
            offers: Vec::new(),
            missing: None,
        };
        let own = Links { subscription: Some(id("S")), ..Links::default() };
        let sale = |kind: &str, sale: usize| Some(id(&format!("{kind}{sale}")));
        let session = Charged {
            order: id("o0"),
            links: Links { invoice: sale("s", 0).filter(|_| !self.is_terse), ..own.clone() },
            lines: self.sales[0].1.iter().map(|line| Bought { term: Term::Unsaid, ..line.clone() }).collect(),
            ..self.charged(0)
        };
        let paid = |it| Report::Linked(Links { invoice: sale("s", it), payment: sale("p", it), ..Links::default() });
        let linked = |it| Report::Linked(Links { order: sale("s", it), ..own.clone() });
        let mut told: Vec<Report> = self.is_terse.then_some(Report::Captured(captured)).into_iter().collect();
        match self.way {
            Way::Invoices => told.push(Report::Charged(session)),
            Way::Bare => told.push(Report::Linked(Links { order: sale("o", 0), is_first: true, ..own.clone() })),
            Way::Linked => told.extend((0..ALONE).map(linked)),
            Way::Orders => {}
        }
        told.extend((0..ALONE).filter(|_| self.way == Way::Invoices && !self.is_terse).map(paid));
        told
    }

    /// A report of what became of the money of a sale, or a statement about the subscription. `None` if the shop's
    /// platform makes no such report.
    fn fact(&self, number: usize, (kind, sale, at, until, product): Fact) -> Option<Report> {
        let (is_even, by_payment) = (at % 2 == 0, self.way == Way::Invoices);
        let order = ChargeRef::Order(id(&format!("s{sale}")));
        let of = if by_payment { ChargeRef::Payment(id(&format!("p{sale}"))) } else { order.clone() };
        let own = Links { subscription: Some(id("S")), ..Links::default() };
        let (refund, line) = (format!("r{number}"), format!("#{product}"));
        let part = |pieces: u64| returned(&refund, &[(line.as_str(), pieces)]);
        Some(match kind {
            0 if self.way == Way::Bare && sale == 0 => {
                let links = Links { is_first: true, ..own };
                Report::Refunded(Refund { links, ..Refund::full(ChargeRef::Order(id("o0"))) })
            }
            0 | 1 => {
                let is_linked = by_payment && !self.is_terse && sale != ALONE && is_even;
                let links = Links { invoice: is_linked.then(|| id(&format!("s{sale}"))), ..Links::default() };
                Report::Refunded(Refund { links, at: by_payment.then(|| day(at)), ..Refund::full(of) })
            }
            2 if by_payment => Report::Kept { of, at: day(at) },
            2..=4 if by_payment => return None,
            2 | 3 => {
                let at = is_even.then(|| day(at));
                Report::Refunded(Refund { cause: Cause::Cancellation, at, ..Refund::full(order) })
            }
            4 => refunded(order, part(1 + u64::from(is_even))),
            5 => {
                let Extent::Lines { lines, .. } = part(2) else { unreachable!("lines") };
                let lines = if product == 3 || self.way == Way::Bare { Vec::new() } else { lines };
                Report::Disputed(dispute(of, &format!("d{product}"), lines))
            }
            6 if is_even => Report::Won(dispute(of, &format!("d{product}"), Vec::new())),
            6 => Report::Won(ended(of, &format!("e{}", until % 3))),
            _ => {
                use Standing::{Active, Ended, Leaving, Trialing, Unsaid};
                let standing = [Trialing, Active, Leaving, Ended, Unsaid, Active, Active][usize::from(kind - 7)];
                let lines = self.sales.iter().flat_map(|(_, lines)| lines);
                let begin = lines.filter_map(|line| line.term.begin()).nth(sale).unwrap_or(day(at));
                let term = match until % 6 {
                    0 => Term::Unsaid,
                    1..4 => Term::Until(day(until)),
                    4 => Term::Every(Recurrence::Days(7 + u32::try_from(until % 40).unwrap())),
                    _ => Term::Period { from: begin, until: day(until) },
                };
                let products = match (self.way, product) {
                    (Way::Bare, 3) if is_even => vec![None],
                    (_, 3) => Vec::new(),
                    (Way::Bare, product) => vec![Some(product)],
                    _ => vec![Some(1), Some(2)],
                };
                let lines = products.into_iter().map(|product| bought(product.unwrap_or(9), product, Term::Unsaid));
                let order = matches!(self.way, Way::Bare | Way::Linked).then(|| id("s0"));
                // Each statement has a different time.
                let at = day(at) + TimeDelta::minutes(i64::try_from(number).unwrap());
                let (links, lines) = (Links { order, ..own }, lines.collect());
                Report::Subscription(SubscriptionReport { at, links, lines, standing, term, offers: Vec::new() })
            }
        })
    }
}

/// Some of the reports that a shop's platform makes, in two random sequences.
pub(super) fn reports() -> impl Strategy<Value = (Way, Vec<Report>, Vec<Report>)> {
    let way = select(vec![Way::Orders, Way::Invoices, Way::Bare, Way::Linked]);
    let terms = prop::array::uniform3((0..6_u8, -3..3_i64, -5..60_i64));
    let sales = prop::collection::vec((0..20_i64, 0..8_u8, any::<bool>(), terms), ALONE + 1);
    let facts = prop::collection::vec((0..14_u8, 0..=ALONE, 0..220_i64, 0..220_i64, 1..=3_i64), 0..10);
    let all = (way, any::<bool>(), sales, facts).prop_map(|(way, is_terse, sales, facts)| {
        let sales = sales.into_iter().enumerate().map(|(sale, lines)| sold(way, sale, lines)).collect();
        let shop = Shop { way, is_terse, sales };
        let facts = facts.into_iter().enumerate().filter_map(|(number, fact)| shop.fact(number, fact));
        let charged = (0..=ALONE).map(|sale| Report::Charged(shop.charged(sale)));
        (way, charged.chain(shop.other_reports()).chain(facts).collect::<Vec<_>>())
    });
    let some = all.prop_flat_map(|(way, all)| (Just(way), subsequence(all.clone(), all.len() / 2..=all.len())));
    some.prop_flat_map(|(way, told)| (Just(way), Just(told.clone()).prop_shuffle(), Just(told).prop_shuffle()))
}
