//! A catalogue of raw requests that a careful service refuses, and some that it must accept, with the answers allowed and
//! the side effects forbidden: all of it over both servers, as a seller starts them.
//!
//! `BAD_INPUT=name cargo test --test servers bad_input` sends the cases whose name contains that.

mod case;
mod exchange;
mod ground;
mod judge;

use self::ground::Ground;

#[test]
fn axum_harms_nobody() {
    send_all("axum_server");
}

#[test]
fn rocket_harms_nobody() {
    send_all("rocket_server");
}

/// Rocket waits for the first bytes of a body without a deadline, which it leaves to the proxy in front of it.
const WAITS_ON_ROCKET: [&str; 2] = ["r-cl-huge", "r-slow-body"];

/// One after another: what each case changes is counted.
fn send_all(program: &'static str) {
    let chosen = std::env::var("BAD_INPUT").unwrap_or_default();
    let waits = |id: &str| program == "rocket_server" && WAITS_ON_ROCKET.contains(&id);
    let catalogue = case::catalogue().into_iter();
    let cases: Vec<_> = catalogue.filter(|case| case.id.contains(&chosen) && !waits(&case.id)).collect();
    assert!(!cases.is_empty(), "no case has {chosen} in its name");
    let mut ground = Ground::new(program);
    let mut wrong = Vec::new();
    for case in cases {
        let found = judge::case(&mut ground, &case);
        wrong.extend(found.into_iter().map(|found| format!("{}::{}: {found}", case.group, case.id)));
    }
    wrong.extend(judge::logs(ground.end()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
