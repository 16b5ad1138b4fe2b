//! What the host makes of requests around the API: its own routes, guards, bases and paths that are almost ours.

use crate::row::{FORM, Row, row};
use crate::validate::KEY_ONCE;

pub fn rows() -> Vec<Row> {
    vec![
        row("host::own_route_beside_the_api", "GET /hello"),
        row("host::own_route_that_panics", "GET /panics").refused("INTERNAL"),
        row("host::unknown_path_below_api", "GET /api/unknown").refused("NOT_FOUND"),
        row("host::unknown_path_below_an_endpoint", "GET /api/validate/more?key={VALID}").refused("NOT_FOUND"),
        row("host::trailing_slash_is_another_path", "GET /api/validate/?key={VALID}").refused("NOT_FOUND"),
        row("host::doubled_slash_is_another_path", "GET //api/validate?key={VALID}").refused("NOT_FOUND"),
        row("host::doubled_slash_within_is_another_path", "GET /api//validate?key={VALID}").refused("NOT_FOUND"),
        row("host::encoded_letter_is_another_path", "GET /api/%76alidate?key={VALID}").refused("NOT_FOUND"),
        row("host::upper_case_is_another_path", "GET /API/validate?key={VALID}").refused("NOT_FOUND"),
        row("host::form_with_method_field_is_still_posted", "POST /api/webhook/order")
            .typed(FORM, "_method=delete&order_id=1")
            .refused("UNSUPPORTED_MEDIA_TYPE"),
        row("host::form_with_method_field_makes_no_get", "POST /api/validate?key={VALID}")
            .typed(FORM, "_method=get")
            .refused("METHOD_NOT_ALLOWED"),
        row("host::real_ip_of_a_stranger_is_not_believed", "GET /api/validate?key={VALID}")
            .times(61)
            .last_header("x-real-ip", "203.0.113.1")
            .limited(),
        row("base::api_answers_alike", "GET /nested/api/validate?key={VALID}").like("validate::valid_key"),
        row("base::head", "HEAD /nested/api/products").like("products::head"),
        row("base::wrong_method", "PATCH /nested/api/webhook/order").refused("METHOD_NOT_ALLOWED"),
        row("base::trailing_slash_is_another_path", "GET /nested/api/validate/?key={VALID}").refused("NOT_FOUND"),
        row("base::doubled_slash_is_another_path", "GET /nested//api/validate?key={VALID}").refused("NOT_FOUND"),
        row("base::encoded_letter_is_another_path", "GET /%6Eested/api/validate?key={VALID}").refused("NOT_FOUND"),
        row("base::unknown_path", "GET /nested/api/unknown").refused("NOT_FOUND"),
        row("base::order", "POST /nested/api/webhook/order")
            .json(r#"{"order_id":"A-1","product_id":1,"customer_email":"buyer@example.com","secret":"{SECRET}"}"#),
        row("guard::lets_a_valid_key_in_and_counts_nothing", "GET /guarded").header("x-api-key", "{VALID}"),
        row("guard::counts_when_the_route_says_so", "GET /counted?key={LIMITED}"),
        row("guard::counts_no_more_than_the_limit", "GET /counted?key={LIMITED}")
            .times(3)
            .refused("EXCEEDED_USES")
            .leaves(6, 4, 0),
        row("guard::refuses_a_missing_key", "GET /guarded").missing("key"),
        row("guard::refuses_two_keys", "GET /guarded?key={VALID}")
            .header("authorization", "Bearer {LIMITED}")
            .invalid(KEY_ONCE),
        row("guard::refuses_a_key_that_is_no_utf_8", "GET /guarded?key={VALID}")
            .header("x-api-key", "\u{ff}")
            .invalid("x-api-key must be visible ASCII."),
        row("guard::refuses_a_forged_key", "GET /guarded?key={FORGED}").refused("INVALID_KEY"),
        row("guard::refuses_an_expired_key", "GET /guarded?key={EXPIRED}").refused("EXPIRED_KEY"),
        row("guard::limits_failures", "GET /guarded?key={FORGED}").times(61).limited(),
        row("guard::store_away", "GET /guarded?key={VALID}").store_away().refused("UNAVAILABLE"),
        row("guard::head_of_a_refusal", "HEAD /guarded").missing("key"),
        row("guard::route_that_answers_refusals_itself", "GET /lenient"),
    ]
}
