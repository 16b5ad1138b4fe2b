//! What each endpoint is for, and what it takes.

use serde_json::json;
use utoipa::openapi::path::{self, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ContentBuilder, HttpMethod, Ref, Required};

use super::bodies::LINE;

use crate::http::Endpoint;
use crate::http::row::{Handler, Parameter, Words};

/// The names of the security schemes: the seller's token, and a buyer's key in two places.
pub(super) const ADMIN: &str = "admin";
pub(super) const KEY_AS_TOKEN: &str = "key";
pub(super) const KEY_AS_HEADER: &str = "keyHeader";

pub(super) fn method(endpoint: Endpoint) -> HttpMethod {
    if endpoint.method() == http::Method::GET { HttpMethod::Get } else { HttpMethod::Post }
}

/// An operation without its answers.
pub(super) fn of(endpoint: Endpoint) -> OperationBuilder {
    let Words { tag, id, summary, description, parameters, body, .. } = &endpoint.row().openapi;
    let mut operation = OperationBuilder::new()
        .tag(*tag)
        .operation_id(Some(*id))
        .summary(Some(*summary))
        .description(Some(*description))
        .request_body(body.map(request_body));
    for parameter in parameters.iter().copied().map(described) {
        operation = operation.parameter(parameter);
    }
    let with = |scheme| SecurityRequirement::new(scheme, [""; 0]);
    match endpoint.row().handler {
        Handler::Seller(_) => operation.security(with(ADMIN)),
        // Or in the query, as a parameter.
        Handler::Key(_) | Handler::Product(_) => {
            operation.securities(Some([SecurityRequirement::default(), with(KEY_AS_TOKEN), with(KEY_AS_HEADER)]))
        }
        Handler::Public(_) | Handler::Platform(_) => operation,
    }
}

fn described(parameter: Parameter) -> path::Parameter {
    let text = || ObjectBuilder::new().schema_type(Type::String).pattern(Some(LINE));
    let number = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    match parameter {
        Parameter::Key => query("key", Required::False, "The key from the e-mail, unless a header has it.", text()),
        Parameter::Product => {
            let product = number().maximum(Some(i64::MAX)).examples([json!(1)]);
            query("product_id", Required::True, "Which product to fetch.", product)
        }
        Parameter::Category => query("category", Required::False, "Only posts of this category, exactly so.", text()),
        Parameter::Limit => query(
            "limit",
            Required::False,
            "At most so many: 10 unless it says otherwise, and 100 where it says more.",
            number(),
        ),
    }
}

fn query(name: &str, required: Required, description: &str, schema: ObjectBuilder) -> path::Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(required)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn request_body(schema: &str) -> RequestBody {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
    RequestBodyBuilder::new().required(Some(Required::True)).content("application/json", content).build()
}
