//! `POST /api/webhook/order`.

use crate::row::{Row, row};

const LINE: &str = "POST /api/webhook/order";

/// A good order, with some of its text replaced.
fn order(replace: &str, by: &str) -> String {
    let good = r#"{"order_id":"A-1","product_id":1,"customer_email":"Buyer@EXAMPLE.com","secret":"{SECRET}"}"#;
    assert!(good.contains(replace));
    good.replace(replace, by)
}

fn good() -> String {
    order("", "")
}

pub fn rows() -> Vec<Row> {
    vec![
        row("webhook::paid_order", LINE).json(good()),
        row("webhook::terms_of_the_product", LINE).json(order("\"product_id\":1", "\"product_id\":2")),
        row("webhook::an_order_sets_no_terms", LINE)
            .json(order("\"order_id\"", "\"max_uses\":1,\"expires_days\":1,\"order_id\"")),
        row("webhook::replay_answers_alike_and_sends_nothing", LINE).json(good()).after_order(good()),
        row("webhook::replay_with_another_address_keeps_the_first", LINE)
            .json(order("Buyer@EXAMPLE.com", "other@example.com"))
            .after_order(good()),
        row("webhook::same_order_with_another_product_is_another_key", LINE)
            .json(order("\"product_id\":1", "\"product_id\":2"))
            .after_order(good()),
        row("webhook::order_ids_are_compared_exactly", LINE).json(order("A-1", "a-1")).after_order(good()),
        row("webhook::wrong_secret", LINE).json(order("{SECRET}", "{SECRET}x")),
        row("webhook::wrong_secret_comes_before_wrong_fields", LINE).json(r#"{"secret":"wrong","order_id":1}"#),
        row("webhook::wrong_secret_comes_before_unknown_product", LINE)
            .json(r#"{"secret":"wrong","order_id":"A","product_id":99,"customer_email":"a@b.example"}"#),
        row("webhook::missing_secret", LINE).json(order(",\"secret\":\"{SECRET}\"", "")),
        row("webhook::empty_secret", LINE).json(order("{SECRET}", "")),
        row("webhook::secret_is_no_string", LINE).json(order("\"{SECRET}\"", "true")),
        row("webhook::missing_order", LINE).json(order("\"order_id\":\"A-1\",", "")),
        row("webhook::null_counts_as_missing", LINE).json(order("\"A-1\"", "null")),
        row("webhook::order_with_control_character", LINE).json(order("A-1", "A\\u0000")),
        row("webhook::order_of_256_characters", LINE).json(order("A-1", &"x".repeat(256))),
        row("webhook::order_that_looks_like_a_path_or_a_query_is_text", LINE).json(order("A-1", "../?a=1&b='; --%00")),
        row("webhook::secret_with_a_space_behind_it", LINE).json(order("{SECRET}", "{SECRET} ")),
        row("webhook::secret_in_other_letters", LINE).json(order("{SECRET}", "THE PLATFORM'S SECRET")),
        row("webhook::product_with_exponent", LINE).json(order("\"product_id\":1", "\"product_id\":1e0")),
        row("webhook::product_with_leading_zero", LINE).json(order("\"product_id\":1", "\"product_id\":01")),
        row("webhook::email_with_a_header_in_it", LINE)
            .json(order("Buyer@EXAMPLE.com", "a@example.com\\r\\nBcc: b@example.com")),
        row("webhook::email_with_a_display_name", LINE).json(order("Buyer@EXAMPLE.com", "Ada <a@example.com>")),
        row("webhook::two_emails", LINE).json(order("Buyer@EXAMPLE.com", "a@example.com, b@example.com")),
        row("webhook::email_at_an_ip_address", LINE).json(order("Buyer@EXAMPLE.com", "a@127.0.0.1")),
        row("webhook::email_at_an_international_domain", LINE)
            .json(order("Buyer@EXAMPLE.com", "a@b\u{fc}cher.example")),
        row("webhook::email_with_invisible_characters", LINE).json(order("Buyer@EXAMPLE.com", "a\u{200b}@example.com")),
        row("webhook::missing_product", LINE).json(order("\"product_id\":1,", "")),
        row("webhook::product_as_string", LINE).json(order("\"product_id\":1", "\"product_id\":\"1\"")),
        row("webhook::product_as_float", LINE).json(order("\"product_id\":1", "\"product_id\":1.0")),
        row("webhook::unknown_product", LINE).json(order("\"product_id\":1", "\"product_id\":99")),
        row("webhook::missing_email", LINE).json(order("\"customer_email\":\"Buyer@EXAMPLE.com\",", "")),
        row("webhook::bad_email", LINE).json(order("Buyer@EXAMPLE.com", "a@example.com\\r\\nBcc: b@example.com")),
        row("webhook::fields_come_before_the_replay", LINE).json(order("Buyer@EXAMPLE.com", "x")).after_order(good()),
        row("webhook::broken_json", LINE).json("{"),
        row("webhook::two_objects", LINE).json(good() + "\n{}"),
        row("webhook::half_a_character", LINE).json(order("A-1", "\\ud800")),
        row("webhook::deep_nesting_in_an_unknown_field", LINE)
            .json(order("\"order_id\"", &format!("\"x\":{}{},\"order_id\"", "[".repeat(2000), "]".repeat(2000)))),
        row("webhook::array", LINE).json("[]"),
        row("webhook::name_twice", LINE).json(order("\"order_id\"", "\"order_id\":\"B\",\"order\\u005fid\"")),
        row("webhook::form_instead_of_json", LINE)
            .body("order_id=1")
            .header("content-type", "application/x-www-form-urlencoded"),
        row("webhook::no_content_type", LINE).body(good()),
        row("webhook::charset_utf_8", LINE).body(good()).header("content-type", "application/json; charset=\"utf-8\""),
        row("webhook::another_charset", LINE).body(good()).header("content-type", "application/json; charset=latin1"),
        row("webhook::compressed", LINE).json(good()).header("content-encoding", "gzip"),
        row("webhook::body_of_64_kib", LINE).json(padded(64 << 10)),
        row("webhook::body_over_64_kib", LINE).json(padded((64 << 10) + 1)),
        row("webhook::wrong_method", "GET /api/webhook/order"),
        row("webhook::head", "HEAD /api/webhook/order"),
        row("webhook::limit_reached", LINE).json("{}").times(30),
        row("webhook::limit_exceeded_comes_first", LINE).body("x".repeat(100_000)).times(31),
        row("webhook::store_away", LINE).json(good()).store_away(),
        row("webhook::store_corrupt", LINE).json(good()).store_corrupt(),
        row("webhook::panic_is_a_fault_of_ours", LINE).json(good()).store_panicking(),
    ]
}

/// A good order of exactly `bytes`, the secret filled in.
fn padded(bytes: usize) -> String {
    let good = order("{SECRET}", "the platform's secret");
    let padding = " ".repeat(bytes - good.len());
    good + &padding
}
