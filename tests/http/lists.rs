//! The public lists, and the description of the API.

use crate::row::{Row, query, row};

const NO_POSTS: &str = r#"{"posts":[]}"#;

pub fn rows() -> Vec<Row> {
    let posts = query("posts", "/api/posts");
    vec![
        row("products::all_by_id_without_content", "GET /api/products"),
        row("products::unknown_parameters_are_ignored", "GET /api/products?limit=0").like("all_by_id_without_content"),
        row("products::head", "HEAD /api/products"),
        posts("newest_first", ""),
        posts("of_a_category", "?category=news"),
        posts("category_is_compared_exactly", "?category=News").gives(NO_POSTS),
        posts("category_is_no_pattern", "?category=%25").gives(NO_POSTS),
        posts(
            "category_too_long_to_exist",
            "?category=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        )
        .gives(NO_POSTS),
        posts("category_with_nul", "?category=a%00").invalid("category must be UTF-8 without control characters."),
        posts("limit", "?limit=1"),
        posts("limit_above_100_is_100", "?limit=9223372036854775808").like("newest_first"),
        posts("empty_parameters_are_missing", "?limit=&category=").like("newest_first"),
        posts("limit_zero", "?limit=0").invalid("limit must be an integer of 1 or more."),
        posts("limit_negative", "?limit=-1").invalid("limit must be an integer of 1 or more."),
        posts("limit_is_no_number", "?limit=ten").invalid("limit must be an integer."),
        posts("limit_with_exponent", "?limit=1e1").invalid("limit must be an integer."),
        posts("limit_in_other_digits", "?limit=%D9%A1").invalid("limit must be an integer."),
        posts("category_that_is_sql", "?category=news%27%20OR%201=1--").gives(NO_POSTS),
        posts("limit_twice", "?limit=1&limit=2").invalid("limit must come once."),
        row("description::length", "HEAD /api/openapi.json"),
        row("description::unknown_parameters_are_ignored", "HEAD /api/openapi.json?key={VALID}").like("length"),
        row("description::wrong_method", "POST /api/openapi.json").refused("METHOD_NOT_ALLOWED"),
        row("description::needs_no_store", "HEAD /api/openapi.json").store_away().like("length"),
    ]
}
