//! A product in a catalog, with its number and its files.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

#[cfg(doc)]
use super::FileName;
use super::{File, NewProduct, Price, ProductId, Refs};
use crate::host_ref::HostRef;
use crate::language::Language;
use crate::terms::OwnTerms;

/// A product in a catalog, with its number and its files.
///
/// A catalog should return the same `Arc<Product>` each time where possible. The product caches the encoded response
/// that a buyer gets, so that later requests neither encode nor copy the content.
#[derive(Debug, Clone)]
pub struct Product {
    id: ProductId,
    facts: NewProduct,
    is_archived: bool,
    files: Arc<[File]>,
    encoded: OnceLock<Bytes>,
}

/// A product without its content, as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Listing {
    /// The product's number.
    pub id: ProductId,
    /// The product's name.
    pub name: String,
    /// The description; may be empty.
    pub description: String,
    /// The product's type, such as `digital`.
    pub kind: String,
    /// The product's price.
    pub price: Price,
}

impl Listing {
    /// Returns the list entry for `product`.
    #[must_use]
    pub fn of(product: &Product) -> Self {
        Self {
            id: product.id,
            name: product.name().to_owned(),
            description: product.description().to_owned(),
            kind: product.kind().to_owned(),
            price: product.price(),
        }
    }
}

impl Product {
    /// Makes a product from its number and its other properties. The product is not archived and has no files.
    #[must_use]
    pub fn new(id: ProductId, facts: NewProduct) -> Self {
        Self { id, facts, is_archived: false, files: Arc::default(), encoded: OnceLock::new() }
    }

    /// Returns the product with `is_archived` set.
    #[must_use]
    pub fn archived(self, is_archived: bool) -> Self {
        Self { is_archived, ..self }
    }

    /// Returns the product with these files, which must be ordered by their [folded](FileName::folded) names.
    #[must_use]
    pub fn with_files(self, files: Vec<File>) -> Self {
        Self { files: files.into(), ..self }
    }

    /// Returns the product's files, ordered by their [folded](FileName::folded) names.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns whether the product is archived. An archived product is no longer listed or sold, but keys that have
    /// already been sold can still fetch it.
    #[must_use]
    pub fn is_archived(&self) -> bool {
        self.is_archived
    }

    /// Returns all properties of the product except its number, its files and whether it is archived.
    #[must_use]
    pub fn facts(&self) -> &NewProduct {
        &self.facts
    }

    /// Returns the number.
    #[must_use]
    pub fn id(&self) -> ProductId {
        self.id
    }

    /// Returns the name, which is one line.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// Returns the description; may be empty.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.facts.description
    }

    /// Returns the type, called `type` in the API.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.facts.kind
    }

    /// Returns the content that the buyer gets.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.facts.content
    }

    /// Returns the price.
    #[must_use]
    pub fn price(&self) -> Price {
        self.facts.price
    }

    /// Returns the terms of the keys issued for this product. For a term that is unset, the default terms apply.
    #[must_use]
    pub fn terms(&self) -> OwnTerms {
        self.facts.terms
    }

    /// Returns the product's own language, if it has one. E-mails about the product, and the page on which a buyer
    /// opens it, are in this language.
    #[must_use]
    pub fn language(&self) -> Option<&Language> {
        self.facts.language.as_ref()
    }

    /// Returns the host application's own name for the product, if it has set one.
    #[must_use]
    pub fn host_ref(&self) -> Option<&HostRef> {
        self.facts.host_ref.as_ref()
    }

    /// Returns the names that commerce platforms use for the product.
    #[must_use]
    pub fn refs(&self) -> &Refs {
        &self.facts.refs
    }

    /// Returns the encoded response for this product. The response is created on first use and cached, because creating
    /// it is slow: escaping 2 KB of content takes half as long as a whole request.
    pub(crate) fn encoded(&self, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(self)).clone()
    }
}

impl PartialEq for Product {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.is_archived) == (other.id, other.is_archived)
            && self.facts == other.facts
            && self.files == other.files
    }
}

impl Eq for Product {}
