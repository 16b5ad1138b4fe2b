//! The OpenAPI operation of each endpoint: its description, parameters, request body and security.

use serde_json::json;
use utoipa::openapi::path::{self, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{AnyOfBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ContentBuilder, HttpMethod, Ref, RefOr, Required, Schema};

use super::bodies::{FILE_NAME, LANGUAGE, LINE, UUID};
use crate::delivery::PLATFORMS;
use crate::http::Endpoint;
use crate::http::row::{Docs, Handler, Parameter};
use crate::ledger::{Action, EventOutcome, MessageKind};
use crate::mail::named;

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
    for parameter in parameters.iter().copied().map(described) {
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
    let row = PLATFORMS.iter().find(|row| row.path == path.path());
    // For a platform that the host application adds, nothing is added, because it is not known how the platform signs.
    row.iter().flat_map(|row| row.signed_by).fold(operation, |operation, (name, description)| {
        let text = ObjectBuilder::new().schema_type(Type::String);
        operation.parameter(match name.strip_prefix('?') {
            Some(name) => query(name, Required::True, description, text.min_length(Some(16))),
            None => ParameterBuilder::new()
                .name(*name)
                .parameter_in(ParameterIn::Header)
                .required(Required::True)
                .description(Some(*description))
                .schema(Some(text))
                .build(),
        })
    })
}

#[expect(clippy::too_many_lines, reason = "a row for each parameter")]
fn described(parameter: Parameter) -> path::Parameter {
    let text = || ObjectBuilder::new().schema_type(Type::String).pattern(Some(LINE));
    let number = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    match parameter {
        Parameter::Key => query("key", Required::False, "The key from the e-mail, unless a header has it.", text()),
        Parameter::Product => {
            let product = number().maximum(Some(i64::MAX)).examples([json!(1)]);
            query("product_id", Required::True, "Which product to fetch.", product)
        }
        Parameter::IdempotencyKey => ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(
                "A name for the request that nobody guesses, such as a UUID. Within 24 hours the next ten requests of this name \
                 with the same key are answered like the first and count nothing, so whoever gets no answer asks again: also \
                 if the key has expired or was used up meanwhile, but not if it was revoked. After that each counts. With the name \
                 of a request for another product: 400.",
            ))
            .schema(Some(
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .min_length(Some(1))
                    .max_length(Some(255))
                    .pattern(Some("^[!-~]([ -~]*[!-~])?$")),
            ))
            .build(),
        Parameter::Category => query("category", Required::False, "Only posts of this category, exactly so.", text()),
        Parameter::Limit => query(
            "limit",
            Required::False,
            "At most so many: 10 unless it says otherwise, and 100 where it says more.",
            number(),
        ),
        Parameter::Email => {
            let email = text().max_length(Some(254)).format(Some(SchemaFormat::KnownFormat(KnownFormat::Email)));
            query("email", Required::False, "Sent to this address, in any case of its letters.", email)
        }
        Parameter::OrderId => {
            query("order_id", Required::False, "Bought with this order.", text().max_length(Some(255)))
        }
        Parameter::Source => {
            let source = text().max_length(Some(64));
            query("source", Required::False, "Bought there: webhook, or the name of a platform.", source)
        }
        Parameter::OfProduct => {
            query("product_id", Required::False, "Of this product.", number().maximum(Some(i64::MAX)))
        }
        Parameter::Status => {
            let status = text().enum_values(Some(["valid", "expired", "exhausted", "revoked"]));
            query("status", Required::False, "With this status now.", status)
        }
        Parameter::Before => query("before", Required::False, "What `next` of the page before said.", text()),
        Parameter::PageSize => query(
            "limit",
            Required::False,
            "At most so many: 50 unless it says otherwise, and 100 where it says more.",
            number(),
        ),
        Parameter::Id => query("id", Required::True, "The id of the key.", uuid()),
        Parameter::State => {
            let state = text().enum_values(Some(["queued", "sent", "failed"]));
            query("state", Required::False, "In this state.", state)
        }
        Parameter::OfKey => query("key_id", Required::False, "Of this key.", uuid()),
        Parameter::Days => {
            let days = number().maximum(Some(365)).default(Some(json!(30)));
            query("days", Required::False, "How many days, today among them.", days)
        }
        Parameter::Outcome => {
            let outcomes = EventOutcome::ALL.iter().map(|outcome| outcome.as_str());
            query("outcome", Required::False, "That came to this.", text().enum_values(Some(outcomes)))
        }
        Parameter::EmailPrefix => {
            let begin = text().max_length(Some(254));
            query("email_prefix", Required::False, "Sent to an address that begins so, in any case of its letters.", begin)
        }
        Parameter::Platform => {
            query("platform", Required::False, "Of this platform.", text().max_length(Some(64)))
        }
        Parameter::Actor => {
            let about = "Made by this one: admin, the name of a token, platform:stripe, buyer or system.";
            query("actor", Required::False, about, text().max_length(Some(64)))
        }
        Parameter::Action => {
            let actions = Action::ALL.iter().map(|action| action.as_str());
            query("action", Required::False, "Of this kind.", text().enum_values(Some(actions)))
        }
        Parameter::Since => {
            query("since", Required::False, "From this time on, or from the beginning of this date in UTC.", instant())
        }
        Parameter::Until => {
            query("until", Required::False, "Before this time, or until the end of this date in UTC.", instant())
        }
        Parameter::EmailKind => {
            let kinds = text().enum_values(Some(named().map(MessageKind::as_str))).default(Some(json!("purchase")));
            query("kind", Required::False, "The kind of e-mail.", kinds)
        }
        Parameter::Language => {
            let about = "The language. Left out: that of the product, else the shop's. One without templates: English.";
            query("language", Required::False, about, text().max_length(Some(35)).pattern(Some(LANGUAGE)))
        }
        Parameter::What => {
            let what = text().enum_values(Some(["keys", "uses", "events", "inbox", "messages", "person"]));
            query("what", Required::True, "The list, or person.", what)
        }
        Parameter::Person => {
            let email = text().max_length(Some(254)).format(Some(SchemaFormat::KnownFormat(KnownFormat::Email)));
            query("customer_email", Required::False, "The person, for `what=person`.", email)
        }
        Parameter::RequiredProduct => {
            query("product_id", Required::True, "Which product.", number().maximum(Some(i64::MAX)))
        }
        Parameter::Name => query("name", Required::True, "The name of the file.", text().pattern(Some(FILE_NAME)).max_length(Some(200))),
        Parameter::Ticket => in_path("ticket", "What the address in the answer says.", text()),
        Parameter::FileName => in_path("name", "The name under which a client saves the file.", text()),
    }
}

/// A body of any bytes, or of none.
#[cfg(feature = "files")]
fn file() -> RequestBody {
    RequestBodyBuilder::new().required(Some(Required::False)).content("*/*", ContentBuilder::new().build()).build()
}

fn uuid() -> ObjectBuilder {
    let uuid = SchemaFormat::Custom("uuid".to_owned());
    ObjectBuilder::new().schema_type(Type::String).format(Some(uuid)).pattern(Some(UUID))
}

fn in_path(name: &str, description: &str, schema: ObjectBuilder) -> path::Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

/// A date, or a time in RFC 3339.
fn instant() -> AnyOfBuilder {
    let text = |format| ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(format)));
    AnyOfBuilder::new().item(text(KnownFormat::Date)).item(text(KnownFormat::DateTime))
}

fn query(name: &str, required: Required, description: &str, schema: impl Into<RefOr<Schema>>) -> path::Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(required)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn request_body(endpoint: Endpoint, schema: &str) -> RequestBody {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
    let body = RequestBodyBuilder::new().required(Some(Required::True)).content("application/json", content.clone());
    match endpoint {
        Endpoint::Platform(path) if path.name() == "gumroad" => {
            body.content("application/x-www-form-urlencoded", content).build()
        }
        _ => body.build(),
    }
}
