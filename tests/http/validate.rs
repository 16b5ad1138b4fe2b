//! `GET /api/validate`.

use std::time::Duration;

use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row("validate::valid_key", "GET /api/validate?key={VALID}"),
        row("validate::limited_key_that_never_expires", "GET /api/validate?key={LIMITED}"),
        row("validate::key_in_bearer", "GET /api/validate").header("authorization", "bearer {VALID}"),
        row("validate::key_in_x_api_key", "GET /api/validate").header("x-api-key", "{VALID}"),
        row("validate::two_different_keys", "GET /api/validate?key={VALID}").header("x-api-key", "{LIMITED}"),
        row("validate::unknown_parameters_are_ignored", "GET /api/validate?key={VALID}&product_id=99&x=1&x=2"),
        row("validate::missing_key", "GET /api/validate"),
        row("validate::empty_key", "GET /api/validate?key="),
        row("validate::key_twice", "GET /api/validate?key={VALID}&key={VALID}"),
        row("validate::key_with_line_break", "GET /api/validate?key={VALID}%0A"),
        row("validate::key_with_a_space_behind_it", "GET /api/validate?key={VALID}%20"),
        row("validate::key_with_a_plus_before_it", "GET /api/validate?key=+{VALID}"),
        row("validate::key_that_is_no_utf_8", "GET /api/validate?key={VALID}%FF"),
        row("validate::key_encoded_twice", "GET /api/validate?key=%2564lv_"),
        row("validate::key_as_an_array", "GET /api/validate?key[]={VALID}"),
        row("validate::conditions_and_ranges_are_ignored", "GET /api/validate?key={VALID}")
            .header("if-none-match", "*")
            .header("range", "bytes=0-1"),
        row("validate::forged_key", "GET /api/validate?key={FORGED}"),
        row("validate::key_in_upper_case_is_another_text", "GET /api/validate?key=DLV_{VALID}"),
        row("validate::revoked_key_is_as_good_as_unknown", "GET /api/validate?key={REVOKED}"),
        row("validate::expired_key", "GET /api/validate?key={EXPIRED}"),
        row("validate::spent_key", "GET /api/validate?key={SPENT}"),
        row("validate::expired_beats_exhausted", "GET /api/validate?key={EXPIRED_SPENT}"),
        row("validate::head_has_no_body", "HEAD /api/validate?key={VALID}"),
        row("validate::head_of_a_refusal", "HEAD /api/validate?key={EXPIRED}"),
        row("validate::wrong_method", "POST /api/validate?key={VALID}"),
        row("validate::delete_is_no_method_of_ours", "DELETE /api/validate?key={VALID}"),
        row("validate::options_is_no_method_of_ours", "OPTIONS /api/validate"),
        row("validate::limit_reached", "GET /api/validate?key={VALID}").times(60),
        row("validate::limit_exceeded", "GET /api/validate?key={VALID}").times(61),
        row("validate::limit_comes_before_parameters", "GET /api/validate").times(61),
        row("validate::limit_over_after_the_time_given", "GET /api/validate?key={VALID}")
            .times(62)
            .last_after(Duration::from_mins(1)),
        row("validate::forwarded_address_of_a_stranger_is_not_believed", "GET /api/validate?key={VALID}")
            .times(61)
            .last_header("x-forwarded-for", "203.0.113.1"),
        row("validate::client_behind_a_trusted_proxy", "GET /api/validate?key={VALID}")
            .header("x-forwarded-for", "1.2.3.4, 203.0.113.1")
            .from("10.0.0.1")
            .times(61),
        row("validate::clients_without_an_address_share_one_allowance", "GET /api/validate?key={VALID}")
            .from("")
            .times(61),
        row("validate::store_away", "GET /api/validate?key={VALID}").store_away(),
        row("validate::store_corrupt", "GET /api/validate?key={VALID}").store_corrupt(),
        row("validate::panic_is_a_fault_of_ours", "GET /api/validate?key={VALID}").store_panicking(),
        row("validate::forged_key_asks_no_store", "GET /api/validate?key={FORGED}").store_away(),
    ]
}
