//! The API, row by row: a request, and the whole answer to it as a snapshot, with what it changed.
//!
//! A row is a test of its own, named after the behaviour. `INSTA_UPDATE=always cargo test --test http` writes the answers
//! anew; read the difference before you keep it.

mod admin;
mod host;
mod lists;
mod product;
mod row;
mod shop;
mod validate;
mod webhook;

use libtest_mimic::{Arguments, Trial};
use row::Row;

fn main() {
    let rows =
        [validate::rows(), product::rows(), webhook::rows(), lists::rows(), admin::rows(), host::rows()].concat();
    let mut trials: Vec<Trial> = rows
        .into_iter()
        .map(|row| {
            Trial::test(format!("axum::{}", row.name), move || {
                check(&row);
                Ok(())
            })
        })
        .collect();
    trials.push(Trial::test("every_endpoint_and_code_has_a_row", || {
        every_code_has_a_row();
        Ok(())
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn check(row: &Row) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let answer = runtime.block_on(row.play());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(row.line);
    settings.bind(|| insta::assert_snapshot!(row.name.replace("::", "__"), answer));
}

/// What is not in the table was never looked at.
fn every_code_has_a_row() {
    let snapshots = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/snapshots");
    let answers: Vec<String> = std::fs::read_dir(snapshots)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    for code in delivery_core::ErrorCode::ALL {
        let line = format!("\"code\":\"{code}\"");
        assert!(answers.iter().any(|answer| answer.contains(&line)), "no row is answered {code}");
    }
    for endpoint in delivery_core::http::Endpoint::ALL {
        let line = format!("description: {} {}", endpoint.method(), endpoint.path());
        let quoted = format!("description: \"{} {}", endpoint.method(), endpoint.path());
        let succeeds =
            |answer: &String| (answer.contains(&line) || answer.contains(&quoted)) && answer.contains("\n200 OK");
        assert!(answers.iter().any(succeeds), "no row succeeds at {}", endpoint.path());
    }
}
