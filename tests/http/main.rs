//! The API, row by row: a request, and the whole answer to it as a snapshot, with what it changed.
//!
//! A row is two tests of its own, named after the behaviour: on axum and on Rocket, with one snapshot for both.
//! `INSTA_UPDATE=always cargo test --test http axum::` writes the answers anew; read the difference before you keep it.

mod admin;
mod desk;
mod generated;
mod host;
mod lists;
mod mounted;
mod pages;
mod platforms;
mod product;
mod row;
mod shop;
mod validate;
mod webhook;

use delivery_core::ErrorCode;
use delivery_core::http::Endpoint;
use host::Framework;
use libtest_mimic::{Arguments, Trial};
use row::Row;

fn main() {
    // Quiet: what Rocket and the service tell the log is not what is tested here.
    tracing_subscriber::fmt().with_max_level(tracing::level_filters::LevelFilter::OFF).init();
    let rows = [
        validate::rows(),
        product::rows(),
        webhook::rows(),
        platforms::rows(),
        lists::rows(),
        admin::rows(),
        desk::rows(),
        mounted::rows(),
        pages::rows(),
    ]
    .concat();
    let trial = |row: &Row, framework: Framework| {
        let row = row.clone();
        Trial::test(format!("{}::{}", framework.name(), row.name), move || {
            check(&row, framework);
            Ok(())
        })
    };
    let mut trials: Vec<Trial> =
        rows.iter().flat_map(|row| Framework::ALL.map(|framework| trial(row, framework))).collect();
    trials.push(Trial::test("every_endpoint_has_a_row_for_each_of_its_codes_and_no_other", move || {
        every_code_has_a_row(&rows);
        Ok(())
    }));
    trials.push(Trial::test("generated_requests_are_answered_alike", || {
        generated::both_frameworks_answer_alike();
        Ok(())
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn check(row: &Row, framework: Framework) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let answer = runtime.block_on(row.play(framework));
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(row.line);
    settings.bind(|| insta::assert_snapshot!(row.name.replace("::", "__"), answer));
}

/// What is not in the table was never looked at, and what the table does not know was never documented.
fn every_code_has_a_row(rows: &[Row]) {
    let snapshots = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/snapshots");
    let answer = |row: &Row| {
        std::fs::read_to_string(format!("{snapshots}/{}.snap", row.name.replace("::", "__"))).unwrap_or_default()
    };
    for endpoint in Endpoint::ALL.iter().copied() {
        let of_endpoint = |row: &&Row| {
            let target = row.line.split_once(' ').unwrap().1;
            let path = target.split('?').next().unwrap_or_default();
            match endpoint {
                // One row of the table answers for all of them.
                Endpoint::Platform(_) => path.starts_with("/api/webhook/") && path != Endpoint::Order.path(),
                endpoint => path == endpoint.path(),
            }
        };
        let answers: Vec<String> = rows.iter().filter(of_endpoint).map(answer).collect();
        assert!(answers.iter().any(|answer| answer.contains("\n200 OK")), "no row succeeds at {}", endpoint.path());
        for code in ErrorCode::ALL {
            let answered = answers.iter().any(|answer| answer.contains(&format!("\"code\":\"{code}\"")));
            let documented = endpoint.codes().contains(&code);
            assert!(answered || !documented, "{}: no row is answered {code}", endpoint.path());
            assert!(documented || !answered, "{}: {code} is not among its codes", endpoint.path());
        }
    }
}
