//! The seller's desk.

use crate::admin::{DAYS, NAME, NEVER, OTHER_REFS, PRICE, USES};
use crate::row::{Row, command, row};
use crate::webhook::EMAIL;

const ORDER: &str = r#"{"order_id":"A-1","product_id":1,"customer_email":"buyer@example.com","secret":"{SECRET}"}"#;
pub const SALE: &str = "sale_id=S-1&resource_name=sale&short_product_id=atlas&email=Buyer%40EXAMPLE.com&quantity=2";
pub const PAID: &str =
    "sale_id=S-1&resource_name=sale&short_product_id=map&email=Buyer%40EXAMPLE.com&quantity=2&price=2500&currency=eur";
const SUCCESS: &str = r#"{"success":true}"#;
const SECRET: &str = "secret must be at most 1000 bytes, without line breaks and invisible characters.";
const NO_KEYS: &str = r#"{"keys":[]}"#;
const NO_EVENTS: &str = r#"{"events":[]}"#;
const NOTHING_TOLD: &str = r#"{"inbox":[]}"#;
const TIME: &str = "since must be a date such as 2026-11-21, or a time such as 2026-11-21T10:00:00Z.";
const ADDED: &str = "add_uses must be 1 to 2147483647 uses.";
const REASON: &str = "reason must be 1 to 200 characters without control characters.";

pub fn rows() -> Vec<Row> {
    [lists(), one_key(), changes(), inbox(), catalog(), erasure()].concat()
}

/// Rows of a list: a name, and a query.
fn list(what: &str) -> impl Fn(&str, &str) -> Row {
    move |name, query| row(format!("{what}::{name}"), format!("GET /api/admin/{what}{query}")).with_token()
}

fn lists() -> Vec<Row> {
    let [keys, messages, events] = ["keys", "messages", "events"].map(list);
    let [stats, inbox, email] = ["stats", "inbox", "email"].map(list);
    vec![
        keys("all_newest_first", ""),
        keys("a_page_of_one", "?limit=1"),
        keys("the_next_page", "?limit=2&before={SPENT_ID}"),
        keys("by_address_in_any_case", "?email=BUYER@example.com&limit=1").like("a_page_of_one"),
        keys("by_an_address_that_nobody_has", "?email=nobody@example.com").gives(NO_KEYS),
        keys("by_order", "?order_id=A-1").after_order(ORDER),
        keys("by_order_and_source", "?order_id=A-1&source=webhook").after_order(ORDER).like("by_order"),
        keys("by_order_and_another_source", "?order_id=A-1&source=stripe")
            .after_order(ORDER)
            .gives(r#"{"keys":[]}"#)
            .leaves(7, 2, 1),
        keys("by_product", "?product_id=2").gives(NO_KEYS),
        keys("by_the_beginning_of_an_address", "?email_prefix=BUY&limit=1").like("a_page_of_one"),
        keys("by_the_beginning_of_no_address", "?email_prefix=uyer").gives(NO_KEYS),
        keys("by_too_long_a_beginning", &format!("?email_prefix={}", "x".repeat(255)))
            .invalid("email_prefix must be at most 254 characters."),
        keys("since_a_date", "?since=2026-11-22&limit=2"),
        keys("until_the_end_of_a_date", "?until=2026-11-21").like("expired"),
        keys("until_a_time", "?until=2026-11-21T10:00:03Z").gives(NO_KEYS),
        keys("since_and_until_the_same_date", "?since=2026-11-21&until=2026-11-21").like("expired"),
        keys("since_no_time", "?since=yesterday").invalid(TIME),
        keys("expired", "?status=expired"),
        keys("exhausted", "?status=exhausted"),
        keys("revoked", "?status=revoked"),
        keys("filters_combine", "?status=valid&product_id=1&email=buyer@example.com&limit=1"),
        keys("sql_in_an_order_is_text", "?order_id=%27%20OR%201%3D1%3B--").gives(NO_KEYS),
        keys("more_than_a_hundred_is_a_hundred", "?limit=100000000000000000000&status=revoked").like("revoked"),
        keys("limit_zero", "?limit=0").invalid("limit must be an integer of 1 or more."),
        keys("limit_negative", "?limit=-1").invalid("limit must be an integer of 1 or more."),
        keys("before_made_up", "?before=1").invalid("before must be what next said."),
        keys("before_an_id_that_nobody_has", "?before=00000000-0000-0000-0000-000000000000").gives(NO_KEYS),
        keys("status_unknown", "?status=Valid").invalid("status must be valid, expired, exhausted or revoked."),
        keys("address_malformed", "?email=buyer").invalid("email must be an e-mail address such as buyer@example.com."),
        keys("product_zero", "?product_id=0").invalid("product_id must be an integer of 1 or more."),
        keys("product_twice", "?product_id=1&product_id=2").invalid("product_id must come once."),
        keys("source_malformed", "?source=%F0%9F%90%A6").gives(NO_KEYS),
        row("keys::head", "HEAD /api/admin/keys").with_token(),
        stats("what_was_paid", "?days=1").after_event(PAID),
        email("to_buyers", ""),
        email("to_buyers_in_german", "?kind=revoked&language=de-AT"),
        email("in_a_language_without_templates", "?kind=purchase&language=ja").like("to_buyers"),
        email("of_no_kind", "?kind=key.issued")
            .invalid("kind must be purchase, resend, successor, expiring or revoked."),
        email("in_no_language", "?language=de_AT").invalid("language must be a language such as en or pt-BR."),
        messages("all_newest_first", "").after_order(ORDER),
        messages("queued", "?state=queued&limit=1").after_order(ORDER).like("all_newest_first"),
        messages("failed", "?state=failed").after_order(ORDER),
        messages("state_unknown", "?state=lost").invalid("state must be queued, sent or failed."),
        messages("since_a_date", "?since=2026-11-23").after_order(ORDER).like("failed"),
        messages("until_a_date", "?until=2026-11-24").after_order(ORDER).like("all_newest_first"),
        messages("since_no_time", "?since=yesterday").invalid(TIME),
        messages("before_made_up", "?before=1e3").invalid("before must be what next said."),
        messages("before_everything", "?before=-9223372036854775808").after_order(ORDER).like("failed"),
        events("all_newest_first", "?limit=3"),
        events("of_an_action", "?action=revoked"),
        events("of_a_seller", "?actor=admin&limit=1"),
        events("of_a_platform", "?actor=platform:stripe").gives(NO_EVENTS),
        events("of_an_action_that_is_none", "?action=lost").invalid("action must be an action of the audit log."),
        events("since_a_date", "?since=2026-11-23").gives(NO_EVENTS),
        events("of_a_key", "?key_id={REVOKED_ID}").like("of_an_action"),
        events("of_a_key_that_nobody_has", "?key_id=00000000-0000-0000-0000-000000000000").gives(NO_EVENTS),
        events("key_malformed", "?key_id=1").invalid("key_id must be a UUID."),
        events("before_made_up", "?before=x").invalid("before must be what next said."),
        stats("today", "?days=1").like("two_days").but(r#",{"date":"2026-11-21","issued":2,"uses":1,"revoked":0}"#, ""),
        stats("two_days", "?days=2"),
        stats("days_zero", "?days=0").invalid("days must be an integer from 1 to 365."),
        stats("days_366", "?days=366").invalid("days must be an integer from 1 to 365."),
        stats("days_as_text", "?days=a").invalid("days must be an integer."),
        inbox("what_needs_attention", "?outcome=needs_attention").after_event(SALE),
        inbox("of_a_platform", "?platform=gumroad").after_event(SALE).like("what_needs_attention"),
        inbox("of_another_platform", "?platform=stripe").after_event(SALE).gives(NOTHING_TOLD),
        inbox("until_a_date", "?until=2026-11-21").after_event(SALE).gives(NOTHING_TOLD),
        inbox("of_another_outcome", "?outcome=issued").after_event(SALE).gives(NOTHING_TOLD),
        inbox("outcome_unknown", "?outcome=lost").invalid("outcome must be the outcome of an event."),
        inbox("before_made_up", "?before=0x1").invalid("before must be what next said."),
    ]
}

fn one_key() -> Vec<Row> {
    let key = list("key");
    vec![
        key("with_its_history", "?id={VALID_ID}"),
        key("used_up", "?id={SPENT_ID}"),
        key("refused_by_a_rule_of_the_host", "?id={VALID_ID}").after_the_only_use(),
        key("revoked", "?id={REVOKED_ID}"),
        key("missing_id", "").missing("id"),
        key("id_of_another_kind", "?id=1").invalid("id must be a UUID."),
        key("text_of_a_key_is_no_id", "?id={VALID}").invalid("id must be a UUID."),
        key("unknown_id", "?id=00000000-0000-0000-0000-000000000000").refused("NOT_FOUND"),
        key("script_in_the_id", "?id=%3Cscript%3E").invalid("id must be a UUID."),
    ]
}

fn changes() -> Vec<Row> {
    let (revoke, restore) = (command("revoke", "key/revoke"), command("restore", "key/restore"));
    let (change, resend) = (command("change", "key/change"), command("resend", "key/resend"));
    let (rotate, retry) = (command("rotate", "key/rotate"), command("retry", "message/retry"));
    let valid = r#"{"id":"{VALID_ID}"}"#;
    let limited = |fields: &str| format!(r#"{{"id":"{{LIMITED_ID}}",{fields}}}"#);
    vec![
        revoke("a_valid_key", r#"{"id":"{VALID_ID}","reason":"<b>fraud</b>'; --"}"#),
        revoke("again_changes_nothing", r#"{"id":"{VALID_ID}","reason":"x"}"#).times(2),
        revoke("reason_with_line_break", r#"{"id":"{VALID_ID}","reason":"a\nb"}"#).invalid(REASON),
        revoke("reason_of_201_characters", &format!(r#"{{"id":"{{VALID_ID}}","reason":"{}"}}"#, "x".repeat(201)))
            .invalid(REASON),
        restore("a_revoked_key", r#"{"id":"{REVOKED_ID}"}"#),
        restore("a_valid_key_changes_nothing", valid).like("a_revoked_key").but("{REVOKED_ID}", "{VALID_ID}"),
        restore("a_rotated_key", valid)
            .after_command("key/rotate", valid)
            .invalid("The key was rotated: another one took its place, and it cannot be restored.")
            .left(8)
            .leaves(7, 2, 1),
        change("days_from_issue", &limited(r#""expires_days":10"#)).like("never").but(NEVER, "2026-12-02T10:00:03"),
        change("at_a_time", &limited(r#""expires_at":"2030-01-01T01:00:00.5+01:00""#))
            .like("never")
            .but(NEVER, "2030-01-01T00:00:00"),
        change("a_past_time_expires_now", &limited(r#""expires_at":"2000-01-01T00:00:00Z""#))
            .like("never")
            .but(NEVER, "2000-01-01T00:00:00")
            .but("valid", "expired"),
        change("never", &limited(r#""expires_days":-1"#)),
        change("uses_are_added", &limited(r#""add_uses":3"#)).like("never").but("uses\":2", "uses\":5"),
        change("uses_are_set", &limited(r#""max_uses":-1"#)).like("never").but("uses\":2", "uses\":-1"),
        change("a_limit_below_what_was_used", r#"{"id":"{SPENT_ID}","max_uses":1}"#),
        change("more_than_can_be_added", &limited(r#""add_uses":2147483647"#))
            .like("never")
            .but("uses\":2", "uses\":2147483647"),
        change("both", &limited(r#""expires_days":1,"max_uses":7"#))
            .like("never")
            .but(NEVER, "2026-11-23T10:00:03")
            .but("uses\":2", "uses\":7"),
        change("two_expiries", &limited(r#""expires_days":1,"expires_at":"2030-01-01T00:00:00Z""#))
            .invalid("Send expires_days or expires_at, not both."),
        change("two_limits", &limited(r#""max_uses":1,"add_uses":1"#)).invalid("Send max_uses or add_uses, not both."),
        change("added_to_an_unlimited_key", r#"{"id":"{VALID_ID}","add_uses":1}"#)
            .invalid("add_uses is for a key with a limit, and this one has none."),
        change("nothing", r#"{"id":"{VALID_ID}"}"#).missing("expires_days, expires_at, max_uses or add_uses"),
        change("add_zero", &limited(r#""add_uses":0"#)).invalid(ADDED),
        change("add_minus_one", &limited(r#""add_uses":-1"#)).invalid(ADDED),
        change("add_2_to_the_31st", &limited(r#""add_uses":2147483648"#)).invalid(ADDED),
        change("days_36501", &limited(r#""expires_days":36501"#)).invalid(DAYS),
        change("time_without_zone", &limited(r#""expires_at":"2030-01-01T00:00:00""#))
            .invalid("expires_at must be an RFC 3339 timestamp from 1970 to 9999, such as 2026-11-21T10:00:00Z."),
        change("uses_2_to_the_31", &limited(r#""max_uses":2147483648"#)).invalid(USES),
        resend("to_the_same_address", valid).like("to_another_address").but("Corrected@", "buyer@"),
        resend("to_another_address", r#"{"id":"{VALID_ID}","customer_email":"Corrected@EXAMPLE.com"}"#),
        resend("a_revoked_key", r#"{"id":"{REVOKED_ID}"}"#).invalid("The key is revoked."),
        resend("address_malformed", r#"{"id":"{VALID_ID}","customer_email":"a@b"}"#).invalid(EMAIL),
        rotate("a_valid_key", r#"{"id":"{LIMITED_ID}"}"#),
        rotate("again_answers_with_its_successor", r#"{"id":"{LIMITED_ID}"}"#).times(2).like("a_valid_key").left(8),
        rotate("a_revoked_key", r#"{"id":"{REVOKED_ID}"}"#).invalid("The key is revoked."),
        rotate("an_expired_key", r#"{"id":"{EXPIRED_ID}"}"#),
        retry("a_message_that_waits", r#"{"id":"{MESSAGE}"}"#).after_order(ORDER).gives(SUCCESS).leaves(7, 2, 1),
        retry("id_as_number", r#"{"id":1}"#).invalid("id must be a string."),
        retry("id_of_another_kind", r#"{"id":"{VALID_ID}"}"#).invalid("id must be an id from a list."),
        retry("id_beyond_64_bits", r#"{"id":"9223372036854775808"}"#).invalid("id must be an id from a list."),
    ]
}

fn inbox() -> Vec<Row> {
    let (apply, dismiss) = (command("apply", "inbox/apply"), command("dismiss", "inbox/dismiss"));
    let secret = command("platform_secret", "platform/secret");
    let (event, product) = (r#"{"id":"{EVENT}"}"#, r#"{"platform":"gumroad","product_ref":"atlas"}"#);
    vec![
        apply("with_the_product", r#"{"id":"{EVENT}","product_id":1}"#)
            .after_event(SALE)
            .gives(SUCCESS)
            .leaves(7, 2, 1),
        apply("again_changes_nothing", r#"{"id":"{EVENT}","product_id":1}"#).after_event(SALE).times(2),
        apply("to_another_address", r#"{"id":"{EVENT}","product_id":1,"customer_email":"ada@example.com"}"#)
            .after_event(SALE.replace("Buyer%40EXAMPLE.com", "buyer"))
            .gives(SUCCESS)
            .leaves(7, 2, 1),
        apply("without_what_is_missing", r#"{"id":"{EVENT}"}"#).after_event(SALE).gives(SUCCESS),
        apply("unknown_product", r#"{"id":"{EVENT}","product_id":99}"#).after_event(SALE).refused("NOT_FOUND"),
        apply("what_was_dismissed", r#"{"id":"{EVENT}","product_id":1}"#)
            .after_event(SALE)
            .after_command("inbox/dismiss", event)
            .like("again_changes_nothing"),
        apply("of_a_product_that_was_dismissed", r#"{"id":"{EVENT}","product_id":1}"#)
            .after_command("inbox/dismiss", product)
            .after_event(SALE)
            .like("again_changes_nothing"),
        dismiss("an_event", event).after_event(SALE).then("GET /api/admin/inbox"),
        dismiss("a_product", product).gives(SUCCESS),
        dismiss("an_event_that_is_done", event)
            .after_event(SALE.replace("atlas", "map"))
            .gives(SUCCESS)
            .leaves(7, 2, 1),
        dismiss("both", r#"{"id":"1","platform":"gumroad","product_ref":"atlas"}"#)
            .invalid("Send id, or platform and product_ref, not both."),
        dismiss("a_product_of_no_platform", r#"{"product_ref":"atlas"}"#).missing("platform"),
        dismiss("a_platform_without_a_product", r#"{"platform":"gumroad"}"#).missing("product_ref"),
        secret("is_set", r#"{"platform":"paddle","secret":"pdl_ntfset_1"}"#).gives(SUCCESS),
        secret("is_removed", r#"{"platform":"paddle","secret":null}"#).gives(SUCCESS),
        secret("of_no_platform", r#"{"secret":"pdl_ntfset_1"}"#).missing("platform"),
        secret("that_is_missing", r#"{"platform":"paddle"}"#).missing("secret"),
        secret("of_an_unknown_platform", r#"{"platform":"ebay","secret":"x"}"#)
            .invalid("platform must be a platform such as stripe."),
        secret("that_is_none_of_the_platforms", r#"{"platform":"standard","secret":"no base64!"}"#)
            .invalid("secret must be base64, after whsec_ or without it."),
        secret("with_an_invisible_character", r#"{"platform":"paddle","secret":"a\u200bb"}"#).invalid(SECRET),
        secret("that_is_too_long", &format!(r#"{{"platform":"paddle","secret":"{}"}}"#, "x".repeat(1001)))
            .invalid(SECRET),
        secret("that_the_settings_have", r#"{"platform":"stripe","secret":"whsec_1"}"#)
            .invalid("The settings of the server have the secret of this platform."),
        dismiss("an_unknown_platform", r#"{"platform":"ebay","product_ref":"atlas"}"#)
            .invalid("platform must be a platform such as stripe."),
        dismiss("a_name_with_a_line_break", r#"{"platform":"gumroad","product_ref":"a\nb"}"#)
            .invalid("product_ref must be 1 to 255 characters without control characters."),
        apply("id_of_another_kind", r#"{"id":"{VALID_ID}"}"#).invalid("id must be an id from a list."),
        apply("address_malformed", r#"{"id":"{EVENT}","customer_email":"<script>"}"#).after_event(SALE).invalid(EMAIL),
    ]
}

fn catalog() -> Vec<Row> {
    let (update, archive) = (command("update_product", "product/update"), command("archive", "product/archive"));
    let restore = command("restore_product", "product/restore");
    let archived =
        |name: &str, line: &str| row(format!("archive::{name}"), line).after_command("product/archive", r#"{"id":1}"#);
    let (update_post, delete_post) = (command("update_post", "post/update"), command("delete_post", "post/delete"));
    vec![
        update("one_field", r#"{"id":1,"price":12.50}"#).like("nothing").but("9.9}", "12.5}"),
        update(
            "all_fields",
            r##"{"id":2,"name":"Atlas","description":"","content":"# A","type":"audio","price":0,"expires_days":-1,"max_uses":-1,"refs":{"stripe":["p"]}}"##,
        ),
        update("names_are_taken_away", r#"{"id":2,"refs":{}}"#)
            .gives(r##"{"success":true,"product":{"id":2,"name":"Map","description":"","type":"map","content":"# Map","price":0,"expires_days":30,"max_uses":5}}"##),
        update("a_name_that_another_product_has", r#"{"id":1,"refs":{"gumroad":["map"]}}"#).invalid(OTHER_REFS),
        update("nothing", r#"{"id":1}"#),
        update("id_zero", r#"{"id":0}"#).invalid("id must be an integer of 1 or more."),
        update("name_of_201_characters", &format!(r#"{{"id":1,"name":"{}"}}"#, "x".repeat(201))).invalid(NAME),
        update("price_negative", r#"{"id":1,"price":-1}"#).invalid(PRICE),
        archive("a_product", r#"{"id":1}"#).like("update_product::nothing"),
        archive("again", r#"{"id":1}"#).times(2).like("update_product::nothing").left(8),
        archive("id_as_text", r#"{"id":"1"}"#).invalid("id must be an integer."),
        archived("is_not_sold", "POST /api/webhook/order").json(ORDER).refused("NOT_FOUND"),
        archived("is_still_fetched", "GET /api/product?key={VALID}&product_id=1").like("product::fetch_counts_a_use"),
        archived("is_not_listed", "GET /api/products").gives(r#"{"products":[{"id":2,"name":"Map","type":"map"}]}"#),
        restore("of_an_archived_product", r#"{"id":1}"#).after_command("product/archive", r#"{"id":1}"#),
        restore("of_another", r#"{"id":1}"#).like("update_product::nothing"),
        row("restore_product::is_sold", "POST /api/webhook/order")
            .json(ORDER)
            .after_command("product/archive", r#"{"id":1}"#)
            .after_command("product/restore", r#"{"id":1}"#)
            .like("base::order"),
        update("null_takes_away", r#"{"id":2,"expires_days":null,"max_uses":null,"language":null}"#)
            .after_command("product/update", r#"{"id":2,"expires_days":7,"max_uses":7,"language":"de"}"#)
            .gives(r##"{"success":true,"product":{"id":2,"name":"Map","description":"","type":"map","content":"# Map","price":0,"refs":{"gumroad":["map"]}}}"##)
            .left(8),
        update_post("one_field", r#"{"id":1,"title":"Summer"}"#).gives(r##"{"success":true,"post":{"id":1,"title":"Summer","category":"news","content":"# Text","published_at":"2026-11-21T10:00:01Z"}}"##),
        update_post(
            "all_fields",
            r#"{"id":1,"title":"S","category":"tips","content":"c","published_at":"2026-01-01T00:00:00Z"}"#,
        ),
        row("update_post::is_listed", "GET /api/posts?limit=1")
            .after_command("post/update", r#"{"id":3,"title":"Look up"}"#),
        update_post("title_with_line_break", r#"{"id":1,"title":"a\nb"}"#)
            .invalid("title must be 1 to 200 characters without control characters."),
        delete_post("a_post", r#"{"id":1}"#).gives(SUCCESS),
        delete_post("again", r#"{"id":1}"#).times(2).refused("NOT_FOUND").left(8),
        delete_post("id_negative", r#"{"id":-1}"#).invalid("id must be an integer of 1 or more."),
    ]
}

fn erasure() -> Vec<Row> {
    let erase = command("erase", "customer/erase");
    vec![
        erase("a_person", r#"{"customer_email":"BUYER@example.com"}"#)
            .after_order(ORDER)
            .gives(SUCCESS)
            .leaves(7, 2, 0),
        erase("nobody", r#"{"customer_email":"nobody@example.com"}"#).gives(SUCCESS),
        erase("address_malformed", r#"{"customer_email":"%"}"#).invalid(EMAIL),
    ]
}
