//! `POST /api/webhook/{platform}`. All platforms are answered by one row of the endpoint table.

use crate::row::{Row, row};

const LINE: &str = "POST /api/webhook/gumroad?token=the-platforms-token";
const SALE: &str = "sale_id=S-1&resource_name=sale&short_product_id=map&email=Buyer%40EXAMPLE.com&quantity=2";
const FORGED: &str = "POST /api/webhook/gumroad?token=the-platforms-taken";

pub fn rows() -> Vec<Row> {
    vec![
        row("platform::a_sale_is_a_key_and_an_email", LINE).body(SALE),
        row("platform::a_copy_is_answered_alike_and_sends_nothing", LINE).body(SALE).times(2),
        row("platform::json_instead_of_a_form", LINE)
            .json(r#"{"sale_id":"S-1","resource_name":"sale","short_product_id":"map","email":"buyer@example.com"}"#),
        row("platform::what_is_not_mapped_waits", LINE).body(SALE.replace("map", "atlas")),
        row("platform::what_cannot_be_read_is_kept", LINE).body("{\"a\":1,\"a\":2}"),
        row("platform::what_is_no_text_is_kept", LINE).body("%ff%fe=%00"),
        row("platform::any_content_type", LINE).body(SALE).header("content-type", "image/png"),
        row("platform::authentic_events_are_never_limited", LINE).body(SALE).times(40),
        row("platform::forged", FORGED).body(SALE),
        row("platform::forged_too_often", FORGED).body(SALE).times(31),
        row("platform::no_token", "POST /api/webhook/gumroad").body(SALE),
        row("platform::two_tokens", "POST /api/webhook/gumroad?token=the-platforms-token&token=the-platforms-token")
            .body(SALE),
        row("platform::a_ping_does_nothing", "POST /api/webhook/woocommerce").body("webhook_id=7"),
        row("platform::a_ping_too_often", "POST /api/webhook/woocommerce").body("webhook_id=7").times(31),
        row("platform::no_signature", "POST /api/webhook/stripe").json("{}"),
        row("platform::without_a_secret", "POST /api/webhook/polar").json("{}"),
        row("platform::unknown", "POST /api/webhook/unknown").json("{}"),
        row("platform::below_a_platform", "POST /api/webhook/gumroad/x?token=the-platforms-token").body(SALE),
        row("platform::a_mebibyte", LINE).body(format!("{SALE}&x={}", "x".repeat((1 << 20) - SALE.len() - 3))),
        row("platform::more_than_a_mebibyte", LINE)
            .body(format!("{SALE}&x={}", "x".repeat((1 << 20) - SALE.len() - 2))),
        row("platform::wrong_method", "GET /api/webhook/gumroad?token=the-platforms-token"),
        row("platform::half_a_body", LINE).body(SALE).header("content-length", "1000"),
        row("platform::store_away", LINE).body(SALE).store_away(),
        row("platform::store_corrupt", LINE).body(SALE).store_corrupt(),
        row("platform::store_panicking", LINE).body(SALE).store_panicking(),
    ]
}
