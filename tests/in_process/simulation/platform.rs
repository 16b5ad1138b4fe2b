//! A commerce platform: it reports sales, refunds and disputes in any order, some of them twice, until it is answered.

use std::time::Duration;

use chrono::{DateTime, Utc};
use delivery_core::Delivery;
use delivery_core::key::{Key, Status};
use delivery_core::order::{OrderId, OrderRef, Source};
use delivery_core::platform::{Buyer, ChargeRef, Dispute, Event, Line, Links, Notification, Refund, Sale};
use delivery_core::product::{NewProduct, ProductId, Refs};
use rand::RngExt;
use rand::rngs::StdRng;

/// Sales are reported in the first two days, and the product is mapped within three.
const REPORTING: Duration = Duration::from_hours(48);
const MAPPING: Duration = Duration::from_hours(72);

pub struct Platform {
    sales: Vec<Bought>,
    reports: Vec<Report>,
    /// When the seller tells which product is which; `None` if that is done.
    mapped_at: Option<Duration>,
}

struct Bought {
    order: String,
    is_refunded: bool,
    /// Whether it was disputed, and whether the dispute was won.
    dispute: Option<bool>,
}

struct Report {
    event: Event,
    at: Duration,
    /// How often it is sent after the answer.
    again: u32,
    is_answered: bool,
}

fn source() -> Source {
    "own".parse().unwrap()
}

impl Platform {
    pub fn new(chance: &mut StdRng) -> Self {
        let sales = (0..chance.random_range(0..4)).map(|number| Bought {
            order: format!("sale {number}"),
            is_refunded: chance.random_bool(0.3),
            dispute: chance.random_bool(0.3).then(|| chance.random_bool(0.5)),
        });
        let sales: Vec<_> = sales.collect();
        let mut report = |event| Report {
            event,
            at: Duration::from_secs(chance.random_range(0..REPORTING.as_secs())),
            again: chance.random_range(0..3),
            is_answered: false,
        };
        let reports = sales.iter().flat_map(|sale| sale.events().into_iter().map(&mut report).collect::<Vec<_>>());
        let reports = reports.collect();
        let mapped_at = Some(Duration::from_secs(chance.random_range(0..MAPPING.as_secs())));
        Self { sales, reports, mapped_at }
    }

    /// How many sales there are.
    pub fn sales(&self) -> usize {
        self.sales.len()
    }

    /// Reports what is due and not answered, and some that is. Returns how often there was no answer.
    pub async fn report(&mut self, delivery: &Delivery, elapsed: Duration, chance: &mut StdRng) -> usize {
        let mut failures = 0;
        if self.mapped_at.is_some_and(|at| at <= elapsed) {
            let refs = Refs::new([(source(), "guide".parse().unwrap())]).unwrap();
            let facts = NewProduct::new("Guide").unwrap().content("x").unwrap().refs(refs);
            match delivery.update_product(ProductId::new(1).unwrap(), facts).await {
                Ok(_) => self.mapped_at = None,
                Err(_) => failures += 1,
            }
        }
        for (number, report) in self.reports.iter_mut().enumerate() {
            let is_done = report.is_answered && (report.again == 0 || chance.random_bool(0.99));
            if report.at > elapsed || is_done {
                continue;
            }
            report.again -= u32::from(report.is_answered);
            let events = Ok(vec![report.event.clone()]);
            let said = Notification { id: number.to_string(), kind: String::new(), is_test: false, events };
            match delivery.receive(&source(), said).await {
                Ok(_) => report.is_answered = true,
                Err(_) => failures += 1,
            }
        }
        failures
    }

    /// A sale has one key at most, whose validity is what the platform reported. Returns the keys that are valid, and those that
    /// are not.
    pub fn judge(&self, issued: &[Key], now: DateTime<Utc>) -> (Vec<Key>, Vec<Key>) {
        assert!(self.mapped_at.is_none() && self.reports.iter().all(|report| report.is_answered));
        let (mut valid, mut revoked) = (Vec::new(), Vec::new());
        for sale in &self.sales {
            let its = OrderRef { source: source(), id: sale.order.parse().unwrap() };
            let keys: Vec<&Key> = issued.iter().filter(|key| key.granted().order.as_ref() == Some(&its)).collect();
            assert!(keys.len() <= 1, "{} has {} keys", sale.order, keys.len());
            let is_retry = !sale.is_refunded && sale.dispute != Some(false);
            let is_valid = keys.first().is_some_and(|key| key.status(now) == Status::Valid);
            assert_eq!(is_valid, is_retry, "{}", sale.order);
            let of = if is_valid { &mut valid } else { &mut revoked };
            of.extend(keys.into_iter().cloned());
        }
        (valid, revoked)
    }
}

impl Bought {
    fn events(&self) -> Vec<Event> {
        let id = |number: &str| number.parse::<OrderId>().unwrap();
        let payment = id(&format!("payment of {}", self.order));
        let line = Line::named([Some("guide".to_owned())]);
        let dispute = || Dispute {
            number: Some(format!("dispute of {}", self.order)),
            ..Dispute::from(ChargeRef::Payment(payment.clone()))
        };
        let paid = Event::Paid(Sale {
            lines: vec![line],
            buyer: Buyer::by_email(Some("b@example.com")),
            links: Links { payment: Some(payment.clone()), ..Links::default() },
            ..Sale::new(id(&self.order))
        });
        let refund = || Event::Refunded(Refund::full(ChargeRef::Payment(payment.clone())));
        [Some(paid), self.is_refunded.then(refund), self.dispute.map(|_| Event::Disputed(dispute()))]
            .into_iter()
            .chain([(self.dispute == Some(true)).then(|| Event::Won(dispute()))])
            .flatten()
            .collect()
    }
}
