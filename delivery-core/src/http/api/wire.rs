//! The types of the API's replies, which are serialized as JSON.

#[cfg(feature = "files")]
pub(in crate::http) mod files;

use bytes::Bytes;
use serde::{Serialize, Serializer};

use crate::clock::timestamp;
use crate::delivery::Issued;
use crate::error::ErrorCode;
use crate::key::{Denied, Key};
use crate::post::Post;
use crate::product::{Listing, Price, Product};

/// Encodes a reply as JSON. Encoding cannot fail, because replies contain only numbers, booleans and text. If encoding
/// failed nevertheless, the body would be empty.
pub(in crate::http) fn encode(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).map(Bytes::from).unwrap_or_default()
}

/// The request for lost keys was accepted.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Asked {
    /// Always true.
    pub(in crate::http) success: bool,
    /// A sentence for the buyer, the same for every address.
    pub(in crate::http) message: &'static str,
}

/// The event was saved.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Received {
    /// Always true.
    pub(in crate::http) received: bool,
}

/// An error.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Error<'a> {
    /// `false` if `GET /api/validate` finds that the key is not valid; absent in all other errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    valid: Option<bool>,
    error: Problem<'a>,
}

/// The error of `GET /api/validate` for a key that is expired, exhausted, or refused by a rule of the host application.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct RefusedKey<'a> {
    valid: bool,
    error: Problem<'a>,
    #[serde(flatten)]
    status: Status,
}

/// What is wrong: a code for programs, and a sentence for people.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Problem<'a> {
    /// One of the codes that are listed for the endpoint, or a code of the host application. Every code consists of `A`
    /// to `Z` and `_`.
    code: &'static str,
    message: &'a str,
}

/// The product, the expiry and the uses of a key.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Status {
    product_id: i64,
    /// UTC, in whole seconds; 9999-12-31T23:59:59Z for a key that never expires.
    #[cfg_attr(test, schema(format = DateTime))]
    expires_at: String,
    used_count: u64,
    /// -1: unlimited.
    remaining_uses: i64,
}

/// A key that is valid now.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Valid {
    valid: bool,
    #[serde(flatten)]
    status: Status,
}

/// The product that the key unlocks.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Fetched<'a> {
    product: Unlocked<'a>,
}

/// A product with its content.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct Unlocked<'a> {
    id: i64,
    name: &'a str,
    r#type: &'a str,
    content: &'a str,
    /// The product's files. Absent if the product has no files.
    #[cfg(feature = "files")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    files: Option<Vec<files::Download>>,
}

/// The key of a purchase.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Ordered<'a> {
    success: bool,
    api_key: &'a str,
    message: String,
}

/// A key and its terms.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct IssuedByHand<'a> {
    #[serde(flatten)]
    ordered: Ordered<'a>,
    product_id: i64,
    customer_email: &'a str,
    /// UTC, in whole seconds; 9999-12-31T23:59:59Z for a key that never expires.
    #[cfg_attr(test, schema(format = DateTime))]
    expires_at: String,
    /// -1: unlimited.
    max_uses: i64,
    used_count: u64,
    /// -1: unlimited.
    remaining_uses: i64,
}

/// All products that are not archived, by id.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Products<'a> {
    products: Vec<Listed<'a>>,
}

/// A product without its content. `description` and `price` are present only if the host application lists them.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct Listed<'a> {
    id: i64,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    description: Option<&'a str>,
    r#type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = f64, minimum = 0, required = false))]
    price: Option<Amount>,
}

/// The product, as it is after the call.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Added<'a> {
    success: bool,
    product: Whole<'a>,
}

/// A product with its content. `expires_days` and `max_uses` are present only if they are set for the product.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct Whole<'a> {
    id: i64,
    name: &'a str,
    description: &'a str,
    r#type: &'a str,
    content: &'a str,
    #[cfg_attr(test, schema(value_type = f64, minimum = 0))]
    price: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    expires_days: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    max_uses: Option<i64>,
    /// The language of the product's page and of e-mails about the product. Absent if no language is set for the
    /// product.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(nullable = false))]
    language: Option<&'a str>,
    /// The names that commerce platforms use for the product.
    #[serde(skip_serializing_if = "crate::product::Refs::is_empty")]
    #[cfg_attr(test, schema(value_type = std::collections::BTreeMap<String, Vec<String>>, required = false))]
    refs: &'a crate::product::Refs,
}

/// Posts, newest first.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Posts<'a> {
    posts: Vec<Posted<'a>>,
}

/// The post, as it is after the call.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct PostAdded<'a> {
    success: bool,
    post: Posted<'a>,
}

/// A post.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct Posted<'a> {
    id: i64,
    title: &'a str,
    category: &'a str,
    content: &'a str,
    /// UTC, in whole seconds.
    #[cfg_attr(test, schema(format = DateTime))]
    published_at: String,
}

impl<'a> Error<'a> {
    pub(in crate::http) fn new(code: ErrorCode, message: &'a str) -> Self {
        Self { valid: None, error: Problem { code: code.as_str(), message } }
    }

    /// Creates the error for a use that a rule of the host application does not allow.
    pub(in crate::http) fn denied(denied: &'a Denied) -> Self {
        Self { valid: None, error: Problem::denied(denied) }
    }

    /// Creates an error that also contains `"valid":false`, for clients that read `valid` and not the HTTP status.
    pub(in crate::http) fn not_valid(code: ErrorCode) -> Self {
        Self { valid: Some(false), ..Self::new(code, code.message()) }
    }
}

impl<'a> RefusedKey<'a> {
    /// Creates the error. If a rule of the host application refused the key, the error has the code and the message of
    /// the rule.
    pub(in crate::http) fn of(code: ErrorCode, denied: Option<&'a Denied>, key: &Key) -> Self {
        Self { valid: false, error: Problem::of(code, denied), status: Status::of(key) }
    }
}

impl<'a> Problem<'a> {
    fn of(code: ErrorCode, denied: Option<&'a Denied>) -> Self {
        denied.map_or(Self { code: code.as_str(), message: code.message() }, Self::denied)
    }

    pub(in crate::http) fn denied(denied: &'a Denied) -> Self {
        Self { code: denied.code(), message: denied.sentence() }
    }
}

impl Status {
    fn of(key: &Key) -> Self {
        Self {
            product_id: key.product().get(),
            expires_at: timestamp(key.expires_at()),
            used_count: key.used(),
            remaining_uses: remaining(key),
        }
    }
}

impl Valid {
    pub(in crate::http) fn of(key: &Key) -> Self {
        Self { valid: true, status: Status::of(key) }
    }
}

impl<'a> Fetched<'a> {
    pub(in crate::http) fn of(product: &'a Product) -> Self {
        let (id, name, r#type, content) = (product.id().get(), product.name(), product.kind(), product.content());
        Self {
            product: Unlocked {
                id,
                name,
                r#type,
                content,
                #[cfg(feature = "files")]
                files: None,
            },
        }
    }
}

impl<'a> Ordered<'a> {
    pub(in crate::http) fn of(issued: &'a Issued, mailed: bool) -> Self {
        let email = issued.key.email();
        let message = if mailed {
            format!("The key was sent to {email}.")
        } else {
            format!("The key for {email} was issued and not sent.")
        };
        Self { success: true, api_key: issued.text.expose(), message }
    }
}

impl<'a> IssuedByHand<'a> {
    pub(in crate::http) fn of(issued: &'a Issued, mailed: bool) -> Self {
        let key = &issued.key;
        Self {
            ordered: Ordered::of(issued, mailed),
            product_id: key.product().get(),
            customer_email: key.email().as_str(),
            expires_at: timestamp(key.expires_at()),
            max_uses: key.limit().as_count(),
            used_count: key.used(),
            remaining_uses: remaining(key),
        }
    }
}

impl<'a> Products<'a> {
    pub(in crate::http) fn of(products: &'a [Listing], details: bool) -> Self {
        let listed = |product: &'a Listing| Listed {
            id: product.id.get(),
            name: &product.name,
            description: details.then_some(&product.description),
            r#type: &product.kind,
            price: details.then_some(Amount(product.price)),
        };
        Self { products: products.iter().map(listed).collect() }
    }
}

impl<'a> Added<'a> {
    pub(in crate::http) fn of(product: &'a Product) -> Self {
        let product = Whole {
            id: product.id().get(),
            name: product.name(),
            description: product.description(),
            r#type: product.kind(),
            content: product.content(),
            price: Amount(product.price()),
            expires_days: product.terms().validity.map(crate::terms::Validity::as_days),
            max_uses: product.terms().limit.map(crate::terms::UseLimit::as_count),
            language: product.language().map(crate::Language::as_str),
            refs: product.refs(),
        };
        Self { success: true, product }
    }
}

impl<'a> Posts<'a> {
    pub(in crate::http) fn of(posts: &'a [Post]) -> Self {
        Self { posts: posts.iter().map(Posted::of).collect() }
    }
}

impl<'a> PostAdded<'a> {
    pub(in crate::http) fn of(post: &'a Post) -> Self {
        Self { success: true, post: Posted::of(post) }
    }
}

impl<'a> Posted<'a> {
    fn of(post: &'a Post) -> Self {
        Self {
            id: post.id().get(),
            title: post.title(),
            category: post.category().as_str(),
            content: post.content(),
            published_at: timestamp(post.published_at()),
        }
    }
}

/// Returns the remaining uses of a key, or -1 if its uses are unlimited.
pub(in crate::http) fn remaining(key: &Key) -> i64 {
    key.remaining().map_or(-1, |remaining| i64::try_from(remaining).unwrap_or(i64::MAX))
}

/// A price that is serialized as a JSON number with its exact digits. It is not converted to a float, because a float
/// cannot represent numbers such as 0.1 exactly.
struct Amount(Price);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = serde_json::value::RawValue::from_string(self.0.to_string());
        written.map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}
