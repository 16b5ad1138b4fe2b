//! A catalogue of raw requests that a careful service refuses, and some that it must accept, with the answers allowed and
//! the side effects forbidden: all of it over both servers, as a seller starts them. One named test for each case and server.

mod case;
mod exchange;
mod ground;
mod judge;
#[path = "../private/mod.rs"]
#[expect(dead_code, reason = "no server but the project's own is needed here")]
mod private;
#[path = "../server/process.rs"]
#[expect(dead_code, reason = "the requests here are raw")]
mod process;

use std::collections::HashMap;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Trial};

use crate::case::Case;
use crate::ground::Ground;

/// What is wrong with the answers to each case, by name.
type Findings = HashMap<String, Vec<String>>;

fn main() {
    static AXUM: OnceLock<Findings> = OnceLock::new();
    static ROCKET: OnceLock<Findings> = OnceLock::new();
    let arguments = Arguments::from_args();
    let cases = case::catalogue();
    let mut trials = Vec::new();
    for (program, findings) in [("axum_server", &AXUM), ("rocket_server", &ROCKET)] {
        // The cases of a server run one after another, for what each changes is counted; the two servers run side by side.
        let run = move || findings.get_or_init(|| run(program, case::catalogue()));
        for case in &cases {
            let (id, name) = (case.id.clone(), format!("{program}::{}::{}", case.group, case.id));
            trials.push(Trial::test(name, move || match run()[&id].as_slice() {
                [] => Ok(()),
                wrong => Err(wrong.join("\n").into()),
            }));
        }
        let name = format!("{program}::the_log_holds_no_secret_and_no_line_of_a_strangers");
        trials.push(Trial::test(name, move || match run()["log"].as_slice() {
            [] => Ok(()),
            wrong => Err(wrong.join("\n").into()),
        }));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn run(program: &'static str, cases: Vec<Case>) -> Findings {
    let mut ground = Ground::new(program);
    let mut findings = Findings::new();
    for case in cases {
        findings.insert(case.id.clone(), judge::case(&mut ground, &case));
    }
    findings.insert("log".to_owned(), judge::logs(ground.end()));
    findings
}
