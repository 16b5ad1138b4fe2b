//! The types of replies about products.

use serde::{Serialize, Serializer};

#[cfg(feature = "files")]
use super::files;
use crate::product::{Listing, Price, Product};

/// The product that the key unlocks.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Fetched<'a> {
    product: Unlocked<'a>,
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

/// All products that are not archived, by id.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Products<'a> {
    products: Vec<Listed<'a>>,
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

/// The product that was added, changed, archived or restored, as it is now.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Added<'a> {
    success: bool,
    product: Whole<'a>,
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

/// A price that is serialized as a JSON number with its exact digits. It is not converted to a float, because a float
/// cannot represent numbers such as 0.1 exactly.
struct Amount(Price);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = serde_json::value::RawValue::from_string(self.0.to_string());
        written.map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}
