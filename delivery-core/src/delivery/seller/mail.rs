//! The test e-mail.

use std::time::Duration;

use tokio::time::timeout;

use super::Desk;
use crate::email::Email;
use crate::ledger::MessageId;
use crate::mail::{MailError, Message};

/// The time limit for sending the test e-mail. It is shorter than 30 s, because a proxy may abort a request for a page
/// after that time.
const PATIENCE: Duration = Duration::from_secs(20);

impl Desk<'_> {
    /// Sends a test e-mail at once, without the outbox. The result shows the person who sets up the server whether the
    /// mail server accepted the e-mail, or why not.
    ///
    /// # Errors
    ///
    /// [`MailError`] if the mail server did not accept the test e-mail within 20 s.
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
            Err(_) => Err(MailError::transient("the mail server takes longer than 20 s")),
        }
    }
}
