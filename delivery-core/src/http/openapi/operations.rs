//! The OpenAPI operation of each endpoint: its description, parameters, request body and security.

use serde_json::Value;
use utoipa::openapi::path::{self, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{AnyOfBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ContentBuilder, HttpMethod, Ref, RefOr, Required, Schema};

use super::bodies::{LINE, of_kind};
use crate::delivery::PlatformRow;
use crate::http::Endpoint;
use crate::http::describe::Kind;
use crate::http::parameter::{Location, Parameter};
use crate::http::row::{Docs, Handler};

/// The names of the security schemes in the document. `ADMIN` is the seller's token. The other two are a buyer's key,
/// as a bearer token or in `X-API-Key`.
pub(super) const ADMIN: &str = "admin";
pub(super) const KEY_AS_TOKEN: &str = "key";
pub(super) const KEY_AS_HEADER: &str = "keyHeader";

pub(super) fn method(endpoint: Endpoint) -> HttpMethod {
    match endpoint.method() {
        http::Method::GET => HttpMethod::Get,
        http::Method::PUT => HttpMethod::Put,
        _ => HttpMethod::Post,
    }
}

/// Returns the operation of an endpoint, without its responses.
pub(super) fn of(endpoint: Endpoint) -> OperationBuilder {
    let Docs { tag, id, summary, description, parameters, body, .. } = &endpoint.row().openapi;
    let mut operation = OperationBuilder::new()
        .tag(*tag)
        .operation_id(Some(*id))
        .summary(Some(*summary))
        .description(Some(*description))
        .request_body(body.map(|body| request_body(endpoint, body.name)));
    for parameter in parameters.iter().map(described) {
        operation = operation.parameter(parameter);
    }
    let with = |scheme| SecurityRequirement::new(scheme, [""; 0]);
    match endpoint.row().handler {
        Handler::Seller(_) | Handler::SellerQuery(_) => operation.security(with(ADMIN)),
        #[cfg(feature = "files")]
        Handler::Upload(_) => operation.request_body(Some(file())).security(with(ADMIN)),
        #[cfg(feature = "files")]
        Handler::File(_) => operation,
        // The empty requirement allows a call without either header, because the key can also be in the query. The key
        // in the query is described as a parameter.
        Handler::Key(_) | Handler::Product(_) => {
            operation.securities(Some([SecurityRequirement::default(), with(KEY_AS_TOKEN), with(KEY_AS_HEADER)]))
        }
        Handler::SignedWebhook(_) => signed(operation, endpoint),
        Handler::Public(_) | Handler::PublicPost(..) | Handler::SharedSecret(_) => operation,
        #[cfg(feature = "pages")]
        Handler::Page(_) => operation,
    }
}

/// Adds the header fields or the query parameter by which a platform authenticates its requests.
fn signed(operation: OperationBuilder, endpoint: Endpoint) -> OperationBuilder {
    let Endpoint::Platform(path) = endpoint else { return operation };
    let operation = operation.operation_id(Some(format!("{}Event", path.name())));
    let row = PlatformRow::named(path.name());
    // For a platform that the host application adds, nothing is added, because it is not known how the platform signs.
    row.iter().flat_map(|row| row.signed_by).fold(operation, |operation, (name, description)| {
        let text = ObjectBuilder::new().schema_type(Type::String);
        operation.parameter(match name.strip_prefix('?') {
            Some(name) => sent_in(ParameterIn::Query, name, Required::True, description, text.min_length(Some(16))),
            None => sent_in(ParameterIn::Header, name, Required::True, description, text),
        })
    })
}

fn described(parameter: &Parameter) -> path::Parameter {
    let location = match parameter.location {
        Location::Query => ParameterIn::Query,
        Location::Header => ParameterIn::Header,
        Location::Path => ParameterIn::Path,
    };
    let required = if parameter.is_required { Required::True } else { Required::False };
    sent_in(location, parameter.name, required, parameter.about, schema(parameter))
}

fn schema(parameter: &Parameter) -> RefOr<Schema> {
    let plain = || of_kind(parameter.kind, false, None);
    let schema = match parameter.kind {
        Kind::Instant => {
            let date = plain().format(Some(SchemaFormat::KnownFormat(KnownFormat::Date)));
            return AnyOfBuilder::new().item(date).item(plain()).into();
        }
        Kind::Email => plain().pattern(Some(LINE)),
        _ => plain(),
    };
    let example = parameter.example.map(|json| serde_json::from_str::<Value>(json).unwrap());
    schema.default(parameter.default.map(|default| default())).examples(example).into()
}

/// Returns an optional request body of any content.
#[cfg(feature = "files")]
fn file() -> RequestBody {
    RequestBodyBuilder::new().required(Some(Required::False)).content("*/*", ContentBuilder::new().build()).build()
}

fn sent_in(
    location: ParameterIn,
    name: &str,
    required: Required,
    about: &str,
    schema: impl Into<RefOr<Schema>>,
) -> path::Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(location)
        .required(required)
        .description(Some(about))
        .schema(Some(schema))
        .build()
}

fn request_body(endpoint: Endpoint, schema: &str) -> RequestBody {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
    let body = RequestBodyBuilder::new().required(Some(Required::True)).content("application/json", content.clone());
    match endpoint {
        Endpoint::Platform(path) if PlatformRow::named(path.name()).is_some_and(|row| row.takes_form) => {
            body.content("application/x-www-form-urlencoded", content).build()
        }
        _ => body.build(),
    }
}
