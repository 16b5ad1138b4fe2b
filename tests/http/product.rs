//! `GET /api/product`.

use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row("product::fetch_counts_a_use", "GET /api/product?key={VALID}&product_id=1"),
        row("product::key_in_bearer", "GET /api/product?product_id=1").header("authorization", "Bearer {VALID}"),
        row("product::key_in_x_api_key", "GET /api/product?product_id=1").header("x-api-key", "{VALID}"),
        row("product::same_key_in_two_places", "GET /api/product?product_id=1&key={VALID}")
            .header("x-api-key", "{VALID}"),
        row("product::two_different_keys", "GET /api/product?product_id=1&key={VALID}").header("x-api-key", "other"),
        row("product::last_use", "GET /api/product?key={LIMITED}&product_id=1").times(2),
        row("product::one_use_too_many", "GET /api/product?key={LIMITED}&product_id=1").times(3),
        row("product::head_counts_no_use", "HEAD /api/product?key={LIMITED}&product_id=1").times(5),
        row("product::head_of_a_spent_key", "HEAD /api/product?key={SPENT}&product_id=1"),
        row("product::missing_key", "GET /api/product?product_id=1"),
        row("product::missing_product", "GET /api/product?key={VALID}"),
        row("product::empty_product", "GET /api/product?key={VALID}&product_id="),
        row("product::product_is_no_integer", "GET /api/product?key={VALID}&product_id=1.0"),
        row("product::product_with_sign", "GET /api/product?key={VALID}&product_id=%2B1"),
        row("product::product_zero", "GET /api/product?key={VALID}&product_id=0"),
        row("product::product_beyond_64_bits", "GET /api/product?key={VALID}&product_id=9223372036854775808"),
        row("product::product_twice", "GET /api/product?key={VALID}&product_id=1&product_id=2"),
        row("product::parameters_come_before_the_key", "GET /api/product?key={FORGED}&product_id=x"),
        row("product::forged_key", "GET /api/product?key={FORGED}&product_id=1"),
        row("product::revoked_key", "GET /api/product?key={REVOKED}&product_id=1"),
        row("product::expired_key", "GET /api/product?key={EXPIRED}&product_id=1"),
        row("product::expired_comes_before_wrong_product", "GET /api/product?key={EXPIRED}&product_id=2"),
        row("product::expired_comes_before_unknown_product", "GET /api/product?key={EXPIRED}&product_id=99"),
        row("product::wrong_product", "GET /api/product?key={VALID}&product_id=2"),
        row("product::wrong_product_comes_before_exhausted", "GET /api/product?key={SPENT}&product_id=2"),
        row("product::unknown_product", "GET /api/product?key={VALID}&product_id=99"),
        row("product::spent_key", "GET /api/product?key={SPENT}&product_id=1"),
        row("product::wrong_method", "POST /api/product?key={VALID}&product_id=1"),
        row("product::limit_per_key_reached", "GET /api/product?key={VALID}&product_id=1").times(100),
        row("product::limit_per_key_exceeded", "GET /api/product?key={VALID}&product_id=1").times(101),
        row("product::limit_comes_before_revoked", "GET /api/product?key={REVOKED}&product_id=1").times(101),
        row("product::failures_limit_exceeded", "GET /api/product?key={FORGED}&product_id=1").times(61),
        row("product::the_same_request_counts_once", "GET /api/product?key={LIMITED}&product_id=1")
            .header("idempotency-key", "8e03978e-40d5-43dd-bc93-6894a57f9324")
            .times(11),
        row("product::the_same_request_counts_after_ten_repeats", "GET /api/product?key={LIMITED}&product_id=1")
            .header("idempotency-key", "8e03978e-40d5-43dd-bc93-6894a57f9324")
            .times(13),
        row("product::head_is_no_request_to_repeat", "HEAD /api/product?key={SPENT}&product_id=1")
            .header("idempotency-key", "a"),
        row("product::request_without_a_name", "GET /api/product?key={VALID}&product_id=1")
            .header("idempotency-key", ""),
        row("product::request_of_two_names", "GET /api/product?key={VALID}&product_id=1")
            .header("idempotency-key", "a")
            .header("idempotency-key", "a"),
        row("product::name_of_256_characters", "GET /api/product?key={VALID}&product_id=1").header(
            "idempotency-key",
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
             0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
             0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        ),
        row("product::name_in_quotes_is_the_same_name", "GET /api/product?key={LIMITED}&product_id=1")
            .header("idempotency-key", "\"a\"")
            .times(3)
            .after_request("GET /api/product?key={LIMITED}&product_id=1", "idempotency-key", "a"),
        row("product::name_with_a_tab", "GET /api/product?key={VALID}&product_id=1").header("idempotency-key", "a\tb"),
        row("product::request_with_a_spent_key", "GET /api/product?key={SPENT}&product_id=1")
            .header("idempotency-key", "a"),
        row("product::request_for_another_product", "GET /api/product?key={VALID}&product_id=2")
            .header("idempotency-key", "a")
            .after_request("GET /api/product?key={VALID}&product_id=1", "idempotency-key", "a"),
        row("product::store_away", "GET /api/product?key={VALID}&product_id=1").store_away(),
        row("product::fault_of_ours_is_told_to_the_log_alone", "GET /api/product?key={VALID}&product_id=1")
            .store_corrupt(),
        row("product::panic_is_a_fault_of_ours", "GET /api/product?key={VALID}&product_id=1").store_panicking(),
    ]
}
