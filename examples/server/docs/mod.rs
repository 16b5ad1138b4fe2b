//! The API reference as a page on which endpoints can be tried. The page is rendered from the OpenAPI document, and
//! loads nothing from other sites. It is not Swagger UI, because Swagger UI 5.32 fails accessibility checks: those for
//! contrast, for nested buttons and for the names of fields.

use std::sync::{LazyLock, OnceLock};

use data_encoding::BASE64;
use delivery_core::http::OPENAPI;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, HtmlEscape, context};
use sha2::{Digest, Sha256};

/// The path of the page.
pub const PATH: &str = "/docs";
/// The media type of the page.
pub const TYPE: &str = "text/html; charset=utf-8";
/// The script of the page, which finds endpoints and sends requests to them.
const SCRIPT: &str = include_str!("page.js");

/// The `Content-Security-Policy` of the page. It allows the page's own script and styles, and requests to this server.
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

/// The page, as HTML. `None` if it cannot be rendered, which the tests would detect.
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

/// The type of a schema, or the first of several types.
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

/// Converts text to HTML paragraphs. Text in backticks becomes `<code>`.
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

/// A value as indented JSON.
fn shown(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Resolves a `$ref` within the document. Any other value is returned as it is.
fn at(api: &Value, reference: Value) -> Result<Value, Error> {
    let Some(path) = reference.get_attr("$ref")?.as_str().map(str::to_owned) else { return Ok(reference) };
    path.trim_start_matches("#/").split('/').try_fold(api.clone(), |value, name| value.get_attr(name))
}
