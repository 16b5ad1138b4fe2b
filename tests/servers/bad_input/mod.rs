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

/// One after another: what each case changes is counted.
fn send_all(program: &'static str) {
    let chosen = std::env::var("BAD_INPUT").unwrap_or_default();
    let cases: Vec<_> = case::catalogue().into_iter().filter(|case| case.id.contains(&chosen)).collect();
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
