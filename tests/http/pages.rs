//! The seller's desk and the buyer's page, and keys that were lost.

use std::time::Duration;

use crate::row::{Row, row};

const SIGN_IN: &str = "POST /desk/sign-in";
const CHANGE: &str = "POST /desk/key/change";
const KEY: &str = "POST /key";
const RESEND: &str = "POST /api/resend";
const SALE: &str = "sale_id=S-1&resource_name=sale&short_product_id=atlas&email=Buyer%40EXAMPLE.com&quantity=2";
const PRODUCT: &str =
    "id=&name=Atlas&content=%23+Maps&type=digital&price=12.50&days=&uses=&language=&refs=gumroad+atlas";

pub fn rows() -> Vec<Row> {
    [sign_in(), keys(), one_key(), catalog(), records(), setup(), buyer(), lost(), everywhere()].concat()
}

fn sign_in() -> Vec<Row> {
    let sent = |name, body| row(name, SIGN_IN).form(body);
    let with_form = |name, body| Row::at_desk(row(name, SIGN_IN).form(body)).header("cookie", "desk-form={FORM}");
    vec![
        row("sign_in::the_form", "GET /desk/sign-in"),
        row("sign_in::nobody_sees_the_desk", "GET /desk"),
        row("sign_in::nor_sends_a_form", "POST /desk/erase").form("email=a@example.com&sure=yes&csrf=x"),
        with_form("sign_in::with_the_token", "csrf={FORM_CSRF}&token={ADMIN}"),
        with_form("sign_in::with_another_token", "csrf={FORM_CSRF}&token=another-token-of-others"),
        with_form("sign_in::with_no_token", "csrf={FORM_CSRF}"),
        with_form("sign_in::with_the_csrf_of_a_session", "csrf={CSRF}&token={ADMIN}"),
        sent("sign_in::without_the_cookie_of_the_form", "csrf=x&token={ADMIN}"),
        with_form("sign_in::after_ten_attempts", "csrf={FORM_CSRF}&token=another-token-of-others").times(11),
        row("sign_in::from_another_site", SIGN_IN)
            .body("csrf={FORM_CSRF}&token={ADMIN}")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("origin", "https://evil.example")
            .at_desk()
            .header("cookie", "desk-form={FORM}"),
        row("sign_in::often_from_another_site", SIGN_IN)
            .body("csrf={FORM_CSRF}&token={ADMIN}")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("origin", "https://evil.example")
            .times(20),
        row("sign_in::behind_a_proxy_that_adds_tls", SIGN_IN)
            .body("csrf={FORM_CSRF}&token={ADMIN}")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("host", "shop.example")
            .header("origin", "https://shop.example")
            .at_desk()
            .header("cookie", "desk-form={FORM}"),
        row("sign_in::a_session_is_no_forms_cookie", "GET /desk/sign-in").at_desk_with("desk-form={SESSION}"),
        row("sign_in::a_strangers_megabytes", "POST /desk/product").form("x".repeat((4 << 20) - 1)),
        row("sign_in::a_session_needs_no_form", "GET /desk/sign-in").at_desk(),
        row("sign_in::a_cookie_that_is_made_up", "GET /desk")
            .header("cookie", "desk=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        row("sign_in::a_session_ends_after_twelve_hours", "GET /desk/erase")
            .at_desk()
            .last_after(Duration::from_hours(12)),
        row("sign_out::ends_the_session", "POST /desk/sign-out").sends(""),
        row("sign_out::twice", "POST /desk/sign-out").sends("").times(2),
        row("sign_out::by_another_sites_link", "GET /desk/sign-out").at_desk(),
    ]
}

fn keys() -> Vec<Row> {
    let get = |name, line| row(name, line).at_desk();
    let search = |name, body| row(name, "POST /desk/keys").sends(body);
    vec![
        get("desk_keys::all", "GET /desk/keys"),
        get("desk_keys::expired_ones_of_a_product", "GET /desk/keys?status=expired&product_id=1&source="),
        get("desk_keys::of_a_platform", "GET /desk/keys?source=gumroad"),
        get("desk_keys::before_one", "GET /desk/keys?before={SPENT_ID}"),
        get("desk_keys::status_made_up", "GET /desk/keys?status=good"),
        get("desk_keys::before_made_up", "GET /desk/keys?before=%3Cscript%3E"),
        search("desk_keys::found_by_their_text", "q=+{LIMITED}+"),
        search("desk_keys::found_by_their_address", "q=BUYER%40example.com"),
        search("desk_keys::found_by_their_order", "q=A-1")
            .after_order(r#"{"order_id":"A-1","product_id":1,"customer_email":"ada@example.com","secret":"{SECRET}"}"#),
        search("desk_keys::not_found", "q=%3Cscript%3Ealert%281%29%3C%2Fscript%3E"),
        search("desk_keys::nothing_typed", "q=+"),
    ]
}

fn one_key() -> Vec<Row> {
    let get = |name, line| row(name, line).at_desk();
    let change = |name, body: &str| row(name, CHANGE).sends(body);
    vec![
        get("desk_key::with_its_history", "GET /desk/key?id={SPENT_ID}&done=changed"),
        get("desk_key::a_sentence_of_others_is_not_shown", "GET /desk/key?id={VALID_ID}&done=%3Cb%3Ehacked"),
        get("desk_key::a_revoked_one", "GET /desk/key?id={REVOKED_ID}"),
        get("desk_key::unknown", "GET /desk/key?id=01a20a24-390f-7c15-811f-fd112f07da68"),
        get("desk_key::malformed", "GET /desk/key?id=1"),
        get("desk_key::no_id", "GET /desk/key"),
        get("change_key::revoking_is_confirmed", "GET /desk/key/change?id={VALID_ID}&do=revoke"),
        get("change_key::restoring_is_confirmed", "GET /desk/key/change?id={REVOKED_ID}&do=restore"),
        get("change_key::sending_is_confirmed", "GET /desk/key/change?id={VALID_ID}&do=resend"),
        get("change_key::terms_are_asked_for", "GET /desk/key/change?id={VALID_ID}&do=terms"),
        get("change_key::replacing_is_confirmed", "GET /desk/key/change?id={VALID_ID}&do=rotate"),
        get("change_key::an_action_made_up", "GET /desk/key/change?id={VALID_ID}&do=delete"),
        change("change_key::revoked", "id={VALID_ID}&do=revoke&reason=asked+for"),
        change("change_key::a_reason_too_long", &format!("id={{VALID_ID}}&do=revoke&reason={}", "x".repeat(501))),
        change("change_key::restored", "id={REVOKED_ID}&do=restore"),
        change("change_key::sent", "id={VALID_ID}&do=resend&email="),
        change("change_key::sent_to_another_address", "id={VALID_ID}&do=resend&email=ada%40example.com"),
        change("change_key::sent_to_no_address", "id={VALID_ID}&do=resend&email=nobody"),
        change("change_key::sent_though_revoked", "id={REVOKED_ID}&do=resend"),
        change("change_key::new_terms", "id={LIMITED_ID}&do=terms&until=2027-01-31&add_uses=5"),
        change("change_key::further_uses_sent_twice", "id={LIMITED_ID}&do=terms&limit=2&add_uses=5")
            .times(2)
            .then("GET /desk/key?id={LIMITED_ID}"),
        change("change_key::further_uses_to_a_limit_that_was_changed", "id={LIMITED_ID}&do=terms&limit=9&add_uses=5"),
        change("change_key::too_many_further_uses", "id={LIMITED_ID}&do=terms&add_uses=4294967295"),
        change("change_key::for_ever", "id={VALID_ID}&do=terms&until=never&max_uses=-1"),
        change("change_key::uses_twice", "id={LIMITED_ID}&do=terms&max_uses=5&add_uses=5"),
        change("change_key::further_uses_of_no_limit", "id={VALID_ID}&do=terms&add_uses=5"),
        change("change_key::no_uses", "id={LIMITED_ID}&do=terms&max_uses=0"),
        change("change_key::no_day", "id={LIMITED_ID}&do=terms&until=tomorrow"),
        change("change_key::replaced", "id={LIMITED_ID}&do=rotate"),
        change("change_key::replaced_though_revoked", "id={REVOKED_ID}&do=rotate"),
        change("change_key::unknown", "id=01a20a24-390f-7c15-811f-fd112f07da68&do=revoke"),
        row("change_key::without_csrf", CHANGE).at_desk().form("id={VALID_ID}&do=revoke"),
        row("change_key::with_the_csrf_of_the_sign_in_form", CHANGE)
            .at_desk()
            .form("id={VALID_ID}&do=revoke&csrf={FORM_CSRF}"),
        row("change_key::from_another_site", CHANGE)
            .at_desk()
            .body("id={VALID_ID}&do=revoke&csrf={CSRF}")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("origin", "http://evil.example"),
        row("change_key::from_nowhere", CHANGE)
            .at_desk()
            .body("id={VALID_ID}&do=revoke&csrf={CSRF}")
            .header("content-type", "application/x-www-form-urlencoded"),
        row("change_key::from_a_page_without_origin", CHANGE)
            .at_desk()
            .body("id={VALID_ID}&do=revoke&csrf={CSRF}")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("origin", "null"),
        row("change_key::from_the_host_that_was_called", CHANGE)
            .at_desk()
            .body("id={VALID_ID}&do=revoke&csrf={CSRF}")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("host", "shop.example:8080")
            .header("origin", "http://shop.example:8080"),
    ]
}

fn catalog() -> Vec<Row> {
    let get = |name, line| row(name, line).at_desk();
    let product = |name, body: String| row(name, "POST /desk/product").sends(body);
    let changed = |from: &str, to: &str| PRODUCT.replace(from, to);
    let post = |name, body: &str| row(name, "POST /desk/post").sends(body);
    vec![
        get("desk_products::listed", "GET /desk/products"),
        get("desk_product::as_it_is", "GET /desk/product?id=2"),
        get("desk_product::a_new_one", "GET /desk/product"),
        get("desk_product::unknown", "GET /desk/product?id=99"),
        get("desk_product::malformed", "GET /desk/product?id=0"),
        product("desk_product::added", PRODUCT.to_owned()),
        product("desk_product::added_twice", PRODUCT.to_owned()).times(2),
        product("desk_product::too_large", format!("{PRODUCT}&x={}", "x".repeat(4 << 20))),
        product("desk_product::changed", changed("id=", "id=1")),
        product("desk_product::changed_unknown", changed("id=", "id=99")),
        product("desk_product::previewed", format!("{}&do=preview", changed("%23+Maps", "%23+Maps%0A%3Cscript%3E"))),
        product("desk_product::without_a_name", changed("Atlas", "")),
        product("desk_product::a_price_that_is_none", changed("12.50", "cheap")),
        product("desk_product::uses_that_are_none", changed("uses=", "uses=0")),
        product("desk_product::a_language_that_is_none", changed("language=", "language=%3Cb%3E")),
        product("desk_product::a_line_without_a_name", changed("gumroad+atlas", "gumroad")),
        product("desk_product::a_name_of_another_product", changed("gumroad+atlas", "gumroad+map")),
        get("desk_product::archiving_is_confirmed", "GET /desk/product/archive?id=1"),
        row("desk_product::archived", "POST /desk/product/archive").sends("id=1"),
        row("desk_product::archived_unknown", "POST /desk/product/archive").sends("id=99"),
        get("desk_posts::listed", "GET /desk/posts"),
        get("desk_post::as_it_is", "GET /desk/post?id=1"),
        get("desk_post::a_new_one", "GET /desk/post"),
        get("desk_post::unknown", "GET /desk/post?id=99"),
        post("desk_post::added", "id=&title=News&category=tips&content=%23+Hi"),
        post("desk_post::added_twice", "id=&title=News&category=tips&content=%23+Hi")
            .times(2)
            .last_after(Duration::from_mins(1)),
        post("desk_post::changed", "id=1&title=News&category=tips&content=%23+Hi"),
        post("desk_post::previewed", "id=1&title=News&category=tips&content=%23+Hi&do=preview"),
        post("desk_post::without_content", "id=&title=News&category=tips&content="),
        get("desk_post::deleting_is_confirmed", "GET /desk/post/delete?id=1"),
        row("desk_post::deleted", "POST /desk/post/delete").sends("id=1"),
        row("desk_post::deleted_unknown", "POST /desk/post/delete").sends("id=99"),
    ]
}

fn records() -> Vec<Row> {
    let get = |name, line| row(name, line).at_desk();
    let order = r#"{"order_id":"A-1","product_id":1,"customer_email":"ada@example.com","secret":"{SECRET}"}"#;
    vec![
        get("overview::of_a_shop", "GET /desk"),
        get("overview::with_what_needs_attention", "GET /desk").after_event(SALE),
        get("desk_messages::none", "GET /desk/messages"),
        get("desk_messages::that_wait", "GET /desk/messages?state=queued").after_order(order),
        get("desk_messages::state_made_up", "GET /desk/messages?state=lost"),
        row("desk_messages::one_that_waits_is_not_sent_again", "POST /desk/messages")
            .after_order(order)
            .sends("id={MESSAGE}"),
        row("desk_messages::unknown", "POST /desk/messages").sends("id=x"),
        get("desk_events::none", "GET /desk/events"),
        get("desk_events::that_need_attention", "GET /desk/events?outcome=needs_attention").after_event(SALE),
        get("desk_events::outcome_made_up", "GET /desk/events?outcome=good"),
        get("desk_event::that_waits", "GET /desk/event?id={EVENT}").after_event(SALE),
        get("desk_event::unknown", "GET /desk/event?id=1"),
        row("desk_event::applied", "POST /desk/event")
            .after_event(SALE)
            .sends("id={EVENT}&product_id=1&customer_email="),
        row("desk_event::applied_to_an_unknown_product", "POST /desk/event")
            .after_event(SALE)
            .sends("id={EVENT}&product_id=99"),
        row("desk_event::applied_to_no_address", "POST /desk/event")
            .after_event(SALE)
            .sends("id={EVENT}&customer_email=x"),
        get("desk_audit::of_a_shop", "GET /desk/audit"),
    ]
}

fn setup() -> Vec<Row> {
    vec![
        row("setup::platforms", "GET /desk/setup").at_desk(),
        row("setup::a_test_mail", "POST /desk/setup").sends("email=me%40example.com"),
        row("setup::a_test_mail_to_nobody", "POST /desk/setup").sends("email=me"),
        row("desk_erase::asked_for", "GET /desk/erase").at_desk(),
        row("desk_erase::done", "POST /desk/erase").sends("email=BUYER%40example.com&sure=yes"),
        row("desk_erase::not_sure", "POST /desk/erase").sends("email=BUYER%40example.com"),
        row("desk_erase::nobody", "POST /desk/erase").sends("email=BUYER&sure=yes"),
    ]
}

fn buyer() -> Vec<Row> {
    let sent = |name, body: &str| row(name, KEY).form(body);
    vec![
        row("buyer::the_form", "GET /key"),
        row("buyer::a_key_in_the_query_is_not_taken", "GET /key?key={VALID}"),
        sent("buyer::a_key_without_limit", "key={VALID}&do=show"),
        sent("buyer::a_key_with_a_limit", "key=+{LIMITED}+&do=show"),
        sent("buyer::a_key_that_is_used_up", "key={SPENT}&do=show"),
        sent("buyer::a_key_that_has_expired", "key={EXPIRED}&do=show"),
        sent("buyer::a_key_that_was_revoked", "key={REVOKED}&do=show"),
        sent("buyer::a_forged_key", "key={FORGED}&do=show"),
        sent("buyer::no_key", "key=&do=show"),
        sent("buyer::after_sixty_looks", "key={VALID}&do=show").times(61),
        sent("buyer::opened", "key={LIMITED}&do=open&request=one"),
        sent("buyer::reloaded", "key={LIMITED}&do=open&request=one").times(3),
        sent("buyer::downloaded", "key={LIMITED}&do=download&request=one"),
        sent("buyer::opened_used_up", "key={SPENT}&do=open&request=one"),
        sent("buyer::opened_forged", "key={FORGED}&do=open&request=one"),
        sent("buyer::opened_forged_often", "key={FORGED}&do=open&request=one").times(61),
        sent("buyer::opened_without_a_request", "key={LIMITED}&do=open"),
        row("buyer::from_another_site", KEY)
            .body("key={VALID}&do=show")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("origin", "https://mail.example"),
        row("lost::the_form", "GET /key/lost"),
        row("lost::asked", "POST /key/lost").form("customer_email=BUYER%40example.com"),
        row("lost::asked_by_nobody", "POST /key/lost").form("customer_email=nobody%40example.com"),
        row("lost::asked_by_another_site", "POST /key/lost")
            .body("customer_email=BUYER%40example.com")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("origin", "https://evil.example"),
        row("lost::no_address", "POST /key/lost").form("customer_email=%3Cscript%3E"),
        row("lost::six_times", "POST /key/lost").form("customer_email=buyer%40example.com").times(6),
    ]
}

fn lost() -> Vec<Row> {
    let ask = |name| row(name, RESEND).json(r#"{"customer_email":"Buyer@example.com"}"#);
    vec![
        ask("resend_keys::of_a_buyer"),
        row("resend_keys::of_nobody", RESEND).json(r#"{"customer_email":"nobody@example.com"}"#),
        row("resend_keys::no_address", RESEND).json("{}"),
        row("resend_keys::address_malformed", RESEND).json(r#"{"customer_email":"nobody"}"#),
        row("resend_keys::form_instead_of_json", RESEND).body("customer_email=a").header("content-type", "text/plain"),
        row("resend_keys::body_over_64_kib", RESEND).json(" ".repeat((64 << 10) + 1)),
        row("resend_keys::wrong_method", "GET /api/resend"),
        ask("resend_keys::six_times").times(6),
        ask("resend_keys::a_minute_later").times(6).last_after(Duration::from_mins(1)),
        ask("resend_keys::store_away").store_away(),
        ask("resend_keys::store_corrupt").store_corrupt(),
        ask("resend_keys::not_kept_by_the_store").catalog_elsewhere(),
    ]
}

fn everywhere() -> Vec<Row> {
    vec![
        row("pages::the_stylesheet", "GET /key/style.css?v=1"),
        row("pages::another_method", "PUT /desk/keys").at_desk(),
        row("pages::another_method_of_the_buyers", "DELETE /key"),
        row("pages::head", "HEAD /key"),
        row("pages::json_instead_of_a_form", KEY).json("{}"),
        row("pages::a_form_that_is_too_large", KEY).form(format!("key={}", "x".repeat(16 << 10))),
        row("pages::a_form_of_too_many_fields", KEY).form("a=1&".repeat(65)),
        row("pages::three_hundred_views", "GET /desk/erase").at_desk().times(301),
        row("pages::store_away", "GET /desk/keys").at_desk().store_away(),
        row("pages::store_corrupt", "GET /desk/keys").at_desk().store_corrupt(),
        row("pages::store_panicking", "GET /desk/keys").at_desk().store_panicking(),
        row("pages::buyer_store_away", KEY).form("key={VALID}&do=open&request=one").store_away(),
    ]
}
