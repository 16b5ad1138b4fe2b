//! The public lists, and the description of the API.

use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row("products::all_by_id_without_content", "GET /api/products"),
        row("products::unknown_parameters_are_ignored", "GET /api/products?limit=0"),
        row("products::head", "HEAD /api/products"),
        row("products::wrong_method", "POST /api/products"),
        row("products::store_away", "GET /api/products").store_away(),
        row("products::store_corrupt", "GET /api/products").store_corrupt(),
        row("posts::newest_first", "GET /api/posts"),
        row("posts::of_a_category", "GET /api/posts?category=news"),
        row("posts::category_is_compared_exactly", "GET /api/posts?category=News"),
        row("posts::category_is_no_pattern", "GET /api/posts?category=%25"),
        row(
            "posts::category_too_long_to_exist",
            "GET /api/posts?category=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ),
        row("posts::category_with_nul", "GET /api/posts?category=a%00"),
        row("posts::limit", "GET /api/posts?limit=1"),
        row("posts::limit_above_100_is_100", "GET /api/posts?limit=9223372036854775808"),
        row("posts::empty_parameters_are_missing", "GET /api/posts?limit=&category="),
        row("posts::limit_zero", "GET /api/posts?limit=0"),
        row("posts::limit_negative", "GET /api/posts?limit=-1"),
        row("posts::limit_is_no_number", "GET /api/posts?limit=ten"),
        row("posts::limit_with_exponent", "GET /api/posts?limit=1e1"),
        row("posts::limit_in_other_digits", "GET /api/posts?limit=%D9%A1"),
        row("posts::category_that_is_sql", "GET /api/posts?category=news%27%20OR%201=1--"),
        row("posts::limit_twice", "GET /api/posts?limit=1&limit=2"),
        row("posts::wrong_method", "DELETE /api/posts"),
        row("posts::store_away", "GET /api/posts").store_away(),
        row("posts::store_corrupt", "GET /api/posts").store_corrupt(),
        row("description::length", "HEAD /api/openapi.json"),
        row("description::unknown_parameters_are_ignored", "HEAD /api/openapi.json?key={VALID}"),
        row("description::wrong_method", "POST /api/openapi.json"),
        row("description::needs_no_store", "HEAD /api/openapi.json").store_away(),
    ]
}
