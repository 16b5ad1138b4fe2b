//! Does the conformance suite catch wrong stores? Each of these breaks one promise, and fails the case that is named for it. The
//! same wrapper without a fault passes every case.

mod aliases;
mod fault;
mod files;
mod inbox;
mod limiter;
mod pages;
mod races;
mod records;
mod store;

use std::sync::{Mutex, Once};

use delivery_core::limit::MemoryLimiter;
use delivery_core::store::Ledger;
use delivery_testing::conformance::{
    ALIASES, Case, FILES, INBOX, LEDGER, PAGES, RATE_LIMITER, RECORDS, REOPENED, REQUESTS, SHARED,
};

use tokio::task::JoinError;

use fault::{Fault, WRONG};
use limiter::{WrongLimit, WrongLimiter};
use store::WrongFixture;

fn of_a_ledger() -> impl Iterator<Item = &'static Case<dyn Ledger>> {
    LEDGER.iter().chain(INBOX).chain(REQUESTS).chain(PAGES).chain(ALIASES)
}

/// Whether a store with this fault passes the case of this name.
async fn passes(fault: Fault, name: &'static str) -> bool {
    note_panics();
    let ran = tokio::spawn(async move {
        if let Some(case) = of_a_ledger().find(|case| case.name() == name) {
            case.run(WrongFixture::new(fault)).await;
        } else if let Some(case) = RECORDS.iter().find(|case| case.name() == name) {
            case.run(WrongFixture::new(fault)).await;
        } else if let Some(case) = FILES.iter().find(|case| case.name() == name) {
            case.run(WrongFixture::new(fault)).await;
        } else if let Some(case) = REOPENED.iter().chain(SHARED).find(|case| case.name() == name) {
            case.run(WrongFixture::new(fault)).await;
        } else {
            unreachable!("no case is called {name}");
        }
    });
    !noticed(ran.await, name)
}

/// Whether a case has noticed what is wrong.
fn noticed(ran: Result<(), JoinError>, name: &str) -> bool {
    let Err(error) = ran else { return false };
    let panic = error.into_panic();
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.unwrap_or_else(|| panic.downcast_ref::<&str>().copied().unwrap_or_default().to_owned());
    let panics = PANICS.lock().unwrap();
    let (_, file) = panics.iter().rev().find(|(text, _)| *text == said).expect("a panic that was seen");
    assert!(file.contains(CASES), "{name} should notice, and {file} panicked: {said}");
    true
}

/// Where the cases are.
const CASES: &str = "testing/src/conformance";

/// What was said by each panic, and in which file: a case that does not notice must not pass for one that does because the store
/// breaks.
static PANICS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let said = panic.payload_as_str().unwrap_or_default().to_owned();
            let file = panic.location().map_or("", std::panic::Location::file).to_owned();
            if !file.contains(CASES) {
                usual(panic);
            }
            PANICS.lock().unwrap().push((said, file));
        }));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wrong_store_fails_the_case_that_is_named_for_it() {
    let mut unnoticed = Vec::new();
    for (fault, name) in WRONG {
        if passes(*fault, name).await {
            unnoticed.push((fault, name));
        }
    }
    assert_eq!(unnoticed, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_fault_every_case_passes() {
    let cases = of_a_ledger().map(Case::name).chain(RECORDS.iter().map(Case::name));
    let cases = cases.chain(FILES.iter().map(Case::name));
    for name in cases.chain(REOPENED.iter().chain(SHARED).map(Case::name)) {
        assert!(passes(Fault::None, name).await, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wrong_limiter_fails_the_case_that_is_named_for_it() {
    for (fault, name) in [
        (WrongLimit::AdmitsOneMore, "a_window_admits_its_limit_and_not_one_more"),
        (WrongLimit::CountsByTheMinute, "the_window_slides_and_has_no_edge_to_burst_over"),
        (WrongLimit::SharesOneCount, "subjects_and_policies_do_not_influence_each_other"),
        (WrongLimit::SaysTooSoon, "the_same_request_fits_exactly_after_the_time_given"),
    ] {
        let case = RATE_LIMITER.iter().find(|case| case.name() == name).unwrap();
        let run = case.run(move |clock| WrongLimiter { inner: MemoryLimiter::new(clock.clone()), clock, fault });
        assert!(tokio::spawn(run).await.is_err(), "{fault:?} passes {name}");
    }
}
