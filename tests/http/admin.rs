//! The seller's endpoints.

use crate::row::{Row, command, row};

pub const NEVER: &str = "9999-12-31T23:59:59";
pub const DAYS: &str = "expires_days must be 1 to 36500 days, or -1 for a key that never expires.";
pub const NAME: &str = "name must be 1 to 200 characters without control characters.";
pub const OTHER_REFS: &str = "refs must be names that no other product has.";
pub const PRICE: &str = "price must be a number from 0 to below 10^15 with at most 4 fraction digits.";
pub const USES: &str = "max_uses must be 1 to 2147483647 uses, or -1 for no limit.";
const PRODUCT: &str = "POST /api/admin/product";
const REFS: &str = "refs must be an object of lists of names, each of 1 to 255 characters without control characters.";
const CONTENT: &str = "content must be at most 1 MiB of text, of control characters only line breaks and tabs.";
const DESCRIPTION: &str =
    "description must be at most 2000 characters, of control characters only line breaks and tabs.";
const TIME: &str = "published_at must be an RFC 3339 timestamp from 1970 to 9999, such as 2026-11-21T10:00:00Z.";

pub fn rows() -> Vec<Row> {
    [authentication(), products(), keys(), posts()].concat()
}

fn authentication() -> Vec<Row> {
    let good = r#"{"name":"x","content":"y"}"#;
    let with = |name, authorization| row(name, PRODUCT).json(good).header("authorization", authorization);
    vec![
        with("admin::wrong_token", "Bearer {ADMIN}x").refused("UNAUTHORIZED"),
        with("admin::another_scheme", "Token {ADMIN}").refused("UNAUTHORIZED"),
        with("admin::tab_instead_of_space", "Bearer\t{ADMIN}").refused("UNAUTHORIZED"),
        row("admin::two_tokens", PRODUCT).by_seller(good).header("authorization", "Bearer x").refused("UNAUTHORIZED"),
        row("admin::token_in_the_query", "POST /api/admin/product?access_token={ADMIN}")
            .json(good)
            .refused("UNAUTHORIZED"),
        with("admin::a_buyers_key_is_no_token", "Bearer {VALID}").refused("UNAUTHORIZED"),
        row("admin::type_comes_before_token", PRODUCT).body(good).refused("UNSUPPORTED_MEDIA_TYPE"),
        row("admin::token_comes_before_fields", PRODUCT).json("{").refused("UNAUTHORIZED"),
        row("admin::limit_reached", PRODUCT).json(good).times(10).refused("UNAUTHORIZED").left(0),
        row("admin::limit_exceeded", PRODUCT).json(good).times(11).limited(),
    ]
}

fn products() -> Vec<Row> {
    let add = command("add_product", "product");
    vec![
        add("least", r#"{"name":"Song","content":"La"}"#)
            .like("price_minus_zero")
            .but("\"x\"", "\"Song\"")
            .but("\"y\"", "\"La\""),
        add(
            "all_fields",
            r##"{"name":"Song","description":"A\nsong","content":"# La\r\n\tla","type":"audio","price":0.10,"expires_days":-1,"max_uses":3,"unknown":[]}"##,
        )
        .gives(r##"{"success":true,"product":{"id":3,"name":"Song","description":"A\nsong","type":"audio","content":"# La\r\n\tla","price":0.1,"expires_days":-1,"max_uses":3}}"##),
        add("price_stays_exact", r#"{"name":"x","content":"y","price":999999999999999.9999}"#)
            .like("price_minus_zero")
            .but("0}", "999999999999999.9999}"),
        add(
            "names_on_platforms",
            r#"{"name":"x","content":"y","refs":{"stripe":["plink_1","plink_1"],"shopify":["BOOK-1","variant:39072856"]}}"#,
        )
        .like("price_minus_zero")
        .but("0}", r#"0,"refs":{"shopify":["BOOK-1","variant:39072856"],"stripe":["plink_1"]}}"#),
        add("a_name_that_another_product_has", r#"{"name":"x","content":"y","refs":{"gumroad":["atlas","map"]}}"#)
            .invalid(OTHER_REFS),
        add("the_same_name_on_another_platform", r#"{"name":"x","content":"y","refs":{"polar":["map"]}}"#)
            .like("price_minus_zero")
            .but("0}", r#"0,"refs":{"polar":["map"]}}"#),
        add("names_on_an_unknown_platform", r#"{"name":"x","content":"y","refs":{"etsy":["map"]}}"#)
            .invalid("refs must name platforms such as stripe."),
        add("names_that_are_no_list", r#"{"name":"x","content":"y","refs":{"stripe":"plink_1"}}"#).invalid(REFS),
        add("a_platform_twice", r#"{"name":"x","content":"y","refs":{"stripe":["a"],"stripe":["b"]}}"#).invalid(REFS),
        add("an_empty_name", r#"{"name":"x","content":"y","refs":{"stripe":[""]}}"#).invalid(REFS),
        add("missing_name", r#"{"content":"y"}"#).missing("name"),
        add("missing_content", r#"{"name":"x","content":""}"#).missing("content"),
        add("name_with_line_break", r#"{"name":"x\ny","content":"y"}"#).invalid(NAME),
        add(
            "description_of_2001_characters",
            &format!(r#"{{"name":"x","content":"y","description":"{}"}}"#, "d".repeat(2001)),
        )
        .invalid(DESCRIPTION),
        add("type_empty", r#"{"name":"x","content":"y","type":""}"#).like("price_minus_zero"),
        add("content_with_escape", r#"{"name":"x","content":"\u001b[31m"}"#).invalid(CONTENT),
        add("price_negative", r#"{"name":"x","content":"y","price":-1}"#).invalid(PRICE),
        add("price_as_string", r#"{"name":"x","content":"y","price":"9.99"}"#).invalid("price must be a number."),
        add("price_with_five_digits", r#"{"name":"x","content":"y","price":0.00001}"#).invalid(PRICE),
        add("price_too_large", r#"{"name":"x","content":"y","price":1e15}"#).invalid(PRICE),
        add("price_with_exponent", r#"{"name":"x","content":"y","price":1e2}"#)
            .like("price_minus_zero")
            .but("0}", "100}"),
        add("price_with_negative_exponent", r#"{"name":"x","content":"y","price":1E-4}"#)
            .like("price_minus_zero")
            .but("0}", "0.0001}"),
        add("price_with_zeros_behind_it", r#"{"name":"x","content":"y","price":9.9900000}"#)
            .like("price_minus_zero")
            .but("0}", "9.99}"),
        add("price_minus_zero", r#"{"name":"x","content":"y","price":-0.0}"#),
        add("price_that_no_float_holds", r#"{"name":"x","content":"y","price":1e999}"#).invalid(PRICE),
        add("price_too_small", r#"{"name":"x","content":"y","price":1e-308}"#).invalid(PRICE),
        add("markup_is_text", r#"{"name":"<b onclick=x>{{7*7}}","content":"<script>"}"#)
            .like("price_minus_zero")
            .but("\"x", "\"<b onclick=x>{{7*7}}")
            .but("\"y", "\"<script>"),
        add("id_cannot_be_chosen", r#"{"id":1,"name":"x","content":"y"}"#).like("price_minus_zero"),
        add("content_of_1_mib", &format!(r#"{{"name":"x","content":"{}"}}"#, "y".repeat(1 << 20)))
            .like("price_minus_zero")
            .but("\"y\"", format!("\"{}\"", "y".repeat(1 << 20))),
        add("content_over_1_mib", &format!(r#"{{"name":"x","content":"{}"}}"#, "y".repeat((1 << 20) + 1)))
            .invalid(CONTENT),
    ]
}

fn keys() -> Vec<Row> {
    let issue = command("issue_key", "issue-key");
    let key = |fields: &str| format!(r#"{{"product_id":1,"customer_email":"a@example.com"{fields}}}"#);
    vec![
        issue("default_terms", &key("")),
        issue("terms_of_the_product", &key("").replace(":1", ":2")),
        issue("own_terms", &key(r#","expires_days":30,"max_uses":5"#)).like("terms_of_the_product").but(":2,", ":1,"),
        issue("for_ever_and_unlimited", &key(r#","expires_days":-1,"max_uses":-1"#))
            .like("default_terms")
            .but("2027-11-22T10:00:03", NEVER),
        issue("without_letter", &key(r#","send_email":false"#)),
        issue("send_email_is_no_boolean", &key(r#","send_email":"no""#)).invalid("send_email must be true or false."),
        issue("key_and_counts_cannot_be_chosen", &key(r#","api_key":"chosen","used_count":-5"#)).like("default_terms"),
        issue("days_zero", &key(r#","expires_days":0"#)).invalid(DAYS),
        issue("days_minus_two", &key(r#","expires_days":-2"#)).invalid(DAYS),
        issue("days_36501", &key(r#","expires_days":36501"#)).invalid(DAYS),
        issue("days_as_float", &key(r#","expires_days":30.0"#)).invalid("expires_days must be an integer."),
        issue("days_beyond_64_bits", &key(r#","expires_days":9223372036854775808"#))
            .invalid("expires_days must be an integer of at most 64 bits."),
        issue("uses_minus_two", &key(r#","max_uses":-2"#)).invalid(USES),
        issue("uses_as_text", &key(r#","max_uses":"5""#)).invalid("max_uses must be an integer."),
        issue("null_terms_are_the_default", &key(r#","max_uses":null,"expires_days":null"#)).like("default_terms"),
        issue("uses_zero", &key(r#","max_uses":0"#)).invalid(USES),
        issue("uses_2_to_the_31", &key(r#","max_uses":2147483648"#)).invalid(USES),
        issue("missing_product", r#"{"customer_email":"a@example.com"}"#).missing("product_id"),
        issue("missing_email", r#"{"product_id":1}"#).missing("customer_email"),
        issue("unknown_product", &key("").replace(":1", ":99")).refused("NOT_FOUND"),
        row("issue_key::put_is_not_taken", "PUT /api/admin/issue-key").refused("METHOD_NOT_ALLOWED"),
    ]
}

fn posts() -> Vec<Row> {
    let post = command("add_post", "post");
    let with = |time: &str| format!(r#"{{"title":"Hi","category":"news","content":"t","published_at":"{time}"}}"#);
    let at = |name: &str, time: &str| post(name, &with(time));
    vec![
        post("now", r#"{"title":"Hi","category":"news","content":"text"}"#)
            .like("at_a_time")
            .but("2030-01-01T00:00:00", "2026-11-22T10:00:03"),
        post("at_a_time", &with("2030-01-01T01:00:00.5+01:00").replace(r#""t""#, r#""text""#)),
        post("missing_title", r#"{"category":"news","content":"text"}"#).missing("title"),
        post("missing_category", r#"{"title":"Hi","content":"text"}"#).missing("category"),
        post("missing_content", r#"{"title":"Hi","category":"news"}"#).missing("content"),
        at("time_without_zone", "2030-01-01T00:00:00").invalid(TIME),
        post("time_as_number", r#"{"title":"Hi","category":"news","content":"t","published_at":1}"#)
            .invalid("published_at must be a string."),
        at("month_thirteen", "2026-13-01T00:00:00Z").invalid(TIME),
        at("leap_second_is_the_one_before_it", "2016-12-31T23:59:60Z")
            .like("at_a_time")
            .but("2030-01-01T00:00:00", "2016-12-31T23:59:59")
            .but("text\"", "t\""),
        at("before_1970", "0277-02-09T14:03:49Z").invalid(TIME),
    ]
}
