//! `POST /api/webhook/{platform}`. All platforms are answered by one row of the endpoint table.

use crate::everywhere::SALE;
use crate::row::{Row, row};

const LINE: &str = "POST /api/webhook/gumroad?token=the-platforms-token";
const RECEIVED: &str = r#"{"received":true}"#;
const FORGED: &str = "POST /api/webhook/gumroad?token=the-platforms-taken";

fn sent(name: &str, body: impl Into<String>) -> Row {
    row(format!("platform::{name}"), LINE).body(body)
}

pub fn rows() -> Vec<Row> {
    vec![
        sent("a_sale_is_a_key_and_an_email", SALE),
        sent("a_copy_is_answered_alike_and_sends_nothing", SALE).times(2).like("a_sale_is_a_key_and_an_email"),
        row("platform::json_instead_of_a_form", LINE)
            .json(r#"{"sale_id":"S-1","resource_name":"sale","short_product_id":"map","email":"buyer@example.com"}"#)
            .like("a_sale_is_a_key_and_an_email"),
        sent("what_is_not_mapped_waits", SALE.replace("map", "atlas")).gives(RECEIVED),
        sent("what_cannot_be_read_is_kept", "{\"a\":1,\"a\":2}").gives(RECEIVED),
        sent("what_is_no_text_is_kept", "%ff%fe=%00").gives(RECEIVED),
        sent("any_content_type", SALE).header("content-type", "image/png").like("a_sale_is_a_key_and_an_email"),
        sent("authentic_events_are_never_limited", SALE).times(40).like("a_sale_is_a_key_and_an_email"),
        row("platform::forged", FORGED).body(SALE).refused("UNAUTHORIZED"),
        row("platform::forged_too_often", FORGED).body(SALE).times(31).limited(),
        row("platform::no_token", "POST /api/webhook/gumroad").body(SALE).refused("UNAUTHORIZED"),
        row("platform::two_tokens", "POST /api/webhook/gumroad?token=the-platforms-token&token=the-platforms-token")
            .body(SALE)
            .refused("UNAUTHORIZED"),
        row("platform::a_ping_does_nothing", "POST /api/webhook/woocommerce").body("webhook_id=7"),
        row("platform::a_ping_too_often", "POST /api/webhook/woocommerce").body("webhook_id=7").times(31).limited(),
        row("platform::no_signature", "POST /api/webhook/stripe").json("{}").refused("UNAUTHORIZED"),
        row("platform::a_signature_that_is_no_utf_8", "POST /api/webhook/stripe")
            .json("{}")
            .header("stripe-signature", "\u{ff}")
            .refused("UNAUTHORIZED"),
        row("platform::without_a_secret", "POST /api/webhook/polar").json("{}").refused("NOT_FOUND"),
        row("platform::without_a_secret_often", "POST /api/webhook/polar").json("{}").times(31).refused("NOT_FOUND"),
        row("platform::unknown", "POST /api/webhook/unknown").json("{}").refused("NOT_FOUND"),
        row("platform::below_a_platform", "POST /api/webhook/gumroad/x?token=the-platforms-token")
            .body(SALE)
            .refused("NOT_FOUND"),
        sent("a_mebibyte", format!("{SALE}&x={}", "x".repeat((1 << 20) - SALE.len() - 3)))
            .like("a_sale_is_a_key_and_an_email"),
        sent("more_than_a_mebibyte", format!("{SALE}&x={}", "x".repeat((1 << 20) - SALE.len() - 2)))
            .refused("PAYLOAD_TOO_LARGE"),
        sent("half_a_body", SALE)
            .header("content-length", "1000")
            .invalid("The body is incomplete, or is not framed as HTTP requires."),
        sent("store_panicking", SALE).store_panicking().refused("INTERNAL"),
    ]
}
