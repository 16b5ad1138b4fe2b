//! The buyer's page, and keys that were lost.

use std::time::Duration;

use crate::pages::KEY;
use crate::row::{Row, row};
use crate::webhook::EMAIL;

const GERMAN: &str = r#"{"id":1,"language":"de"}"#;
const WITHDRAWN: &str = "This key was withdrawn: the purchase was refunded, or a newer key took its place. \
    Look for a newer e-mail, or write to the shop.";
const RESEND: &str = "POST /api/resend";

pub fn rows() -> Vec<Row> {
    [buyer(), lost()].concat()
}

fn buyer() -> Vec<Row> {
    let sent = |name: &str, body: &str| row(format!("buyer::{name}"), KEY).form(body);
    let open = |name: &str| sent(name, "key={LIMITED}&do=open&request=one");
    vec![
        row("buyer::the_form", "GET /key"),
        row("buyer::the_form_in_german", "GET /key").header("accept-language", "ja, de-AT;q=0.9, en;q=0.8"),
        row("buyer::lost_in_german", "GET /key/lost").header("accept-language", "de"),
        row("buyer::the_form_in_another_language", "GET /key").header("accept-language", "ja").like("the_form"),
        sent("a_key_of_a_german_product", "key={LIMITED}&do=show")
            .after_command("product/update", GERMAN)
            .header("accept-language", "en")
            .followed(""),
        sent("a_refused_key_of_a_german_product", "key={SPENT}&do=show")
            .after_command("product/update", GERMAN)
            .header("accept-language", "en"),
        open("opened_in_german").after_command("product/update", GERMAN).header("accept-language", "en").followed(""),
        row("buyer::no_page_in_german", "GET /key/x").header("accept-language", "de"),
        sent("a_key_with_a_limit_in_german", "key={VALID}&do=show").header("accept-language", "de").followed(""),
        sent("an_expired_key_in_german", "key={EXPIRED}&do=show").header("accept-language", "de"),
        row("buyer::a_key_in_the_query_is_not_taken", "GET /key?key={VALID}").like("the_form"),
        sent("a_key_without_limit", "key={VALID}&do=show").followed(""),
        sent("a_key_with_a_limit", "key=+{LIMITED}+&do=show").followed(""),
        sent("a_key_that_is_used_up", "key={SPENT}&do=show"),
        sent("a_key_that_has_expired", "key={EXPIRED}&do=show")
            .like("a_key_that_is_used_up")
            .but("{SPENT}", "{EXPIRED}")
            .but(
                "is used up. To open the product again, buy it",
                "expired on 22 November 2026. To go on, buy the product",
            ),
        sent("a_key_that_a_rule_of_the_host_refuses", "key={VALID}&do=show")
            .after_the_only_use()
            .like("a_key_that_is_used_up")
            .but("{SPENT}", "{VALID}")
            .but("is used up. To open the product again, buy it again, or write to the shop.", "can be used once.")
            .leaves(6, 3, 0),
        sent("a_key_that_was_revoked", "key={REVOKED}&do=show")
            .like("a_forged_key")
            .but("{FORGED}", "{REVOKED}")
            .but("This key is not valid. Compare it with your e-mail, letter by letter.", WITHDRAWN),
        sent("a_forged_key", "key={FORGED}&do=show"),
        sent("no_key", "key=&do=show").like("a_forged_key").but("401 Unauthorized", "200 OK").but("{FORGED}", "").but(
            "This key is not valid. Compare it with your e-mail, letter by letter.",
            "Paste your key into the field.",
        ),
        sent("after_sixty_looks", "key={VALID}&do=show").times(61).page_limited("validate"),
        sent("leads_to_what_was_opened", "key={LIMITED}&do=open&request=one"),
        sent("sent_again_leads_there_again", "key={LIMITED}&do=open&request=one")
            .times(3)
            .like("leads_to_what_was_opened"),
        open("opened").followed(""),
        open("downloaded").followed("&do=download"),
        open("opened_for_a_day").last_after(Duration::from_secs(24 * 60 * 60 - 1)).followed("").like("opened"),
        open("asks_before_it_opens_again")
            .last_after(Duration::from_hours(24))
            .followed("")
            .like("opened_without_the_cookie")
            .leaves(6, 3, 0),
        row("buyer::asked_without_the_cookie", "GET /key?id=AAAAAAAA"),
        sent("opened_without_the_cookie_of_its_key", "id=AAAAAAAA&do=open&request=one")
            .like("asked_without_the_cookie"),
        row("buyer::opened_without_the_cookie", "GET /key/opened?id=AAAAAAAA"),
        row("buyer::opened_with_a_cookie_that_is_made_up", "GET /key/opened?id=AAAAAAAA")
            .header("cookie", "opened-AAAAAAAA=AAAA")
            .like("opened_without_the_cookie"),
        sent("pasted_with_what_was_around_it", "key=%22http%3A%2F%2Flocalhost%2Fkey%23+{LIMITED}%E2%80%8B.%22&do=show")
            .followed("")
            .like("a_key_with_a_limit"),
        sent("opened_used_up", "key={SPENT}&do=open&request=one").like("a_key_that_is_used_up"),
        sent("opened_forged", "key={FORGED}&do=open&request=one").like("a_forged_key"),
        sent("opened_forged_often", "key={FORGED}&do=open&request=one").times(61).page_limited("failures"),
        sent("opened_without_a_request", "key={LIMITED}&do=open").page("400 Bad Request"),
        row("buyer::from_another_site", KEY)
            .form_from("https://mail.example", "key={VALID}&do=show")
            .followed("")
            .like("a_key_without_limit"),
        row("buyer::from_an_origin_that_is_no_utf_8", KEY)
            .form_from("\u{ff}", "key={VALID}&do=show")
            .page("400 Bad Request"),
        row("lost::the_form", "GET /key/lost"),
        row("lost::asked", "POST /key/lost").form("customer_email=BUYER%40example.com"),
        row("lost::asked_by_nobody", "POST /key/lost").form("customer_email=nobody%40example.com").like("asked"),
        row("lost::asked_by_another_site", "POST /key/lost")
            .form_from("https://evil.example", "customer_email=BUYER%40example.com")
            .page("403 Forbidden"),
        row("lost::no_address", "POST /key/lost").form("customer_email=%3Cscript%3E"),
        row("lost::six_times", "POST /key/lost")
            .form("customer_email=buyer%40example.com")
            .times(6)
            .page_limited("resend"),
    ]
}

fn lost() -> Vec<Row> {
    let sent = |name: &str, body: &str| row(format!("resend_keys::{name}"), RESEND).json(body);
    let ask = |name: &str| sent(name, r#"{"customer_email":"Buyer@example.com"}"#);
    vec![
        ask("of_a_buyer"),
        sent("of_nobody", r#"{"customer_email":"nobody@example.com"}"#).like("of_a_buyer"),
        sent("no_address", "{}").missing("customer_email"),
        sent("address_malformed", r#"{"customer_email":"nobody"}"#).invalid(EMAIL),
        row("resend_keys::form_instead_of_json", RESEND)
            .typed("text/plain", "customer_email=a")
            .refused("UNSUPPORTED_MEDIA_TYPE"),
        sent("body_over_64_kib", &" ".repeat((64 << 10) + 1)).refused("PAYLOAD_TOO_LARGE"),
        ask("six_times").times(6).limited(),
        ask("a_minute_later").times(6).last_after(Duration::from_mins(1)).like("of_a_buyer"),
        ask("not_kept_by_the_store").catalog_elsewhere().refused("NOT_FOUND"),
    ]
}
