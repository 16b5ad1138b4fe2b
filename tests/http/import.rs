//! The desk's form that imports sales.

use crate::row::{Row, row};

const SALES: &str = "order_id,customer_email,product_id,status,key\n\
    I-1,ada@example.com,1,,LICENCE-0001\nI-2,bob@example.com,99,,\n<b>I-3</b>,cy,1,,\nI-4,dan@example.com,,refunded,\n";
const PINGS: &str = "Purchase ID,Purchase Email,Product ID,Fully Refunded?\n\
    Kk1lJx0zVg8bQ3mA5nP7rw==,ada@example.com,map,0\nTotals,,,\n";
/// The second row waits until the first is in.
const BROKEN: &str = "order_id,customer_email,product_id\nI-1,ada@example.com,1\nI-1,ada@example.com,1\nI-2,\"\n";

pub fn rows() -> Vec<Row> {
    let import = |name: &str, parts: &[String]| {
        row(format!("import::{name}"), "POST /desk/import")
            .at_desk()
            .header("origin", "http://localhost")
            .typed("multipart/form-data; boundary=x", format!("{}--x--\r\n", parts.concat()))
    };
    let (ours, dry) = (|| field("csrf", "{CSRF}"), || field("dry_run", "yes"));
    let sales = || file(SALES);
    vec![
        row("import::asked_for", "GET /desk/import").at_desk(),
        import("says_what_would_happen", &[ours(), sales(), field("from", ""), dry()]),
        import("issues_keys", &[ours(), sales(), field("from", "")]),
        import("sends_keys", &[ours(), sales(), field("from", ""), field("send", "yes")]).then("GET /desk/messages"),
        import("an_export_of_a_platform", &[ours(), file(PINGS), field("from", "gumroad"), dry()]),
        import("a_missing_column", &[ours(), file(PINGS), field("from", ""), dry()]),
        import("a_missing_column_of_a_platform", &[ours(), file(SALES), field("from", "shopify"), dry()]),
        import("no_sales", &[ours(), file(PINGS.lines().next().unwrap()), field("from", "gumroad"), dry()])
            .like("an_export_of_a_platform")
            .but(
                "Nothing was changed. Rows that would get a new key: 1; that have one: 0; that are refunded: 0; that are refused: 0.",
                "The file has a header row and no sales. Nothing was imported.",
            ),
        import("lines_that_end_with_cr", &[ours(), file(&SALES.replace('\n', "\r")), field("from", "")])
            .like("no_file")
            .but(
                "Choose a file first.",
                "The file cannot be read: its lines end with CR alone; save the file with LF or CR LF at the end of each line, for example as CSV UTF-8.",
            ),
        import("broken_off", &[ours(), file(BROKEN), field("from", "")])
            .like("no_file")
            .but(
                "Choose a file first.",
                "The file cannot be read: a quotation mark is not closed. Rows that got a new key: 1; that have one: 0; that are refunded: 0; that are refused: 0. To continue, import the file again: sales that are here already stay as they are.",
            )
            .leaves(7, 2, 0),
        import("no_file", &[ours(), field("file\"; filename=\"", ""), field("from", "")]),
        import("too_large", &[ours(), file(&"x".repeat((16 << 20) + 1))])
            .like("no_file")
            .but("200 OK", "400 Bad Request")
            .but("Choose a file first.", "The file is larger than 16 MiB. Split it into several files."),
        import("a_platform_made_up", &[ours(), sales(), field("from", "etsy")]).page("400 Bad Request"),
        import("cut_off", &[ours(), sales().replace("\r\n\r\n", "")]).page("400 Bad Request"),
        import("a_token_that_is_wrong", &[field("csrf", "wrong"), sales()]).page("403 Forbidden"),
        import("a_file_before_the_token", &[sales(), ours()]).page("403 Forbidden"),
        row("import::no_session", "POST /desk/import")
            .header("origin", "http://localhost")
            .typed("multipart/form-data; boundary=x", "--x--\r\n")
            .leads_to("/desk/sign-in?next=%2Fdesk%2Fimport"),
        row("import::another_origin", "POST /desk/import")
            .at_desk()
            .header("origin", "http://evil.example")
            .typed("multipart/form-data; boundary=x", "--x--\r\n")
            .page("403 Forbidden"),
    ]
}

fn field(name: &str, text: &str) -> String {
    format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
}

fn file(content: &str) -> String {
    field("file\"; filename=\"sales.csv", content)
}
