//! What the answers and the database must look like afterwards.

use std::net::Ipv4Addr;
use std::time::Duration;

use mail_parser::MessageParser;

use super::case::{Case, MAX_USES, SameOrOther};
use super::exchange::{Answer, Exchange, exchange};
use super::ground::{Counts, Ground, POSTS, Sold, Values};
use support::process::{CONFIGURED, SECRET, TOKEN};

/// Words of libraries, databases and our own files, which are nobody else's business.
const INTERNALS: [&str; 19] = [
    "sqlx",
    "sqlite",
    "serde",
    "rocket",
    "hyper",
    "axum",
    "tokio",
    "panick",
    "unwrap",
    "backtrace",
    "delivery_",
    "src/",
    ".rs:",
    "/tmp",
    "/root",
    " line 1 ",
    " at line ",
    "invalid type",
    "expected ident",
];
/// The terms of a key where nobody says otherwise: `KEY_DAYS` and `KEY_USES` as documented.
const TERMS: (i64, i64) = (365 * 86_400, -1);
/// The last second that a key can be valid in: it never expires.
const NEVER: i64 = 7_900 * 365 * 86_400;
/// The longest list.
const PAGE: usize = 100;

/// What is wrong with the answers to a case.
pub fn case(ground: &mut Ground, case: &Case) -> Vec<String> {
    let values = ground.set_up(case);
    let (shop, runtime) = ground.shop(case);
    let (before, resident) = (shop.counts(runtime), shop.resident());
    let address = shop.server.address;
    let source = ground.source();
    let count = case.repeat.as_ref().map_or(1, |repeat| repeat.count);
    let (mut wrong, mut last, mut passed) = (unjudged(case), None, 0);
    for index in 0..count {
        let mut values = values.clone();
        values.extend([("I", index.to_string()), ("UNIQ", format!("u{}", ground.uniq()))]);
        let exchanged = exchange(address, source, &case.request(&values), case.method == "HEAD");
        wrong.extend(status(case, index, count, &exchanged));
        wrong.extend(of_any(case, &values, &exchanged));
        passed += usize::from(exchanged.answers.iter().any(|answer| answer.status != 429));
        last = Some(exchanged);
    }
    let Some(last) = last else { return wrong };
    let admitted = case.repeat.as_ref().and_then(|repeat| repeat.expect_after).unwrap_or(usize::MAX);
    wrong
        .extend((case.must_not("bypass_limit") && passed > admitted).then(|| format!("bypass_limit: {passed} passed")));
    if wrong.is_empty() {
        wrong.extend(forbidden(case, &values, &last));
        wrong.extend(changes(ground, case, &values, &last, before, source));
    }
    let (shop, _) = ground.shop(case);
    let grown = shop.resident().saturating_sub(resident) >> 20;
    let bounded = case.must_not("rss_growth_gt_16MiB") || case.must_not("limiter_memory_growth");
    wrong.extend((bounded && grown > 16).then(|| format!("memory grew by {grown} MiB")));
    wrong.extend((shop.resident() == 0).then(|| "the server is gone".to_owned()));
    wrong.extend((case.must_not("upstream_fetch") && shop.fetches_upstream()).then(|| "it fetches".to_owned()));
    wrong
}

/// What the catalogue forbids and this file judges beside [`in_answer`] and [`in_database`]: of every answer, of every
/// e-mail, of the log, of the process, and of a series of requests.
const ELSEWHERE: [&str; 15] = [
    "5xx",
    "hang",
    "crash",
    "leak_internal",
    "echo_secret",
    "extra_recipient",
    "header_split",
    "unescaped_html",
    "active_link_in_mail",
    "template_eval",
    "log_forge",
    "rss_growth_gt_16MiB",
    "limiter_memory_growth",
    "upstream_fetch",
    "bypass_limit",
];

/// What a case forbids and nobody looks for.
fn unjudged(case: &Case) -> Vec<String> {
    let judged = |what: &str| {
        ELSEWHERE.contains(&what)
            || in_answer(what, case, &Values::new(), &Answer::default(), &Exchange::default()).is_some()
            || in_database(what, &Changed::default()).is_some()
    };
    case.must_not.iter().filter(|what| !judged(what)).map(|what| format!("nobody judges {what}")).collect()
}

/// Whether status and code are among those expected.
fn status(case: &Case, index: usize, count: usize, exchanged: &Exchange) -> Option<String> {
    let (mut statuses, mut codes) = (&case.expect_status, &case.expect_code);
    if let Some(repeat) = &case.repeat {
        let is_last = index + 1 == count && !repeat.expect_last_status.is_empty();
        if is_last {
            (statuses, codes) = (&repeat.expect_last_status, &repeat.expect_last_code);
        } else if repeat.expect_after.is_some_and(|after| index >= after) {
            return None;
        }
    }
    let (status, code) = match exchanged.answers.first() {
        Some(answer) => (answer.status, answer.code()),
        None if exchanged.rest.is_empty() => (0, None),
        None => (-2, None),
    };
    if exchanged.hung {
        return Some(format!("request {index}: it hangs"));
    }
    let expected = statuses.contains(&status) && codes.contains(&code);
    (!expected).then(|| format!("request {index}: {status} {code:?} instead of {statuses:?} {codes:?}"))
}

/// What holds of every answer.
fn of_any(case: &Case, values: &Values, exchanged: &Exchange) -> Vec<String> {
    let mut wrong = Vec::new();
    for answer in &exchanged.answers {
        let (whole, body) = (answer.whole(), answer.text().to_lowercase());
        if answer.status >= 500 && !case.expect_status.contains(&answer.status) {
            wrong.push(format!("{}", answer.status));
        }
        wrong
            .extend(INTERNALS.iter().filter(|word| body.contains(*word)).map(|word| format!("the answer says {word}")));
        wrong.extend(
            [SECRET, TOKEN].iter().filter(|secret| whole.contains(*secret)).map(|_| "it echoes a secret".into()),
        );
        let key = values.get("KEY").filter(|key| whole.contains(key.as_str()));
        wrong.extend(key.map(|_| "it echoes the key".to_owned()));
    }
    wrong
}

/// What must not be seen in the last answer.
fn forbidden(case: &Case, values: &Values, exchanged: &Exchange) -> Vec<String> {
    let Some(answer) = exchanged.answers.last() else { return Vec::new() };
    case.must_not
        .iter()
        .filter(|what| in_answer(what, case, values, answer, exchanged) == Some(true))
        .cloned()
        .collect()
}

/// Whether `what` is seen in an answer; none if that is not seen in answers.
fn in_answer(what: &str, case: &Case, values: &Values, answer: &Answer, exchanged: &Exchange) -> Option<bool> {
    let header = |name, contains: &str| answer.header(name).is_some_and(|value| value.contains(contains));
    let origin = answer.header("access-control-allow-origin");
    let json = answer.json();
    let list = json["posts"].as_array().map(Vec::len);
    let requests = if case.id == "r-pipeline-2" { 2 } else { 1 };
    let finals = exchanged.answers.iter().filter(|answer| answer.status >= 200).count();
    Some(match what {
        "accept" | "bypass_auth" => case.id != "q-unknown-extra" && (200..300).contains(&answer.status),
        "no_allow_header" => answer.status == 405 && answer.header("allow").is_none_or(str::is_empty),
        "html_body" => header("content-type", "html"),
        "body_on_head" => !answer.body.is_empty(),
        "cacheable" => !header("cache-control", "no-store"),
        "cors_reflect_origin" => origin.is_some_and(|origin| origin.contains("evil")),
        "cors_wildcard_with_credentials" => {
            origin == Some("*") && answer.header("access-control-allow-credentials").is_some()
        }
        "match_all" => {
            (answer.status < 400 && !answer.body.is_empty() && list.is_none()) || list.is_some_and(|posts| posts >= 5)
        }
        "unbounded_list" => list.is_some_and(|posts| {
            posts > PAGE || posts >= POSTS && !case.id.contains("huge") && !case.id.contains("overflow")
        }),
        "desync" => finals > requests || !exchanged.rest.is_empty(),
        // What the request asks the database to do takes five seconds. On a busy machine, one is no proof of it.
        "slow_gt_1s" => exchanged.took > Duration::from_secs(4),
        "held_open_gt_15s" => exchanged.took > Duration::from_secs(15),
        "echo_order_key" => values.get("ORDER_KEY").is_some_and(|key| answer.text().contains(key)),
        "unescaped_html" => header("content-type", "html") || !header("x-content-type-options", "nosniff"),
        "header_split" => answer.header("bcc").is_some(),
        _ => return None,
    })
}

/// What must not have changed, and what must.
fn changes(
    ground: &mut Ground,
    case: &Case,
    values: &Values,
    exchanged: &Exchange,
    before: Counts,
    source: Ipv4Addr,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let (shop, runtime) = ground.shop(case);
    let answer = exchanged.answers.last().map(Answer::json).unwrap_or_default();
    if case.is_bought && exchanged.answers.iter().any(|answer| answer.status == 200) {
        shop.buy(source, &answer["product"]["id"], &values["MAIL"]);
    }
    let (after, sold) = (shop.counts(runtime), shop.sold_since(runtime, before.keys));
    let succeeded = exchanged.answers.iter().any(|answer| answer.status == 200);
    let uses = after.uses - before.uses;
    let changed = Changed { before, after, sold: &sold, succeeded, chosen: answer["api_key"] == "chosen" };
    wrong.extend(case.must_not.iter().filter(|what| in_database(what, &changed) == Some(true)).cloned());
    if !case.must_not("consume_use") && case.path_is("/api/product?") {
        let served = i64::from(succeeded && case.method == "GET");
        let all = case.repeat.as_ref().map_or(served, |_| i64::from(MAX_USES));
        wrong.extend((uses != all).then(|| format!("{uses} uses were counted instead of {all}")));
    }
    match (case.expect_key, answer["api_key"] == *values.get("ORDER_KEY").map_or("", String::as_str)) {
        (Some(SameOrOther::Same), false) => wrong.push("another key than the order's".to_owned()),
        (Some(SameOrOther::Other), true) => wrong.push("the other order's key".to_owned()),
        _ => {}
    }
    for sold in &sold {
        wrong.extend(message(&shop.message(sold), sold));
    }
    wrong
}

/// What a case has done to the database.
#[derive(Default)]
struct Changed<'a> {
    before: Counts,
    after: Counts,
    sold: &'a [Sold],
    succeeded: bool,
    /// Whether the client has chosen its own key.
    chosen: bool,
}

/// Whether `what` has happened to the database; none if that does not concern it.
fn in_database(what: &str, Changed { before, after, sold, succeeded, chosen }: &Changed<'_>) -> Option<bool> {
    let (keys, messages) = (after.keys - before.keys, after.messages - before.messages);
    Some(match what {
        "issue_key" => keys != 0,
        "send_email" | "smtp_command_injection" => messages != 0,
        "consume_use" | "match_all" => after.uses != before.uses,
        "bypass_auth" => after.products != before.products,
        "delete_performed" | "sql_executed" => after.products < before.products || keys < 0,
        "duplicate_key" => keys != 1,
        "duplicate_email" | "mail_to_new_address" => messages != keys,
        "mass_assignment" => *chosen || sold.iter().any(|sold| (sold.seconds, sold.max_uses) != TERMS),
        "past_expiry" => sold.iter().any(|sold| sold.seconds <= 0),
        "never_expires" => sold.iter().any(|sold| sold.seconds >= NEVER),
        "unlimited_uses" | "wraps_negative" => sold.iter().any(|sold| sold.max_uses < 0),
        "silent_nondelivery" => *succeeded && sold.len() != 1,
        _ => return None,
    })
}

/// What is wrong with an e-mail: every one that is sent is looked at.
fn message(text: &str, sold: &Sold) -> Vec<String> {
    const HEADERS: [&str; 9] =
        ["From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type", "Auto-Submitted", "Reply-To"];
    let message = MessageParser::default().parse(text).expect("an e-mail");
    let mut wrong = Vec::new();
    // The parser takes a local part in quotes for a name.
    let address = |to: &mail_parser::Addr<'_>| [to.name(), to.address()].into_iter().flatten().collect::<String>();
    let to: Vec<String> = message.to().into_iter().flat_map(|to| to.iter()).map(address).collect();
    wrong.extend((to != [sold.email.as_str()]).then(|| format!("extra_recipient: it goes to {to:?}")));
    let others = message.headers().iter().map(mail_parser::Header::name).filter(|name| !HEADERS.contains(name));
    wrong.extend(others.map(|name| format!("header_split: {name}")));
    let html: String = (0..message.html_body_count()).filter_map(|part| message.body_html(part)).collect();
    let plain: String = (0..message.text_body_count()).filter_map(|part| message.body_text(part)).collect();
    let both = format!("{html}\n{plain}\n{}", message.subject().unwrap_or_default());
    for (what, sign, found) in [
        ("unescaped_html", "<img", html.contains("<img")),
        ("unescaped_html", "<script", html.contains("<script")),
        ("active_link_in_mail", "evil.example", html.contains("href=\"http://evil.example")),
        ("template_eval", "49", both.contains("49@example.com") || both.contains("49 $49") || both.contains("<%= 49")),
    ] {
        wrong.extend(found.then(|| format!("{what}: {sign}")));
    }
    wrong
}

/// What is wrong with what the servers wrote.
pub fn logs(logs: Vec<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for log in logs {
        wrong.extend((!log.contains("/api/")).then(|| "it does not say what was asked for".to_owned()));
        let secrets = CONFIGURED.iter().filter(|(_, secret)| log.contains(secret));
        wrong.extend(secrets.map(|(name, _)| format!("the log holds {name}")));
        wrong.extend(log.contains("dlv_").then(|| "the log holds a key".to_owned()));
        wrong.extend(log.contains("admin login ok").then(|| "log_forge".to_owned()));
        wrong.extend(log.lines().any(|line| line.starts_with("2026-01-01")).then(|| "log_forge: a line".to_owned()));
    }
    wrong
}
