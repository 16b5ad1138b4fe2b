//! `POST /api/webhook/order`.

use crate::row::{FORM, Row, row};

pub const EMAIL: &str = "customer_email must be an e-mail address such as buyer@example.com.";
const LINE: &str = "POST /api/webhook/order";
const ORDER_ID: &str = "order_id must be 1 to 255 characters without control characters.";
const ONE_OBJECT: &str = "The body must be one JSON object in which no name comes twice.";

/// A good order, with some of its text replaced.
fn order(replace: &str, by: &str) -> String {
    let good = r#"{"order_id":"A-1","product_id":1,"customer_email":"Buyer@EXAMPLE.com","secret":"{SECRET}"}"#;
    assert!(good.contains(replace));
    good.replace(replace, by)
}

fn good() -> String {
    order("", "")
}

fn sent(name: &str, body: impl Into<String>) -> Row {
    row(format!("webhook::{name}"), LINE).json(body)
}

/// A good order, sent with this type.
fn typed(name: &str, content_type: &'static str) -> Row {
    row(format!("webhook::{name}"), LINE).typed(content_type, good())
}

pub fn rows() -> Vec<Row> {
    vec![
        sent("paid_order", good()),
        sent("terms_of_the_product", order(":1", ":2")).like("paid_order"),
        sent("an_order_sets_no_terms", order("\"order_id\"", "\"max_uses\":1,\"expires_days\":1,\"order_id\""))
            .like("paid_order"),
        sent("replay_answers_alike_and_sends_nothing", good()).after_order(good()).like("paid_order").left(28),
        sent("replay_with_another_address_keeps_the_first", order("Buyer@EXAMPLE.com", "other@example.com"))
            .after_order(good())
            .like("paid_order")
            .left(28),
        sent("same_order_with_another_product_is_another_key", order(":1", ":2")).after_order(good()),
        sent("order_ids_are_compared_exactly", order("A-1", "a-1"))
            .after_order(good())
            .like("same_order_with_another_product_is_another_key"),
        sent("wrong_secret", order("{SECRET}", "{SECRET}x")).refused("UNAUTHORIZED"),
        sent("wrong_secret_comes_before_wrong_fields", r#"{"secret":"wrong","order_id":1}"#).refused("UNAUTHORIZED"),
        sent(
            "wrong_secret_comes_before_unknown_product",
            r#"{"secret":"wrong","order_id":"A","product_id":99,"customer_email":"a@b.example"}"#,
        )
        .refused("UNAUTHORIZED"),
        sent("missing_secret", order(",\"secret\":\"{SECRET}\"", "")).missing("secret"),
        sent("empty_secret", order("{SECRET}", "")).missing("secret"),
        sent("secret_is_no_string", order("\"{SECRET}\"", "true")).invalid("secret must be a string."),
        sent("missing_order", order("\"order_id\":\"A-1\",", "")).missing("order_id"),
        sent("null_counts_as_missing", order("\"A-1\"", "null")).missing("order_id"),
        sent("order_with_control_character", order("A-1", "A\\u0000")).invalid(ORDER_ID),
        sent("order_of_256_characters", order("A-1", &"x".repeat(256))).invalid(ORDER_ID),
        sent("order_that_looks_like_a_path_or_a_query_is_text", order("A-1", "../?a=1&b='; --%00")).like("paid_order"),
        sent("secret_with_a_space_behind_it", order("{SECRET}", "{SECRET} ")).refused("UNAUTHORIZED"),
        sent("secret_in_other_letters", order("{SECRET}", "THE PLATFORM'S SECRET")).refused("UNAUTHORIZED"),
        sent("product_with_exponent", order(":1", ":1e0")).invalid("product_id must be an integer."),
        sent("product_with_leading_zero", order(":1", ":01")).invalid(ONE_OBJECT),
        sent("email_with_a_header_in_it", order("Buyer@EXAMPLE.com", "a@example.com\\r\\nBcc: b@example.com"))
            .invalid(EMAIL),
        sent("white_space_around_the_email_is_dropped", order("Buyer@EXAMPLE.com", " Buyer@EXAMPLE.com\u{a0}"))
            .like("paid_order"),
        sent("email_with_a_display_name", order("Buyer@EXAMPLE.com", "Ada <a@example.com>")).invalid(EMAIL),
        sent("two_emails", order("Buyer@EXAMPLE.com", "a@example.com, b@example.com")).invalid(EMAIL),
        sent("email_between_characters_without_width", order("Buyer@EXAMPLE.com", "\u{200b}Buyer@EXAMPLE.com\u{feff}"))
            .like("paid_order"),
        sent("email_at_an_ip_address", order("Buyer@EXAMPLE.com", "a@127.0.0.1")).invalid(EMAIL),
        sent("email_at_an_international_domain", order("Buyer@EXAMPLE.com", "a@b\u{fc}cher.example"))
            .like("paid_order")
            .but("Buyer@example.com", "a@xn--bcher-kva.example"),
        sent("email_with_invisible_characters", order("Buyer@EXAMPLE.com", "a\u{200b}@example.com")).invalid(EMAIL),
        sent("missing_product", order("\"product_id\":1,", "")).missing("product_id"),
        sent("product_as_string", order(":1", ":\"1\"")).invalid("product_id must be an integer."),
        sent("product_as_float", order(":1", ":1.0")).invalid("product_id must be an integer."),
        sent("unknown_product", order(":1", ":99")).refused("NOT_FOUND"),
        sent("missing_email", order("\"customer_email\":\"Buyer@EXAMPLE.com\",", "")).missing("customer_email"),
        sent("fields_come_before_the_replay", order("Buyer@EXAMPLE.com", "x"))
            .after_order(good())
            .invalid(EMAIL)
            .left(28)
            .leaves(7, 2, 1),
        sent("broken_json", "{").invalid(ONE_OBJECT),
        sent("two_objects", good() + "\n{}").invalid(ONE_OBJECT),
        sent("half_a_character", order("A-1", "\\ud800")).invalid("order_id must be a string."),
        sent(
            "deep_nesting_in_an_unknown_field",
            order("\"order_id\"", &format!("\"x\":{}{},\"order_id\"", "[".repeat(2000), "]".repeat(2000))),
        )
        .like("paid_order"),
        sent("nesting_that_does_not_end", format!("{{\"x\":{}", "[".repeat(60_000))).invalid(ONE_OBJECT),
        sent("array", "[]").invalid(ONE_OBJECT),
        sent("null_instead_of_an_object", "null").invalid(ONE_OBJECT),
        sent("empty_body", "").invalid(ONE_OBJECT),
        sent("name_twice", order("\"order_id\"", "\"order_id\":\"B\",\"order\\u005fid\"")).invalid(ONE_OBJECT),
        row("webhook::form_instead_of_json", LINE).typed(FORM, "order_id=1").refused("UNSUPPORTED_MEDIA_TYPE"),
        row("webhook::no_content_type", LINE).body(good()).refused("UNSUPPORTED_MEDIA_TYPE"),
        typed("empty_content_type", "").refused("UNSUPPORTED_MEDIA_TYPE"),
        typed("type_with_a_suffix", "application/json-patch+json").refused("UNSUPPORTED_MEDIA_TYPE"),
        typed("type_in_capitals", "Application/JSON; charset=\"UTF-8\"").like("paid_order"),
        typed("charset_utf_8", "application/json; charset=utf-8").like("paid_order"),
        typed("charset_utf8", "application/json;charset=\"Utf8\"").like("paid_order"),
        typed("semicolon_without_a_parameter", "application/json;").like("paid_order"),
        typed("charset_latin1", "application/json; charset=latin1").refused("UNSUPPORTED_MEDIA_TYPE"),
        typed("charset_utf_16", "application/json; charset=utf-16").refused("UNSUPPORTED_MEDIA_TYPE"),
        typed("another_parameter_than_charset", "application/json; version=1").refused("UNSUPPORTED_MEDIA_TYPE"),
        sent("a_byte_order_mark_is_skipped", "\u{feff}".to_owned() + &good()).like("paid_order"),
        sent("two_byte_order_marks", "\u{feff}\u{feff}".to_owned() + &good()).invalid(ONE_OBJECT),
        sent("type_beside_one_that_is_no_utf_8", good())
            .header("content-type", "\u{ff}")
            .refused("UNSUPPORTED_MEDIA_TYPE"),
        sent("compressed", good()).header("content-encoding", "gzip").refused("UNSUPPORTED_MEDIA_TYPE"),
        sent("body_of_64_kib", padded(64 << 10)).like("paid_order"),
        sent("body_over_64_kib", padded((64 << 10) + 1)).refused("PAYLOAD_TOO_LARGE"),
        row("webhook::head", "HEAD /api/webhook/order").refused("METHOD_NOT_ALLOWED"),
        sent("limit_reached", "{}").times(30).missing("secret").left(0),
        row("webhook::limit_exceeded_comes_first", LINE).body("x".repeat(100_000)).times(31).limited(),
        sent("panic_is_a_fault_of_ours", good()).store_panicking().refused("INTERNAL"),
    ]
}

/// A good order of exactly `bytes`, the secret filled in.
fn padded(bytes: usize) -> String {
    let good = order("{SECRET}", "the platform's secret");
    let padding = " ".repeat(bytes - good.len());
    good + &padding
}
