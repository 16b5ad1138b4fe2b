//! The JSON that goes out.

use bytes::Bytes;
use serde::{Serialize, Serializer};

use crate::clock::timestamp;
use crate::delivery::Issued;
use crate::error::ErrorCode;
use crate::key::Key;
use crate::post::Post;
use crate::product::{Listing, Price, Product};

/// Writing numbers, booleans and text cannot fail; an empty body would be the answer if it did.
pub(super) fn encode(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).map(Bytes::from).unwrap_or_default()
}

#[derive(Serialize)]
pub(super) struct Failure<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    valid: Option<bool>,
    error: Problem<'a>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    standing: Option<Standing>,
}

#[derive(Serialize)]
struct Problem<'a> {
    code: &'static str,
    message: &'a str,
}

/// What is shown of a key.
#[derive(Serialize)]
pub(super) struct Standing {
    product_id: i64,
    expires_at: String,
    used_count: u64,
    remaining_uses: i64,
}

#[derive(Serialize)]
pub(super) struct Valid {
    valid: bool,
    #[serde(flatten)]
    standing: Standing,
}

#[derive(Serialize)]
pub(super) struct Fetched<'a> {
    product: Unlocked<'a>,
}

#[derive(Serialize)]
struct Unlocked<'a> {
    id: i64,
    name: &'a str,
    r#type: &'a str,
    content: &'a str,
}

#[derive(Serialize)]
pub(super) struct Ordered<'a> {
    success: bool,
    api_key: &'a str,
    message: String,
}

#[derive(Serialize)]
pub(super) struct IssuedByHand<'a> {
    #[serde(flatten)]
    ordered: Ordered<'a>,
    product_id: i64,
    customer_email: &'a str,
    expires_at: String,
    max_uses: i64,
    used_count: u64,
    remaining_uses: i64,
}

#[derive(Serialize)]
pub(super) struct Products<'a> {
    products: Vec<Listed<'a>>,
}

#[derive(Serialize)]
struct Listed<'a> {
    id: i64,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    r#type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<Amount>,
}

#[derive(Serialize)]
pub(super) struct Added<'a> {
    success: bool,
    product: Whole<'a>,
}

#[derive(Serialize)]
struct Whole<'a> {
    id: i64,
    name: &'a str,
    description: &'a str,
    r#type: &'a str,
    content: &'a str,
    price: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_days: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_uses: Option<i64>,
}

#[derive(Serialize)]
pub(super) struct Posts<'a> {
    posts: Vec<Posted<'a>>,
}

#[derive(Serialize)]
pub(super) struct PostAdded<'a> {
    success: bool,
    post: Posted<'a>,
}

#[derive(Serialize)]
struct Posted<'a> {
    id: i64,
    title: &'a str,
    category: &'a str,
    content: &'a str,
    published_at: String,
}

impl<'a> Failure<'a> {
    pub(super) fn new(code: ErrorCode, message: &'a str) -> Self {
        Self { valid: None, error: Problem { code: code.as_str(), message }, standing: None }
    }

    /// For clients that read `valid` instead of the status.
    pub(super) fn not_valid(self, key: Option<&Key>) -> Self {
        Self { valid: Some(false), standing: key.map(Standing::of), ..self }
    }
}

impl Standing {
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
    pub(super) fn of(key: &Key) -> Self {
        Self { valid: true, standing: Standing::of(key) }
    }
}

impl<'a> Fetched<'a> {
    pub(super) fn of(product: &'a Product) -> Self {
        let (id, name, r#type, content) = (product.id().get(), product.name(), product.kind(), product.content());
        Self { product: Unlocked { id, name, r#type, content } }
    }
}

impl<'a> Ordered<'a> {
    pub(super) fn of(issued: &'a Issued, mailed: bool) -> Self {
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
    pub(super) fn of(issued: &'a Issued, mailed: bool) -> Self {
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
    pub(super) fn of(products: &'a [Listing], details: bool) -> Self {
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
    pub(super) fn of(product: &'a Product) -> Self {
        let product = Whole {
            id: product.id().get(),
            name: product.name(),
            description: product.description(),
            r#type: product.kind(),
            content: product.content(),
            price: Amount(product.price()),
            expires_days: product.terms().validity.map(crate::terms::Validity::as_days),
            max_uses: product.terms().limit.map(crate::terms::UseLimit::as_count),
        };
        Self { success: true, product }
    }
}

impl<'a> Posts<'a> {
    pub(super) fn of(posts: &'a [Post]) -> Self {
        Self { posts: posts.iter().map(Posted::of).collect() }
    }
}

impl<'a> PostAdded<'a> {
    pub(super) fn of(post: &'a Post) -> Self {
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

/// What is left, -1 without a limit.
fn remaining(key: &Key) -> i64 {
    key.remaining().map_or(-1, |remaining| i64::try_from(remaining).unwrap_or(i64::MAX))
}

/// A price as a JSON number, digit for digit: a float would make 0.1 of it that is not 0.1.
struct Amount(Price);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = serde_json::value::RawValue::from_string(self.0.to_string());
        written.map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}
