//! The bindings convert: what the API answers stands in the core, once.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

fn sources(binding: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(binding).join("src");
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.display().to_string(), fs::read_to_string(path).unwrap())
    };
    fs::read_dir(folder).unwrap().map(file).collect()
}

/// The lines that are code: examples in documentation may show what they like.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// Names of header fields as they would stand in a text, and the ways to write a status or JSON.
fn is_not_a_bindings_business(line: &str) -> Option<String> {
    let texts = line.split('"').skip(1).step_by(2).map(str::to_ascii_lowercase);
    let field = texts.into_iter().find(|text| FIELDS.contains(text));
    // A constant of either framework's statuses: `Status::NotFound`.
    let status = line.split("Status::").skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    let status = status.then_some("Status::");
    let word = ["StatusCode::", "ContentType::", "header::", "serde_json", "json!", "Json", "{\\\""];
    let word = status.or(word.into_iter().find(|word| line.contains(word)));
    let number = line
        .split(|c: char| !c.is_ascii_alphanumeric())
        .find(|word| word.len() == 3 && word.parse::<u16>().is_ok_and(|number| (100..600).contains(&number)));
    field.or(word.map(str::to_owned)).or(number.map(str::to_owned))
}

/// Every field that a request or an answer of the API has.
static FIELDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/snapshots");
    let texts = fs::read_dir(snapshots).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let answered = texts.flat_map(|text| {
        let names = text.lines().filter_map(|line| line.split_once(": ").map(|(name, _)| name.to_owned()));
        names.filter(|name| name.contains('-')).collect::<Vec<_>>()
    });
    // Of requests, and of answers that rows say themselves.
    let others =
        "authorization x-api-key x-forwarded-for x-real-ip x-request-id content-length accept allow retry-after";
    answered.chain(others.split(' ').map(str::to_owned)).collect()
});

#[test]
fn bindings_hold_no_status_no_header_and_no_json() {
    for (file, text) in ["delivery-axum", "delivery-rocket"].into_iter().flat_map(sources) {
        for line in code(&text) {
            assert_eq!(is_not_a_bindings_business(line), None, "{file}: {line}");
        }
    }
}

#[test]
fn the_test_would_see_them() {
    for (line, found) in [
        ("response.set_status(Status::NotFound);", "Status::"),
        ("response.set_status(Status::PayloadTooLarge);", "Status::"),
        ("*response.status_mut() = StatusCode::OK;", "StatusCode::"),
        ("Status::new(404)", "404"),
        (r#"headers.insert("Retry-After", value)"#, "retry-after"),
        ("headers.insert(header::ALLOW, value)", "header::"),
        (r#"body = "{\"error\":{}}""#, "{\\\""),
    ] {
        assert_eq!(is_not_a_bindings_business(line).as_deref(), Some(found), "{line}");
    }
    assert_eq!(is_not_a_bindings_business("let reply = Reply::not_found();"), None);
}
