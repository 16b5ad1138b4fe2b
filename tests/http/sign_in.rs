//! Signing in at the desk and out, and forms whose session has ended.

use std::time::Duration;

use crate::pages::PRODUCT;
use crate::row::{Row, row};

const SIGN_IN: &str = "POST /desk/sign-in";

pub fn rows() -> Vec<Row> {
    let post = |name: &str| row(format!("sign_in::{name}"), SIGN_IN);
    let sent = |name: &str, body: &str| post(name).form(body);
    let from = |name: &str, origin| post(name).form_from(origin, "csrf={FORM_CSRF}&token={ADMIN}");
    let with_form = |name: &str, body: &str| sent(name, body).at_desk().header("cookie", "desk-form={FORM}");
    let carried_on = |name: &str, proof: &str| {
        row(format!("sign_in::{name}"), "POST /desk/product")
            .at_desk_with("desk={SESSION}; desk-form={FORM}")
            .form(format!("{PRODUCT}&{proof}"))
    };
    let later = |name: &str, proof: &str| carried_on(name, proof).last_after(Duration::from_hours(12));
    vec![
        row("sign_in::the_form", "GET /desk/sign-in"),
        row("sign_in::nobody_sees_the_desk", "GET /desk").leads_to("/desk/sign-in"),
        row("sign_in::nor_sends_a_form", "POST /desk/erase")
            .form("email=a@example.com&sure=yes&csrf=x")
            .leads_to("/desk/sign-in"),
        with_form("with_the_token", "csrf={FORM_CSRF}&token={ADMIN}"),
        with_form(
            "leads_to_where_one_wanted_to_be",
            "csrf={FORM_CSRF}&token={ADMIN}&next=%2Fdesk%2Fkeys%3Fstatus%3Dvalid",
        )
        .like("with_the_token")
        .but("/desk\n", "/desk/keys?status=valid\n"),
        with_form("leads_to_no_other_site", "csrf={FORM_CSRF}&token={ADMIN}&next=%2F%2Fevil.example%2Fdesk")
            .like("with_the_token"),
        with_form("leads_to_no_other_page", "csrf={FORM_CSRF}&token={ADMIN}&next=%2Fdesk.evil.example")
            .like("with_the_token"),
        row("sign_in::asks_where_one_wanted_to_be", "GET /desk/sign-in?next=%2Fdesk%2Fkeys"),
        row("sign_in::a_page_of_the_desk_leads_back_to_itself", "GET /desk/keys?status=valid")
            .leads_to("/desk/sign-in?next=%2Fdesk%2Fkeys%3Fstatus%3Dvalid"),
        row("sign_in::a_form_whose_session_has_ended_is_carried_on", "POST /desk/product")
            .sends(PRODUCT.replace("%23+Maps", "%23+Maps%0A%3Cb%3E"))
            .last_after(Duration::from_hours(12)),
        row("sign_in::a_secret_of_a_platform_is_not_carried_on", "POST /desk/setup")
            .sends("do=set_secret&platform=paddle&secret=pdl_ntfset_1")
            .last_after(Duration::from_hours(12)),
        later("a_form_that_was_carried_on_is_done", "csrf={FORM_CSRF}&token={ADMIN}"),
        later("a_form_that_was_carried_on_needs_the_token", "csrf={FORM_CSRF}&token=another-token-of-others"),
        later("a_form_that_was_carried_on_needs_its_csrf", "csrf={CSRF}&token={ADMIN}"),
        carried_on("a_form_from_before_signing_in_again_is_done_with_the_token", "csrf={FORM_CSRF}&token={ADMIN}")
            .like("a_form_that_was_carried_on_is_done"),
        row("sign_in::a_long_form_of_who_need_not_have_been_signed_in_is_not_carried_on", "POST /desk/product")
            .at_desk_with("desk-form={FORM}")
            .form(PRODUCT)
            .leads_to("/desk/sign-in"),
        row("sign_in::a_short_form_of_a_product_of_who_has_signed_out_is_carried_on", "POST /desk/product")
            .at_desk_with("desk-form={FORM}")
            .header("content-length", "107")
            .form(PRODUCT.replace("%23+Maps", "%23+Maps%0A%3Cb%3E")),
        row("sign_in::a_short_form_of_who_has_signed_out_is_carried_on", "POST /desk/key/change")
            .at_desk_with("desk-form={FORM}")
            .form("id={VALID_ID}&do=revoke"),
        row("sign_in::a_form_of_another_site_is_not_carried_on", "POST /desk/product")
            .at_desk()
            .form_from("https://evil.example", PRODUCT)
            .last_after(Duration::from_hours(12))
            .page("403 Forbidden"),
        with_form("with_another_token", "csrf={FORM_CSRF}&token=another-token-of-others"),
        with_form("with_no_token", "csrf={FORM_CSRF}").like("with_another_token"),
        with_form("with_the_csrf_of_a_session", "csrf={CSRF}&token={ADMIN}").page("403 Forbidden"),
        sent("without_the_cookie_of_the_form", "csrf=x&token={ADMIN}").page("403 Forbidden"),
        with_form("after_ten_attempts", "csrf={FORM_CSRF}&token=another-token-of-others")
            .times(11)
            .page_limited("admin"),
        from("from_another_site", "https://evil.example")
            .at_desk()
            .header("cookie", "desk-form={FORM}")
            .page("403 Forbidden"),
        from("often_from_another_site", "https://evil.example").times(20).page("403 Forbidden"),
        from("behind_a_proxy_that_adds_tls", "https://shop.example")
            .header("host", "shop.example")
            .at_desk()
            .header("cookie", "desk-form={FORM}")
            .like("with_the_token")
            .but("Strict", "Strict; Secure"),
        row("sign_in::a_session_is_no_forms_cookie", "GET /desk/sign-in").at_desk_with("desk-form={SESSION}"),
        row("sign_in::a_strangers_megabytes", "POST /desk/product")
            .form("x".repeat((4 << 20) - 1))
            .leads_to("/desk/sign-in"),
        row("sign_in::a_session_needs_no_form", "GET /desk/sign-in").at_desk().leads_to("/desk"),
        row("sign_in::a_cookie_that_is_made_up", "GET /desk")
            .header("cookie", "desk=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
            .leads_to("/desk/sign-in"),
        row("sign_in::a_session_ends_after_twelve_hours", "GET /desk/erase")
            .at_desk()
            .last_after(Duration::from_hours(12))
            .leads_to("/desk/sign-in?next=%2Fdesk%2Ferase"),
        row("sign_out::ends_the_session", "POST /desk/sign-out").sends(""),
        row("sign_out::in_a_tab_of_an_older_session", "POST /desk/sign-out")
            .at_desk()
            .form("csrf=of-an-older-session")
            .like("ends_the_session"),
        row("sign_out::twice", "POST /desk/sign-out").sends("").times(2).leads_to("/desk/sign-in"),
        row("sign_out::by_another_sites_link", "GET /desk/sign-out").at_desk().leads_to("/desk"),
    ]
}
