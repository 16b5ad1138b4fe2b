//! The parameters of the API's endpoints, which clients send in the query, in the path or in a header field.
//!
//! Each parameter is a constant of type [`Parameter`], and the OpenAPI document is made from these constants. A
//! parameter is read in one of these ways:
//!
//! - In the query, by the name in its constant. The seller's HTML pages with lists and figures read it in the same way.
//!   The templates of these pages contain the name of the parameter again, as text.
//! - In the path, by its position.
//! - In a header field, by the name in `names.rs`.
//!
//! Two kinds of parameters are not here: those that authenticate a platform, and `?shown` in `api/file.rs`.

use serde_json::Value;

use super::describe::Kind;
use crate::key::Status;
use crate::ledger::{Action, EventOutcome, MessageKind};
use crate::mail::named;
use crate::store::MessageState;
use crate::text::Invalid;

/// A parameter of an endpoint.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(all(test, feature = "sqlite", feature = "files")),
    expect(dead_code, reason = "a test makes the OpenAPI document of it")
)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) location: Location,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
    pub(super) is_required: bool,
    /// Returns the value that is used if the client leaves the parameter out.
    pub(super) default: Option<fn() -> Value>,
    /// A value, as JSON, that the OpenAPI document shows.
    pub(super) example: Option<&'static str>,
    /// The value in the sample call, whose reply the OpenAPI document shows. If it is `None`, the sample call has the
    /// value in `example`, or leaves the parameter out.
    pub(super) sample: Option<&'static str>,
}

/// The location of a parameter in a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Location {
    Query,
    Header,
    #[cfg(feature = "files")]
    Path,
}

impl Parameter {
    const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    const fn or(self, default: fn() -> Value) -> Self {
        Self { default: Some(default), ..self }
    }

    const fn example(self, json: &'static str) -> Self {
        Self { example: Some(json), ..self }
    }

    const fn sample(self, value: &'static str) -> Self {
        Self { sample: Some(value), ..self }
    }
}

/// Returns an optional parameter in the query.
const fn query(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    let (default, example, sample) = (None, None, None);
    Parameter { name, location: Location::Query, kind, about, is_required: false, default, example, sample }
}

#[cfg(feature = "files")]
const fn in_path(name: &'static str, about: &'static str) -> Parameter {
    Parameter { location: Location::Path, ..query(name, Kind::Text, about).required() }
}

// The texts for clients repeat the following numbers. If a number changes, these texts must change too.

/// The maximum number of posts in an answer if the call has no [`LIMIT`].
pub(super) const DEFAULT_POSTS: usize = 10;
/// The maximum number of items in an answer if the call has no [`PAGE_SIZE`].
pub(super) const DEFAULT_ITEMS: usize = 50;
/// A larger [`LIMIT`] or [`PAGE_SIZE`] counts as this number.
pub(super) const MOST_ITEMS: i64 = 100;
/// The number of days in an answer if the call has no [`DAYS`].
pub(super) const DEFAULT_DAYS: u32 = 30;
/// A larger value of [`DAYS`] is an error.
pub(super) const MOST_DAYS: i64 = 365;
pub(super) const EXPECTED_DAYS: Invalid = Invalid::expected("must be an integer from 1 to 365");
/// The maximum length of [`EMAIL_PREFIX`], in characters.
pub(super) const LONGEST_PREFIX: usize = 254;
pub(super) const EXPECTED_PREFIX: Invalid = Invalid::expected("must be at most 254 characters");
/// The values of [`WHAT`].
const TABLES: [&str; 6] = ["keys", "uses", "events", "inbox", "messages", "person"];
pub(super) const EXPECTED_WHAT: Invalid = Invalid::expected("must be keys, uses, events, inbox, messages or person");

pub(super) const ACTION: Parameter = query(
    "action",
    Kind::OneOf(|| Action::ALL.iter().map(|action| action.as_str()).collect()),
    "Only changes of this kind.",
);
pub(super) const ACTOR: Parameter = query(
    "actor",
    Kind::Line(64),
    "Only changes by this actor: `admin`, the name of an admin token, a name that the host application chose, a \
     platform such as `platform:stripe`, `buyer` or `system`.",
);
pub(super) const BEFORE: Parameter =
    query("before", Kind::Text, "The value of `next` in the answer with the previous page.");
pub(super) const CATEGORY: Parameter = query("category", Kind::Text, "Only posts of exactly this category.");
pub(super) const DAYS: Parameter = query("days", Kind::Count(Some(MOST_DAYS)), "The number of days, including today.")
    .or(|| DEFAULT_DAYS.into())
    .sample("1");
pub(super) const EMAIL: Parameter = query("email", Kind::Email, "Only keys of this e-mail address. Case is ignored.");
pub(super) const EMAIL_KIND: Parameter =
    query("kind", Kind::OneOf(|| named().map(MessageKind::as_str).collect()), "The kind of e-mail.")
        .or(|| MessageKind::Purchase.as_str().into());
pub(super) const EMAIL_PREFIX: Parameter = query(
    "email_prefix",
    Kind::Line(LONGEST_PREFIX),
    "Only keys whose e-mail address begins with this text. Case is ignored.",
);
pub(super) const FETCHED_PRODUCT: Parameter =
    query("product_id", Kind::Number, "The id of the product to fetch.").required().example("1");
#[cfg(feature = "files")]
pub(super) const FILE_NAME: Parameter =
    query("name", Kind::FileName, "The name of the file.").required().sample("guide.pdf");
#[cfg(feature = "files")]
pub(super) const FILE_NAME_IN_PATH: Parameter = in_path("name", "The name under which a client saves the file.");
pub(super) const ID_OF_KEY: Parameter = query("id", Kind::KeyId, "The id of the key.").required();
pub(super) const IDEMPOTENCY_KEY: Parameter = Parameter {
    location: Location::Header,
    ..query(
        "Idempotency-Key",
        Kind::RequestId,
        "A value of your choice that identifies the request and that nobody can guess, such as a UUID. If you get no \
         answer, repeat the request with the same value. Within 24 hours after the first request, ten repetitions with \
         the same key are answered like the first request and count no use, even if the key has expired or was used up \
         since. Every further repetition counts as a use. If the key was revoked since, a repetition is refused. If \
         the value was first used for another product, the answer is 400.",
    )
};
pub(super) const KEY: Parameter =
    query("key", Kind::Key, "The key from the e-mail. Leave it out if you send the key in a header.");
pub(super) const LANGUAGE: Parameter = query(
    "language",
    Kind::Language,
    "The language of the e-mail, such as `en` or `pt-BR`. If left out, it is the language of the product or, if the \
     product has none, that of the shop. If there are no templates in `pt-BR`, those in `pt` are used, then those in \
     the language of the shop, then the English ones.",
);
pub(super) const LIMIT: Parameter = query(
    "limit",
    Kind::Count(None),
    "The maximum number of posts, at least 1. The default is 10. A number above 100 counts as 100.",
);
pub(super) const OF_KEY: Parameter =
    query("key_id", Kind::KeyId, "Only messages or audit entries about the key with this id.");
pub(super) const OF_PRODUCT: Parameter = query("product_id", Kind::Number, "Only keys for this product.");
pub(super) const ORDER_ID: Parameter =
    query("order_id", Kind::Line(255), "Only keys that were bought with this order.");
pub(super) const OUTCOME: Parameter = query(
    "outcome",
    Kind::OneOf(|| EventOutcome::ALL.iter().map(|outcome| outcome.as_str()).collect()),
    "Only events with this outcome.",
);
pub(super) const PAGE_SIZE: Parameter = query(
    "limit",
    Kind::Count(None),
    "The maximum number of items, at least 1. The default is 50. A number above 100 counts as 100.",
);
pub(super) const PERSON: Parameter =
    query("customer_email", Kind::Email, "The e-mail address of the person. Required if `what` is `person`.")
        .sample("ada@example.com");
pub(super) const PLATFORM: Parameter =
    query("platform", Kind::Line(64), "Only events of this platform, such as `stripe`.");
#[cfg(feature = "files")]
pub(super) const PRODUCT_ID: Parameter =
    query("product_id", Kind::Number, "The id of the product.").required().sample("1");
pub(super) const SINCE: Parameter =
    query("since", Kind::Instant, "Only items from this time on. A date stands for the beginning of the day, in UTC.");
pub(super) const SOURCE: Parameter = query(
    "source",
    Kind::Line(64),
    "Only keys from this source: `webhook`, or the name of a platform such as `stripe`.",
);
pub(super) const STATE: Parameter = query(
    "state",
    Kind::OneOf(|| MessageState::ALL.iter().map(|state| state.as_str()).collect()),
    "Only messages in this state.",
);
pub(super) const STATUS: Parameter = query(
    "status",
    Kind::OneOf(|| [Status::Valid, Status::Expired, Status::Exhausted, Status::Revoked].map(Status::as_str).into()),
    "Only keys that have this status now.",
);
#[cfg(feature = "files")]
pub(super) const TICKET: Parameter =
    in_path("ticket", "The ticket in the `url` of the file, from the answer to `GET /api/product`.");
pub(super) const UNTIL: Parameter =
    query("until", Kind::Instant, "Only items before this time. A date stands for the end of the day, in UTC.");
pub(super) const WHAT: Parameter =
    query("what", Kind::OneOf(|| TABLES.into()), "The list to export, or `person` for the data about one person.")
        .required()
        .sample("person");
