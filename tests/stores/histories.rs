//! Histories: whatever happens in whatever order, the service answers as a naive model of it does, over every store.
//!
//! A failure shrinks to a shorter history that still fails, for two minutes at most. Once its cause is mended, the history becomes
//! one of those that once failed.
//! `PROPTEST_CASES=10000 cargo test --test stores histories` looks longer.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use delivery_core::key::{Denied, Key, Rule};
use delivery_core::store::{CatalogEditor, Ledger, Posts};
use delivery_testing::histories::{OrderReport, Ruled, Step};
use delivery_testing::{Fixture, histories};

use super::fixtures::in_memory;
use super::places::{in_a_folder, in_a_schema};

#[test]
fn the_service_is_its_model_in_memory() {
    check((32, 128), in_memory);
}

/// As somebody proves a store that keeps keys and nothing else.
#[test]
fn the_service_is_its_model_over_a_ledger_beside_other_products() {
    histories::check_ledger(in_memory, support::rounds_of("PROPTEST_CASES", 8, 16));
}

#[test]
fn the_service_is_its_model_over_a_sqlite_file() {
    check((12, 24), in_a_folder);
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn the_service_is_its_model_over_postgres() {
    check((8, 12), || in_a_schema(false));
}

/// A rule of a host's own. The second product is closed at night, and its keys can be used four times.
#[derive(Debug)]
struct Nights;

const NIGHT: Denied = Denied::new("NIGHT", "The shop opens at six.");
const ENOUGH: Denied = Denied::new("ENOUGH", "Four times is enough.");

fn is_night(at: i64) -> bool {
    at.rem_euclid(24 * 3_600_000) < 6 * 3_600_000
}

impl Rule for Nights {
    fn judge(&self, key: &Key, at: DateTime<Utc>) -> Result<(), Denied> {
        match key.product().get() {
            2 if is_night(at.timestamp_millis()) => Err(NIGHT),
            2 if key.used() > 4 => Err(ENOUGH),
            _ => Ok(()),
        }
    }
}

fn nights(key: &histories::Key, now: i64) -> Option<&'static str> {
    match key.product {
        2 if is_night(now) => Some(NIGHT.code()),
        2 if key.used > 4 => Some(ENOUGH.code()),
        _ => None,
    }
}

/// Fewer cases, or more with `CI_LONG`. A rule of the host's own is asked too.
fn check<F>((few, many): (u32, u32), fixture: impl Fn() -> F)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    let ruled = Ruled { rule: Arc::new(Nights), model: nights };
    histories::check_ruled(fixture, &ruled, support::rounds_of("PROPTEST_CASES", few, many));
}

#[test]
fn fixed_histories_over_memory() {
    check_fixed(in_memory);
}

#[test]
fn fixed_histories_over_a_sqlite_file() {
    check_fixed(in_a_folder);
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn fixed_histories_over_postgres() {
    check_fixed(|| in_a_schema(false));
}

fn check_fixed<F>(fixture: impl Fn() -> F)
where
    F: Fixture<Store: Ledger + CatalogEditor + Posts + Sized>,
{
    for steps in once_failed().into_iter().chain(of_refunds_and_disputes()) {
        histories::play(fixture(), steps);
    }
}

fn once_failed() -> [Vec<Step>; 4] {
    use delivery_testing::Behaviour::{FailPermanent, FailTransient};
    const TWO_DAYS: i64 = 172_800_000;
    let issue = |message| Step::Issue { product: 1, buyer: 0, days: None, uses: None, message };
    let order = |order, product, buyer| Step::Order { order, product, buyer };
    let event = |order, report, buyer, copy| Step::Event { order, report, buyer, copy };
    let restart = || Step::Restart { crash: false };
    [
        vec![issue(true), Step::Mailer(FailPermanent), Step::Work, Step::Resend],
        vec![
            Step::Clock { milliseconds: TWO_DAYS },
            Step::Mailer(FailTransient),
            order(0, 1, 0),
            Step::Work,
            restart(),
            Step::Work,
        ],
        vec![restart(), issue(false), Step::Revoke { key: 0 }],
        vec![
            order(2, 2, 1),
            issue(false),
            Step::Clock { milliseconds: -1 },
            order(0, 1, 0),
            event(2, OrderReport::Paid, 1, 1),
            event(1, OrderReport::Paid, 0, 0),
            order(1, 1, 1),
            order(0, 2, 1),
            event(1, OrderReport::Refunded, 0, 0),
            restart(),
            Step::Revoke { key: 0 },
        ],
    ]
}

/// Refunds and disputes: an end of a dispute lifts only what the dispute revoked.
fn of_refunds_and_disputes() -> [Vec<Step>; 5] {
    use OrderReport::{Disputed, Paid, Refunded, Won};
    let event = |order, report| Step::Event { order, report, buyer: 0, copy: 0 };
    let again = |report| Step::Event { order: 0, report, buyer: 0, copy: 1 };
    let of = |order, reports: [OrderReport; 4]| reports.map(|report| event(order, report));
    [
        // A dispute that is won lifts no refund.
        [of(0, [Paid, Refunded, Disputed, Won]), of(1, [Paid, Disputed, Refunded, Won])].concat(),
        // Nor what the seller revoked before it or meanwhile.
        vec![
            event(0, Paid),
            Step::Revoke { key: 0 },
            event(0, Disputed),
            event(0, Won),
            event(1, Paid),
            event(1, Disputed),
            Step::Revoke { key: 1 },
            event(1, Won),
        ],
        // What is paid while it is disputed waits for the end of the dispute, which may be told first.
        vec![
            event(0, Disputed),
            event(0, Paid),
            event(0, Won),
            event(1, Won),
            event(1, Disputed),
            event(1, Paid),
            Step::Work,
        ],
        // A refund revokes once, also after the seller restored the key.
        vec![event(0, Paid), event(0, Refunded), Step::Restore { key: 0 }, again(Refunded), again(Paid)],
        // The holder of the key gets an e-mail about a refund.
        vec![
            event(0, Paid),
            Step::Work,
            Step::SendAgain { key: 0, buyer: Some(1) },
            Step::Work,
            event(0, Refunded),
            Step::Work,
            again(Refunded),
            Step::Work,
        ],
    ]
}
