//! The API, row by row: a request, and the whole answer to it, with what it changed.
//!
//! A row is two tests of its own, named after the behaviour: on axum and on Rocket, with one answer for both. The row
//! says the answer itself, or has a snapshot of its own, or names a row that has one, and what is different.
//! `INSTA_UPDATE=always cargo test --test http axum::` writes the snapshots anew; read the difference before you keep
//! it. An answer that a row says itself is changed there. A row answered like another is compared with the other's
//! snapshot, which may be written later in the same run: run the tests once more.

mod admin;
mod answer;
mod buyer;
mod desk;
mod everywhere;
mod export;
mod files;
mod generated;
mod host;
mod import;
mod lists;
mod mounted;
mod pages;
mod platforms;
mod product;
mod row;
mod shop;
mod shortened;
mod sign_in;
mod validate;
mod webhook;

use std::collections::BTreeSet;

use delivery_core::ErrorCode;
use delivery_core::http::Endpoint;
use host::Framework;
use libtest_mimic::{Arguments, Trial};
use row::{Kind, Row};

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
        files::rows(),
        import::rows(),
        mounted::rows(),
        pages::rows(),
        sign_in::rows(),
        buyer::rows(),
        everywhere::rows(),
        export::rows(),
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
    let kept: BTreeSet<String> = rows.iter().filter(|row| keeps_snapshot(row)).map(|row| file(&row.name)).collect();
    trials.push(Trial::test("every_snapshot_has_a_row", move || {
        every_snapshot_has_a_row(&kept);
        Ok(())
    }));
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
    let (answer, expected) = runtime.block_on(row.play(framework));
    if !keeps_snapshot(row) {
        assert!(answer == expected, "{}\n\nthe answer:\n{answer}\n\nwhat the row expects:\n{expected}", row.name);
        return;
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(row.line.as_str());
    settings.bind(|| insta::assert_snapshot!(file(&row.name), answer));
}

fn keeps_snapshot(row: &Row) -> bool {
    matches!(row.kind, Kind::Snapshot)
}

/// The name of a row's snapshot file.
fn file(row: &str) -> String {
    row.replace("::", "__")
}

/// A snapshot that no row is compared with says nothing.
fn every_snapshot_has_a_row(kept: &BTreeSet<String>) {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/snapshots")).unwrap();
    let files = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.filter_map(|file| file.strip_suffix(".snap").map(str::to_owned)).collect();
    let unused: Vec<_> = files.difference(kept).collect();
    assert!(unused.is_empty(), "no row is compared with these: delete them from tests/http/snapshots: {unused:?}");
    let missing: Vec<_> = kept.difference(&files).collect();
    assert!(missing.is_empty(), "these rows have no snapshot: {missing:?}");
}

/// What is not in the table was never looked at, and what the table does not know was never documented.
fn every_code_has_a_row(rows: &[Row]) {
    for endpoint in Endpoint::all() {
        let of_endpoint = |row: &&Row| {
            let target = row.line.split_once(' ').unwrap().1;
            let path = target.split('?').next().unwrap_or_default();
            match endpoint {
                // One row of the table answers for all of them.
                Endpoint::Platform(_) => path.starts_with("/api/webhook/") && path != Endpoint::Order.path(),
                Endpoint::File => path == "{LINK}" || path.starts_with("/api/file/"),
                endpoint => path == endpoint.path(),
            }
        };
        let answers: Vec<String> = rows.iter().filter(of_endpoint).map(|row| row.expected(str::to_owned)).collect();
        assert!(answers.iter().any(|answer| answer.starts_with("200 OK")), "no row succeeds at {}", endpoint.path());
        for code in ErrorCode::ALL {
            let named = if code == ErrorCode::Denied { shop::ONCE.code() } else { code.as_str() };
            let answered = answers.iter().any(|answer| answer.contains(&format!("\"error\":{{\"code\":\"{named}\"")));
            let documented = endpoint.codes().contains(&code);
            assert!(answered || !documented, "{}: no row is answered {code}", endpoint.path());
            assert!(documented || !answered, "{}: {code} is not among its codes", endpoint.path());
        }
    }
}
