//! What each endpoint is for, and what it takes.

use serde_json::json;
use utoipa::openapi::path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ContentBuilder, HttpMethod, Ref, Required};

use super::bodies::LINE;
use super::document::{ADMIN, KEY_AS_HEADER, KEY_AS_TOKEN};
use crate::http::Endpoint;

pub(super) fn method(endpoint: Endpoint) -> HttpMethod {
    if endpoint.method() == http::Method::GET { HttpMethod::Get } else { HttpMethod::Post }
}

/// An operation without its answers.
pub(super) fn of(endpoint: Endpoint) -> OperationBuilder {
    let (tag, id, summary, description) = words(endpoint);
    let mut operation = OperationBuilder::new()
        .tag(tag)
        .operation_id(Some(id))
        .summary(Some(summary))
        .description(Some(description))
        .request_body(body(endpoint));
    for parameter in parameters(endpoint) {
        operation = operation.parameter(parameter);
    }
    let with = |scheme| SecurityRequirement::new(scheme, [""; 0]);
    match tag {
        "seller" => operation.security(with(ADMIN)),
        // Or in the query, as a parameter.
        "buyer" => {
            operation.securities(Some([SecurityRequirement::default(), with(KEY_AS_TOKEN), with(KEY_AS_HEADER)]))
        }
        _ => operation,
    }
}

fn words(endpoint: Endpoint) -> (&'static str, &'static str, &'static str, &'static str) {
    match endpoint {
        Endpoint::Validate => (
            "buyer",
            "validate",
            "Is a key still good?",
            "Never counts as a use. The key comes as `Authorization: Bearer`, as `X-API-Key`, or in the query: prefer a header, \
             for addresses end in logs.",
        ),
        Endpoint::Product => (
            "buyer",
            "fetchProduct",
            "Fetch a product with a key",
            "A 200 counts as one use, and nothing else does. The key comes as `Authorization: Bearer`, as `X-API-Key`, or in \
             the query: prefer a header, for addresses end in logs.",
        ),
        Endpoint::Order => (
            "platform",
            "order",
            "A paid order",
            "Issues one key and sends it to the buyer. The same order and product, however often it is sent, is answered \
             with the same key and sends nothing again.",
        ),
        Endpoint::Products => ("public", "listProducts", "The products", "All of them, without what keys unlock."),
        Endpoint::Posts => ("public", "listPosts", "The posts", "Those that are published by now, newest first."),
        Endpoint::AddProduct => ("seller", "addProduct", "Add a product", "It can be sold from now on."),
        Endpoint::IssueKey => (
            "seller",
            "issueKey",
            "Issue a key by hand",
            "Each call is another key. It is sent to the buyer unless `send_email` is false.",
        ),
        Endpoint::AddPost => ("seller", "addPost", "Add a post", "It is listed from `published_at` on."),
        Endpoint::OpenApi => ("public", "describe", "This description", "OpenAPI 3.1, in JSON."),
    }
}

fn parameters(endpoint: Endpoint) -> Vec<Parameter> {
    let text = || ObjectBuilder::new().schema_type(Type::String).pattern(Some(LINE));
    let number = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    let key = || query("key", Required::False, "The key from the letter, unless a header has it.", text());
    match endpoint {
        Endpoint::Validate => vec![key()],
        Endpoint::Product => {
            let product = number().maximum(Some(i64::MAX)).examples([json!(1)]);
            vec![key(), query("product_id", Required::True, "Which product to fetch.", product)]
        }
        Endpoint::Posts => vec![
            query("category", Required::False, "Only posts of this category, exactly so.", text()),
            query(
                "limit",
                Required::False,
                "At most so many: 10 unless it says otherwise, and 100 where it says more.",
                number(),
            ),
        ],
        _ => Vec::new(),
    }
}

fn query(name: &str, required: Required, description: &str, schema: ObjectBuilder) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(required)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn body(endpoint: Endpoint) -> Option<RequestBody> {
    let schema = match endpoint {
        Endpoint::Order => "Order",
        Endpoint::AddProduct => "NewProduct",
        Endpoint::IssueKey => "NewKey",
        Endpoint::AddPost => "NewPost",
        _ => return None,
    };
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
    Some(RequestBodyBuilder::new().required(Some(Required::True)).content("application/json", content).build())
}
