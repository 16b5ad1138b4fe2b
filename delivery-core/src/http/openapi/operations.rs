//! The OpenAPI operation of each endpoint: its description, parameters, request body and security.

use serde_json::Value;
use utoipa::openapi::path::{self, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{AnyOfBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ContentBuilder, HttpMethod, Ref, RefOr, Required, Schema};

use super::bodies::{FILE_NAME, LANGUAGE, LINE, UUID};
use crate::delivery::PlatformRow;
use crate::http::Endpoint;
use crate::http::parameter::{Kind, Parameter, Place};
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
    let place = match parameter.place {
        Place::Query => ParameterIn::Query,
        Place::Header => ParameterIn::Header,
        Place::Path => ParameterIn::Path,
    };
    let required = if parameter.is_required { Required::True } else { Required::False };
    sent_in(place, parameter.name, required, parameter.about, schema(parameter))
}

fn schema(parameter: &Parameter) -> RefOr<Schema> {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let line = || text().pattern(Some(LINE));
    let known = |format| Some(SchemaFormat::KnownFormat(format));
    let json = |text| serde_json::from_str::<Value>(text).unwrap();
    let plain = match parameter.kind {
        Kind::Text | Kind::Key => line(),
        Kind::Line(most) => line().max_length(Some(most)),
        Kind::OneOf(words) => line().enum_values(Some(words())),
        Kind::Number(most) => ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(most),
        Kind::Email => line().max_length(Some(254)).format(known(KnownFormat::Email)),
        Kind::KeyId => text().format(Some(SchemaFormat::Custom("uuid".to_owned()))).pattern(Some(UUID)),
        Kind::Language => text().max_length(Some(35)).pattern(Some(LANGUAGE)),
        Kind::Instant => {
            let text = |format| text().format(known(format));
            return AnyOfBuilder::new().item(text(KnownFormat::Date)).item(text(KnownFormat::DateTime)).into();
        }
        Kind::RequestId => text().min_length(Some(1)).max_length(Some(255)).pattern(Some("^[!-~]([ -~]*[!-~])?$")),
        Kind::FileName => text().pattern(Some(FILE_NAME)).max_length(Some(200)),
    };
    plain.default(parameter.default.map(json)).examples(parameter.example.map(json)).into()
}

/// Returns an optional request body of any content.
#[cfg(feature = "files")]
fn file() -> RequestBody {
    RequestBodyBuilder::new().required(Some(Required::False)).content("*/*", ContentBuilder::new().build()).build()
}

fn sent_in(
    place: ParameterIn,
    name: &str,
    required: Required,
    about: &str,
    schema: impl Into<RefOr<Schema>>,
) -> path::Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
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
