//! The seller's endpoints.

use crate::row::{Row, row};

const PRODUCT: &str = "POST /api/admin/product";
const ISSUE: &str = "POST /api/admin/issue-key";
const POST: &str = "POST /api/admin/post";

pub fn rows() -> Vec<Row> {
    [authentication(), products(), keys(), posts(), everywhere()].concat()
}

fn authentication() -> Vec<Row> {
    let good = r#"{"name":"x","content":"y"}"#;
    vec![
        row("admin::no_token", PRODUCT).json(good),
        row("admin::wrong_token", PRODUCT).json(good).header("authorization", "Bearer {ADMIN}x"),
        row("admin::another_scheme", PRODUCT).json(good).header("authorization", "Token {ADMIN}"),
        row("admin::tab_instead_of_space", PRODUCT).json(good).header("authorization", "Bearer\t{ADMIN}"),
        row("admin::two_tokens", PRODUCT).by_seller(good).header("authorization", "Bearer x"),
        row("admin::token_in_the_query", "POST /api/admin/product?access_token={ADMIN}").json(good),
        row("admin::a_buyers_key_is_no_token", PRODUCT).json(good).header("authorization", "Bearer {VALID}"),
        row("admin::type_comes_before_token", PRODUCT).body(good),
        row("admin::token_comes_before_fields", PRODUCT).json("{"),
        row("admin::wrong_method", "GET /api/admin/product").header("authorization", "Bearer {ADMIN}"),
        row("admin::limit_reached", PRODUCT).json(good).times(10),
        row("admin::limit_exceeded", PRODUCT).json(good).times(11),
    ]
}

fn products() -> Vec<Row> {
    vec![
        row("add_product::least", PRODUCT).by_seller(r#"{"name":"Song","content":"La"}"#),
        row("add_product::all_fields", PRODUCT).by_seller(
            r##"{"name":"Song","description":"A\nsong","content":"# La\r\n\tla","type":"audio","price":0.10,"expires_days":-1,"max_uses":3,"unknown":[]}"##,
        ),
        row("add_product::price_stays_exact", PRODUCT).by_seller(r#"{"name":"x","content":"y","price":999999999999999.9999}"#),
        row("add_product::names_on_platforms", PRODUCT).by_seller(
            r#"{"name":"x","content":"y","refs":{"stripe":["plink_1","plink_1"],"shopify":["BOOK-1","variant:39072856"]}}"#,
        ),
        row("add_product::a_name_that_another_product_has", PRODUCT)
            .by_seller(r#"{"name":"x","content":"y","refs":{"gumroad":["atlas","map"]}}"#),
        row("add_product::the_same_name_on_another_platform", PRODUCT)
            .by_seller(r#"{"name":"x","content":"y","refs":{"polar":["map"]}}"#),
        row("add_product::names_on_an_unknown_platform", PRODUCT)
            .by_seller(r#"{"name":"x","content":"y","refs":{"etsy":["map"]}}"#),
        row("add_product::names_that_are_no_list", PRODUCT)
            .by_seller(r#"{"name":"x","content":"y","refs":{"stripe":"plink_1"}}"#),
        row("add_product::a_platform_twice", PRODUCT)
            .by_seller(r#"{"name":"x","content":"y","refs":{"stripe":["a"],"stripe":["b"]}}"#),
        row("add_product::an_empty_name", PRODUCT).by_seller(r#"{"name":"x","content":"y","refs":{"stripe":[""]}}"#),
        row("add_product::missing_name", PRODUCT).by_seller(r#"{"content":"y"}"#),
        row("add_product::missing_content", PRODUCT).by_seller(r#"{"name":"x","content":""}"#),
        row("add_product::name_with_line_break", PRODUCT).by_seller(r#"{"name":"x\ny","content":"y"}"#),
        row("add_product::content_with_escape", PRODUCT).by_seller(r#"{"name":"x","content":"\u001b[31m"}"#),
        row("add_product::price_negative", PRODUCT).by_seller(r#"{"name":"x","content":"y","price":-1}"#),
        row("add_product::price_as_string", PRODUCT).by_seller(r#"{"name":"x","content":"y","price":"9.99"}"#),
        row("add_product::price_with_five_digits", PRODUCT).by_seller(r#"{"name":"x","content":"y","price":0.00001}"#),
        row("add_product::price_too_large", PRODUCT).by_seller(r#"{"name":"x","content":"y","price":1e15}"#),
        row("add_product::price_with_exponent", PRODUCT).by_seller(r#"{"name":"x","content":"y","price":1e2}"#),
        row("add_product::price_minus_zero", PRODUCT).by_seller(r#"{"name":"x","content":"y","price":-0.0}"#),
        row("add_product::price_that_no_float_holds", PRODUCT).by_seller(r#"{"name":"x","content":"y","price":1e999}"#),
        row("add_product::markup_is_text", PRODUCT).by_seller(r#"{"name":"<b onclick=x>{{7*7}}","content":"<script>"}"#),
        row("add_product::id_cannot_be_chosen", PRODUCT).by_seller(r#"{"id":1,"name":"x","content":"y"}"#),
        row("add_product::content_over_1_mib", PRODUCT)
            .by_seller(format!(r#"{{"name":"x","content":"{}"}}"#, "y".repeat((1 << 20) + 1))),
        row("add_product::body_over_2_mib", PRODUCT).by_seller(" ".repeat((2 << 20) + 1)),
        row("add_product::store_away", PRODUCT).by_seller(r#"{"name":"x","content":"y"}"#).store_away(),
    ]
}

fn keys() -> Vec<Row> {
    let key = |fields: &str| format!(r#"{{"product_id":1,"customer_email":"a@example.com"{fields}}}"#);
    vec![
        row("issue_key::default_terms", ISSUE).by_seller(key("")),
        row("issue_key::terms_of_the_product", ISSUE).by_seller(key("").replace(":1", ":2")),
        row("issue_key::own_terms", ISSUE).by_seller(key(r#","expires_days":30,"max_uses":5"#)),
        row("issue_key::for_ever_and_unlimited", ISSUE).by_seller(key(r#","expires_days":-1,"max_uses":-1"#)),
        row("issue_key::without_letter", ISSUE).by_seller(key(r#","send_email":false"#)),
        row("issue_key::send_email_is_no_boolean", ISSUE).by_seller(key(r#","send_email":"no""#)),
        row("issue_key::key_and_counts_cannot_be_chosen", ISSUE)
            .by_seller(key(r#","api_key":"chosen","used_count":-5"#)),
        row("issue_key::days_zero", ISSUE).by_seller(key(r#","expires_days":0"#)),
        row("issue_key::days_36501", ISSUE).by_seller(key(r#","expires_days":36501"#)),
        row("issue_key::days_as_float", ISSUE).by_seller(key(r#","expires_days":30.0"#)),
        row("issue_key::days_beyond_64_bits", ISSUE).by_seller(key(r#","expires_days":9223372036854775808"#)),
        row("issue_key::uses_minus_two", ISSUE).by_seller(key(r#","max_uses":-2"#)),
        row("issue_key::uses_as_text", ISSUE).by_seller(key(r#","max_uses":"5""#)),
        row("issue_key::null_terms_are_the_default", ISSUE).by_seller(key(r#","max_uses":null,"expires_days":null"#)),
        row("issue_key::uses_zero", ISSUE).by_seller(key(r#","max_uses":0"#)),
        row("issue_key::uses_2_to_the_31", ISSUE).by_seller(key(r#","max_uses":2147483648"#)),
        row("issue_key::missing_product", ISSUE).by_seller(r#"{"customer_email":"a@example.com"}"#),
        row("issue_key::missing_email", ISSUE).by_seller(r#"{"product_id":1}"#),
        row("issue_key::unknown_product", ISSUE).by_seller(key("").replace(":1", ":99")),
        row("issue_key::wrong_method", "PUT /api/admin/issue-key"),
    ]
}

fn posts() -> Vec<Row> {
    vec![
        row("add_post::now", POST).by_seller(r#"{"title":"Hi","category":"news","content":"text"}"#),
        row("add_post::at_a_time", POST).by_seller(
            r#"{"title":"Hi","category":"news","content":"text","published_at":"2030-01-01T01:00:00.5+01:00"}"#,
        ),
        row("add_post::missing_title", POST).by_seller(r#"{"category":"news","content":"text"}"#),
        row("add_post::missing_category", POST).by_seller(r#"{"title":"Hi","content":"text"}"#),
        row("add_post::missing_content", POST).by_seller(r#"{"title":"Hi","category":"news"}"#),
        row("add_post::time_without_zone", POST)
            .by_seller(r#"{"title":"Hi","category":"news","content":"text","published_at":"2030-01-01T00:00:00"}"#),
        row("add_post::time_as_number", POST)
            .by_seller(r#"{"title":"Hi","category":"news","content":"t","published_at":1}"#),
        row("add_post::month_thirteen", POST)
            .by_seller(r#"{"title":"Hi","category":"news","content":"t","published_at":"2026-13-01T00:00:00Z"}"#),
        row("add_post::leap_second_is_the_one_before_it", POST)
            .by_seller(r#"{"title":"Hi","category":"news","content":"t","published_at":"2016-12-31T23:59:60Z"}"#),
        row("add_post::before_1970", POST)
            .by_seller(r#"{"title":"Hi","category":"news","content":"t","published_at":"0277-02-09T14:03:49Z"}"#),
        row("add_post::wrong_method", "GET /api/admin/post"),
    ]
}

/// What is the same at the seller's other endpoints: limits, size, type, token, faults.
fn everywhere() -> Vec<Row> {
    let key = r#"{"product_id":1,"customer_email":"a@example.com"}"#;
    let post = r#"{"title":"Hi","category":"news","content":"text"}"#;
    vec![
        row("add_product::store_corrupt", PRODUCT).by_seller(r#"{"name":"x","content":"y"}"#).store_corrupt(),
        row("add_product::managed_elsewhere", PRODUCT).by_seller(r#"{"name":"x","content":"y"}"#).catalog_elsewhere(),
        row("issue_key::no_token", ISSUE).json(key),
        row("issue_key::form_instead_of_json", ISSUE).body(key).header("content-type", "text/plain"),
        row("issue_key::body_over_2_mib", ISSUE).by_seller(" ".repeat((2 << 20) + 1)),
        row("issue_key::limit_exceeded", ISSUE).by_seller("{}").times(11),
        row("issue_key::store_away", ISSUE).by_seller(key).store_away(),
        row("issue_key::store_corrupt", ISSUE).by_seller(key).store_corrupt(),
        row("add_post::managed_elsewhere", POST).by_seller(post).catalog_elsewhere(),
        row("add_post::no_token", POST).json(post),
        row("add_post::form_instead_of_json", POST).body(post).header("content-type", "text/plain"),
        row("add_post::body_over_2_mib", POST).by_seller(" ".repeat((2 << 20) + 1)),
        row("add_post::limit_exceeded", POST).by_seller("{}").times(11),
        row("add_post::store_away", POST).by_seller(post).store_away(),
        row("add_post::store_corrupt", POST).by_seller(post).store_corrupt(),
    ]
}
