//! `GET /api/product`.

use crate::row::{Row, query, row};
use crate::validate::KEY_ONCE;

const REQUEST: &str = "Idempotency-Key must be 1 to 255 printable ASCII characters, once.";
const REQUEST_OF_256: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub fn rows() -> Vec<Row> {
    let get = query("product", "/api/product");
    let fetch = |name: &str, key: &str| get(name, &format!("?key={key}&product_id=1"));
    // A fetch that was counted under the name "a", and then a command of the seller.
    let counted_then = |name: &str, command: &str, body: &str| {
        let first = "GET /api/product?key={VALID}&product_id=1";
        fetch(name, "{VALID}").after_request(first, "idempotency-key", "a").after_command(command, body)
    };
    let expire = r#"{"id":"{VALID_ID}","expires_at":"2000-01-01T00:00:00Z"}"#;
    vec![
        fetch("fetch_counts_a_use", "{VALID}"),
        get("key_in_bearer", "?product_id=1").header("authorization", "Bearer {VALID}").like("fetch_counts_a_use"),
        get("key_in_x_api_key", "?product_id=1").header("x-api-key", "{VALID}").like("fetch_counts_a_use"),
        get("same_key_in_two_places", "?product_id=1&key={VALID}")
            .header("x-api-key", "{VALID}")
            .like("fetch_counts_a_use"),
        get("two_different_keys", "?product_id=1&key={VALID}").header("x-api-key", "other").invalid(KEY_ONCE),
        fetch("last_use", "{LIMITED}").times(2).like("fetch_counts_a_use").left(98).leaves(6, 4, 0),
        fetch("one_use_too_many", "{LIMITED}").times(3).refused("EXCEEDED_USES").left(97).leaves(6, 4, 0),
        row("product::head_counts_no_use", "HEAD /api/product?key={LIMITED}&product_id=1").times(5),
        row("product::head_of_a_spent_key", "HEAD /api/product?key={SPENT}&product_id=1").refused("EXCEEDED_USES"),
        get("missing_key", "?product_id=1").missing("key"),
        get("missing_product", "?key={VALID}").missing("product_id"),
        get("empty_product", "?key={VALID}&product_id=").missing("product_id"),
        get("product_is_no_integer", "?key={VALID}&product_id=1.0").invalid("product_id must be an integer."),
        get("product_with_sign", "?key={VALID}&product_id=%2B1").invalid("product_id must be an integer."),
        get("product_zero", "?key={VALID}&product_id=0").invalid("product_id must be an integer of 1 or more."),
        get("product_beyond_64_bits", "?key={VALID}&product_id=9223372036854775808")
            .invalid("product_id must be an integer of at most 64 bits."),
        get("product_twice", "?key={VALID}&product_id=1&product_id=2").invalid("product_id must come once."),
        get("parameters_come_before_the_key", "?key={FORGED}&product_id=x").invalid("product_id must be an integer."),
        fetch("forged_key", "{FORGED}").refused("INVALID_KEY"),
        fetch("revoked_key", "{REVOKED}").refused("INVALID_KEY").within("product"),
        fetch("expired_key", "{EXPIRED}").refused("EXPIRED_KEY"),
        get("expired_comes_before_wrong_product", "?key={EXPIRED}&product_id=2").refused("EXPIRED_KEY"),
        get("expired_comes_before_unknown_product", "?key={EXPIRED}&product_id=99").refused("EXPIRED_KEY"),
        get("wrong_product", "?key={VALID}&product_id=2").refused("WRONG_PRODUCT"),
        get("wrong_product_comes_before_exhausted", "?key={SPENT}&product_id=2").refused("WRONG_PRODUCT"),
        get("unknown_product", "?key={VALID}&product_id=99").refused("NOT_FOUND"),
        fetch("spent_key", "{SPENT}").refused("EXCEEDED_USES"),
        fetch("use_that_a_rule_of_the_host_refuses", "{VALID}")
            .usable_once()
            .times(2)
            .refused("ONCE")
            .left(98)
            .leaves(6, 3, 0),
        row("product::head_asks_the_rules_of_the_host", "HEAD /api/product?key={VALID}&product_id=1")
            .after_the_only_use()
            .refused("ONCE")
            .left(98)
            .leaves(6, 3, 0),
        fetch("limit_per_key_reached", "{VALID}").times(100).like("fetch_counts_a_use").left(0).leaves(6, 102, 0),
        fetch("limit_per_key_exceeded", "{VALID}").times(101).limited().leaves(6, 102, 0),
        fetch("limit_comes_before_revoked", "{REVOKED}").times(101).limited(),
        fetch("failures_limit_exceeded", "{FORGED}").times(61).limited().within("failures"),
        fetch("the_same_request_counts_once", "{LIMITED}").named("8e03978e-40d5-43dd-bc93-6894a57f9324").times(11),
        fetch("the_same_request_counts_after_ten_repeats", "{LIMITED}")
            .named("8e03978e-40d5-43dd-bc93-6894a57f9324")
            .times(13)
            .refused("EXCEEDED_USES")
            .left(87)
            .leaves(6, 4, 0),
        row("product::head_is_no_request_to_repeat", "HEAD /api/product?key={SPENT}&product_id=1")
            .named("a")
            .refused("EXCEEDED_USES"),
        fetch("request_without_a_name", "{VALID}").named("").invalid(REQUEST),
        fetch("request_of_two_names", "{VALID}").named("a").named("a").invalid(REQUEST),
        fetch("name_of_256_characters", "{VALID}").named(REQUEST_OF_256).invalid(REQUEST),
        fetch("name_in_quotes_is_the_same_name", "{LIMITED}")
            .named("\"a\"")
            .times(3)
            .after_request("GET /api/product?key={LIMITED}&product_id=1", "idempotency-key", "a")
            .like("fetch_counts_a_use")
            .left(96),
        fetch("name_with_a_tab", "{VALID}").named("a\tb").invalid(REQUEST),
        fetch("name_that_is_no_utf_8", "{VALID}").named("\u{ff}").invalid(REQUEST),
        fetch("name_beside_one_that_is_no_utf_8", "{VALID}").named("a").named("\u{ff}").invalid(REQUEST),
        fetch("request_with_a_spent_key", "{SPENT}").named("a").refused("EXCEEDED_USES"),
        get("request_for_another_product", "?key={VALID}&product_id=2")
            .named("a")
            .after_request("GET /api/product?key={VALID}&product_id=1", "idempotency-key", "a")
            .invalid("Idempotency-Key names a request for another product.")
            .within("product")
            .left(98)
            .leaves(6, 3, 0),
        counted_then("the_same_request_after_the_key_was_made_to_expire", "key/change", expire)
            .named("a")
            .like("fetch_counts_a_use")
            .left(98),
        counted_then("another_request_after_the_key_was_made_to_expire", "key/change", expire)
            .named("b")
            .refused("EXPIRED_KEY")
            .left(98)
            .leaves(6, 3, 0),
        counted_then("the_same_request_after_the_key_was_revoked", "key/revoke", r#"{"id":"{VALID_ID}"}"#)
            .named("a")
            .refused("INVALID_KEY")
            .within("product")
            .left(98)
            .leaves(6, 3, 0),
        fetch("panic_is_a_fault_of_ours", "{VALID}").store_panicking().refused("INTERNAL"),
    ]
}
