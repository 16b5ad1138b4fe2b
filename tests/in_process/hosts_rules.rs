//! Rules of a host's own: what the kit's check finds wrong with them, and that a rule that panics harms nobody.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{DateTime, Datelike, Utc, Weekday};
use delivery_core::Clock;
use delivery_core::clock::SystemClock;
use delivery_core::error::ErrorCode;
use delivery_core::key::{Denied, Key, Rule};
use delivery_testing::{Shop, rules};

const NO: Denied = Denied::new("NO", "Not now.");

/// A rule that is a function.
struct Judged<F>(F);

impl<F> std::fmt::Debug for Judged<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a rule")
    }
}

impl<F: Fn(&Key, DateTime<Utc>) -> bool + Send + Sync + 'static> Rule for Judged<F> {
    fn judge(&self, key: &Key, at: DateTime<Utc>) -> Result<(), Denied> {
        if (self.0)(key, at) { Ok(()) } else { Err(NO) }
    }
}

fn rule(allows: impl Fn(&Key, DateTime<Utc>) -> bool + Send + Sync + 'static) -> Arc<dyn Rule> {
    Arc::new(Judged(allows))
}

fn is_weekend(at: DateTime<Utc>) -> bool {
    matches!(at.weekday(), Weekday::Sat | Weekday::Sun)
}

/// What the check says of a rule; `None` if it finds nothing.
fn found(check: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(check)).err()?;
    Some(panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn right_rules_pass() {
    rules::check(|| rule(|_, at| !is_weekend(at)), |_, at| !is_weekend(at));
    rules::check(|| rule(|key, _| key.used() <= 3), |key, _| key.used() < 4);
    rules::check_refuses_for_good(&Judged(|key: &Key, _: DateTime<Utc>| key.used() <= 3));
}

#[test]
fn wrong_rules_are_caught() {
    // It reads the clock of the system, and not the time of the use.
    let clock = || rule(|_, _| !is_weekend(SystemClock::default().now()));
    assert!(found(|| rules::check(clock, |_, at| !is_weekend(at))).is_some_and(|said| said.contains("the rule says")));
    // It forgets the use that it is asked about.
    let forgets = || rule(|key, _| key.used() <= 4);
    assert!(
        found(|| rules::check(forgets, |key, _| key.used() <= 3)).is_some_and(|said| said.contains("the rule says"))
    );
    // It counts how often it was asked.
    let counts = || {
        let asked = AtomicU64::new(0);
        rule(move |_, _| !asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(7))
    };
    assert!(found(|| rules::check(counts, |_, _| true)).is_some());
    // It was to end a trial, and opens again on Monday.
    let opens_again = Judged(|_: &Key, at: DateTime<Utc>| !is_weekend(at));
    assert!(found(|| rules::check_refuses_for_good(&opens_again)).is_some_and(|said| said.contains("is allowed")));
}

/// The batch that asks it has operations of other callers too.
#[tokio::test]
async fn a_rule_that_panics_refuses_the_use_and_nothing_else() {
    let broken =
        rule(|key, _| if key.email().as_str() == "a@example.com" { panic!("a bug of the host's") } else { true });
    let shop = Shop::with(|builder| builder.rule(broken)).await;
    let bad = shop.paid_by("1", shop.product.id(), "a@example.com").await;
    let good = shop.paid_by("2", shop.product.id(), "b@example.com").await;
    let uses = [&bad, &good].map(|sold| shop.delivery.count_use(sold.key.id(), shop.product.id()));
    let [bad, good] = <[_; 2]>::try_from(futures_util::future::join_all(uses).await).unwrap();
    let refused = bad.unwrap_err();
    assert_eq!((refused.code(), refused.denied().unwrap().code()), (ErrorCode::Denied, "RULE_FAILED"));
    assert_eq!(good.unwrap().used(), 1);
}

/// Several rules are asked in the order in which they were added, after our own.
#[tokio::test]
async fn the_first_rule_that_refuses_is_told() {
    const LATER: Denied = Denied::new("LATER", "Later.");
    #[derive(Debug)]
    struct Second;
    impl Rule for Second {
        fn judge(&self, _key: &Key, at: DateTime<Utc>) -> Result<(), Denied> {
            Err(LATER.saying(format!("Not before {}.", at.year() + 1)))
        }
    }
    let shop = Shop::with(|builder| builder.rule(rule(|key, _| key.used() < 2)).rule(Arc::new(Second))).await;
    let sold = shop.paid("1").await;
    let told = async || shop.delivery.validate(sold.text.expose()).await.unwrap_err();
    let denied = told().await;
    assert_eq!(denied.denied().map(|it| (it.code(), it.sentence())), Some(("LATER", "Not before 2027.")));
    shop.advance(366);
    assert_eq!(told().await.code(), ErrorCode::ExpiredKey, "our own rules come first");
}
