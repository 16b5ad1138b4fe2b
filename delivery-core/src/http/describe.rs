//! The fields of request bodies, and the descriptions of bodies and replies for the OpenAPI document.
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
    /// Whether a required field may be null. An optional field may always be null.
    pub(super) takes_null: bool,
}

/// The kind of the value of a field or of a [parameter](super::parameter::Parameter).
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(all(test, feature = "sqlite", feature = "files")),
    expect(dead_code, reason = "a test makes the OpenAPI document of it")
)]
pub(super) enum Kind {
    /// Any text that is not empty.
    Secret,
    /// Text without control characters.
    Text,
    /// Text without control characters, of at most this length in characters.
    Line(usize),
    /// Text that may contain line breaks and tabs, but no other control characters. The number is the maximum length in
    /// characters. With `None`, the maximum is 1 MiB in UTF-8.
    Prose(Option<usize>),
    Email,
    /// One of the words that the function returns.
    OneOf(fn() -> Vec<&'static str>),
    /// The id of a product or a post: an integer of 1 or more.
    Number,
    /// An integer from 1 to this number. With `None`, there is no maximum.
    Count(Option<i64>),
    /// The text of a key.
    Key,
    /// The id of a key.
    KeyId,
    /// The name of a file.
    #[cfg(feature = "files")]
    FileName,
    /// The id of an item in a list. The id is the number of the item's row in the store. The string here is the last
    /// segment of the list's path, such as `inbox` in `/api/admin/inbox`, and also the name of the list in the reply.
    RowId(&'static str),
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
    /// The names that commerce platforms use for a product.
    Refs,
    /// An RFC 3339 timestamp, or "".
    Time,
    /// A date, or an RFC 3339 timestamp.
    Instant,
    /// 1 to 255 printable ASCII characters.
    RequestId,
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
        expect(dead_code, reason = "the test that calls it needs these features")
    )]
    pub(super) add: fn(&mut Schemas) -> String,
}

/// A list of OpenAPI schemas, each with its name.
#[cfg(test)]
pub(super) type Schemas = Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>;

/// Expands to `Some` with the [`Shape`] of a type.
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

    /// Returns a copy of this field that is required.
    pub(super) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Returns a copy of this field that may be null.
    pub(super) const fn or_null(self) -> Self {
        Self { takes_null: true, ..self }
    }

    /// Returns the same field with another description.
    pub(super) const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Returns the same field without a default, for the body of a request that changes a record. If the client leaves
    /// the field out, the stored value stays as it is.
    pub(super) const fn kept(self) -> Self {
        Self { default: None, ..self }
    }

    const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }
}

const fn row_id(list: &'static str) -> Field {
    Field::new("id", Kind::RowId(list), "The id of the event or message, from its list.")
}

pub(super) const UNLOCKED: &str = "The content that a key unlocks, usually Markdown. Up to 1 MiB in UTF-8.";
pub(super) const DAYS_KEPT: &str = "How many days after its issue the key expires, 1 to 36,500. -1 means never. \
    Without this field and `expires_at`, the expiry stays as it is.";
pub(super) const DAYS_CLEARED: &str = "How many days after its issue a new key of the product expires, 1 to 36,500. -1 \
    means never. If left out, the value stays as it is. `null` removes it, so that the default of the shop applies.";
pub(super) const USES_CLEARED: &str = "How often a new key of the product may be used, 1 to 2,147,483,647. -1 means \
    unlimited. If left out, the value stays as it is. `null` removes it, so that the default of the shop applies.";
pub(super) const LANGUAGE_KEPT: &str = "The language of the product's page and of e-mails about it, such as `en` or \
    `pt-BR`. If left out, it stays as it is. `null` removes it.";
pub(super) const DAYS_OF_PRODUCT: &str = "How many days after its issue the key expires, 1 to 36,500. -1 means never. \
    If left out, the value of the product applies or, if it has none, the default of the shop.";
pub(super) const DAYS_FOR_ALL: &str = "How many days after its issue a key of the product expires, 1 to 36,500. -1 \
    means never. If left out, the default of the shop applies.";
pub(super) const USES_KEPT: &str = "How often the key may be used in total, 1 to 2,147,483,647. -1 means unlimited. \
    Without this field and `add_uses`, the limit stays as it is.";
pub(super) const USES_OF_PRODUCT: &str = "How often the key may be used, 1 to 2,147,483,647. -1 means unlimited. If \
    left out, the value of the product applies or, if it has none, the default of the shop.";
pub(super) const USES_FOR_ALL: &str = "How often a key of the product may be used, 1 to 2,147,483,647. -1 means \
    unlimited. If left out, the default of the shop applies.";

pub(super) const ADD_USES: Field =
    Field::new("add_uses", Kind::MoreUses, "The number of uses to add. Only for a key that has a limit.");
pub(super) const CATEGORY: Field =
    Field::new("category", Kind::Line(64), "The category of the post. The list of posts can be filtered by it.");
pub(super) const CONTENT: Field =
    Field::new("content", Kind::Prose(None), "The text of the post, up to 1 MiB in UTF-8.");
pub(super) const CUSTOMER_EMAIL: Field = Field::new("customer_email", Kind::Email, "The buyer's e-mail address.");
pub(super) const DESCRIPTION: Field = Field::new("description", Kind::Prose(Some(2000)), "").or("\"\"");
pub(super) const EVENT_ID: Field = row_id("inbox");
pub(super) const EXPIRES_AT: Field = Field::new(
    "expires_at",
    Kind::Time,
    "The time from which the key is expired, from 1970 to 9999. A time in the past expires the key at once.",
);
pub(super) const EXPIRES_DAYS: Field = Field::new("expires_days", Kind::Days, "");
#[cfg(feature = "files")]
pub(super) const FILE_NAME: Field = Field::new("name", Kind::FileName, "The name of the file.").required();
pub(super) const KEY_ID: Field = Field::new("id", Kind::KeyId, "").required();
pub(super) const LANGUAGE: Field = Field::new(
    "language",
    Kind::Language,
    "The language of the product's page and of e-mails about it, such as `en` or `pt-BR`. If left out, the product has \
     no language of its own.",
);
pub(super) const MAX_USES: Field = Field::new("max_uses", Kind::Uses, "");
pub(super) const MESSAGE_ID: Field = row_id("messages");
pub(super) const NAME: Field = Field::new("name", Kind::Line(200), "The name of the product, as the buyer sees it.");
pub(super) const NUMBER: Field = Field::new("id", Kind::Number, "").required();
pub(super) const ORDER_ID: Field = Field::new("order_id", Kind::Line(255), "The platform's id of the order.");
pub(super) const PLATFORM: Field = Field::new("platform", Kind::Platform, "");
pub(super) const PRICE: Field = Field::new(
    "price",
    Kind::Price,
    "The price, without a currency. At most four digits after the decimal point. The decimal value is kept exactly.",
)
.or("0");
pub(super) const PRODUCT_ID: Field = Field::new("product_id", Kind::Number, "");
pub(super) const PRODUCT_REF: Field =
    Field::new("product_ref", Kind::Line(255), "The platform's name for the product.");
pub(super) const PUBLISHED_AT: Field = Field::new(
    "published_at",
    Kind::Time,
    "The time from which the post is listed, from 1970 to 9999. If left out, it is the current time.",
);
pub(super) const REASON: Field = Field::new("reason", Kind::Line(200), "Why the key is revoked.");
pub(super) const REFS: Field = Field::new(
    "refs",
    Kind::Refs,
    "The names that commerce platforms use for the product, at most 100 in total. Two products cannot have the same \
     name on the same platform.",
);
pub(super) const SECRET: Field =
    Field::new("secret", Kind::Secret, "The secret that the platform and the seller share.").required();
pub(super) const SEND_EMAIL: Field =
    Field::new("send_email", Kind::Boolean, "Whether the buyer gets an e-mail.").or("true");
pub(super) const TITLE: Field = Field::new("title", Kind::Line(200), "The title of the post, in one line.");
pub(super) const TYPE: Field = Field::new("type", Kind::Line(64), "").or("\"digital\"");
