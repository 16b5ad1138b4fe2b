//! The test e-mail, and previews of e-mails to buyers.

use std::time::Duration;

use tokio::time::timeout;

use super::{Delivery, Desk};
use crate::email::Email;
use crate::language::Language;
use crate::ledger::{MessageId, MessageKind};
use crate::mail::{EmailPreview, MailError, Message, TemplateError};
use crate::product::Product;
use crate::store::StoreError;

/// The time limit for sending the test e-mail.
const PATIENCE: Duration = Duration::from_secs(30);

/// An e-mail cannot be shown.
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
    /// Sends a test e-mail at once, without the outbox. The person who sets up the server sees whether the
    /// mail server accepted it, and if not, why.
    ///
    /// # Errors
    ///
    /// [`MailError`] if the mail server did not accept the test e-mail within 30 s.
    pub async fn test_mail(&self, to: &Email) -> Result<(), MailError> {
        let inner = &self.delivery.inner;
        let outbox = &inner.outbox;
        let text = format!("This is a test of {}. E-mails with keys reach you too.\n", outbox.base_url);
        let html = format!("<!doctype html><html lang=\"en\"><title>A test</title><p>{}</p></html>", text.trim_end());
        let name = format!("test-{}@{}", inner.clock.now().timestamp_millis(), outbox.sender.domain());
        let message_id = MessageId::new(name).map_err(|_| MailError::permanent("the sender has no domain"))?;
        let message = Message {
            from: outbox.sender.clone(),
            reply_to: outbox.brand.reply_to.clone(),
            to: to.clone(),
            subject: "A test e-mail".to_owned(),
            text,
            html,
            message_id,
            date: inner.clock.now(),
            about: None,
        };
        match timeout(PATIENCE, outbox.mailer.send(&message)).await {
            Ok(sent) => sent,
            Err(_) => Err(MailError::transient("the mail server takes longer than 30 s")),
        }
    }

    /// Renders an e-mail of this kind as a buyer would get it, about an example key for the first product of the shop.
    /// Without a `language`, it is that of this product, else that of products that have none of their own. A language
    /// without templates falls back to English.
    ///
    /// # Errors
    ///
    /// [`PreviewError`] if the products cannot be read, if `kind` is a webhook, or if a template of the host application
    /// cannot be rendered.
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
