//! The OpenAPI responses of each endpoint. There is one response for each HTTP status. A response for an error status
//! lists the error codes that have this status.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::response::{Response, ResponseBuilder, Responses, ResponsesBuilder};
use utoipa::openapi::schema::{ComponentsBuilder, ObjectBuilder, Type};
use utoipa::openapi::{Content, ContentBuilder, Ref, RefOr};

use crate::error::ErrorCode;
use crate::http::Endpoint;
use crate::http::api::wire;
use crate::http::row::Handler;

/// Returns the responses of an endpoint. `success` is a reply of the sample service. `refusals` has an error reply for
/// each error code of the endpoint. The replies become the examples.
pub(super) fn of(endpoint: Endpoint, success: Value, refusals: &[(ErrorCode, Value)]) -> Responses {
    let mut by_status: BTreeMap<u16, Vec<&(ErrorCode, Value)>> = BTreeMap::new();
    for refusal in refusals {
        by_status.entry(refusal.0.status()).or_default().push(refusal);
    }
    let refused =
        by_status.into_iter().map(|(status, refusals)| (status.to_string(), refused(endpoint, status, &refusals)));
    let row = endpoint.row();
    if let Handler::File(_) = row.handler {
        return ResponsesBuilder::new().responses_from_iter(downloads(endpoint)).responses_from_iter(refused).build();
    }
    let content = match row.openapi.success {
        Some(shape) => ContentBuilder::new()
            .schema(Some(Ref::from_schema_name((shape.add)(&mut Vec::new()))))
            .example(Some(success))
            .build(),
        None => ContentBuilder::new()
            .schema(Some(ObjectBuilder::new().description(Some("An OpenAPI document."))))
            .example(Some(json!({ "openapi": "3.1.0" })))
            .build(),
    };
    let good = ResponseBuilder::new().description("Success.");
    let good = if let Handler::SignedWebhook(_) = row.handler { good } else { limited(endpoint, good) };
    let mut good = good.content("application/json", content);
    if row.openapi.has_csv {
        let table = ObjectBuilder::new().schema_type(Type::String);
        good = good.content("text/csv", ContentBuilder::new().schema(Some(table)).build());
    }
    ResponsesBuilder::new().response("200", good).responses_from_iter(refused).build()
}

/// The statuses of a download, and what each means. None of them has a JSON body.
const DOWNLOADS: [(u16, &str); 6] = [
    (200, "The file."),
    (206, "The part of the file for which `Range` asks."),
    (302, "The file is at another address, which is valid for five minutes."),
    (304, "The client has the file already: `If-None-Match` names it."),
    (412, "The file is not the one that `If-Match` names."),
    (416, "The file has no such part."),
];

fn downloads(endpoint: Endpoint) -> impl Iterator<Item = (String, Response)> {
    DOWNLOADS.into_iter().map(move |(status, means)| {
        let response = limited(endpoint, ResponseBuilder::new().description(means));
        let response = match status {
            200 | 206 => response.content("*/*", ContentBuilder::new().build()),
            _ => response,
        };
        (status.to_string(), response.build())
    })
}

fn refused(endpoint: Endpoint, status: u16, refusals: &[&(ErrorCode, Value)]) -> Response {
    let sentences: Vec<&str> = refusals.iter().map(|(code, _)| code.message()).collect();
    let content = failure(endpoint, status, refusals);
    let response = ResponseBuilder::new().description(sentences.join(" ")).content("application/json", content);
    let handler = &endpoint.row().handler;
    let response = match status {
        401 if !matches!(handler, Handler::SharedSecret(_) | Handler::SignedWebhook(_)) => {
            response.header_ref("WWW-Authenticate", header("WWW-Authenticate"))
        }
        405 => response.header_ref("Allow", header("Allow")),
        429 | 503 => response.header_ref("Retry-After", header("Retry-After")),
        _ => response,
    };
    let is_counted = match (status, handler) {
        // These two requests are refused before they are counted: one with a wrong method, and one with invalid
        // parameters for `/api/product`, whose rate limit is per key.
        (405, _) | (400, Handler::Product(_)) => false,
        // At the platforms' endpoints, only requests without a valid signature are counted. The error responses to them
        // are 401 and 429.
        (_, Handler::SignedWebhook(_)) => matches!(status, 401 | 429),
        _ => true,
    };
    if is_counted { limited(endpoint, response).build() } else { response.build() }
}

/// Returns the content of an error response, with an example for each error code. All errors share one schema, so that
/// client generators create a single type. The only exception is the reply of `/api/validate` to a known key that is
/// not valid. The schema of this reply also has the status of the key.
fn failure(endpoint: Endpoint, status: u16, refusals: &[&(ErrorCode, Value)]) -> Content {
    let schema = match (&endpoint.row().handler, status) {
        (Handler::Key(_), 403) => "RefusedKey",
        _ => "Error",
    };
    let examples = refusals.iter().map(|(code, answer)| {
        let named: RefOr<Example> = if *answer == plain(*code) {
            RefOr::Ref(Ref::new(format!("#/components/examples/{code}")))
        } else {
            RefOr::T(example(*code, answer))
        };
        (code.as_str(), named)
    });
    ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).examples_from_iter(examples).build()
}

/// Adds the rate-limit headers to a response if the endpoint has a rate limit.
fn limited(endpoint: Endpoint, response: ResponseBuilder) -> ResponseBuilder {
    if !endpoint.codes().contains(&ErrorCode::RateLimited) {
        return response;
    }
    let names = ["RateLimit-Policy", "RateLimit"];
    names.into_iter().fold(response, |response, name| response.header_ref(name, header(name)))
}

fn header(name: &str) -> Ref {
    Ref::new(format!("#/components/headers/{name}"))
}

/// Adds the components that several responses share: the header fields, and an example for each error code.
pub(super) fn shared(components: ComponentsBuilder) -> ComponentsBuilder {
    let components = ErrorCode::ALL
        .into_iter()
        .fold(components, |components, code| components.example(code.as_str(), example(code, &plain(code))));
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let seconds = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    [
        ("Allow", text(), "The methods that the endpoint accepts."),
        (
            "RateLimit",
            text(),
            "What is left of the rate limit: `\"name\";r=requests;t=seconds`. `r` is the number of requests that are \
             left. `t` is the number of seconds until the oldest request is no longer counted.",
        ),
        (
            "RateLimit-Policy",
            text(),
            "The rate limit that counts this request: `\"name\";q=requests;w=seconds`. It allows `q` requests in any \
             `w` seconds.",
        ),
        (
            "Retry-After",
            seconds(),
            "The number of seconds to wait before the next try. After a 429, the same request then fits the limit.",
        ),
        ("WWW-Authenticate", text(), "The authentication scheme, which is `Bearer`."),
    ]
    .into_iter()
    .fold(components, |components, (name, schema, description)| {
        components.header(name, HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build())
    })
}

/// Returns the standard body for an error code.
pub(super) fn plain(code: ErrorCode) -> Value {
    serde_json::to_value(wire::Error::new(code, code.message())).unwrap()
}

fn example(code: ErrorCode, answer: &Value) -> Example {
    ExampleBuilder::new().summary(code.message()).value(Some(answer.clone())).build()
}
