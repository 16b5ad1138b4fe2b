//! `GET /api/validate`.

use std::time::Duration;

use crate::row::{Row, query, row};

pub const KEY_ONCE: &str = "Send the key once: as ?key=, as Authorization: Bearer, or as X-API-Key.";

pub fn rows() -> Vec<Row> {
    let get = query("validate", "/api/validate");
    vec![
        get("valid_key", "?key={VALID}"),
        get("limited_key_that_never_expires", "?key={LIMITED}")
            .like("valid_key")
            .but("2027-11-22T10:00:03", "9999-12-31T23:59:59")
            .but(":-1", ":2"),
        get("key_in_bearer", "").header("authorization", "bearer {VALID}").like("valid_key"),
        get("key_in_x_api_key", "").header("x-api-key", "{VALID}").like("valid_key"),
        get("empty_key_beside_one", "?key=").header("x-api-key", "{VALID}").like("valid_key"),
        get("key_in_another_scheme", "").header("authorization", "Basic {VALID}").missing("key"),
        get("empty_bearer", "").header("authorization", "Bearer ").missing("key"),
        get("bearer_twice", "")
            .header("authorization", "Bearer {VALID}")
            .header("authorization", "Bearer {VALID}")
            .invalid(KEY_ONCE),
        get("x_api_key_twice", "").header("x-api-key", "{VALID}").header("x-api-key", "{VALID}").invalid(KEY_ONCE),
        get("two_different_keys", "?key={VALID}").header("x-api-key", "{LIMITED}").invalid(KEY_ONCE),
        get("unknown_parameters_are_ignored", "?key={VALID}&product_id=99&x=1&x=2").like("valid_key"),
        get("missing_key", "").missing("key"),
        get("empty_key", "?key=").missing("key"),
        get("key_twice", "?key={VALID}&key={VALID}").invalid("key must come once."),
        get("key_with_line_break", "?key={VALID}%0A").invalid("key must be UTF-8 without control characters."),
        get("key_with_a_c1_control", "?key={VALID}%C2%85").invalid("key must be UTF-8 without control characters."),
        get("key_with_a_semicolon_behind_it", "?key={VALID};x=1").like("forged_key"),
        get("encoded_name_of_a_parameter", "?%6bey={VALID}").like("valid_key"),
        get("key_with_a_space_behind_it", "?key={VALID}%20").like("forged_key"),
        get("key_with_a_plus_before_it", "?key=+{VALID}").like("forged_key"),
        get("key_that_is_no_utf_8", "?key={VALID}%FF").invalid("key must be UTF-8 without control characters."),
        get("key_encoded_twice", "?key=%2564lv_").like("forged_key"),
        get("key_as_an_array", "?key[]={VALID}").missing("key"),
        get("conditions_and_ranges_are_ignored", "?key={VALID}")
            .header("if-none-match", "*")
            .header("range", "bytes=0-1")
            .like("valid_key"),
        get("forged_key", "?key={FORGED}"),
        get("key_in_upper_case_is_another_text", "?key=DLV_{VALID}").like("forged_key"),
        get("revoked_key_is_as_good_as_unknown", "?key={REVOKED}").like("forged_key"),
        get("expired_key", "?key={EXPIRED}"),
        get("spent_key", "?key={SPENT}"),
        get("expired_beats_exhausted", "?key={EXPIRED_SPENT}"),
        get("key_that_a_rule_of_the_host_refuses", "?key={VALID}").after_the_only_use(),
        get("key_that_a_rule_of_the_host_will_refuse", "?key={VALID}")
            .usable_once()
            .like("valid_key")
            .but(":-1", ":777"),
        row("validate::head_has_no_body", "HEAD /api/validate?key={VALID}"),
        row("validate::head_of_a_refusal", "HEAD /api/validate?key={EXPIRED}"),
        row("validate::delete_is_no_method_of_ours", "DELETE /api/validate?key={VALID}").refused("METHOD_NOT_ALLOWED"),
        row("validate::options_is_no_method_of_ours", "OPTIONS /api/validate").refused("METHOD_NOT_ALLOWED"),
        get("limit_reached", "?key={VALID}").times(60).like("valid_key").left(0),
        get("limit_exceeded", "?key={VALID}").times(61).limited(),
        get("limit_comes_before_parameters", "").times(61).limited(),
        get("limit_over_after_the_time_given", "?key={VALID}")
            .times(62)
            .last_after(Duration::from_mins(1))
            .like("valid_key"),
        get("forwarded_address_of_a_stranger_is_not_believed", "?key={VALID}")
            .times(61)
            .last_header("x-forwarded-for", "203.0.113.1")
            .limited(),
        get("client_behind_a_trusted_proxy", "?key={VALID}")
            .header("x-forwarded-for", "1.2.3.4, 203.0.113.1")
            .from("10.0.0.1")
            .times(61)
            .limited(),
        get("clients_without_an_address_share_one_allowance", "?key={VALID}").from("").times(61).limited(),
        get("panic_is_a_fault_of_ours", "?key={VALID}").store_panicking().refused("INTERNAL"),
        get("forged_key_asks_no_store", "?key={FORGED}").store_away().like("forged_key"),
    ]
}
