//! A digital product.

mod file;
mod price;
mod refs;

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

pub use self::file::{File, FileName, MOST_FILES, MediaType, ObjectName};
pub use self::price::Price;
pub use self::refs::{MOST_REFS, RefName, Refs};
use crate::host_ref::HostRef;
use crate::language::Language;
use crate::terms::OwnTerms;
use crate::text::{Invalid, line, prose};

/// The maximum length of the content of a product or post, in bytes: 1 MiB.
pub const MAX_CONTENT: usize = 1 << 20;

/// A product's number, 1 or more, assigned by the catalog.
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
/// A catalog should return the same `Arc<Product>` each time where possible. The product caches its encoded response,
/// and a fetch that finds the response in the cache does not copy the content.
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

impl ProductId {
    /// Makes a product's number from an integer.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `id` is less than 1.
    pub fn new(id: i64) -> Result<Self, Invalid> {
        if id >= 1 { Ok(Self(id)) } else { Err(Invalid::expected("must be an integer of 1 or more")) }
    }

    /// Returns the number, 1 or more.
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
    /// Makes a product of type `digital` without description and content, free of charge, with the default terms.
    ///
    /// `name` has 1 to 200 characters and no control characters. Set the content with [`content`](Self::content).
    ///
    /// # Errors
    ///
    /// [`Invalid`] for any other name.
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

    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name
    }

    /// Sets the name, which must satisfy the same rule as in [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `name` breaks the rule.
    pub fn name(mut self, name: impl Into<String>) -> Result<Self, Invalid> {
        self.name = Self::new(name)?.name;
        Ok(self)
    }

    /// Sets the content that the buyer gets, usually Markdown: at most [`MAX_CONTENT`] bytes, no control characters
    /// except line breaks and tabs.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for any other text.
    pub fn content(mut self, content: impl Into<String>) -> Result<Self, Invalid> {
        self.content = checked_content(content.into())?;
        Ok(self)
    }

    /// Sets the description: at most 2,000 characters, no control characters except line breaks and tabs.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for any other text.
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
    /// [`Invalid`] for any other text.
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

    /// Sets the language of e-mails about the product, and of the page that opens it. By default it has none: e-mails are
    /// in the shop's language, and the page is in that of the browser.
    #[must_use]
    pub fn language(mut self, language: Language) -> Self {
        self.language = Some(language);
        self
    }

    /// Takes the language away.
    #[must_use]
    pub fn without_language(mut self) -> Self {
        self.language = None;
        self
    }

    /// Sets the host application's own name for the product. No two products of a store may have the same name.
    #[must_use]
    pub fn host_ref(mut self, host_ref: HostRef) -> Self {
        self.host_ref = Some(host_ref);
        self
    }

    /// Whether the product has names on commerce platforms.
    pub(crate) fn has_names(&self) -> bool {
        !self.refs.is_empty()
    }

    /// Sets the names that commerce platforms use for the product. On one platform, no two products of a store may have
    /// the same name.
    #[must_use]
    pub fn refs(mut self, refs: Refs) -> Self {
        self.refs = refs;
        self
    }
}

impl Product {
    /// Makes a product from its number and its facts. It is not archived.
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

    /// Returns whether the product is archived. An archived product is no longer listed or sold, but keys that were
    /// sold before can still fetch it.
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

    /// Returns the language of e-mails about the product and of its page, if it has one of its own.
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
    /// it is slow: to escape 2 KB of content costs half as much time as a whole request.
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

/// Checks the content of a product or a post.
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
