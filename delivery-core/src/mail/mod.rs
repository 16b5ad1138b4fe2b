//! From a commit to a letter in the buyer's mailbox.
//!
//! A letter is queued in the same transaction as its key. The [`Outbox`] leases what is due, renders it, hands it to a
//! [`Mailer`] outside any transaction, and settles the lease with what became of it.
//!
//! # Implementing `Mailer`
//!
//! [`send`](Mailer::send) answers `Ok` once somebody else is responsible for the message: a mail server said 250, a
//! provider's API said 2xx. It says [`MailError::permanent`] only for what no later attempt can mend, such as an unknown
//! recipient, and [`MailError::unconfirmed`] where the message may have been taken; everything else is
//! [`MailError::transient`] and tried again for days. The same message can come twice, with the same `Message-ID`, after a
//! crash or a time-out: pass the id on, so that the other side can recognise it. The message holds a key: log nothing of it.
//! Calls come concurrently, and each is cut off after [`SEND_TIMEOUT`].
//!
//! ```
//! use async_trait::async_trait;
//! use delivery_core::mail::{MailError, Mailer, Message};
//!
//! /// Prints instead of sending.
//! #[derive(Debug)]
//! struct Terminal;
//!
//! #[async_trait]
//! impl Mailer for Terminal {
//!     async fn send(&self, message: &Message) -> Result<(), MailError> {
//!         println!("To: {}\nSubject: {}\n\n{}", message.to, message.subject, message.text);
//!         Ok(())
//!     }
//! }
//! ```

#[cfg(feature = "smtp")]
mod folder;
mod letter;
#[cfg(feature = "smtp")]
mod mime;
mod outbox;
mod retry;
mod sender;
#[cfg(feature = "smtp")]
mod smtp;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use thiserror::Error;

#[cfg(feature = "smtp")]
pub use self::folder::FolderMailer;
pub use self::letter::{TemplateError, Templates};
pub use self::outbox::{Outbox, Worked};
pub use self::sender::Sender;
#[cfg(feature = "smtp")]
pub use self::smtp::{SmtpError, SmtpMailer};
use crate::email::Email;
use crate::store::MessageId;

/// How long one attempt to send may take: the ten minutes that a mail server has for its last reply (RFC 5321, 4.5.3.2.6),
/// and what comes before. What is cut off may have been sent.
pub const SEND_TIMEOUT: Duration = Duration::from_mins(12);

/// Sends a message. See the [module documentation](self) for how to implement it.
#[async_trait]
pub trait Mailer: fmt::Debug + Send + Sync + 'static {
    /// Makes somebody else responsible for delivering `message`.
    ///
    /// # Errors
    ///
    /// [`MailError`] if nobody took it, permanent if nobody ever will.
    async fn send(&self, message: &Message) -> Result<(), MailError>;
}

/// A message ready to be sent. It contains a key, so `Debug` shows neither body nor recipient.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a mailer must see every field")]
pub struct Message {
    /// Who sends it.
    pub from: Sender,
    /// Who gets it.
    pub to: Email,
    /// The subject, one line.
    pub subject: String,
    /// The body as plain text.
    pub text: String,
    /// The body as HTML.
    pub html: String,
    /// The same for each attempt at the same letter.
    pub message_id: MessageId,
    /// When it was rendered.
    pub date: DateTime<Utc>,
}

/// A message was not taken.
///
/// Its text is kept with the letter and logged: no secrets, no body; a mail server's own words are welcome.
#[derive(Debug, Error)]
#[error("{reason}")]
pub struct MailError {
    kind: Failure,
    reason: String,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What a failure means for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// The mail server was not asked, because something of ours failed: tried again in a minute.
    NotTried,
    /// It may pass: tried again soon, and for days.
    Transient,
    /// It seems to be about the recipient, and may be about the sender: tried again for a day.
    Doubtful,
    /// The message may have been taken: tried again after hours, since each attempt may be another copy.
    Unconfirmed,
    /// No later attempt can mend it.
    Permanent,
}

impl MailError {
    /// A failure that may pass.
    #[must_use]
    pub fn transient(reason: impl Into<String>) -> Self {
        Self::new(Failure::Transient, reason)
    }

    /// A failure that no later attempt can mend.
    #[must_use]
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self::new(Failure::Permanent, reason)
    }

    /// A failure that seems permanent but may have a cause that the seller can mend.
    #[must_use]
    pub fn doubtful(reason: impl Into<String>) -> Self {
        Self::new(Failure::Doubtful, reason)
    }

    /// The message was handed over, and nobody confirmed it.
    #[must_use]
    pub fn unconfirmed(reason: impl Into<String>) -> Self {
        Self::new(Failure::Unconfirmed, reason)
    }

    /// Something failed before the message was handed to anybody, such as the host's own database.
    #[must_use]
    pub fn not_tried(reason: impl Into<String>) -> Self {
        Self::new(Failure::NotTried, reason)
    }

    fn new(kind: Failure, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), source: None }
    }

    /// The same failure with its cause, for the log.
    #[must_use]
    pub fn because(self, source: impl Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// What it means for the next attempt.
    #[must_use]
    pub fn kind(&self) -> Failure {
        self.kind
    }

    /// Whether no later attempt can mend it.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        self.kind == Failure::Permanent
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("message_id", &self.message_id.as_str()).finish_non_exhaustive()
    }
}
