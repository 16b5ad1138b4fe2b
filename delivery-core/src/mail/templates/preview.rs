//! E-mails about an example key, so that a seller sees what buyers get.

use std::collections::BTreeSet;

use super::values::{ServiceValues, example_values};
use super::{ENGLISH, Rendered, TemplateError, Templates, stem};
use crate::language::Language;
use crate::ledger::MessageKind;
use crate::product::Product;

impl Templates {
    /// Returns the languages in which there are templates of at least one kind.
    pub(crate) fn languages(&self) -> BTreeSet<Language> {
        let tags = self.stems.iter().map(|stem| stem.split_once('.').map_or(ENGLISH, |(_, tag)| tag));
        tags.filter_map(|tag| tag.parse().ok()).collect()
    }

    /// Renders an e-mail about an example key for the product `sold`. If `sold` is `None`, the product is an example
    /// too. The language is the first of `languages` for which there are templates, or templates of a more general
    /// language, such as `de` for `de-AT`. If there is no such language, the e-mail is in English.
    pub(in crate::mail) fn preview(
        &self,
        kind: MessageKind,
        sold: Option<&Product>,
        (service, languages): (ServiceValues<'_>, [&Language; 2]),
    ) -> Result<Rendered, TemplateError> {
        let mut tags = languages.into_iter().flat_map(Language::lookup);
        let tag = tags.find(|tag| self.stems.contains(&stem(kind, tag))).unwrap_or(ENGLISH);
        self.render_all((&stem(kind, tag), tag), &example_values(kind, sold, (service, tag)))
    }
}
