//! Checks for a [`Rule`] of a host application.
//!
//! ```
//! use std::sync::Arc;
//! use chrono::{DateTime, Datelike, Utc, Weekday};
//! use delivery_core::key::{Denied, Key, Rule};
//! use delivery_testing::rules;
//!
//! #[derive(Debug)]
//! struct Weekdays;
//!
//! fn is_weekend(at: DateTime<Utc>) -> bool {
//!     matches!(at.weekday(), Weekday::Sat | Weekday::Sun)
//! }
//!
//! impl Rule for Weekdays {
//!     fn judge(&self, _key: &Key, at: DateTime<Utc>) -> Result<(), Denied> {
//!         let denied = Denied::new("WEEKEND", "This product can be used from Monday to Friday.");
//!         if is_weekend(at) { Err(denied) } else { Ok(()) }
//!     }
//! }
//!
//! rules::check(|| Arc::new(Weekdays), |_, at| !is_weekend(at));
//! ```

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use delivery_core::Delivery;
use delivery_core::delivery::Builder;
use delivery_core::http::{Call, Endpoint};
use delivery_core::key::{Key, Rule};
use delivery_core::terms::{OwnTerms, UseLimit};
use http::{Method, header};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::{Shop, strategies};

/// How many keys are generated. `SHOPS` is how many shops, and how many sequences of questions, are generated.
const CASES: u32 = 256;
const SHOPS: u32 = 32;
const TOKEN: &str = "the-seller's-token";

/// Checks a rule with generated keys and times, and in generated shops.
///
/// * The rule gives the same answers as `allows`, which is a second, simpler version of the rule. The arguments of
///   `allows` are the key as it is after the use, and the time of the use. The comparison finds rules that read a
///   clock, and rules that expect the key as it is before the use.
/// * The answers do not depend on earlier questions to the rule. `rule` returns a new rule for each comparison.
/// * In a shop, all parts of the service agree with the rule: the validation, HEAD and GET of the product, the check of
///   a `Grant`, and what the API shows the seller. With the feature `pages`, the buyer's page agrees too.
///
/// # Panics
///
/// If one of these checks fails. The message contains the simplest failing key, time or history that was found.
///
/// Also if the function is called inside a Tokio runtime, because it starts a runtime itself. Call it from a plain
/// `#[test]`, or inside `spawn_blocking`.
pub fn check(rule: impl Fn() -> Arc<dyn Rule>, allows: impl Fn(&Key, DateTime<Utc>) -> bool) {
    let one = rule();
    let used = || (strategies::key(), strategies::instant()).prop_map(|(key, at)| (after_a_use(&key), at));
    run(CASES, used(), |(key, at)| {
        let judged = one.judge(&key, at);
        prop_assert_eq!(judged.is_ok(), allows(&key, at), "the rule says {:?} at {}", judged, at);
        Ok(())
    });
    run(SHOPS, prop::collection::vec(used(), 2..20), |asked| {
        let (forwards, backwards) = (rule(), rule());
        let first: Vec<_> = asked.iter().map(|(key, at)| forwards.judge(key, *at)).collect();
        let mut second: Vec<_> = asked.iter().rev().map(|(key, at)| backwards.judge(key, *at)).collect();
        second.reverse();
        prop_assert_eq!(first, second, "an answer depends on what was asked before");
        Ok(())
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let pause = prop_oneof![0..120_u64, 0..200_000_u64].prop_map(Duration::from_secs);
    run(SHOPS, prop::collection::vec(pause, 1..20), |pauses| {
        runtime.block_on(in_a_shop(rule(), &allows, pauses));
        Ok(())
    });
}

/// Checks that a rule's refusals are final: once the rule has refused a use of a key, it refuses every later use of
/// that key, even if the key's count of uses has grown since. Use this check for a rule that ends a key, for example
/// after a trial.
///
/// # Panics
///
/// If the rule allows a use after it refused one.
pub fn check_refuses_for_good(rule: &dyn Rule) {
    let asked = (strategies::key(), prop::collection::vec((strategies::instant(), 0..3_u64), 2..20));
    run(CASES, asked, |(key, mut asked)| {
        asked.sort();
        let (mut key, mut refused) = (after_a_use(&key), None);
        for (at, uses) in asked {
            key = (0..uses).fold(key, |key, _| after_a_use(&key));
            match (rule.judge(&key, at), &refused) {
                (Err(_), None) => refused = Some(at),
                (judged, Some(since)) => {
                    prop_assert!(judged.is_err(), "a use at {} is allowed, and one at {} was not", at, since);
                }
                (Ok(()), None) => {}
            }
        }
        Ok(())
    });
}

/// Returns the key with one more use, even if the key is revoked, expired or used up.
fn after_a_use(key: &Key) -> Key {
    let mut state = key.state().clone();
    state.used += 1;
    Key::new(key.granted().clone(), state)
}

fn run<S: Strategy>(cases: u32, of: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>)
where
    S::Value: Clone,
{
    let config = Config { failure_persistence: None, ..Config::with_cases(cases) };
    if let Err(failure) = TestRunner::new(config).run(&of, test) {
        panic!("{failure}");
    }
}

/// Sells a key, and uses it after each pause. Before each use, all parts of the service must report correctly whether
/// the use will be allowed.
async fn in_a_shop(rule: Arc<dyn Rule>, allows: &impl Fn(&Key, DateTime<Utc>) -> bool, pauses: Vec<Duration>) {
    let shop = Shop::with(|builder| with_pages(builder.rule(rule))).await;
    let terms = OwnTerms { limit: UseLimit::from_count(10).ok(), ..OwnTerms::default() };
    let email = "buyer@example.com".parse().expect("an address");
    let sold = shop.delivery.issue_by_hand(shop.product.id(), email, terms, false).await.expect("issued");
    let (id, text, product) = (sold.key.id(), sold.text.expose(), shop.product.id());
    for pause in pauses {
        shop.clock.advance(pause);
        let now = shop.now();
        let key = shop.delivery.key(id).await.expect("found").expect("known");
        let is_ours = key.check(now).is_ok();
        let is_allowed = is_ours && allows(&after_a_use(&key), now);
        let ask = async |method, endpoint: Endpoint| {
            let call = Call::new(method).query(format!("key={text}&product_id={product}"));
            endpoint.call(&shop.delivery, call).await.status() == 200
        };
        assert_eq!(ask(Method::GET, Endpoint::Validate).await, is_allowed, "the validation at {now}");
        assert_eq!(ask(Method::HEAD, Endpoint::Product).await, is_allowed, "HEAD of the product at {now}");
        #[cfg(feature = "pages")]
        assert_eq!(on_the_page(&shop.delivery, text).await, is_allowed, "the buyer's page at {now}");
        assert_eq!(shop.delivery.check_for(id, product).await.is_ok(), is_allowed, "the check of a grant at {now}");
        assert_eq!(is_denied(&shop.delivery, &id.to_string()).await, is_ours && !is_allowed, "the desk at {now}");
        assert_eq!(ask(Method::GET, Endpoint::Product).await, is_allowed, "the fetch at {now}");
        let after = shop.delivery.key(id).await.expect("found").expect("known");
        assert_eq!(after.used(), key.used() + u64::from(is_allowed), "the count at {now}");
    }
}

#[cfg(feature = "pages")]
fn with_pages(builder: Builder) -> Builder {
    builder.pages(delivery_core::look::Look::default())
}

#[cfg(not(feature = "pages"))]
fn with_pages(builder: Builder) -> Builder {
    builder
}

/// Returns whether the buyer's page accepts the key as usable.
#[cfg(feature = "pages")]
async fn on_the_page(delivery: &Delivery, text: &str) -> bool {
    let form = http::HeaderValue::from_static("application/x-www-form-urlencoded");
    let mut call = Call::new(Method::POST).header(header::CONTENT_TYPE, form);
    call.body = format!("key={text}").into();
    let page = Endpoint::pages().find(|page| page.is_at("/key")).expect("the buyer's page");
    // The response to an accepted key redirects to the page with the key's state.
    page.call(delivery, call).await.status() == 303
}

/// Returns whether the seller is shown that a rule refuses the key.
async fn is_denied(delivery: &Delivery, id: &str) -> bool {
    let token = format!("Bearer {TOKEN}").parse().expect("visible");
    let call = Call::new(Method::GET).query(format!("id={id}")).header(header::AUTHORIZATION, token);
    let reply = Endpoint::Key.call(delivery, call).await;
    assert_eq!(reply.status(), 200);
    let shown: serde_json::Value = serde_json::from_slice(&reply.body()).expect("JSON");
    !shown["key"]["denied"].is_null()
}
