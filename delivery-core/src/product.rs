//! A digital product.

mod file;
mod price;
mod refs;
mod stored;

use std::fmt;

pub use self::file::{File, FileName, MOST_FILES, MediaType, ObjectName};
pub use self::price::Price;
pub use self::refs::{MOST_REFS, RefName, Refs};
pub use self::stored::{Listing, Product};
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

    #[cfg(feature = "pages")]
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

    /// Sets the language of e-mails about the product, and of the page on which a buyer opens it. Without a language,
    /// e-mails are in the shop's language, and the page is in the language of the browser.
    #[must_use]
    pub fn language(mut self, language: Language) -> Self {
        self.language = Some(language);
        self
    }

    /// Removes the language.
    #[must_use]
    pub fn without_language(mut self) -> Self {
        self.language = None;
        self
    }

    /// Sets the host application's own name for the product. It must be unique among the products of a store.
    #[must_use]
    pub fn host_ref(mut self, host_ref: HostRef) -> Self {
        self.host_ref = Some(host_ref);
        self
    }

    /// Whether the product has names on commerce platforms.
    pub(crate) fn has_names(&self) -> bool {
        !self.refs.is_empty()
    }

    /// Sets the names that commerce platforms use for the product. On each platform, a name may belong to only one
    /// product of a store.
    #[must_use]
    pub fn refs(mut self, refs: Refs) -> Self {
        self.refs = refs;
        self
    }
}

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
    fn a_type_is_not_empty() {
        // The API and the desk take an empty type for none, so it never gets here from there.
        assert!(NewProduct::new("Guide").unwrap().kind("").is_err());
    }
}
