//! Previews of e-mails to buyers.

use super::{Delivery, Desk};
use crate::language::Language;
use crate::ledger::MessageKind;
use crate::mail::{EmailPreview, TemplateError};
use crate::product::Product;
use crate::store::StoreError;

/// Why an e-mail cannot be previewed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreviewError {
    /// The products cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The e-mail cannot be rendered.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl Delivery {
    /// Returns the languages in which there are templates of at least one kind of e-mail.
    #[must_use]
    pub fn email_languages(&self) -> Vec<Language> {
        self.inner.outbox.templates.languages().into_iter().collect()
    }
}

impl Desk<'_> {
    /// Renders an e-mail of this kind as a buyer would get it, about an example key for the first product of the shop.
    /// If there is no product yet, an example product is used. If `language` is `None`, the e-mail is in the language
    /// of the product. If the product has no language, the e-mail is in the
    /// [language](crate::delivery::Builder::language) of the service.
    ///
    /// If there are no templates in a language such as `pt-BR`, those in `pt` are used. If there are none in `pt`
    /// either, those in the language of the service are used, or else the English ones.
    ///
    /// # Errors
    ///
    /// [`PreviewError`] if the products cannot be read, if `kind` is a webhook, or if a template of the host
    /// application cannot be rendered.
    pub async fn preview_email(
        &self,
        kind: MessageKind,
        language: Option<&Language>,
    ) -> Result<EmailPreview, PreviewError> {
        let outbox = &self.delivery.inner.outbox;
        let sold = match self.delivery.products().await?.first() {
            Some(first) => self.delivery.product(first.id).await?,
            None => None,
        };
        let of_product = sold.as_deref().and_then(Product::language);
        Ok(outbox.preview(kind, sold.as_deref(), language.or(of_product).unwrap_or(&outbox.language))?)
    }
}
