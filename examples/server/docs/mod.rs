//! The API reference as a page, where endpoints can be tried. It is rendered from the OpenAPI document, and loads nothing from
//! elsewhere. It is a page of our own, because those that are known fail accessibility checks: Swagger UI 5.32 those for contrast,
//! for nested buttons and for the names of fields.

use std::sync::{LazyLock, OnceLock};

use data_encoding::BASE64;
use delivery_core::http::OPENAPI;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, HtmlEscape, context};
use sha2::{Digest, Sha256};

/// Where the page is.
pub const PATH: &str = "/docs";
/// What it is served as.
pub const TYPE: &str = "text/html; charset=utf-8";
/// Finds endpoints, and sends requests to them.
const SCRIPT: &str = include_str!("page.js");

/// No script but the page's own, and nothing from anywhere.
#[must_use]
pub fn policy() -> &'static str {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let digest = BASE64.encode(&Sha256::digest(SCRIPT));
        format!(
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
    });
    &POLICY
}

/// The page, as HTML. None if it cannot be made, which a test would have shown.
pub fn page() -> Option<&'static str> {
    static PAGE: OnceLock<Option<String>> = OnceLock::new();
    PAGE.get_or_init(|| {
        render().inspect_err(|error| tracing::error!(%error, "the page of the API cannot be made")).ok()
    })
    .as_deref()
}

fn render() -> Result<String, Error> {
    let api: serde_json::Value = serde_json::from_str(OPENAPI).unwrap_or_default();
    let api = Value::from(Serde(api));
    let mut environment = Environment::new();
    environment.add_filter("fields", fields);
    environment.add_filter("kind", kind);
    environment.add_filter("prose", prose);
    environment.add_filter("shown", shown);
    environment.add_function("at", {
        let api = api.clone();
        move |reference: Value| at(&api, reference)
    });
    environment.add_template("page.html", include_str!("page.html"))?;
    environment.get_template("page.html")?.render(context! { api, script => SCRIPT })
}

/// What a schema is of: its type, or the first of several.
fn kind(schema: &Value) -> Result<String, Error> {
    let first = |several: Value| several.get_item_by_index(0);
    let kind = schema.get_attr("type")?;
    match kind.as_str() {
        Some(kind) => Ok(kind.to_owned()),
        None if kind.is_undefined() => self::kind(&first(schema.get_attr("anyOf")?)?),
        None => Ok(first(kind)?.to_string()),
    }
}

/// The header fields of an example of an operation, by name and value.
fn fields(operation: &Value) -> Result<Vec<(String, String)>, Error> {
    let proofs = operation.get_attr("security")?.to_string();
    let proof = match () {
        () if proofs.contains("admin") => Some(("Authorization", "Bearer $ADMIN_TOKEN")),
        () if proofs.contains("keyHeader") => Some(("X-API-Key", "$KEY")),
        () => None,
    };
    let mut fields: Vec<_> = proof.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let parameters = operation.get_attr("parameters")?;
    for parameter in parameters.try_iter().into_iter().flatten() {
        if parameter.get_attr("in")?.as_str() == Some("header") && parameter.get_attr("required")?.is_true() {
            fields.push((parameter.get_attr("name")?.to_string(), "…".to_owned()));
        }
    }
    if operation.get_attr("requestBody")?.to_string().contains("application/json") {
        fields.push(("Content-Type".to_owned(), "application/json".to_owned()));
    }
    Ok(fields)
}

/// Text with its `code` as such, in paragraphs.
fn prose(text: &str) -> Value {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let pieces = paragraph.split('`').enumerate().map(|(nth, piece)| {
            let piece = HtmlEscape(piece);
            if nth % 2 == 1 { format!("<code>{piece}</code>") } else { piece.to_string() }
        });
        format!("<p>{}</p>", pieces.collect::<String>())
    });
    Value::from_safe_string(paragraphs.collect())
}

/// A value as JSON that people read.
fn shown(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// What a `$ref` of the document leads to; anything else is that itself.
fn at(api: &Value, reference: Value) -> Result<Value, Error> {
    let Some(path) = reference.get_attr("$ref")?.as_str().map(str::to_owned) else { return Ok(reference) };
    path.trim_start_matches("#/").split('/').try_fold(api.clone(), |value, name| value.get_attr(name))
}
