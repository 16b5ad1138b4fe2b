//! The files of products: uploads, lists and downloads.

use std::time::Duration;

use crate::desk::SALE;
use crate::row::{FORM, Row, command, query, row};

const NAME: &str = "name must be 1 to 200 characters without control characters, / or \\\\, and not . or .. alone.";
const NO_NAME: &str =
    "..: the name must be 1 to 200 characters without control characters, &#x2f; or \\, and not . or .. alone.";
const PDF: &str = "%PDF-1.7 guide";
/// The SHA-256 of [`PDF`].
const HEX: &str = "b2ad19c6fb422cab8a6031653174613dbca7fd7a6a4df9f7f8e620ff5a0a24ba";
const TAG: &str = "\"b2ad19c6fb422cab8a6031653174613dbca7fd7a6a4df9f7f8e620ff5a0a24ba\"";
const BASE64: &str = "sha-256=:sq0ZxvtCLKuKYDFlMXRhPbyn/XpqTfn3+OYg/1oKJLo=:";

pub fn rows() -> Vec<Row> {
    [uploads(), lists(), downloads(), pages()].concat()
}

/// The desk's forms, and the page of the buyer.
fn pages() -> Vec<Row> {
    let part = |name: &str| {
        format!("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{PDF}\r\n")
    };
    let token = |token: &str| format!("--x\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{token}\r\n");
    let upload = |name: &str, parts: &[String]| {
        row(format!("desk_files::{name}"), "POST /desk/product/files?id=1")
            .at_desk()
            .header("origin", "http://localhost")
            .typed("multipart/form-data; boundary=x", format!("{}--x--\r\n", parts.concat()))
    };
    let ours = || token("{CSRF}");
    let saved = "/desk/product?id=1&done=files";
    let delete =
        |name: &str, body: &str| row(format!("desk_files::{name}"), "POST /desk/product/file/delete").sends(body);
    vec![
        upload("uploads_several", &[ours(), part("a.pdf"), part("b.pdf")]).leads_to(saved),
        upload("shows_what_was_uploaded", &[ours(), part("C:\\\\x\\\\b <i>.pdf"), part("a.pdf")])
            .then("GET /desk/product?id=1"),
        upload("a_token_that_is_wrong", &[token("wrong"), part("a.pdf")]).then("GET /desk/product?id=1"),
        upload("a_file_before_the_token", &[part("a.pdf"), ours()]).page("403 Forbidden"),
        upload("a_token_that_is_wrong_is_refused", &[token("wrong"), part("a.pdf")]).page("403 Forbidden"),
        upload("no_file", &[ours(), part("")]),
        upload("shows_how_many_events_wait", &[ours(), part("")])
            .after_event(SALE)
            .like("no_file")
            .but("Activity</a>", "Activity <span class=\"count\" title=\"need you\">1</span></a>"),
        upload("a_name_that_is_none", &[ours(), part("..")])
            .like("no_file")
            .but("200 OK", "400 Bad Request")
            .but("Choose a file first.", NO_NAME),
        upload("too_large", &[ours(), part("a.pdf").replace(PDF, &"x".repeat(1001))])
            .like("no_file")
            .but("200 OK", "400 Bad Request")
            .but("Choose a file first.", "a.pdf: the file is larger than this shop takes."),
        upload("cut_off", &[ours(), part("a.pdf").replace("\r\n\r\n%PDF", "")]).page("400 Bad Request"),
        row("desk_files::no_session", "POST /desk/product/files?id=1")
            .header("origin", "http://localhost")
            .typed("multipart/form-data; boundary=x", "--x--\r\n")
            .leads_to("/desk/sign-in?next=%2Fdesk%2Fproduct%2Ffiles%3Fid%3D1"),
        row("desk_files::another_origin", "POST /desk/product/files?id=1")
            .at_desk()
            .header("origin", "http://evil.example")
            .typed("multipart/form-data; boundary=x", "--x--\r\n")
            .page("403 Forbidden"),
        row("desk_files::looked_at", "GET /desk/product/files?id=1").at_desk().leads_to("/desk/product?id=1"),
        row("desk_files::asks_before_it_deletes", "GET /desk/product/file/delete?id=1&name=guide.pdf")
            .at_desk()
            .after_file("guide.pdf", "application/pdf", PDF),
        delete("deletes", "id=1&name=guide.pdf")
            .after_file("guide.pdf", "application/pdf", PDF)
            .leads_to("/desk/product?id=1&done=file_deleted"),
        row("buyer_files::opened", "POST /key")
            .form("key={VALID}&request=a&do=open")
            .after_file("guide.pdf", "application/pdf", PDF)
            .followed(""),
        row("buyer_files::opened_with_a_picture", "POST /key")
            .form("key={VALID}&request=a&do=open")
            .after_command("product/update", r#"{"id":1,"content":"![A bird](Bird.png) ![None](none.png)"}"#)
            .after_file("bird.png", "image/png", "png")
            .followed(""),
    ]
}

fn uploads() -> Vec<Row> {
    let put = |name: &str, query: &str| {
        let line = format!("PUT /api/admin/product/file{query}");
        row(format!("put_file::{name}"), line).with_token().body(PDF)
    };
    let guide = |name: &str| put(name, "?product_id=1&name=guide.pdf");
    vec![
        guide("adds").header("content-type", "application/pdf"),
        guide("replaces_a_name_in_another_case")
            .after_file("GUIDE.PDF", "application/pdf", "old")
            .like("without_a_type_it_is_bytes")
            .left(8),
        guide("an_empty_file").body("").gives(
            r#"{"success":true,"file":{"name":"guide.pdf","size":0,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","type":"application/octet-stream","added_at":"2026-11-22T10:00:03Z"}}"#,
        ),
        guide("without_a_type_it_is_bytes"),
        guide("with_its_digest").header("content-sha256", HEX).like("without_a_type_it_is_bytes"),
        guide("with_its_digest_in_base64").header("repr-digest", BASE64).like("without_a_type_it_is_bytes"),
        guide("with_another_digest")
            .body("other")
            .header("content-sha256", HEX)
            .invalid("The body does not have the digest that the request gives."),
        guide("with_half_a_digest")
            .header("content-sha256", "a7f9")
            .invalid("Content-SHA256 must be 64 hexadecimal digits."),
        guide("with_a_digest_of_another_kind")
            .header("repr-digest", "md5=:AAAA:")
            .invalid("Repr-Digest must have a SHA-256, as sha-256=:BASE64:."),
        guide("with_two_digests_that_differ")
            .header("content-sha256", "0000000000000000000000000000000000000000000000000000000000000000")
            .header("repr-digest", BASE64)
            .invalid("Content-SHA256 and Repr-Digest differ."),
        guide("a_part")
            .header("content-range", "bytes 5-9/10")
            .invalid("Send the whole file: Content-Range is not understood."),
        put("a_name_of_emoji", &format!("?product_id=1&name={}", "%F0%9F%98%80".repeat(200))),
        put("a_name_that_turns_the_direction", "?product_id=1&name=a%E2%80%AEfdp.exe"),
        put("a_name_of_201_characters", &format!("?product_id=1&name={}", "n".repeat(201))).invalid(NAME),
        put("two_dots", "?product_id=1&name=..").invalid(NAME),
        put("a_path", "?product_id=1&name=..%2Fdelivery.db").invalid(NAME),
        put("a_path_of_windows", "?product_id=1&name=..%5Cx").invalid(NAME),
        put("a_name_with_nul", "?product_id=1&name=a%00.pdf").invalid("name must be UTF-8 without control characters."),
        put("no_name", "?product_id=1").missing("name"),
        put("no_product", "?name=guide.pdf").missing("product_id"),
        put("unknown_product", "?product_id=99&name=guide.pdf").refused("NOT_FOUND"),
        guide("too_large").body("x".repeat(1001)).refused("PAYLOAD_TOO_LARGE"),
        row("put_file::no_token", "PUT /api/admin/product/file?product_id=1&name=a").body(PDF).refused("UNAUTHORIZED"),
        row("put_file::wrong_method", "POST /api/admin/product/file?product_id=1&name=a")
            .with_token()
            .refused("METHOD_NOT_ALLOWED"),
        guide("limit_exceeded").times(11).limited(),
        guide("store_away").store_away().refused("UNAVAILABLE"),
        guide("store_corrupt").store_corrupt().refused("INTERNAL"),
        guide("not_kept_by_the_store").catalog_elsewhere().refused("NOT_FOUND"),
    ]
}

fn lists() -> Vec<Row> {
    let list = |name: &str, query: &str| {
        row(format!("files::{name}"), format!("GET /api/admin/product/files{query}")).with_token()
    };
    let delete = command("delete_file", "product/file/delete");
    vec![
        list("by_name", "?product_id=1").after_file("b.pdf", "application/pdf", PDF).after_file(
            "A.txt",
            "text/plain",
            "",
        ),
        list("none", "?product_id=2").gives(r#"{"files":[]}"#),
        list("no_product", "").missing("product_id"),
        list("unknown_product", "?product_id=99").refused("NOT_FOUND"),
        list("of_zero", "?product_id=0").invalid("product_id must be an integer of 1 or more."),
        delete("deletes", r#"{"product_id":1,"name":"guide.pdf"}"#)
            .after_file("Guide.pdf", "application/pdf", PDF)
            .gives(r#"{"success":true}"#)
            .left(8),
        delete("another_name", r#"{"product_id":1,"name":"other.pdf"}"#)
            .after_file("guide.pdf", "application/pdf", PDF)
            .refused("NOT_FOUND")
            .left(8),
        delete("a_path", r#"{"product_id":1,"name":"../guide.pdf"}"#).invalid(NAME),
        delete("no_name", r#"{"product_id":1}"#).missing("name"),
    ]
}

fn downloads() -> Vec<Row> {
    let line =
        |name: &str, line: &str| row(format!("file::{name}"), line).after_file("guide.pdf", "application/pdf", PDF);
    let get = |name: &str| line(name, "GET {LINK}");
    let get_with = |name: &str, field, value| get(name).header(field, value);
    let picture = |name: &str| {
        let row = row(format!("file::{name}"), "GET {LINK}?shown").after_file("guide.pdf", "image/png", PDF);
        row.but("application/pdf", "image/png").but("private, ", "private, max-age=300, ")
    };
    let fetch = query("product", "/api/product");
    let a_day = Duration::from_hours(24);
    vec![
        fetch("with_files", "?key={VALID}&product_id=1").after_file("guide.pdf", "application/pdf", PDF).after_file(
            "%C3%84%20%22b%22.zip",
            "application/zip",
            "PK",
        ),
        get("download"),
        get("as_often_as_the_buyer_likes").times(300).like("download").left(0),
        line("head", "HEAD {LINK}"),
        line("a_form_with_method_field_downloads_nothing", "POST {LINK}")
            .typed(FORM, "_method=get&and=more")
            .refused("METHOD_NOT_ALLOWED"),
        get_with("first_bytes", "range", "bytes=0-3"),
        get_with("bytes_from", "range", "bytes=9-"),
        get_with("last_bytes", "range", "bytes=-5").like("bytes_from"),
        get_with("all_bytes_as_a_range", "range", "bytes=0-")
            .like("download")
            .but("200 OK", "206 Partial Content")
            .but("\ncontent-security", "\ncontent-range: bytes 0-13/14\ncontent-security"),
        line("head_of_a_range", "HEAD {LINK}").header("range", "bytes=0-3"),
        get_with("bytes_beyond_the_end", "range", "bytes=14-"),
        get_with("several_ranges", "range", "bytes=0-1,3-4").like("download"),
        get_with("a_range_that_is_none", "range", "pages=1-2").like("download"),
        get_with("a_range_of_the_same_file", "range", "bytes=0-3").header("if-range", TAG).like("first_bytes"),
        get_with("a_range_of_another_file", "range", "bytes=0-3").header("if-range", "\"stale\"").like("download"),
        get_with("what_the_client_has", "if-none-match", "*"),
        line("head_of_what_the_client_has", "HEAD {LINK}").header("if-none-match", "*").like("what_the_client_has"),
        get_with("what_the_client_has_not", "if-none-match", "\"stale\"").like("download"),
        picture("a_picture_that_a_page_shows").like("download"),
        picture("a_picture_that_the_browser_has").header("if-none-match", "*").like("what_the_client_has"),
        get_with("another_file_than_expected", "if-match", "\"stale\""),
        get("of_a_replaced_file").after_file("GUIDE.pdf", "text/plain", "new").like("download"),
        get("of_a_deleted_file")
            .after_command("product/file/delete", r#"{"product_id":1,"name":"guide.pdf"}"#)
            .like("download"),
        row("file::html_never_runs", "GET {LINK}").after_file("a.html", "text/html", "<script>alert(1)</script>"),
        row("file::a_name_that_turns_the_direction", "GET {LINK}").after_file("a%E2%80%AEfdp.exe", "x/y", "MZ"),
        line("without_a_name_in_the_address", "GET /api/file/{VALID}").refused("NOT_FOUND"),
        line("a_key_is_no_ticket", "GET /api/file/{VALID}/guide.pdf").refused("NOT_FOUND"),
        get("of_a_revoked_key").after_command("key/revoke", r#"{"id":"{VALID_ID}"}"#).refused("REVOKED_KEY"),
        get("after_a_day").last_after(a_day).refused("EXPIRED_TICKET"),
        get("before_a_day_is_over").last_after(Duration::from_secs(86_399)).like("download"),
        get("of_a_key_that_has_expired_since")
            .after_command("key/change", r#"{"id":"{VALID_ID}","expires_at":"2000-01-01T00:00:00Z"}"#)
            .refused("EXPIRED_TICKET"),
        line("wrong_method", "PUT {LINK}").refused("METHOD_NOT_ALLOWED"),
        get("limit_exceeded").times(301).limited(),
        get("store_away").store_away().refused("UNAVAILABLE"),
        get("store_corrupt").store_corrupt().refused("INTERNAL"),
        get("store_panicking").store_panicking().refused("INTERNAL"),
    ]
}
