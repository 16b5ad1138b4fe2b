//! Assembling the OpenAPI document.

use utoipa::openapi::schema::{Components, ComponentsBuilder};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{Info, InfoBuilder, License, OpenApi, OpenApiBuilder, PathItem, PathsBuilder, Server, Tag};

use super::operations::{ADMIN, KEY_AS_HEADER, KEY_AS_TOKEN};
use super::{bodies, operations, responses, sample};
use crate::http::Endpoint;
use crate::http::api::wire;
use crate::http::describe::shape;

async fn document() -> OpenApi {
    let mut paths = PathsBuilder::new();
    for endpoint in Endpoint::all() {
        let success = sample::success(endpoint).await;
        let responses = responses::of(endpoint, success, &sample::refusals(endpoint).await);
        let operation = operations::of(endpoint).responses(responses);
        paths = paths.path(endpoint.path(), PathItem::new(operations::method(endpoint), operation));
    }
    OpenApiBuilder::new()
        .info(info())
        .servers(Some([Server::new("..")]))
        .tags(Some(tags()))
        .paths(paths)
        .components(Some(components()))
        .build()
}

fn info() -> Info {
    let mut license = License::new("MIT OR Apache-2.0");
    license.identifier = Some("MIT OR Apache-2.0".to_owned());
    InfoBuilder::new()
        .title("Delivery")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Issues one API key for each purchase, and serves the product that the key unlocks.\n\nUnless an operation \
             says otherwise, bodies are JSON, and an empty parameter or a JSON `null` counts as missing. Unknown \
             parameters and fields are ignored. HEAD is answered like GET, without the body, and never counts as a \
             use.",
        ))
        .license(Some(license))
        .build()
}

fn tags() -> [Tag; 4] {
    [
        ("buyer", "Endpoints for buyers and their programs. Checking a key and fetching a product need the key."),
        ("platform", "Endpoints that commerce platforms call."),
        ("public", "Endpoints that anybody may call, without credentials."),
        ("seller", "Endpoints for the seller, with the admin token."),
    ]
    .map(|(name, description)| TagBuilder::new().name(name).description(Some(description)).build())
}

fn components() -> Components {
    let bearer = |meant| {
        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(meant)).build())
    };
    let header = ApiKeyValue::with_description("X-API-Key", "The key from the e-mail.");
    let rows = || Endpoint::all().map(|endpoint| &endpoint.row().openapi);
    let mut schemas = Vec::new();
    let shared = [shape!(wire::Error<'_>), shape!(wire::RefusedKey<'_>), shape!(wire::key::Status)];
    for shape in shared.into_iter().chain(rows().map(|docs| docs.success)).flatten() {
        (shape.add)(&mut schemas);
    }
    let bodies = rows().filter_map(|docs| docs.body.as_ref()).map(|body| (body.name, bodies::schema(body)));
    responses::shared(ComponentsBuilder::new())
        .schemas_from_iter(schemas)
        .schemas_from_iter(bodies)
        .security_scheme(ADMIN, bearer("The seller's admin token."))
        .security_scheme(KEY_AS_TOKEN, bearer("The key from the e-mail."))
        .security_scheme(KEY_AS_HEADER, SecurityScheme::ApiKey(ApiKey::Header(header)))
        .build()
}

/// Formats the document with one value per line, so that a diff of two versions shows each change on a line of its own.
fn written(document: &OpenApi) -> String {
    serde_json::to_string_pretty(&serde_json::to_value(document).unwrap()).unwrap() + "\n"
}

#[tokio::test]
async fn the_committed_document_is_the_one_that_types_and_tables_make() {
    let made = written(&document().await);
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/openapi/openapi.json");
        std::fs::write(file, &made).unwrap();
        return;
    }
    assert!(
        made == super::OPENAPI,
        "the API has changed: UPDATE_OPENAPI=1 cargo test -p delivery-core --all-features openapi"
    );
}
