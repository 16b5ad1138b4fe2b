//! Schemas of request bodies. A schema is made from the descriptions of the body's [fields](crate::http::describe). It
//! cannot be derived from a type, because the endpoints read the fields one by one. The external tool schemathesis
//! checks the schemas by sending requests that the schemas allow and requests that the schemas forbid.

use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOfBuilder, ArrayBuilder, KnownFormat, Object, ObjectBuilder, SchemaFormat, SchemaType,
    Type,
};
use utoipa::openapi::{RefOr, Schema};

use crate::http::PlatformPath;
use crate::http::describe::{Body, Field, Kind};
use crate::terms::{MAX_DAYS, MAX_USES};

/// The pattern of text without control characters.
pub(super) const LINE: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";
/// The pattern of the name of a file: without control characters, `/` and `\`, and neither `.` nor `..`.
const FILE_NAME: &str = r"^(\.{0,2}[^\u0000-\u001f\u007f-\u009f/\\.][^\u0000-\u001f\u007f-\u009f/\\]*|\.{3}[^\u0000-\u001f\u007f-\u009f/\\]*)$";
/// The pattern of a language, or of an empty text.
const LANGUAGE: &str = "^([A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*)?$";
/// The pattern of the id of a key.
const UUID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
/// The pattern of text without control characters, except line breaks and tabs.
const PROSE: &str = r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]*$";

pub(super) fn schema(body: &Body) -> Object {
    let about = ObjectBuilder::new().description(Some(body.about));
    let object = body.fields.iter().fold(about, |object, field| {
        let object = object.property(field.name, property(field));
        if field.is_required { object.required(field.name) } else { object }
    });
    match body.fields {
        [] => object.build(),
        _ => object.examples([example(body)]).build(),
    }
}

pub(super) fn example(body: &Body) -> Value {
    serde_json::from_str(body.example).unwrap()
}

/// Returns the schema of a field. The schema of an optional field also allows null, and the schema of an optional text
/// field also allows "". Most endpoints treat null and "" as if the field were left out.
fn property(field: &Field) -> RefOr<Schema> {
    let takes_null = !field.is_required || field.takes_null;
    let plain = of_kind(field.kind, takes_null, field.is_required.then_some(1));
    let about = Some(field.about).filter(|about| !about.is_empty());
    if matches!(field.kind, Kind::Time) {
        let empty = ObjectBuilder::new().schema_type(Type::String).max_length(Some(0));
        return AnyOfBuilder::new().item(plain).item(empty).description(about).into();
    }
    let default = field.default.map(|json| serde_json::from_str(json).unwrap());
    plain.description(about).default(default).into()
}

/// Returns the schema of a value. `least` is the minimum length of free text; without it, the text may be empty.
pub(super) fn of_kind(kind: Kind, takes_null: bool, least: Option<usize>) -> ObjectBuilder {
    let of = |kind: Type| {
        let kinds: SchemaType = if takes_null { [kind, Type::Null].into_iter().collect() } else { kind.into() };
        ObjectBuilder::new().schema_type(kinds)
    };
    let text = |most: Option<usize>| of(Type::String).min_length(least).max_length(most);
    let known = |format| Some(SchemaFormat::KnownFormat(format));
    let integer = |least: i64, most: i64| of(Type::Integer).minimum(Some(least)).maximum(Some(most));
    // The range begins at -1, which stands for "never" or "unlimited". 0 is in the range, but is not valid.
    let number_or_never = |most: i64| {
        let not_zero = [("not", json!({ "const": 0 }))].into_iter().collect();
        integer(-1, most).extensions(Some(not_zero))
    };
    match kind {
        Kind::Secret => text(None),
        Kind::Text | Kind::Key => text(None).pattern(Some(LINE)),
        Kind::OneOf(words) => of(Type::String).pattern(Some(LINE)).enum_values(Some(words())),
        Kind::Line(most) => text(Some(most)).pattern(Some(LINE)),
        Kind::FileName => text(Some(200)).pattern(Some(FILE_NAME)),
        Kind::Prose(most) => text(most).pattern(Some(PROSE)),
        Kind::Email => of(Type::String).max_length(Some(254)).format(known(KnownFormat::Email)),
        Kind::Number => integer(1, i64::MAX),
        Kind::Count(most) => of(Type::Integer).minimum(Some(1)).maximum(most),
        Kind::KeyId => of(Type::String).format(Some(SchemaFormat::Custom("uuid".to_owned()))).pattern(Some(UUID)),
        Kind::RowId(_) if least.is_some() => text(Some(19)).pattern(Some("^(0|-?[1-9][0-9]*)$")),
        Kind::RowId(_) => text(Some(19)).pattern(Some("^(0|-?[1-9][0-9]*)?$")),
        Kind::Days => number_or_never(MAX_DAYS.into()),
        Kind::Uses => number_or_never(MAX_USES.into()),
        Kind::MoreUses => integer(1, MAX_USES.into()),
        Kind::Boolean => of(Type::Boolean),
        // Do not state the four decimal places as `multipleOf: 0.0001`. Validators that compute with doubles would
        // reject 19.99.
        Kind::Price => of(Type::Number).minimum(Some(0)).exclusive_maximum(Some(1_000_000_000_000_000_i64)),
        Kind::Language => of(Type::String).max_length(Some(35)).pattern(Some(LANGUAGE)),
        Kind::Platform => {
            let names = PlatformPath::built_in().map(PlatformPath::name).collect::<Vec<_>>().join("|");
            of(Type::String).pattern(Some(format!("^({names})?$")))
        }
        Kind::Refs => refs(of(Type::Object)),
        Kind::Time | Kind::Instant => of(Type::String).format(known(KnownFormat::DateTime)),
        Kind::RequestId => {
            of(Type::String).min_length(Some(1)).max_length(Some(255)).pattern(Some("^[!-~]([ -~]*[!-~])?$"))
        }
    }
}

/// Returns the schema of the names that commerce platforms use for a product.
fn refs(object: ObjectBuilder) -> ObjectBuilder {
    let name = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(255));
    let name = name.pattern(Some(LINE)).description(Some("The platform's name for the product."));
    let names = ArrayBuilder::new().items(name).max_items(Some(crate::product::MOST_REFS)).build();
    let platforms = PlatformPath::built_in();
    let refs = platforms.fold(object, |refs, platform| refs.property(platform.name(), names.clone()));
    refs.additional_properties(Some(AdditionalProperties::FreeForm(false)))
}
