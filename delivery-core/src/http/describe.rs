//! The fields of request bodies, and what the OpenAPI document says about bodies and replies.
//!
//! Each field is a constant of type [`Field`]. The handlers read the field by this constant, and the OpenAPI document
//! is made from the same constant. So the name and the kind of a field are written only once.

/// A field of a JSON body.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(all(test, feature = "sqlite", feature = "files")),
    expect(dead_code, reason = "a test makes the OpenAPI document of it")
)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
    /// The value, as JSON, that is used if the client leaves the field out.
    pub(super) default: Option<&'static str>,
    pub(super) is_required: bool,
    /// Whether a required field may be null. Others may always be null.
    pub(super) takes_null: bool,
}

/// The kind of a field's value.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(all(test, feature = "sqlite", feature = "files")),
    expect(dead_code, reason = "a test makes the OpenAPI document of it")
)]
pub(super) enum Kind {
    /// Any text that is not empty.
    Secret,
    /// Text without control characters, of at most this length in characters.
    Line(usize),
    /// Text that may contain line breaks and tabs, but no other control characters. The number is the maximum length in
    /// characters. With `None`, the maximum is 1 MiB in UTF-8.
    Prose(Option<usize>),
    Email,
    /// The number of a product or a post.
    Number,
    /// The id of a key.
    KeyId,
    /// The name of a file.
    #[cfg(feature = "files")]
    FileName,
    /// The id of a row in a list of the API, which is the number of the row in the store.
    RowId,
    /// 1 to 36,500 days. -1 means that the key never expires.
    Days,
    /// 1 to 2,147,483,647 uses. -1 means that the uses are unlimited.
    Uses,
    /// 1 to 2,147,483,647 uses, which are added to the limit of a key.
    MoreUses,
    Boolean,
    Price,
    Language,
    /// The name of a platform.
    Platform,
    /// The names that platforms have for a product.
    Refs,
    /// An RFC 3339 timestamp, or "".
    Time,
}

/// A JSON body.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(all(test, feature = "sqlite", feature = "files")),
    expect(dead_code, reason = "a test makes the OpenAPI document of it")
)]
pub(super) struct Body {
    /// The name of the body's schema in the OpenAPI document.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) fields: &'static [Field],
    /// A sample body that the endpoint accepts, as JSON. The sample replies in the document are the endpoint's answers
    /// to the sample bodies.
    pub(super) example: &'static str,
}

/// The type of a successful reply, for the OpenAPI document. Outside of tests this struct is empty, because only a test
/// makes the document.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Adds the schema of the type, and the schemas of the types that it contains, to the list. Returns the name of the
    /// type's own schema.
    #[cfg(test)]
    #[cfg_attr(
        not(all(feature = "sqlite", feature = "files")),
        expect(dead_code, reason = "the test that makes the document has a store")
    )]
    pub(super) add: fn(&mut Schemas) -> String,
}

/// A list of OpenAPI schemas, each with its name.
#[cfg(test)]
pub(super) type Schemas = Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>;

/// Returns `Some` of the [`Shape`] of a type.
macro_rules! shape {
    ($reply:ty) => {
        Some($crate::http::describe::Shape {
            #[cfg(test)]
            add: |schemas| {
                let name = <$reply as utoipa::ToSchema>::name().into_owned();
                schemas.push((name.clone(), <$reply as utoipa::PartialSchema>::schema()));
                <$reply as utoipa::ToSchema>::schemas(schemas);
                name
            },
        })
    };
}
pub(super) use shape;

impl Field {
    const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, about, default: None, is_required: false, takes_null: false }
    }

    /// Returns the same field as a required field.
    pub(super) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Returns the same field as one that may be null.
    pub(super) const fn or_null(self) -> Self {
        Self { takes_null: true, ..self }
    }

    /// Returns the same field with another description.
    pub(super) const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Returns the same field without a default, for the body of a change. If the client leaves the field out, the
    /// stored value stays as it is.
    pub(super) const fn kept(self) -> Self {
        Self { default: None, ..self }
    }

    const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }
}

pub(super) const UNLOCKED: &str = "What a key unlocks, usually Markdown: up to 1 MiB in UTF-8.";
pub(super) const DAYS_KEPT: &str = "Days from issue, or -1: never. Left out: as it is.";
pub(super) const DAYS_CLEARED: &str =
    "Days from issue, or -1: never. Left out: as it is. Null: as the seller has set it for all.";
pub(super) const USES_CLEARED: &str =
    "How often, or -1: unlimited. Left out: as it is. Null: as the seller has set it for all.";
pub(super) const LANGUAGE_KEPT: &str =
    "Of e-mails about it and of its page, such as en or pt-BR. Left out: as it is. Null: none of its own.";
pub(super) const DAYS_OF_PRODUCT: &str = "Days from issue, or -1: never. Left out: as the product says.";
pub(super) const DAYS_FOR_ALL: &str = "Days from issue, or -1: never. Left out: as the seller has set it for all.";
pub(super) const USES_KEPT: &str = "How often, or -1: unlimited. Left out: as it is.";
pub(super) const USES_OF_PRODUCT: &str = "How often, or -1: unlimited. Left out: as the product says.";
pub(super) const USES_FOR_ALL: &str = "How often, or -1: unlimited. Left out: as the seller has set it for all.";

pub(super) const ADD_USES: Field =
    Field::new("add_uses", Kind::MoreUses, "The number of uses to add. Only for a key that has a limit.");
pub(super) const CATEGORY: Field = Field::new("category", Kind::Line(64), "What it is listed under.");
pub(super) const CONTENT: Field = Field::new("content", Kind::Prose(None), "Up to 1 MiB in UTF-8.");
pub(super) const CUSTOMER_EMAIL: Field = Field::new("customer_email", Kind::Email, "Where the key is sent.");
pub(super) const DESCRIPTION: Field = Field::new("description", Kind::Prose(Some(2000)), "").or("\"\"");
pub(super) const EXPIRES_AT: Field = Field::new(
    "expires_at",
    Kind::Time,
    "From when on it is expired; a time of the past expires it. From 1970 to 9999.",
);
pub(super) const EXPIRES_DAYS: Field = Field::new("expires_days", Kind::Days, "");
#[cfg(feature = "files")]
pub(super) const FILE_NAME: Field = Field::new("name", Kind::FileName, "The name of the file.").required();
pub(super) const KEY_ID: Field = Field::new("id", Kind::KeyId, "").required();
pub(super) const LANGUAGE: Field = Field::new(
    "language",
    Kind::Language,
    "Of e-mails about it and of its page, such as en or pt-BR. Left out: none of its own.",
);
pub(super) const MAX_USES: Field = Field::new("max_uses", Kind::Uses, "");
pub(super) const NAME: Field = Field::new("name", Kind::Line(200), "What the buyer reads.");
pub(super) const NUMBER: Field = Field::new("id", Kind::Number, "").required();
pub(super) const ORDER_ID: Field = Field::new("order_id", Kind::Line(255), "The platform's number of the order.");
pub(super) const PLATFORM: Field = Field::new("platform", Kind::Platform, "");
pub(super) const PRICE: Field =
    Field::new("price", Kind::Price, "At most four digits after the point; kept digit for digit.");
pub(super) const PRODUCT_ID: Field = Field::new("product_id", Kind::Number, "");
pub(super) const PRODUCT_REF: Field =
    Field::new("product_ref", Kind::Line(255), "What the platform calls the product.");
pub(super) const PUBLISHED_AT: Field =
    Field::new("published_at", Kind::Time, "Listed from then on; now, where it is left out. From 1970 to 9999.");
pub(super) const REASON: Field = Field::new("reason", Kind::Line(200), "Why.");
pub(super) const REFS: Field = Field::new(
    "refs",
    Kind::Refs,
    "What commerce platforms call it. No other product has the same name on a platform.",
);
pub(super) const ROW_ID: Field = Field::new("id", Kind::RowId, "The id from the list.");
pub(super) const SECRET: Field =
    Field::new("secret", Kind::Secret, "What the platform and the seller agreed on.").required();
pub(super) const SEND_EMAIL: Field =
    Field::new("send_email", Kind::Boolean, "Whether the buyer gets an e-mail.").or("true");
pub(super) const TITLE: Field = Field::new("title", Kind::Line(200), "One line.");
pub(super) const TYPE: Field = Field::new("type", Kind::Line(64), "").or("\"digital\"");
