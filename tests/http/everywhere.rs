//! What is answered alike at every endpoint: another method, no token, too much, another type, a store that fails.

use crate::row::{Row, row};

/// A body that is sent: the row's name, its path, a good body, what identifies its object, and a body with an unknown id.
type Command = (&'static str, &'static str, &'static str, Id, Option<&'static str>);

/// What identifies the object of a command.
#[derive(Clone, Copy)]
enum Id {
    Text,
    Number,
    Product,
    Address,
    /// It makes a new one.
    New,
}

/// Endpoints for everybody: the row's name, a good request, its body, and a method that is not theirs.
const OPEN: [(&str, &str, &str, &str); 7] = [
    ("validate", "GET /api/validate?key={VALID}", "", "POST"),
    ("product", "GET /api/product?key={VALID}&product_id=1", "", "POST"),
    ("products", "GET /api/products", "", "POST"),
    ("posts", "GET /api/posts", "", "DELETE"),
    ("webhook", "POST /api/webhook/order", ORDER, "GET"),
    ("platform", "POST /api/webhook/gumroad?token=the-platforms-token", SALE, "GET"),
    ("resend_keys", "POST /api/resend", r#"{"customer_email":"Buyer@example.com"}"#, "GET"),
];

/// The seller's lists: the row's name, and a good request.
pub const LISTS: [(&str, &str); 9] = [
    ("files", "GET /api/admin/product/files?product_id=1"),
    ("keys", "GET /api/admin/keys"),
    ("key", "GET /api/admin/key?id={VALID_ID}"),
    ("messages", "GET /api/admin/messages"),
    ("inbox", "GET /api/admin/inbox"),
    ("events", "GET /api/admin/events"),
    ("stats", "GET /api/admin/stats"),
    ("email", "GET /api/admin/email"),
    ("export", "GET /api/admin/export?what=events"),
];

/// The seller's commands.
const COMMANDS: [Command; 19] = [
    ("delete_file", "product/file/delete", FILE, Id::Product, Some(NO_FILE)),
    ("add_product", "product", r#"{"name":"x","content":"y"}"#, Id::New, None),
    ("issue_key", "issue-key", r#"{"product_id":1,"customer_email":"a@example.com"}"#, Id::New, None),
    ("add_post", "post", r#"{"title":"Hi","category":"news","content":"text"}"#, Id::New, None),
    ("revoke", "key/revoke", KEY, Id::Text, Some(NO_KEY)),
    ("restore", "key/restore", KEY, Id::Text, Some(NO_KEY)),
    ("change", "key/change", r#"{"id":"{VALID_ID}","max_uses":1}"#, Id::Text, Some(NO_CHANGE)),
    ("resend", "key/resend", KEY, Id::Text, Some(NO_KEY)),
    ("rotate", "key/rotate", KEY, Id::Text, Some(NO_KEY)),
    ("retry", "message/retry", r#"{"id":"1"}"#, Id::Text, Some(r#"{"id":"1"}"#)),
    ("apply", "inbox/apply", r#"{"id":"1"}"#, Id::Text, Some(r#"{"id":"1"}"#)),
    ("platform_secret", "platform/secret", r#"{"platform":"paddle","secret":"x"}"#, Id::New, None),
    ("dismiss", "inbox/dismiss", r#"{"id":"1"}"#, Id::Text, Some(r#"{"id":"1"}"#)),
    ("update_product", "product/update", r#"{"id":1}"#, Id::Number, Some(r#"{"id":99,"price":1}"#)),
    ("archive", "product/archive", r#"{"id":1}"#, Id::Number, Some(r#"{"id":99}"#)),
    ("restore_product", "product/restore", r#"{"id":1}"#, Id::Number, Some(r#"{"id":99}"#)),
    ("update_post", "post/update", r#"{"id":1}"#, Id::Number, Some(r#"{"id":99}"#)),
    ("delete_post", "post/delete", r#"{"id":1}"#, Id::Number, None),
    ("erase", "customer/erase", r#"{"customer_email":"a@example.com"}"#, Id::Address, None),
];

const ORDER: &str = r#"{"order_id":"A-1","product_id":1,"customer_email":"Buyer@EXAMPLE.com","secret":"{SECRET}"}"#;
pub const SALE: &str = "sale_id=S-1&resource_name=sale&short_product_id=map&email=Buyer%40EXAMPLE.com&quantity=2";
const FILE: &str = r#"{"product_id":1,"name":"guide.pdf"}"#;
const NO_FILE: &str = r#"{"product_id":99,"name":"guide.pdf"}"#;
const KEY: &str = r#"{"id":"{VALID_ID}"}"#;
const NO_KEY: &str = r#"{"id":"00000000-0000-0000-0000-000000000000"}"#;
const NO_CHANGE: &str = r#"{"id":"00000000-0000-0000-0000-000000000000","max_uses":1}"#;

pub fn rows() -> Vec<Row> {
    let open = OPEN.into_iter().flat_map(|(name, line, body, other)| open(name, line, body, other));
    let lists = LISTS.into_iter().flat_map(|(name, line)| list(name, line));
    open.chain(lists).chain(COMMANDS.into_iter().flat_map(command)).chain(unreadable()).collect()
}

/// A key in a header field that cannot be read is not left out.
fn unreadable() -> impl Iterator<Item = Row> {
    OPEN.into_iter().filter(|(_, line, ..)| line.contains("?key=")).flat_map(|(name, line, ..)| {
        ["authorization", "x-api-key"].map(|field| {
            row(format!("{name}::{field}_that_is_no_utf_8"), line)
                .header(field, "\u{ff}")
                .invalid(&format!("{field} must be visible ASCII."))
        })
    })
}

fn open(name: &str, line: &str, body: &str, other: &str) -> Vec<Row> {
    let (_, target) = line.split_once(' ').unwrap();
    let good = |what: &str| {
        let row = row(format!("{name}::{what}"), line);
        // A platform sends a form, and says no type.
        if body.starts_with('{') { row.json(body) } else { row.body(body) }
    };
    vec![
        row(format!("{name}::wrong_method"), format!("{other} {target}")).refused("METHOD_NOT_ALLOWED"),
        good("store_away").store_away().refused("UNAVAILABLE"),
        good("store_corrupt").store_corrupt().refused("INTERNAL"),
    ]
}

fn list(name: &str, line: &str) -> Vec<Row> {
    let named = |what: &str| row(format!("{name}::{what}"), line);
    let post = line.replacen("GET", "POST", 1);
    let mut rows = vec![
        row(format!("{name}::wrong_method"), post).by_seller("{}").refused("METHOD_NOT_ALLOWED"),
        named("no_token").refused("UNAUTHORIZED"),
        named("a_buyers_key_is_no_token").header("authorization", "Bearer {VALID}").refused("UNAUTHORIZED"),
        named("a_token_beside_one_that_is_no_utf_8")
            .with_token()
            .header("authorization", "Bearer \u{ff}")
            .refused("UNAUTHORIZED"),
        named("limit_exceeded").with_token().times(11).limited(),
        named("store_away").with_token().store_away().refused("UNAVAILABLE"),
        named("store_corrupt").with_token().store_corrupt().refused("INTERNAL"),
    ];
    // Every store keeps keys, and every shop has e-mails.
    if !name.starts_with("key") && name != "email" {
        rows.push(named("not_kept_by_the_store").with_token().catalog_elsewhere().refused("NOT_FOUND"));
    }
    rows
}

fn command((name, path, body, id, unknown): Command) -> Vec<Row> {
    let line = format!("POST /api/admin/{path}");
    let named = |what: &str| row(format!("{name}::{what}"), &line);
    let get = line.replacen("POST", "GET", 1);
    let text = named("form_instead_of_json").with_token().typed("text/plain", body);
    let mut rows = vec![
        row(format!("{name}::wrong_method"), get).with_token().refused("METHOD_NOT_ALLOWED"),
        named("no_token").json(body).refused("UNAUTHORIZED"),
        text.refused("UNSUPPORTED_MEDIA_TYPE"),
        named("body_over_2_mib").by_seller(" ".repeat((2 << 20) + 1)).refused("PAYLOAD_TOO_LARGE"),
        named("limit_exceeded").by_seller("{}").times(11).limited(),
        named("store_away").by_seller(body).store_away().refused("UNAVAILABLE"),
        named("store_corrupt").by_seller(body).store_corrupt().refused("INTERNAL"),
        named("not_kept_by_the_store").by_seller(body).catalog_elsewhere().refused("NOT_FOUND"),
    ];
    let (field, kind) = match id {
        Id::Text => ("id", "a string"),
        Id::Number => ("id", "an integer"),
        Id::Product => ("product_id", "an integer"),
        Id::Address => ("customer_email", "a string"),
        Id::New => return rows,
    };
    let object = named("id_is_an_object").by_seller(r#"{"id":{},"product_id":{},"customer_email":{}}"#);
    rows.extend([
        named("missing_id").by_seller("{}").missing(field),
        object.invalid(&format!("{field} must be {kind}.")),
    ]);
    rows.extend(unknown.map(|unknown| named("unknown").by_seller(unknown).refused("NOT_FOUND")));
    rows
}
