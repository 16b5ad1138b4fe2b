//! The seller's desk.

use crate::row::{Row, row};

const KEYS: &str = "GET /api/admin/keys";
const KEY: &str = "GET /api/admin/key?id={VALID_ID}";
const REVOKE: &str = "POST /api/admin/key/revoke";
const RESTORE: &str = "POST /api/admin/key/restore";
const CHANGE: &str = "POST /api/admin/key/change";
const RESEND: &str = "POST /api/admin/key/resend";
const ROTATE: &str = "POST /api/admin/key/rotate";
const RETRY: &str = "POST /api/admin/message/retry";
const APPLY: &str = "POST /api/admin/inbox/apply";
const UPDATE: &str = "POST /api/admin/product/update";
const ARCHIVE: &str = "POST /api/admin/product/archive";
const UPDATE_POST: &str = "POST /api/admin/post/update";
const DELETE_POST: &str = "POST /api/admin/post/delete";
const ERASE: &str = "POST /api/admin/customer/erase";
const ORDER: &str = r#"{"order_id":"A-1","product_id":1,"customer_email":"buyer@example.com","secret":"{SECRET}"}"#;
const SALE: &str = "sale_id=S-1&resource_name=sale&short_product_id=atlas&email=Buyer%40EXAMPLE.com&quantity=2";

pub fn rows() -> Vec<Row> {
    [lists(), one_key(), changes(), inbox(), catalog(), erasure(), everywhere()].concat()
}

/// A name that is put together.
fn named(name: String) -> &'static str {
    Box::leak(name.into_boxed_str())
}

fn lists() -> Vec<Row> {
    let get = |name, line| row(name, line).with_token();
    vec![
        get("keys::all_newest_first", KEYS),
        get("keys::a_page_of_one", "GET /api/admin/keys?limit=1"),
        get("keys::the_next_page", "GET /api/admin/keys?limit=2&before={SPENT_ID}"),
        get("keys::by_address_in_any_case", "GET /api/admin/keys?email=BUYER@example.com&limit=1"),
        get("keys::by_an_address_that_nobody_has", "GET /api/admin/keys?email=nobody@example.com"),
        get("keys::by_order", "GET /api/admin/keys?order_id=A-1").after_order(ORDER),
        get("keys::by_order_and_source", "GET /api/admin/keys?order_id=A-1&source=webhook").after_order(ORDER),
        get("keys::by_order_and_another_source", "GET /api/admin/keys?order_id=A-1&source=stripe").after_order(ORDER),
        get("keys::by_product", "GET /api/admin/keys?product_id=2"),
        get("keys::expired", "GET /api/admin/keys?status=expired"),
        get("keys::exhausted", "GET /api/admin/keys?status=exhausted"),
        get("keys::revoked", "GET /api/admin/keys?status=revoked"),
        get("keys::filters_combine", "GET /api/admin/keys?status=valid&product_id=1&email=buyer@example.com&limit=1"),
        get("keys::sql_in_an_order_is_text", "GET /api/admin/keys?order_id=%27%20OR%201%3D1%3B--"),
        get("keys::more_than_a_hundred_is_a_hundred", "GET /api/admin/keys?limit=100000000000000000000&status=revoked"),
        get("keys::limit_zero", "GET /api/admin/keys?limit=0"),
        get("keys::limit_negative", "GET /api/admin/keys?limit=-1"),
        get("keys::before_made_up", "GET /api/admin/keys?before=1"),
        get("keys::before_an_id_that_nobody_has", "GET /api/admin/keys?before=00000000-0000-0000-0000-000000000000"),
        get("keys::status_unknown", "GET /api/admin/keys?status=Valid"),
        get("keys::address_malformed", "GET /api/admin/keys?email=buyer"),
        get("keys::product_zero", "GET /api/admin/keys?product_id=0"),
        get("keys::product_twice", "GET /api/admin/keys?product_id=1&product_id=2"),
        get("keys::source_malformed", "GET /api/admin/keys?source=%F0%9F%90%A6"),
        get("keys::head", "HEAD /api/admin/keys"),
        get("messages::all_newest_first", "GET /api/admin/messages").after_order(ORDER),
        get("messages::queued", "GET /api/admin/messages?state=queued&limit=1").after_order(ORDER),
        get("messages::failed", "GET /api/admin/messages?state=failed").after_order(ORDER),
        get("messages::state_unknown", "GET /api/admin/messages?state=lost"),
        get("messages::before_made_up", "GET /api/admin/messages?before=1e3"),
        get("messages::before_everything", "GET /api/admin/messages?before=-9223372036854775808").after_order(ORDER),
        get("events::all_newest_first", "GET /api/admin/events?limit=3"),
        get("events::of_a_key", "GET /api/admin/events?key_id={REVOKED_ID}"),
        get("events::of_a_key_that_nobody_has", "GET /api/admin/events?key_id=00000000-0000-0000-0000-000000000000"),
        get("events::key_malformed", "GET /api/admin/events?key_id=1"),
        get("events::before_made_up", "GET /api/admin/events?before=x"),
        get("stats::today", "GET /api/admin/stats?days=1"),
        get("stats::two_days", "GET /api/admin/stats?days=2"),
        get("stats::days_zero", "GET /api/admin/stats?days=0"),
        get("stats::days_366", "GET /api/admin/stats?days=366"),
        get("stats::days_as_text", "GET /api/admin/stats?days=a"),
        get("inbox::what_needs_attention", "GET /api/admin/inbox?outcome=needs_attention").after_event(SALE),
        get("inbox::of_another_outcome", "GET /api/admin/inbox?outcome=issued").after_event(SALE),
        get("inbox::outcome_unknown", "GET /api/admin/inbox?outcome=lost"),
        get("inbox::before_made_up", "GET /api/admin/inbox?before=0x1"),
    ]
}

fn one_key() -> Vec<Row> {
    let get = |name, line| row(name, line).with_token();
    vec![
        get("key::with_its_history", KEY),
        get("key::used_up", "GET /api/admin/key?id={SPENT_ID}"),
        get("key::revoked", "GET /api/admin/key?id={REVOKED_ID}"),
        get("key::missing_id", "GET /api/admin/key"),
        get("key::id_of_another_kind", "GET /api/admin/key?id=1"),
        get("key::text_of_a_key_is_no_id", "GET /api/admin/key?id={VALID}"),
        get("key::unknown_id", "GET /api/admin/key?id=00000000-0000-0000-0000-000000000000"),
        get("key::script_in_the_id", "GET /api/admin/key?id=%3Cscript%3E"),
    ]
}

fn changes() -> Vec<Row> {
    let valid = r#"{"id":"{VALID_ID}"}"#;
    let change = |fields: &str| format!(r#"{{"id":"{{LIMITED_ID}}",{fields}}}"#);
    vec![
        row("revoke::a_valid_key", REVOKE).by_seller(r#"{"id":"{VALID_ID}","reason":"<b>fraud</b>'; --"}"#),
        row("revoke::again_changes_nothing", REVOKE).by_seller(r#"{"id":"{VALID_ID}","reason":"x"}"#).times(2),
        row("revoke::reason_with_line_break", REVOKE).by_seller(r#"{"id":"{VALID_ID}","reason":"a\nb"}"#),
        row("revoke::reason_of_201_characters", REVOKE)
            .by_seller(format!(r#"{{"id":"{{VALID_ID}}","reason":"{}"}}"#, "x".repeat(201))),
        row("restore::a_revoked_key", RESTORE).by_seller(r#"{"id":"{REVOKED_ID}"}"#),
        row("restore::a_valid_key_changes_nothing", RESTORE).by_seller(valid),
        row("restore::a_rotated_key", RESTORE).after_rotation(valid).by_seller(valid),
        row("change::days_from_issue", CHANGE).by_seller(change(r#""expires_days":10"#)),
        row("change::at_a_time", CHANGE).by_seller(change(r#""expires_at":"2030-01-01T01:00:00.5+01:00""#)),
        row("change::a_past_time_expires_now", CHANGE).by_seller(change(r#""expires_at":"2000-01-01T00:00:00Z""#)),
        row("change::never", CHANGE).by_seller(change(r#""expires_days":-1"#)),
        row("change::uses_are_added", CHANGE).by_seller(change(r#""add_uses":3"#)),
        row("change::uses_are_set", CHANGE).by_seller(change(r#""max_uses":-1"#)),
        row("change::a_limit_below_what_was_used", CHANGE).by_seller(r#"{"id":"{SPENT_ID}","max_uses":1}"#),
        row("change::more_than_can_be_added", CHANGE).by_seller(change(r#""add_uses":2147483647"#)),
        row("change::both", CHANGE).by_seller(change(r#""expires_days":1,"max_uses":7"#)),
        row("change::two_expiries", CHANGE)
            .by_seller(change(r#""expires_days":1,"expires_at":"2030-01-01T00:00:00Z""#)),
        row("change::two_limits", CHANGE).by_seller(change(r#""max_uses":1,"add_uses":1"#)),
        row("change::added_to_an_unlimited_key", CHANGE).by_seller(r#"{"id":"{VALID_ID}","add_uses":1}"#),
        row("change::nothing", CHANGE).by_seller(r#"{"id":"{VALID_ID}"}"#),
        row("change::add_zero", CHANGE).by_seller(change(r#""add_uses":0"#)),
        row("change::add_minus_one", CHANGE).by_seller(change(r#""add_uses":-1"#)),
        row("change::days_36501", CHANGE).by_seller(change(r#""expires_days":36501"#)),
        row("change::time_without_zone", CHANGE).by_seller(change(r#""expires_at":"2030-01-01T00:00:00""#)),
        row("change::uses_2_to_the_31", CHANGE).by_seller(change(r#""max_uses":2147483648"#)),
        row("resend::to_the_same_address", RESEND).by_seller(valid),
        row("resend::to_another_address", RESEND)
            .by_seller(r#"{"id":"{VALID_ID}","customer_email":"Corrected@EXAMPLE.com"}"#),
        row("resend::a_revoked_key", RESEND).by_seller(r#"{"id":"{REVOKED_ID}"}"#),
        row("resend::address_malformed", RESEND).by_seller(r#"{"id":"{VALID_ID}","customer_email":"a@b"}"#),
        row("rotate::a_valid_key", ROTATE).by_seller(r#"{"id":"{LIMITED_ID}"}"#),
        row("rotate::again_answers_with_its_successor", ROTATE).by_seller(r#"{"id":"{LIMITED_ID}"}"#).times(2),
        row("rotate::a_revoked_key", ROTATE).by_seller(r#"{"id":"{REVOKED_ID}"}"#),
        row("rotate::an_expired_key", ROTATE).by_seller(r#"{"id":"{EXPIRED_ID}"}"#),
        row("retry::a_message_that_waits", RETRY).after_order(ORDER).by_seller(r#"{"id":"{MESSAGE}"}"#),
        row("retry::id_as_number", RETRY).by_seller(r#"{"id":1}"#),
        row("retry::id_of_another_kind", RETRY).by_seller(r#"{"id":"{VALID_ID}"}"#),
        row("retry::id_beyond_64_bits", RETRY).by_seller(r#"{"id":"9223372036854775808"}"#),
    ]
}

fn inbox() -> Vec<Row> {
    vec![
        row("apply::with_the_product", APPLY).after_event(SALE).by_seller(r#"{"id":"{EVENT}","product_id":1}"#),
        row("apply::again_changes_nothing", APPLY)
            .after_event(SALE)
            .by_seller(r#"{"id":"{EVENT}","product_id":1}"#)
            .times(2),
        row("apply::to_another_address", APPLY)
            .after_event(SALE.replace("Buyer%40EXAMPLE.com", "buyer"))
            .by_seller(r#"{"id":"{EVENT}","product_id":1,"customer_email":"ada@example.com"}"#),
        row("apply::without_what_is_missing", APPLY).after_event(SALE).by_seller(r#"{"id":"{EVENT}"}"#),
        row("apply::unknown_product", APPLY).after_event(SALE).by_seller(r#"{"id":"{EVENT}","product_id":99}"#),
        row("apply::id_of_another_kind", APPLY).by_seller(r#"{"id":"{VALID_ID}"}"#),
        row("apply::address_malformed", APPLY)
            .after_event(SALE)
            .by_seller(r#"{"id":"{EVENT}","customer_email":"<script>"}"#),
    ]
}

fn catalog() -> Vec<Row> {
    vec![
        row("update_product::one_field", UPDATE).by_seller(r#"{"id":1,"price":12.50}"#),
        row("update_product::all_fields", UPDATE).by_seller(
            r##"{"id":2,"name":"Atlas","description":"","content":"# A","type":"audio","price":0,"expires_days":-1,"max_uses":-1,"refs":{"stripe":["p"]}}"##,
        ),
        row("update_product::names_are_taken_away", UPDATE).by_seller(r#"{"id":2,"refs":{}}"#),
        row("update_product::a_name_that_another_product_has", UPDATE)
            .by_seller(r#"{"id":1,"refs":{"gumroad":["map"]}}"#),
        row("update_product::nothing", UPDATE).by_seller(r#"{"id":1}"#),
        row("update_product::unknown", UPDATE).by_seller(r#"{"id":99,"price":1}"#),
        row("update_product::id_zero", UPDATE).by_seller(r#"{"id":0}"#),
        row("update_product::name_of_201_characters", UPDATE)
            .by_seller(format!(r#"{{"id":1,"name":"{}"}}"#, "x".repeat(201))),
        row("update_product::price_negative", UPDATE).by_seller(r#"{"id":1,"price":-1}"#),
        row("archive::a_product", ARCHIVE).by_seller(r#"{"id":1}"#),
        row("archive::again", ARCHIVE).by_seller(r#"{"id":1}"#).times(2),
        row("archive::unknown", ARCHIVE).by_seller(r#"{"id":99}"#),
        row("archive::id_as_text", ARCHIVE).by_seller(r#"{"id":"1"}"#),
        row("archive::is_not_sold", "POST /api/webhook/order").after_archive(1).json(ORDER),
        row("archive::is_still_fetched", "GET /api/product?key={VALID}&product_id=1").after_archive(1),
        row("archive::is_not_listed", "GET /api/products").after_archive(1),
        row("update_post::one_field", UPDATE_POST).by_seller(r#"{"id":1,"title":"Summer"}"#),
        row("update_post::all_fields", UPDATE_POST).by_seller(
            r#"{"id":1,"title":"S","category":"tips","content":"c","published_at":"2026-01-01T00:00:00Z"}"#,
        ),
        row("update_post::is_listed", "GET /api/posts?limit=1").after_post(r#"{"id":3,"title":"Look up"}"#),
        row("update_post::unknown", UPDATE_POST).by_seller(r#"{"id":99}"#),
        row("update_post::title_with_line_break", UPDATE_POST).by_seller(r#"{"id":1,"title":"a\nb"}"#),
        row("delete_post::a_post", DELETE_POST).by_seller(r#"{"id":1}"#),
        row("delete_post::again", DELETE_POST).by_seller(r#"{"id":1}"#).times(2),
        row("delete_post::id_negative", DELETE_POST).by_seller(r#"{"id":-1}"#),
    ]
}

fn erasure() -> Vec<Row> {
    vec![
        row("erase::a_person", ERASE).after_order(ORDER).by_seller(r#"{"customer_email":"BUYER@example.com"}"#),
        row("erase::nobody", ERASE).by_seller(r#"{"customer_email":"nobody@example.com"}"#),
        row("erase::address_malformed", ERASE).by_seller(r#"{"customer_email":"%"}"#),
    ]
}

/// What is the same at all of them: methods, tokens, limits, sizes, types, faults.
fn everywhere() -> Vec<Row> {
    let lists: [(&str, &str, bool); 6] = [
        ("keys", KEYS, false),
        ("key", KEY, false),
        ("messages", "GET /api/admin/messages", true),
        ("inbox", "GET /api/admin/inbox", true),
        ("events", "GET /api/admin/events", true),
        ("stats", "GET /api/admin/stats", true),
    ];
    let mut rows = Vec::new();
    for (name, line, may_be_unsupported) in lists {
        let named = |what: &str| named(format!("{name}::{what}"));
        let post = Box::leak(line.replacen("GET", "POST", 1).into_boxed_str());
        rows.extend([
            row(named("no_token"), line),
            row(named("a_buyers_key_is_no_token"), line).header("authorization", "Bearer {VALID}"),
            row(named("wrong_method"), post).by_seller("{}"),
            row(named("limit_exceeded"), line).with_token().times(11),
            row(named("store_away"), line).with_token().store_away(),
            row(named("store_corrupt"), line).with_token().store_corrupt(),
        ]);
        if may_be_unsupported {
            rows.push(row(named("not_kept_by_the_store"), line).with_token().catalog_elsewhere());
        }
    }
    let unknown = r#"{"id":"00000000-0000-0000-0000-000000000000"}"#;
    let valid = r#"{"id":"{VALID_ID}"}"#;
    let commands: [(&str, &str, &str, Option<&str>); 12] = [
        ("revoke", REVOKE, valid, Some(unknown)),
        ("restore", RESTORE, valid, Some(unknown)),
        (
            "change",
            CHANGE,
            r#"{"id":"{VALID_ID}","max_uses":1}"#,
            Some(r#"{"id":"00000000-0000-0000-0000-000000000000","max_uses":1}"#),
        ),
        ("resend", RESEND, valid, Some(unknown)),
        ("rotate", ROTATE, valid, Some(unknown)),
        ("retry", RETRY, r#"{"id":"1"}"#, Some(r#"{"id":"1"}"#)),
        ("apply", APPLY, r#"{"id":"1"}"#, Some(r#"{"id":"1"}"#)),
        ("update_product", UPDATE, r#"{"id":1}"#, None),
        ("archive", ARCHIVE, r#"{"id":1}"#, None),
        ("update_post", UPDATE_POST, r#"{"id":1}"#, None),
        ("delete_post", DELETE_POST, r#"{"id":1}"#, None),
        ("erase", ERASE, r#"{"customer_email":"a@example.com"}"#, None),
    ];
    for (name, line, body, unknown) in commands {
        let named = |what: &str| named(format!("{name}::{what}"));
        let get = Box::leak(line.replacen("POST", "GET", 1).into_boxed_str());
        rows.extend([
            row(named("no_token"), line).json(body),
            row(named("wrong_method"), get).with_token(),
            row(named("missing_id"), line).by_seller("{}"),
            row(named("id_is_an_object"), line).by_seller(r#"{"id":{},"customer_email":{}}"#),
            row(named("form_instead_of_json"), line).with_token().body(body).header("content-type", "text/plain"),
            row(named("body_over_2_mib"), line).by_seller(" ".repeat((2 << 20) + 1)),
            row(named("limit_exceeded"), line).by_seller("{}").times(11),
            row(named("store_away"), line).by_seller(body).store_away(),
            row(named("store_corrupt"), line).by_seller(body).store_corrupt(),
            row(named("not_kept_by_the_store"), line).by_seller(body).catalog_elsewhere(),
        ]);
        if let Some(unknown) = unknown {
            rows.push(row(named("unknown"), line).by_seller(unknown));
        }
    }
    rows
}
