//! A digital product.

mod price;
mod refs;

use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;

pub use self::price::Price;
pub use self::refs::{MOST_REFS, RefName, Refs};
use crate::host_ref::HostRef;
use crate::language::Language;
use crate::terms::OwnTerms;
use crate::text::{Invalid, line, prose};

/// The largest content of a product or post, in bytes: 1 MiB.
pub const MAX_CONTENT: usize = 1 << 20;

/// A product's number: 1 or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProductId(i64);

/// A validated product without a number. A [`Catalog`](crate::store::Catalog) assigns the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProduct {
    name: String,
    description: String,
    kind: String,
    content: String,
    price: Price,
    terms: OwnTerms,
    language: Option<Language>,
    host_ref: Option<HostRef>,
    refs: Refs,
}

/// A product that can be sold and fetched.
///
/// A catalog should return the same `Arc<Product>` each time where possible: the product caches its encoded response,
/// so that a fetch copies no content.
#[derive(Debug, Clone)]
pub struct Product {
    id: ProductId,
    facts: NewProduct,
    is_archived: bool,
    encoded: OnceLock<Bytes>,
}

/// A product as a list shows it: without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Listing {
    /// The number.
    pub id: ProductId,
    /// The name.
    pub name: String,
    /// The description; may be empty.
    pub description: String,
    /// The type.
    pub kind: String,
    /// The price.
    pub price: Price,
}

impl Listing {
    /// The entry of `product` in a list.
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

impl ProductId {
    /// Reads a product's number.
    ///
    /// # Errors
    ///
    /// [`Invalid`] below 1.
    pub fn new(id: i64) -> Result<Self, Invalid> {
        if id >= 1 { Ok(Self(id)) } else { Err(Invalid::expected("must be an integer of 1 or more")) }
    }

    /// The number, 1 or more.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for ProductId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl NewProduct {
    /// A digital product without description, free of charge, on the host's default terms.
    ///
    /// `name` has 1 to 200 characters and no control characters; `content`, usually Markdown, has 1 byte to
    /// [`MAX_CONTENT`] and no control characters but line breaks and tabs.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `name` breaks this rule. [`content`](Self::content) checks `content`.
    pub fn new(name: impl Into<String>) -> Result<Self, Invalid> {
        let name = name.into();
        if !line(&name, 1, 200) {
            return Err(Invalid::expected("must be 1 to 200 characters without control characters"));
        }
        let (description, kind, content) = (String::new(), "digital".to_owned(), String::new());
        Ok(Self {
            name,
            description,
            kind,
            content,
            price: Price::default(),
            terms: OwnTerms::default(),
            language: None,
            host_ref: None,
            refs: Refs::default(),
        })
    }

    /// Whether this is its name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name
    }

    /// Sets the name, by the rule of [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `name` breaks the rule.
    pub fn name(mut self, name: impl Into<String>) -> Result<Self, Invalid> {
        self.name = Self::new(name)?.name;
        Ok(self)
    }

    /// Sets what the buyer gets: at most [`MAX_CONTENT`] bytes, no control characters but line breaks and tabs.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for anything else.
    pub fn content(mut self, content: impl Into<String>) -> Result<Self, Invalid> {
        self.content = checked_content(content.into())?;
        Ok(self)
    }

    /// Sets the description: at most 2,000 characters, no control characters but line breaks and tabs.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for anything else.
    pub fn description(mut self, description: impl Into<String>) -> Result<Self, Invalid> {
        self.description = description.into();
        if self.description.chars().count() <= 2000 && prose(&self.description) {
            Ok(self)
        } else {
            Err(Invalid::expected("must be at most 2000 characters, of control characters only line breaks and tabs"))
        }
    }

    /// Sets the type, `digital` by default: 1 to 64 characters without control characters.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for anything else.
    pub fn kind(mut self, kind: impl Into<String>) -> Result<Self, Invalid> {
        self.kind = kind.into();
        if line(&self.kind, 1, 64) {
            Ok(self)
        } else {
            Err(Invalid::expected("must be 1 to 64 characters without control characters"))
        }
    }

    /// Sets the price.
    #[must_use]
    pub fn price(mut self, price: Price) -> Self {
        self.price = price;
        self
    }

    /// Sets the terms of the keys issued for this product.
    #[must_use]
    pub fn terms(mut self, terms: OwnTerms) -> Self {
        self.terms = terms;
        self
    }

    /// Sets the language of e-mails about it; by default the shop's.
    #[must_use]
    pub fn language(mut self, language: Language) -> Self {
        self.language = Some(language);
        self
    }

    /// Sets what the host calls it. No two products of a store are called the same.
    #[must_use]
    pub fn host_ref(mut self, host_ref: HostRef) -> Self {
        self.host_ref = Some(host_ref);
        self
    }

    /// Whether it has names on platforms.
    pub(crate) fn has_names(&self) -> bool {
        !self.refs.is_empty()
    }

    /// Sets what commerce platforms call it. No two products of a store have the same name on one platform.
    #[must_use]
    pub fn refs(mut self, refs: Refs) -> Self {
        self.refs = refs;
        self
    }
}

impl Product {
    /// A product under its number.
    #[must_use]
    pub fn new(id: ProductId, facts: NewProduct) -> Self {
        Self { id, facts, is_archived: false, encoded: OnceLock::new() }
    }

    /// The same product, archived or not.
    #[must_use]
    pub fn archived(self, is_archived: bool) -> Self {
        Self { is_archived, ..self }
    }

    /// Whether the product is archived. An archived product is no longer listed or sold, but is still served to keys
    /// that were sold before.
    #[must_use]
    pub fn is_archived(&self) -> bool {
        self.is_archived
    }

    /// What it says, without its number.
    #[must_use]
    pub fn facts(&self) -> &NewProduct {
        &self.facts
    }

    /// The number.
    #[must_use]
    pub fn id(&self) -> ProductId {
        self.id
    }

    /// The name, one line.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// The description; may be empty.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.facts.description
    }

    /// The type, called `type` on the wire.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.facts.kind
    }

    /// What the buyer gets.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.facts.content
    }

    /// The price.
    #[must_use]
    pub fn price(&self) -> Price {
        self.facts.price
    }

    /// The terms of the keys issued for this product, as far as it has its own.
    #[must_use]
    pub fn terms(&self) -> OwnTerms {
        self.facts.terms
    }

    /// The language of e-mails about it, if it is not the shop's.
    #[must_use]
    pub fn language(&self) -> Option<&Language> {
        self.facts.language.as_ref()
    }

    /// What the host calls it, if the host said so.
    #[must_use]
    pub fn host_ref(&self) -> Option<&HostRef> {
        self.facts.host_ref.as_ref()
    }

    /// What commerce platforms call it.
    #[must_use]
    pub fn refs(&self) -> &Refs {
        &self.facts.refs
    }

    /// The encoded response for this product, created on first use and cached: escaping 2 KB costs half as much as a
    /// request.
    pub(crate) fn encoded(&self, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(self)).clone()
    }
}

impl PartialEq for Product {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.is_archived) == (other.id, other.is_archived) && self.facts == other.facts
    }
}

impl Eq for Product {}

/// The rule for the content of products and posts.
pub(crate) fn checked_content(content: String) -> Result<String, Invalid> {
    if content.len() <= MAX_CONTENT && prose(&content) {
        Ok(content)
    } else {
        Err(Invalid::expected("must be at most 1 MiB of text, of control characters only line breaks and tabs"))
    }
}

crate::text::serde_as_number!(ProductId, i64, ProductId::new, ProductId::get);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_out_of_range_are_refused() {
        let product = || NewProduct::new("Guide").unwrap();
        assert!(NewProduct::new("").is_err());
        assert!(NewProduct::new("n".repeat(201)).is_err());
        assert!(NewProduct::new("a\nb").is_err());
        assert!(product().content("c".repeat(MAX_CONTENT)).is_ok());
        assert!(product().content("c".repeat(MAX_CONTENT + 1)).is_err());
        assert!(product().content("# Title\r\n\ttext").is_ok());
        assert!(product().content("\u{1b}[31m").is_err());
        assert!(product().description("d".repeat(2001)).is_err());
        assert!(product().kind("").is_err());
    }
}
