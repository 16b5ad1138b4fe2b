//! Rules of an application's own, mounted in the service and proved with proptest. The program is for developers whose keys
//! should not always work.
//!
//! The first rule: a product can be used from Monday to Friday. The second: a buyer whose address ends with `.example`
//! has a trial, which ends after three uses. `/api/validate`, `/api/product`, a `Grant`, the buyer's page and the desk
//! all apply both rules. `rules::check` compares each rule with a second, simpler version of it, and checks that all
//! parts of a shop agree with the rule.
//!
//! For a rule that depends on orders or refunds, or to prove a store, copy `own_histories` instead.
//!
//! ```console
//! $ cargo run --example own_rule
//! ```

use std::sync::Arc;

use chrono::{DateTime, Datelike, Utc, Weekday};
use delivery_core::http::{Call, Endpoint};
use delivery_core::key::{Denied, Key, Rule};
use delivery_testing::{Shop, rules};
use http::Method;

#[derive(Debug)]
struct Weekdays;

fn is_weekend(at: DateTime<Utc>) -> bool {
    matches!(at.weekday(), Weekday::Sat | Weekday::Sun)
}

impl Rule for Weekdays {
    fn judge(&self, _key: &Key, at: DateTime<Utc>) -> Result<(), Denied> {
        const WEEKEND: Denied = Denied::new("WEEKEND", "This product can be used from Monday to Friday.");
        if is_weekend(at) { Err(WEEKEND) } else { Ok(()) }
    }
}

#[derive(Debug)]
struct Trial;

impl Rule for Trial {
    /// `key` is the key as it is after the use, so the fourth use is the first that is refused.
    fn judge(&self, key: &Key, _at: DateTime<Utc>) -> Result<(), Denied> {
        const OVER: Denied = Denied::new("TRIAL_OVER", "The trial is over. Buy the product to go on.");
        if key.email().as_str().ends_with(".example") && key.used() > 3 { Err(OVER) } else { Ok(()) }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), tokio::task::JoinError> {
    // A shop with both rules, as an application mounts them. The clock of a `Shop` begins on a Saturday.
    let shop = Shop::with(|builder| builder.rule(Arc::new(Weekdays)).rule(Arc::new(Trial))).await;
    let sold = shop.paid("1").await;
    let call = Call::new(Method::GET).query(format!("key={}", sold.text.expose()));
    let reply = Endpoint::Validate.call(&shop.delivery, call).await;
    println!("on a Saturday: {} {}", reply.status().as_u16(), String::from_utf8_lossy(&reply.body()));

    // Each panics with the simplest key, time or history for which the rule is wrong.
    let proved = tokio::task::spawn_blocking(|| {
        rules::check(|| Arc::new(Weekdays), |_, at| !is_weekend(at));
        rules::check(|| Arc::new(Trial), |key, _| key.used() <= 3 || !key.email().as_str().ends_with(".example"));
        rules::check_refuses_for_good(&Trial);
    });
    proved.await?;
    println!("both rules hold");
    Ok(())
}
