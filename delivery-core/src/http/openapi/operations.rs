//! The OpenAPI operation of each endpoint: its description, parameters, request body and security.

use serde_json::json;
use utoipa::openapi::path::{self, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{AnyOfBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ContentBuilder, HttpMethod, Ref, RefOr, Required, Schema};

use super::bodies::{FILE_NAME, LANGUAGE, LINE, UUID};
use crate::delivery::PlatformRow;
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
    let row = PlatformRow::named(path.name());
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
        Parameter::Key => {
            let about = "The key from the e-mail. Leave it out if you send the key in a header.";
            query("key", Required::False, about, text())
        }
        Parameter::Product => {
            let product = number().maximum(Some(i64::MAX)).examples([json!(1)]);
            query("product_id", Required::True, "The id of the product to fetch.", product)
        }
        Parameter::IdempotencyKey => ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(
                "A value of your choice that identifies the request and that nobody can guess, such as a UUID. If you \
                 get no answer, repeat the request with the same value. Within 24 hours after the first request, ten \
                 repetitions with the same key are answered like the first request and count no use, even if the key \
                 has expired or was used up since. Every further repetition counts as a use. If the key was revoked \
                 since, a repetition is refused. If the value was first used for another product, the answer is 400.",
            ))
            .schema(Some(
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .min_length(Some(1))
                    .max_length(Some(255))
                    .pattern(Some("^[!-~]([ -~]*[!-~])?$")),
            ))
            .build(),
        Parameter::Category => query("category", Required::False, "Only posts of exactly this category.", text()),
        Parameter::Limit => query(
            "limit",
            Required::False,
            "The maximum number of posts, at least 1. The default is 10. A number above 100 counts as 100.",
            number(),
        ),
        Parameter::Email => {
            let email = text().max_length(Some(254)).format(Some(SchemaFormat::KnownFormat(KnownFormat::Email)));
            query("email", Required::False, "Only keys of this e-mail address. Case is ignored.", email)
        }
        Parameter::OrderId => {
            let about = "Only keys that were bought with this order.";
            query("order_id", Required::False, about, text().max_length(Some(255)))
        }
        Parameter::Source => {
            let source = text().max_length(Some(64));
            let about = "Only keys from this source: `webhook`, or the name of a platform such as `stripe`.";
            query("source", Required::False, about, source)
        }
        Parameter::OfProduct => {
            query("product_id", Required::False, "Only keys for this product.", number().maximum(Some(i64::MAX)))
        }
        Parameter::Status => {
            let status = text().enum_values(Some(["valid", "expired", "exhausted", "revoked"]));
            query("status", Required::False, "Only keys that have this status now.", status)
        }
        Parameter::Before => {
            query("before", Required::False, "The value of `next` in the answer with the previous page.", text())
        }
        Parameter::PageSize => query(
            "limit",
            Required::False,
            "The maximum number of items, at least 1. The default is 50. A number above 100 counts as 100.",
            number(),
        ),
        Parameter::Id => query("id", Required::True, "The id of the key.", uuid()),
        Parameter::State => {
            let state = text().enum_values(Some(["queued", "sent", "failed"]));
            query("state", Required::False, "Only messages in this state.", state)
        }
        Parameter::OfKey => {
            query("key_id", Required::False, "Only messages or audit entries about the key with this id.", uuid())
        }
        Parameter::Days => {
            let days = number().maximum(Some(365)).default(Some(json!(30)));
            query("days", Required::False, "The number of days, including today.", days)
        }
        Parameter::Outcome => {
            let outcomes = EventOutcome::ALL.iter().map(|outcome| outcome.as_str());
            query("outcome", Required::False, "Only events with this outcome.", text().enum_values(Some(outcomes)))
        }
        Parameter::EmailPrefix => {
            let begin = text().max_length(Some(254));
            let about = "Only keys whose e-mail address begins with this text. Case is ignored.";
            query("email_prefix", Required::False, about, begin)
        }
        Parameter::Platform => {
            let about = "Only events of this platform, such as `stripe`.";
            query("platform", Required::False, about, text().max_length(Some(64)))
        }
        Parameter::Actor => {
            let about = "Only changes by this actor: `admin`, the name of an admin token, a name that the host \
                application chose, a platform such as `platform:stripe`, `buyer` or `system`.";
            query("actor", Required::False, about, text().max_length(Some(64)))
        }
        Parameter::Action => {
            let actions = Action::ALL.iter().map(|action| action.as_str());
            query("action", Required::False, "Only changes of this kind.", text().enum_values(Some(actions)))
        }
        Parameter::Since => {
            let about = "Only items from this time on. A date stands for the beginning of the day, in UTC.";
            query("since", Required::False, about, instant())
        }
        Parameter::Until => {
            let about = "Only items before this time. A date stands for the end of the day, in UTC.";
            query("until", Required::False, about, instant())
        }
        Parameter::EmailKind => {
            let kinds = text().enum_values(Some(named().map(MessageKind::as_str))).default(Some(json!("purchase")));
            query("kind", Required::False, "The kind of e-mail.", kinds)
        }
        Parameter::Language => {
            let about = "The language of the e-mail, such as `en` or `pt-BR`. If left out, it is the language of the \
                product or, if the product has none, that of the shop. If there are no templates in `pt-BR`, those \
                in `pt` are used, then those in the language of the shop, then the English ones.";
            query("language", Required::False, about, text().max_length(Some(35)).pattern(Some(LANGUAGE)))
        }
        Parameter::What => {
            let what = text().enum_values(Some(["keys", "uses", "events", "inbox", "messages", "person"]));
            query("what", Required::True, "The list to export, or `person` for the data about one person.", what)
        }
        Parameter::Person => {
            let email = text().max_length(Some(254)).format(Some(SchemaFormat::KnownFormat(KnownFormat::Email)));
            let about = "The e-mail address of the person. Required if `what` is `person`.";
            query("customer_email", Required::False, about, email)
        }
        Parameter::RequiredProduct => {
            query("product_id", Required::True, "The id of the product.", number().maximum(Some(i64::MAX)))
        }
        Parameter::Name => query(
            "name",
            Required::True,
            "The name of the file.",
            text().pattern(Some(FILE_NAME)).max_length(Some(200)),
        ),
        Parameter::Ticket => {
            let about = "The ticket in the `url` of the file, from the answer to `GET /api/product`.";
            in_path("ticket", about, text())
        }
        Parameter::FileName => in_path("name", "The name under which a client saves the file.", text()),
    }
}

/// Returns an optional request body of any content.
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
        Endpoint::Platform(path) if PlatformRow::named(path.name()).is_some_and(|row| row.takes_form) => {
            body.content("application/x-www-form-urlencoded", content).build()
        }
        _ => body.build(),
    }
}
