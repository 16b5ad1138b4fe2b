//! The pages of the desk, and what holds of all pages.

use std::time::Duration;

use crate::desk::{PAID, SALE};
use crate::row::{FORM, Row, row};

pub const KEY: &str = "POST /key";
const REVOKED: &str = "id={VALID_ID}&do=revoke&csrf={CSRF}";
pub const PRODUCT: &str =
    "id=&name=Atlas&content=%23+Maps&type=digital&price=12.50&days=&uses=&language=&refs=gumroad+atlas";

const NO_LINK: &str = "The ID must be such as plink_1Abc, of a payment link. The platform shows it beside the product.";
const ATLAS: &str = "id=&name=Atlas&content=x&type=digital&price=&days=&uses=&language=de";

pub fn rows() -> Vec<Row> {
    [keys(), one_key(), issue(), catalog(), records(), setup(), everywhere()].concat()
}

/// Rows of pages of the desk.
fn get(name: &str, line: &str) -> Row {
    row(name, line).at_desk()
}

fn keys() -> Vec<Row> {
    let search = |name, body| row(name, "POST /desk/keys").sends(body);
    vec![
        get("desk_keys::all", "GET /desk/keys").with_all_platforms(),
        get("desk_keys::expired_ones_of_a_product", "GET /desk/keys?status=expired&product_id=1&source="),
        get("desk_keys::of_a_platform", "GET /desk/keys?source=gumroad"),
        get("desk_keys::before_one", "GET /desk/keys?before={SPENT_ID}"),
        get("desk_keys::of_the_third_page", "GET /desk/keys?before={SPENT_ID}&status=valid&back={VALID_ID}"),
        get("desk_keys::status_made_up", "GET /desk/keys?status=good"),
        get("desk_keys::before_made_up", "GET /desk/keys?before=%3Cscript%3E").like("status_made_up"),
        search("desk_keys::found_by_their_text", "q=+{LIMITED}+").leads_to("/desk/key?id={LIMITED_ID}"),
        search("desk_keys::found_by_their_address", "q=BUYER%40example.com").followed(""),
        search("desk_keys::found_by_the_beginning_of_their_address", "q=BUY")
            .followed("")
            .like("found_by_their_address")
            .but("BUYER@example.com", "BUY"),
        get("desk_keys::of_a_day", "GET /desk/keys?status=&since=2026-11-21&until=2026-11-21"),
        search("desk_keys::found_by_their_order", "q=A-1")
            .after_order(r#"{"order_id":"A-1","product_id":1,"customer_email":"ada@example.com","secret":"{SECRET}"}"#)
            .followed(""),
        search("desk_keys::not_found", "q=%3Cscript%3Ealert%281%29%3C%2Fscript%3E").followed(""),
        get("desk_keys::found_made_up", "GET /desk/keys?found=AAAA").page("400 Bad Request"),
        search("desk_keys::several_are_confirmed", "id={VALID_ID}&id={LIMITED_ID}&do=revoke"),
        search("desk_keys::several_are_revoked", "id={VALID_ID}&id={LIMITED_ID}&do=revoke&sure=yes")
            .leads_to("/desk/keys?done=all_revoked"),
        search("desk_keys::several_are_sent_again", "id={VALID_ID}&id={REVOKED_ID}&do=resend&sure=yes")
            .leads_to("/desk/keys?done=some_resent")
            .leaves(6, 2, 1),
        search("desk_keys::none_is_chosen", "do=revoke").leads_to("/desk/keys?done=none_chosen"),
        search("desk_keys::nothing_typed", "q=+").leads_to("/desk/keys"),
    ]
}

fn one_key() -> Vec<Row> {
    let confirm =
        |name: &str, query: &str| row(format!("change_key::{name}"), format!("GET /desk/key/change{query}")).at_desk();
    let post = |name: &str| row(format!("change_key::{name}"), "POST /desk/key/change").at_desk();
    let from = |name: &str, origin| post(name).form_from(origin, REVOKED);
    let by_http_2 = |name: &str, origin| {
        let line = "POST http://shop.example:8080/desk/key/change";
        row(format!("change_key::{name}"), line).at_desk().form_from(origin, REVOKED)
    };
    let change = |name: &str, body: &str| post(name).form(format!("{body}&csrf={{CSRF}}"));
    vec![
        get("desk_key::with_its_history", "GET /desk/key?id={SPENT_ID}&done=changed"),
        get("desk_key::a_sentence_of_others_is_not_shown", "GET /desk/key?id={VALID_ID}&done=%3Cb%3Ehacked"),
        get("desk_key::one_that_a_rule_of_the_host_refuses", "GET /desk/key?id={VALID_ID}").after_the_only_use(),
        get("desk_key::a_revoked_one", "GET /desk/key?id={REVOKED_ID}"),
        get("desk_key::unknown", "GET /desk/key?id=01a20a24-390f-7c15-811f-fd112f07da68").page("404 Not Found"),
        get("desk_key::malformed", "GET /desk/key?id=1").page("400 Bad Request"),
        get("desk_key::no_id", "GET /desk/key").page("404 Not Found"),
        confirm("revoking_is_confirmed", "?id={VALID_ID}&do=revoke"),
        confirm("restoring_is_confirmed", "?id={REVOKED_ID}&do=restore"),
        confirm("sending_is_confirmed", "?id={VALID_ID}&do=resend"),
        confirm("terms_are_asked_for", "?id={VALID_ID}&do=terms"),
        confirm("replacing_is_confirmed", "?id={VALID_ID}&do=rotate"),
        confirm("opening_as_a_buyer_is_no_use", "?id={VALID_ID}&do=open"),
        change("opened_as_a_buyer", "id={LIMITED_ID}&do=open")
            .followed("")
            .like("buyer::opened")
            .but(" -> 6 keys, 3 uses, 0 e-mails", ", as before"),
        change("nothing_new", "id={VALID_ID}&do=terms&until=&max_uses=&add_uses="),
        confirm("an_action_made_up", "?id={VALID_ID}&do=delete").page("404 Not Found"),
        change("revoked", "id={VALID_ID}&do=revoke&reason=asked+for").leads_to("/desk/key?id={VALID_ID}&done=revoked"),
        change("a_reason_too_long", &format!("id={{VALID_ID}}&do=revoke&reason={}", "x".repeat(501))),
        change("restored", "id={REVOKED_ID}&do=restore").leads_to("/desk/key?id={REVOKED_ID}&done=restored"),
        change("sent", "id={VALID_ID}&do=resend&email=")
            .leads_to("/desk/key?id={VALID_ID}&done=resent")
            .leaves(6, 2, 1),
        change("sent_to_another_address", "id={VALID_ID}&do=resend&email=ada%40example.com")
            .leads_to("/desk/key?id={VALID_ID}&done=resent")
            .leaves(6, 2, 1),
        change("sent_to_no_address", "id={VALID_ID}&do=resend&email=nobody"),
        change("sent_though_revoked", "id={REVOKED_ID}&do=resend"),
        change("new_terms", "id={LIMITED_ID}&do=terms&until=2027-01-31&add_uses=5")
            .leads_to("/desk/key?id={LIMITED_ID}&done=changed"),
        change("further_uses_sent_twice", "id={LIMITED_ID}&do=terms&limit=2&add_uses=5")
            .times(2)
            .then("GET /desk/key?id={LIMITED_ID}"),
        change("further_uses_to_a_limit_that_was_changed", "id={LIMITED_ID}&do=terms&limit=9&add_uses=5"),
        change("further_uses_to_a_limit_that_is_new", "id={LIMITED_ID}&do=terms&limit=-1&add_uses=5")
            .like("further_uses_to_a_limit_that_was_changed"),
        change("too_many_further_uses", "id={LIMITED_ID}&do=terms&add_uses=4294967295"),
        change("for_ever", "id={VALID_ID}&do=terms&until=never&max_uses=-1")
            .leads_to("/desk/key?id={VALID_ID}&done=changed"),
        change("uses_twice", "id={LIMITED_ID}&do=terms&max_uses=5&add_uses=5"),
        change("further_uses_of_no_limit", "id={VALID_ID}&do=terms&add_uses=5"),
        change("no_uses", "id={LIMITED_ID}&do=terms&max_uses=0"),
        change("no_day", "id={LIMITED_ID}&do=terms&until=tomorrow"),
        change("a_day_before_1970", "id={LIMITED_ID}&do=terms&until=1969-12-31")
            .like("no_day")
            .but("tomorrow", "1969-12-31"),
        change("a_day_before_the_year_0", "id={LIMITED_ID}&do=terms&until=-0001-01-01")
            .like("no_day")
            .but("tomorrow", "-0001-01-01"),
        change("replaced", "id={LIMITED_ID}&do=rotate"),
        change("replaced_though_revoked", "id={REVOKED_ID}&do=rotate"),
        change("unknown", "id=01a20a24-390f-7c15-811f-fd112f07da68&do=revoke").page("404 Not Found"),
        post("without_csrf").form("id={VALID_ID}&do=revoke"),
        post("with_the_csrf_of_the_sign_in_form").form("id={VALID_ID}&do=revoke&csrf={FORM_CSRF}").like("without_csrf"),
        from("from_another_site", "http://evil.example").page("403 Forbidden"),
        post("from_nowhere").typed(FORM, REVOKED).page("403 Forbidden"),
        from("from_a_page_without_origin", "null").page("403 Forbidden"),
        from("from_an_origin_that_is_no_utf_8", "\u{ff}").page("400 Bad Request"),
        from("to_a_host_that_is_no_utf_8", "http://localhost").header("host", "\u{ff}").page("400 Bad Request"),
        from("from_the_host_that_was_called", "http://shop.example:8080")
            .header("host", "shop.example:8080")
            .leads_to("/desk/key?id={VALID_ID}&done=revoked"),
        by_http_2("from_the_host_in_the_uri", "http://shop.example:8080")
            .leads_to("/desk/key?id={VALID_ID}&done=revoked"),
        by_http_2("from_another_host_than_in_the_uri", "http://evil.example").page("403 Forbidden"),
    ]
}

fn issue() -> Vec<Row> {
    let issue = |name: &str, body: &str| row(format!("issue::{name}"), "POST /desk/issue").sends(body);
    vec![
        get("issue::asked_for", "GET /desk/issue?product_id=2"),
        issue("no_product", "key=&seal=&product_id=&customer_email=ada%40example.com&sends=yes"),
        issue("no_address", "key=&seal=&product_id=1&customer_email=ada"),
        issue("no_number", "key=&seal=&product_id=1&customer_email=ada%40example.com&days=soon"),
        issue("an_id_that_is_made_up", "key={VALID_ID}&seal=x&product_id=1&customer_email=ada%40example.com&sends=yes")
            .page("400 Bad Request"),
    ]
}

fn catalog() -> Vec<Row> {
    let product = |name: &str, body: String| row(format!("desk_product::{name}"), "POST /desk/product").sends(body);
    let changed = |from: &str, to: &str| PRODUCT.replace(from, to);
    let post = |name: &str, body: &str| row(format!("desk_post::{name}"), "POST /desk/post").sends(body);
    vec![
        get("desk_products::listed", "GET /desk/products"),
        get("desk_product::as_it_is", "GET /desk/product?id=2"),
        get("desk_product::a_new_one", "GET /desk/product"),
        product("sold_on_a_platform", format!("{ATLAS}&platform=stripe&ref=plink_1")).then("GET /desk/product?id=3"),
        product(
            "sold_on_a_platform_by_an_address",
            format!("{ATLAS}&platform=stripe&ref=https%3A%2F%2Fbuy.stripe.com%2Fx"),
        ),
        product("sold_on_no_platform", format!("{ATLAS}&platform=&ref=plink_1")),
        get("desk_product::unknown", "GET /desk/product?id=99").page("404 Not Found"),
        get("desk_product::malformed", "GET /desk/product?id=0").page("400 Bad Request"),
        product("added", PRODUCT.to_owned()).leads_to("/desk/product?id=3&done=saved"),
        product("added_twice", PRODUCT.to_owned()).times(2).leads_to("/desk/product?id=3&done=saved"),
        product("too_large", format!("{PRODUCT}&x={}", "x".repeat(4 << 20))).page("413 Payload Too Large"),
        product("changed", changed("id=", "id=1")).leads_to("/desk/product?id=1&done=saved"),
        product("changed_unknown", changed("id=", "id=99")).page("404 Not Found"),
        product("previewed", format!("{}&do=preview", changed("%23+Maps", "%23+Maps%0A%3Cscript%3E"))),
        product("without_a_name", changed("Atlas", "")),
        product("a_price_that_is_none", changed("12.50", "cheap")),
        product("a_price_that_is_no_number", changed("12.50", "NaN")).like("a_price_that_is_none").but("cheap", "NaN"),
        product("uses_that_are_none", changed("uses=", "uses=0")),
        product("a_language_that_is_none", changed("language=", "language=%3Cb%3E")),
        product("a_line_in_words", changed("gumroad+atlas", "foo+bar")),
        product("a_platform_that_is_mistyped", changed("gumroad+atlas", "stirpe+plink_1")).with_all_platforms(),
        product("the_address_of_a_link", changed("gumroad+atlas", "stripe+https%3A%2F%2Fbuy.stripe.com%2Ftest_1"))
            .like("an_id_of_another_platform")
            .but("stripe atlas", "stripe https:&#x2f;&#x2f;buy.stripe.com&#x2f;test_1")
            .but(NO_LINK, format!("This is an address. {NO_LINK}")),
        product("an_id_of_another_platform", changed("gumroad+atlas", "stripe+atlas")),
        product(
            "the_address_on_gumroad",
            changed("gumroad+atlas", "Gumroad+https%3A%2F%2Fada.gumroad.com%2Fl%2Fatlas"),
        )
        .leads_to("/desk/product?id=3&done=saved"),
        product("a_line_without_a_name", changed("gumroad+atlas", "gumroad"))
            .like("an_id_of_another_platform")
            .but("stripe atlas", "gumroad")
            .but(NO_LINK, "a line has a platform, a space, and its ID of the product, such as: stripe plink_1Abc."),
        product("a_name_of_another_product", changed("gumroad+atlas", "gumroad+map"))
            .like("an_id_of_another_platform")
            .but("stripe atlas</", "gumroad map</")
            .but(format!("“stripe atlas”: {NO_LINK}"), "Another product has one of these references."),
        get("desk_product::archiving_is_confirmed", "GET /desk/product/archive?id=1"),
        row("desk_product::archived", "POST /desk/product/archive")
            .sends("id=1")
            .leads_to("/desk/product?id=1&done=archived"),
        row("desk_product::sold_again", "POST /desk/product/archive")
            .after_command("product/archive", r#"{"id":1}"#)
            .sends("id=1&do=restore")
            .leads_to("/desk/product?id=1&done=on_sale"),
        get("desk_product::that_is_archived", "GET /desk/product?id=1").after_command("product/archive", r#"{"id":1}"#),
        row("desk_product::archived_unknown", "POST /desk/product/archive").sends("id=99").page("404 Not Found"),
        get("desk_posts::listed", "GET /desk/posts"),
        get("desk_post::as_it_is", "GET /desk/post?id=1"),
        get("desk_post::a_new_one", "GET /desk/post"),
        get("desk_post::unknown", "GET /desk/post?id=99").page("404 Not Found"),
        post("added", "id=&title=News&category=tips&content=%23+Hi").leads_to("/desk/post?id=4&done=posted"),
        post("added_twice", "id=&title=News&category=tips&content=%23+Hi")
            .times(2)
            .last_after(Duration::from_mins(1))
            .leads_to("/desk/post?id=4&done=posted"),
        post("changed", "id=1&title=News&category=tips&content=%23+Hi").leads_to("/desk/post?id=1&done=posted"),
        post("previewed", "id=1&title=News&category=tips&content=%23+Hi&do=preview"),
        post("without_content", "id=&title=News&category=tips&content="),
        get("desk_post::deleting_is_confirmed", "GET /desk/post/delete?id=1"),
        row("desk_post::deleted", "POST /desk/post/delete").sends("id=1").leads_to("/desk/posts?done=deleted"),
        row("desk_post::deleted_twice", "POST /desk/post/delete").sends("id=99").leads_to("/desk/posts?done=deleted"),
    ]
}

fn records() -> Vec<Row> {
    let apply =
        |name: &str, body: &str| row(format!("desk_event::{name}"), "POST /desk/event").after_event(SALE).sends(body);
    let order = r#"{"order_id":"A-1","product_id":1,"customer_email":"ada@example.com","secret":"{SECRET}"}"#;
    vec![
        get("overview::of_a_shop", "GET /desk"),
        get("overview::with_revenue", "GET /desk").after_event(PAID),
        get("desk_event::what_was_paid", "GET /desk/event?id={EVENT}").after_event(PAID),
        get("desk_products::one_is_archived", "GET /desk/products").after_command("product/archive", r#"{"id":1}"#),
        get("overview::with_what_needs_attention", "GET /desk").after_event(SALE),
        get("desk_messages::none", "GET /desk/messages"),
        get("desk_messages::that_wait", "GET /desk/messages?state=queued").after_order(order),
        get("desk_messages::of_a_day", "GET /desk/messages?state=&since=2026-11-20&until=2026-11-20")
            .after_order(order),
        get("desk_messages::state_made_up", "GET /desk/messages?state=lost").page("400 Bad Request"),
        row("desk_messages::one_that_waits_is_not_sent_again", "POST /desk/messages")
            .after_order(order)
            .sends("id={MESSAGE}")
            .leads_to("/desk/messages?state=failed&done=nothing")
            .leaves(7, 2, 1),
        row("desk_messages::unknown", "POST /desk/messages").sends("id=x").page("400 Bad Request"),
        get("desk_events::none", "GET /desk/events").with_all_platforms(),
        get("desk_events::that_need_attention", "GET /desk/events?outcome=needs_attention").after_event(SALE),
        get("desk_events::outcome_made_up", "GET /desk/events?outcome=good").page("400 Bad Request"),
        get("desk_event::that_waits", "GET /desk/event?id={EVENT}").after_event(SALE),
        get("desk_event::unknown", "GET /desk/event?id=1").page("404 Not Found"),
        apply("applied", "id={EVENT}&product_id=1&customer_email=")
            .leads_to("/desk/event?id={EVENT}&done=applied")
            .leaves(7, 2, 1),
        apply("applied_without_what_is_missing", "id={EVENT}&product_id=&customer_email=")
            .leads_to("/desk/event?id={EVENT}&done=unapplied"),
        apply("put_aside", "id={EVENT}&do=dismiss").leads_to("/desk/event?id={EVENT}&done=dismissed"),
        row("desk_event::put_aside_though_it_is_done", "POST /desk/event")
            .after_event(PAID)
            .sends("id={EVENT}&do=dismiss")
            .leads_to("/desk/event?id={EVENT}&done=done_before")
            .leaves(7, 2, 1),
        row("desk_event::put_aside_with_its_product_though_it_is_done", "POST /desk/event")
            .after_event(PAID)
            .sends("id={EVENT}&do=dismiss_product&name=map")
            .leads_to("/desk/event?id={EVENT}&done=done_before")
            .leaves(7, 2, 1),
        apply("put_aside_with_a_product_that_it_does_not_name", "id={EVENT}&do=dismiss_product&name=map")
            .page("400 Bad Request"),
        get("desk_event::of_an_archived_product", "GET /desk/event?id={EVENT}")
            .after_command("product/archive", r#"{"id":2}"#)
            .after_event(PAID),
        apply("put_aside_with_all_of_its_product", "id={EVENT}&do=dismiss_product&name=atlas")
            .then("GET /desk/event?id={EVENT}"),
        apply("linked", "id={EVENT}&do=link&name=atlas&product_id=1")
            .leads_to("/desk/event?id={EVENT}&done=linked")
            .leaves(7, 2, 1),
        apply("linked_to_nothing", "id={EVENT}&do=link&name=atlas&product_id="),
        apply("linked_to_what_another_product_has", "id={EVENT}&do=link&name=map&product_id=1"),
        apply("applied_to_an_unknown_product", "id={EVENT}&product_id=99")
            .like("linked_to_nothing")
            .but("Choose the product that is sold there.", "This product is not sold."),
        apply("applied_to_no_address", "id={EVENT}&customer_email=x"),
        get("desk_audit::of_a_shop", "GET /desk/audit").with_all_platforms(),
        get("desk_audit::filtered", "GET /desk/audit?actor=admin&action=revoked&since=2026-11-22&until="),
        get("desk_audit::of_no_day", "GET /desk/audit?since=2026-11-31").page("400 Bad Request"),
        get("desk_events::of_a_platform", "GET /desk/events?outcome=&platform=gumroad&since=&until=").after_event(SALE),
    ]
}

fn setup() -> Vec<Row> {
    let send = |name: &str, body: &str| row(format!("setup::{name}"), "POST /desk/setup").sends(body);
    let erase = |name: &str, body: &str| row(format!("desk_erase::{name}"), "POST /desk/erase").sends(body);
    vec![
        get("setup::platforms", "GET /desk/setup").with_all_platforms(),
        send("a_test_mail", "email=me%40example.com").leads_to("/desk/setup?done=mailed").leaves(6, 2, 1),
        get("setup::an_e_mail_to_buyers", "GET /desk/email"),
        get("setup::an_e_mail_in_german", "GET /desk/email?kind=expiring&language=de"),
        get("setup::an_e_mail_as_a_document", "GET /desk/email?kind=expiring&part=html"),
        get("setup::an_e_mail_of_no_kind", "GET /desk/email?kind=x").page("400 Bad Request"),
        send("a_secret", "do=set_secret&platform=paddle&secret=pdl_ntfset_1").leads_to("/desk/setup?done=secret_set"),
        send("no_secret", "do=set_secret&platform=paddle&secret=+"),
        send("a_secret_with_a_line_break", "do=set_secret&platform=paddle&secret=a%0ab").like("no_secret").but(
            "Enter the secret.",
            "The secret must be at most 1000 bytes, without line breaks and invisible characters.",
        ),
        send("a_secret_that_the_settings_have", "do=set_secret&platform=stripe&secret=whsec_1"),
        send("a_secret_is_removed_after_a_confirmation", "do=remove_secret&platform=paddle"),
        send("a_secret_is_removed", "do=remove_secret&platform=paddle&sure=yes")
            .leads_to("/desk/setup?done=secret_removed"),
        send("a_test_mail_to_nobody", "email=me"),
        get("desk_erase::asked_for", "GET /desk/erase"),
        row("desk_erase::beside_cookies_that_are_no_text", "GET /desk/erase")
            .at_desk_with("a=\u{fc}; b=\u{ff}; desk={SESSION}")
            .like("asked_for"),
        erase("done", "email=BUYER%40example.com&sure=yes").leads_to("/desk/setup?done=erased"),
        erase("an_address_that_nobody_has", "email=mistyped%40example.com&sure=yes")
            .leads_to("/desk/setup?done=nobody"),
        erase("not_sure", "email=BUYER%40example.com"),
        erase("nobody", "email=BUYER&sure=yes"),
    ]
}

fn everywhere() -> Vec<Row> {
    vec![
        row("pages::the_stylesheet", "GET /key/style.css?v=1"),
        row("pages::the_icon", "GET /key/icon.svg?v=1"),
        row("pages::the_root", "GET /").leads_to("/key"),
        row("pages::the_desk_with_a_slash", "GET /desk/").leads_to("/desk"),
        row("pages::no_page_of_the_desk", "GET /desk/nothing").page("404 Not Found"),
        row("pages::no_page_of_the_buyers", "GET /key/nothing").page("404 Not Found"),
        row("pages::nothing_for_a_browser", "GET /nothing")
            .header("accept", "text/html,*/*;q=0.8")
            .page("404 Not Found"),
        row("pages::nothing_for_a_program", "GET /nothing").refused("NOT_FOUND"),
        row("pages::no_endpoint_for_a_browser", "GET /api/nothing").header("accept", "text/html").refused("NOT_FOUND"),
        row("pages::another_method", "PUT /desk/keys").at_desk().page("405 Method Not Allowed"),
        row("pages::another_method_of_the_buyers", "DELETE /key").page("405 Method Not Allowed"),
        row("pages::head", "HEAD /key"),
        row("pages::json_instead_of_a_form", KEY).json("{}").page("415 Unsupported Media Type"),
        row("pages::a_form_without_a_type", KEY).body("key=x").page("415 Unsupported Media Type"),
        row("pages::a_form_that_is_too_large", KEY)
            .form(format!("key={}", "x".repeat(16 << 10)))
            .page("413 Payload Too Large"),
        row("pages::a_form_of_too_many_fields", KEY).form("a=1&".repeat(65)).page("400 Bad Request"),
        row("pages::three_hundred_views", "GET /desk/erase").at_desk().times(301).page_limited("desk"),
        row("pages::store_away", "GET /desk/keys").at_desk().store_away().page("503 Service Unavailable"),
        row("pages::store_corrupt", "GET /desk/keys").at_desk().store_corrupt().page("500 Internal Server Error"),
        row("pages::store_panicking", "GET /desk/keys").at_desk().store_panicking().page("500 Internal Server Error"),
        row("pages::buyer_store_away", KEY)
            .form("key={VALID}&do=open&request=one")
            .store_away()
            .page("503 Service Unavailable"),
    ]
}
