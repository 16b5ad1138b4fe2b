//! The outbox: sends each key to its buyer by e-mail, after the key was committed to the store.
//!
//! An e-mail is queued in the same transaction as its key. The [`Outbox`] leases the messages that are due: for a
//! limited time, no other server sends them. It renders them, hands them to a [`Mailer`] outside any transaction, and
//! completes each lease with the outcome.
//!
//! # Implementing `Mailer`
//!
//! [`send`](Mailer::send) is called concurrently, and each call is cancelled after [`SEND_TIMEOUT`]. After a crash or a
//! time-out it can be called again with the same message and the same `Message-ID`. A failure that may be temporary is
//! [transient](MailError::transient), and is retried for days. [`Failure`] lists the other kinds of failures.
//! [`Mailer`] lists what an implementation must guarantee.
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

mod brand;
#[cfg(feature = "smtp")]
mod folder;
#[cfg(feature = "smtp")]
mod mime;
mod outbox;
mod retry;
mod running_time;
mod sender;
#[cfg(feature = "smtp")]
mod smtp;
mod templates;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use thiserror::Error;

pub use self::brand::Brand;
#[cfg(feature = "smtp")]
pub use self::folder::FolderMailer;
pub use self::outbox::{Outbox, Worked};
pub use self::sender::Sender;
#[cfg(feature = "smtp")]
pub use self::smtp::{SmtpError, SmtpMailer};
pub(crate) use self::templates::named;
pub use self::templates::{TemplateError, Templates};
use crate::email::Email;
use crate::error::explain;
use crate::key::KeyId;
use crate::language::Language;
use crate::ledger::{MessageId, MessageKind};
use crate::redact::redacted;

/// How long one attempt to send may take: the ten minutes that a mail server has for its last reply (RFC 5321,
/// 4.5.3.2.6), and two minutes for the steps before that reply. An attempt that is cancelled may have been successful.
/// If the process is suspended, at most 15 seconds of the suspension count.
pub const SEND_TIMEOUT: Duration = Duration::from_mins(12);

/// Sends a message. See the [module documentation](self) for how to implement it.
///
/// # To ensure correctness
///
/// * Return `Ok` only once another system has taken responsibility for the message: a mail server replied 250, or a
///   provider's API replied 2xx. The message then counts as sent.
/// * Return [`MailError::permanent`] only for a failure that no later attempt can fix, such as an unknown recipient.
///   The message is then given up.
/// * Return [`MailError::unconfirmed`] if the message may have been accepted. It is then retried only after hours.
///   After other errors that are not permanent it is retried soon, and the buyer could get many copies.
/// * Pass on the [`message_id`](Message::message_id), so that the receiving system can recognise a duplicate.
/// * Log no part of the message, and repeat none of it in an error: it usually contains a key. See [`MailError`].
///
/// A mailer for development, which writes messages to a terminal or a folder, does not meet the first and the last
/// requirement. Such a mailer returns `true` from [`reaches_nobody`](Self::reaches_nobody).
#[async_trait]
pub trait Mailer: fmt::Debug + Send + Sync + 'static {
    /// Hands `message` to a system that takes responsibility for delivering it.
    ///
    /// # Errors
    ///
    /// [`MailError`] if the message was not accepted, or if its acceptance was not confirmed. The error is permanent
    /// only if no later attempt can succeed.
    async fn send(&self, message: &Message) -> Result<(), MailError>;

    /// Erases a person's data: deletes everything that the mailer keeps of messages to `address`. Addresses that differ
    /// only in the case of ASCII letters count as the same. The default implementation does nothing. It suits mailers
    /// that keep no messages.
    ///
    /// # Errors
    ///
    /// [`MailError`] if some of the data may be left. The call can then be repeated.
    async fn forget(&self, address: &Email) -> Result<(), MailError> {
        let _ = address;
        Ok(())
    }

    /// Returns how many calls of [`send`](Self::send) may be in progress at once, 1 or more. The outbox reads this
    /// number when the service is built, and never exceeds it. The default sets no limit.
    ///
    /// Whatever this returns, the outbox has at most 16 calls in progress, not counting calls that have already taken
    /// 95 seconds.
    fn at_once(&self) -> usize {
        usize::MAX
    }

    /// Returns whether the mailer only writes messages to files or a log, so that no message reaches a buyer. If this
    /// returns `true`, the desk (the seller's HTML pages) shows the seller a warning. The default is `false`.
    fn reaches_nobody(&self) -> bool {
        false
    }
}

/// A message ready to be sent. It usually contains a key, so `Debug` shows neither body nor recipient.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a mailer must see every field")]
pub struct Message {
    /// The sender.
    pub from: Sender,
    /// The address to which replies go; `None` if they go to the sender.
    pub reply_to: Option<Email>,
    /// The recipient. In SMTP commands and headers, write the local part as [`quoted_local`](Email::quoted_local)
    /// returns it.
    pub to: Email,
    /// The subject, one line.
    pub subject: String,
    /// The body as plain text.
    pub text: String,
    /// The body as HTML.
    pub html: String,
    /// The `Message-ID`, the same for each attempt to send this e-mail.
    pub message_id: MessageId,
    /// When the message was rendered.
    pub date: DateTime<Utc>,
    /// What the e-mail is about; `None` if the e-mail is not about a key.
    pub about: Option<About>,
}

/// What an e-mail to a buyer is about. A mailer that uses an e-mail provider can tag the e-mail with these values, or
/// choose one of the provider's own templates by them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// The kind of e-mail.
    pub kind: MessageKind,
    /// The key that the e-mail is about. If the e-mail is about several keys, this is the newest key.
    pub key: KeyId,
    /// The language in which the e-mail was rendered.
    pub language: Language,
}

impl About {
    /// Creates the value, for tests of a mailer.
    #[must_use]
    pub fn new(kind: MessageKind, key: KeyId, language: Language) -> Self {
        Self { kind, key, language }
    }
}

/// An e-mail about an example key, as a buyer would get it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmailPreview {
    /// The kind of e-mail.
    pub kind: MessageKind,
    /// The language in which the e-mail is written.
    pub language: Language,
    /// The subject, one line.
    pub subject: String,
    /// The body as plain text.
    pub text: String,
    /// The body as HTML.
    pub html: String,
}

/// The URLs that e-mails to buyers contain. E-mails leave out a URL that is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal")]
pub struct MailLinks {
    /// The page on which a buyer opens a product. E-mails append `#` and the key.
    pub page: Option<String>,
    /// The endpoint from which a program fetches a product. E-mails append `?product_id=` and the number of the
    /// product.
    pub fetch: Option<String>,
    /// The page on which a buyer who lost a key asks for it.
    pub lost: Option<String>,
}

impl MailLinks {
    /// Returns the URLs of a service that is mounted at `base_url`.
    pub(crate) fn of(base_url: &str, has_page: bool, answers_lost: bool) -> Self {
        Self {
            page: has_page.then(|| format!("{base_url}/key")),
            fetch: Some(format!("{base_url}/api/product")),
            lost: (has_page && answers_lost).then(|| format!("{base_url}/key/lost")),
        }
    }
}

/// The message was not accepted, or its acceptance was not confirmed.
///
/// The text of the error is stored with the e-mail, and logged together with its cause. Keys and e-mail addresses [are
/// hidden](crate::redacted) in both. Other secrets, and the body of the message, must not occur in the error or its
/// cause. So do not repeat a server's reply, which may quote the e-mail.
#[derive(Debug, Error)]
#[error("{reason}")]
pub struct MailError {
    kind: Failure,
    reason: String,
    #[source]
    source: Option<Cause>,
}

/// The text of an error and its causes.
#[derive(Debug, Error)]
#[error("{0}")]
struct Cause(String);

/// What a failure means for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// Something failed before the message was handed over, for example because the database was not available. The
    /// message is retried every minute, and never given up for this reason.
    NotTried,
    /// The failure may be temporary. The message is retried soon, and for days.
    Transient,
    /// The failure is probably permanent, but may not be. For example, a mail server refused the recipient, although
    /// the real cause may be the sender. Or this server has no webhook of this name, but another server may have one.
    /// The message is retried for a day.
    Doubtful,
    /// The message may have been accepted. It is retried only after hours, because each attempt may deliver another
    /// copy.
    Unconfirmed,
    /// No later attempt can succeed. The message is not retried.
    Permanent,
}

impl MailError {
    /// Makes an error for a failure that may be temporary.
    #[must_use]
    pub fn transient(reason: impl Into<String>) -> Self {
        Self::new(Failure::Transient, reason)
    }

    /// Makes an error for a failure that no later attempt can fix.
    #[must_use]
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self::new(Failure::Permanent, reason)
    }

    /// Makes an error for a failure that seems permanent but may have a cause that the seller can fix.
    #[must_use]
    pub fn doubtful(reason: impl Into<String>) -> Self {
        Self::new(Failure::Doubtful, reason)
    }

    /// Makes an error for a message that was handed over, but whose acceptance was not confirmed.
    #[must_use]
    pub fn unconfirmed(reason: impl Into<String>) -> Self {
        Self::new(Failure::Unconfirmed, reason)
    }

    /// Makes an error for a failure before the message was handed over, such as a failure of the host application's own
    /// database.
    #[must_use]
    pub fn not_tried(reason: impl Into<String>) -> Self {
        Self::new(Failure::NotTried, reason)
    }

    fn new(kind: Failure, reason: impl Into<String>) -> Self {
        let reason: String = reason.into();
        Self { kind, reason: redacted(&reason), source: None }
    }

    /// Adds the cause, for the log.
    #[must_use]
    pub fn because(self, source: impl Error + Send + Sync + 'static) -> Self {
        self.because_of(&source)
    }

    pub(crate) fn because_of(self, source: &(dyn Error + 'static)) -> Self {
        Self { source: Some(Cause(redacted(&explain(source)))), ..self }
    }

    /// Returns what the failure means for the next attempt.
    #[must_use]
    pub fn kind(&self) -> Failure {
        self.kind
    }

    /// Returns whether no later attempt can succeed.
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
