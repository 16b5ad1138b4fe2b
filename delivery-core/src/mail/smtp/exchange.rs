//! Sends one e-mail over one connection, and decides what a refusal at each step means.
//!
//! Error messages repeat only the [codes](Codes) of a server's reply. They never repeat its text, because the text may
//! quote the e-mail or its recipient, in any encoding.

use std::fmt;
use std::io;
use std::time::Duration;

use lettre::address::Envelope;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{Extension, MailBodyParameter, MailParameter};
use lettre::transport::smtp::response::Severity;
use thiserror::Error;
use tokio_rustls::rustls;

use super::wire::Wire;
use crate::mail::MailError;
use crate::mail::running_time::within;

/// The time limit for all steps before the message itself, such as connecting, signing in and naming the recipient. If
/// these steps take longer, the message has not been sent, so the e-mail can be retried soon.
pub(super) const BEFORE: Duration = Duration::from_mins(1);
/// The time limit for sending the message and receiving the reply to it. RFC 5321, 4.5.3.2.6, asks clients to wait ten
/// minutes for this reply, because the server may deliver the message before it replies.
pub(super) const MESSAGE: Duration = Duration::from_mins(10);

/// The code of a positive reply to the command DATA. Servers use it for nothing else, so any other positive code shows
/// that the reply belongs to another command.
const GO_ON: u16 = 354;

/// The error message if no connection was established, or a connection ended too early.
const BROKEN_OFF: &str = "the mail server cannot be reached or broke off";

/// The e-mail was not accepted, or its acceptance was not confirmed. An [`SmtpError`] without a reply code means that
/// the connection ended, or that the reply was not valid SMTP.
#[derive(Debug, Error)]
pub(super) enum SendError {
    /// All connections that the limit allows were in use for too long. The server was not asked.
    #[error("no connection was free")]
    Occupied,
    /// No connection could be established. The e-mail is not the cause.
    #[error("connection error")]
    Connect(#[source] ConnectError),
    /// The command MAIL failed, for example because the server refused the sender, or refuses all e-mails.
    #[error("refused before the recipient was named")]
    Sender(SmtpError),
    /// The command RCPT failed: the server refused this recipient. `others` is `true` if the server accepted another
    /// recipient just before, so that it does not seem to refuse all recipients.
    #[error("the recipient was refused")]
    Recipient { others: bool, error: SmtpError },
    /// The command DATA failed, or the server refused the message.
    #[error("the message was refused")]
    Message(SmtpError),
    /// The address of the sender or of the recipient is not ASCII. Such an address needs SMTPUTF8 (RFC 6531), which the
    /// server does not offer.
    #[error("the server does not offer SMTPUTF8")]
    NotInternational,
    /// The whole message was sent, but no reply came, or a reply that neither accepts nor refuses the message.
    #[error("no reply to the message")]
    Unconfirmed,
    /// The reply that was read after DATA belongs to an earlier command: the server has replied twice to a command.
    #[error("the server's replies do not match the commands")]
    OutOfStep,
    /// A time limit elapsed before the whole message was sent.
    #[error("the server did not answer in time")]
    Slow,
}

/// Why no connection for e-mails could be established. In each variant with an [`SmtpError`], the cause may also be
/// that the connection ended at that step.
#[derive(Debug, Error)]
pub(super) enum ConnectError {
    /// The server's name has no address, or no connection to any of its addresses succeeds.
    #[error("no connection")]
    Unreachable(#[from] io::Error),
    /// TLS could not be negotiated, for example because the certificate is not trusted or the connection ended.
    #[error("no TLS")]
    Tls(io::Error),
    /// The server's greeting is a refusal.
    #[error("refused by the greeting")]
    Greeting(SmtpError),
    /// The server refuses EHLO, or the name in it.
    #[error("EHLO was refused")]
    Hello(SmtpError),
    /// The server does not offer STARTTLS.
    #[error("STARTTLS is not offered")]
    NoStartTls,
    /// The server refuses STARTTLS.
    #[error("STARTTLS was refused")]
    StartTls(SmtpError),
    /// The server refuses the login, or offers no way to log in that lettre supports.
    #[error("the login was refused")]
    Login(SmtpError),
}

impl ConnectError {
    /// Returns the error message for the operator of the service. It says which step failed, and contains no text of
    /// the server.
    fn operator_message(&self) -> String {
        use rustls::CertificateError::{Expired, ExpiredContext, NotValidForName, NotValidForNameContext};
        let (error, refused) = match self {
            Self::Unreachable(_) => return BROKEN_OFF.to_owned(),
            Self::Tls(error) => {
                let said = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
                return match said {
                    // Do not show the names in the certificate: the server chooses them, so they may contain anything.
                    Some(rustls::Error::InvalidCertificate(error)) => match error {
                        Expired | ExpiredContext { .. } => "the mail server's certificate has expired",
                        NotValidForName | NotValidForNameContext { .. } => {
                            "the mail server's certificate is for another name"
                        }
                        _ => "the mail server's certificate is not trusted",
                    },
                    Some(_) => "the mail server and this program agree on no TLS",
                    None => BROKEN_OFF,
                }
                .to_owned();
            }
            Self::NoStartTls => return "the mail server does not offer STARTTLS".to_owned(),
            Self::Login(error) if error.is_client() => {
                return "the mail server offers no login that is known here".to_owned();
            }
            Self::Greeting(error) => (error, "the mail server takes no connections from here"),
            Self::Hello(error) => (error, "the mail server refuses the name that HELO gives"),
            Self::StartTls(error) => (error, "the mail server refuses STARTTLS"),
            Self::Login(error) => (error, "the mail server refuses the login"),
        };
        match Codes::of(error) {
            None => BROKEN_OFF.to_owned(),
            Some(codes) if error.is_transient() => busy(&codes),
            Some(codes) => format!("{refused} ({codes})"),
        }
    }
}

/// Sends the commands MAIL with the sender, RCPT with the recipient, and DATA. The server delivers nothing before
/// [`message`] is called.
pub(super) async fn envelope(
    connection: &mut AsyncSmtpConnection,
    envelope: &Envelope,
    text: &[u8],
) -> Result<(), SendError> {
    let mut parameters = Vec::new();
    let addresses = envelope.from().into_iter().chain(envelope.to());
    if addresses.map(AsRef::<str>::as_ref).any(|address| !address.is_ascii()) {
        if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
            return Err(SendError::NotInternational);
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    if !text.is_ascii() {
        parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    let mail = Mail::new(envelope.from().cloned(), parameters);
    connection.command(mail).await.map_err(SendError::Sender)?;
    for recipient in envelope.to() {
        let accepted = connection.command(Rcpt::new(recipient.clone(), Vec::new())).await;
        accepted.map_err(|error| SendError::Recipient { others: false, error })?;
    }
    let reply = connection.command(Data).await.map_err(SendError::Message)?;
    if reply.has_code(GO_ON) { Ok(()) } else { Err(SendError::OutOfStep) }
}

/// Sends the message, after [`envelope`] has succeeded. If the server may have accepted the message, the error is
/// [`SendError::Unconfirmed`].
pub(super) async fn message(connection: &mut AsyncSmtpConnection, wire: &Wire, text: &[u8]) -> Result<(), SendError> {
    // Clear the flag by reading it. An earlier message on this connection may have set it.
    wire.dot_sent();
    match within(MESSAGE, connection.message(text)).await {
        Some(Ok(reply)) if reply.code().severity == Severity::PositiveCompletion => Ok(()),
        Some(Ok(_)) => Err(SendError::Unconfirmed),
        Some(Err(error)) if error.status().is_some() => Err(SendError::Message(error)),
        Some(Err(_)) | None if wire.dot_sent() => Err(SendError::Unconfirmed),
        Some(Err(error)) => Err(SendError::Message(error)),
        None => Err(SendError::Slow),
    }
}

impl SendError {
    /// Returns whether the error may be due to this connection: the server has closed it, or rejects commands on it.
    /// The same e-mail may then succeed at once over a new connection.
    pub(super) fn is_of_the_connection(&self) -> bool {
        match self {
            Self::Sender(error) | Self::Recipient { error, .. } => !error.is_permanent(),
            Self::Slow | Self::OutOfStep => true,
            Self::Occupied | Self::Connect(_) | Self::Message(_) | Self::NotInternational | Self::Unconfirmed => false,
        }
    }

    /// Decides what the error means for the e-mail: whether the e-mail is retried, and when.
    ///
    /// Only two errors are final: a refusal that clearly concerns this recipient, and an address that the server does
    /// not support. A blocked sender, a refused login or an exhausted quota affects every e-mail, and the seller can
    /// fix it. Meanwhile, the e-mails are retried.
    pub(super) fn meaning(self) -> MailError {
        match self {
            Self::Recipient { others, ref error } => match (Codes::of(error), about_the_recipient(error)) {
                (None, _) => MailError::transient(BROKEN_OFF),
                (Some(codes), Certainty::Certain) => {
                    MailError::permanent(format!("the mail server knows no such recipient ({codes})"))
                }
                (Some(codes), Certainty::Likely) if others => {
                    MailError::permanent(format!("the mail server refuses this recipient and accepts others ({codes})"))
                }
                (Some(codes), Certainty::Likely) => {
                    MailError::doubtful(format!("the mail server refuses the recipient ({codes})"))
                }
                (Some(codes), Certainty::No) => MailError::transient(refused(&codes)),
            },
            Self::NotInternational => MailError::permanent(
                "the address has letters beyond ASCII, and the mail server does not offer SMTPUTF8",
            ),
            Self::Unconfirmed => {
                MailError::unconfirmed("the mail server did not confirm the message, and may have taken it")
            }
            Self::Occupied => MailError::not_tried("all connections to the mail server are in use"),
            Self::Slow => MailError::transient("the mail server did not answer in time"),
            Self::Sender(ref error) | Self::Message(ref error) => match Codes::of(error) {
                Some(codes) => MailError::transient(refused(&codes)),
                None => MailError::transient(BROKEN_OFF),
            },
            Self::OutOfStep => MailError::transient("the mail server's replies do not match what it was asked"),
            Self::Connect(ref error) => MailError::transient(error.operator_message()),
        }
        .because(self)
    }
}

fn refused(codes: &Codes) -> String {
    match codes.basic {
        421 => busy(codes),
        530 => format!("the mail server wants a login ({codes})"),
        _ => format!("the mail server did not take the message ({codes})"),
    }
}

fn busy(codes: &Codes) -> String {
    format!("the mail server is busy ({codes})")
}

/// The reply code of a refusal, and its enhanced status code (RFC 3463) if the server gives one.
struct Codes {
    basic: u16,
    enhanced: Option<String>,
}

impl Codes {
    /// Returns the codes of a refusal; `None` if the server did not reply, or its reply is not valid SMTP.
    fn of(error: &SmtpError) -> Option<Self> {
        let basic = error.status()?.into();
        let is_number = |part: &str| matches!(part.len(), 1..=3) && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_enhanced = |word: &&str| match word.split('.').collect::<Vec<_>>()[..] {
            ["2" | "4" | "5", subject, detail] => is_number(subject) && is_number(detail),
            _ => false,
        };
        let enhanced = said(error).split_whitespace().next().filter(is_enhanced).map(ToOwned::to_owned);
        Some(Self { basic, enhanced })
    }
}

impl fmt::Display for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.enhanced {
            Some(enhanced) => write!(f, "{} {enhanced}", self.basic),
            None => write!(f, "{}", self.basic),
        }
    }
}

/// Returns the text of a server's reply. Never log, store or show this text: it may quote the e-mail or its recipient.
fn said(error: &SmtpError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}

#[derive(Debug, PartialEq, Eq)]
enum Certainty {
    Certain,
    Likely,
    No,
}

/// Decides how certain it is that a refusal of the command RCPT is about the recipient.
///
/// If the server gives an enhanced status code of class 5 (RFC 3463, 3.2 and 3.3), that code decides. Otherwise the
/// reply code and the text of the reply decide. Servers reply 550, 551 or 553 if there is no such recipient, but also
/// if they refuse the sender or relaying, or if a quota is exhausted. If the reply is not about the recipient, its text
/// usually contains a word of `ABOUT_US`.
fn about_the_recipient(error: &SmtpError) -> Certainty {
    const NO_SUCH_MAILBOX: [&str; 6] = ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"];
    const ABOUT_US: [&str; 16] = [
        "relay",
        "sender",
        "quota",
        "auth",
        "log in",
        "login",
        "limit",
        "block",
        "blacklist",
        "spam",
        "policy",
        "denied",
        "permitted",
        "allowed",
        "reputation",
        "too many",
    ];
    let Some(Codes { basic, enhanced }) = Codes::of(error) else { return Certainty::No };
    let said = said(error).to_ascii_lowercase();
    match enhanced.as_deref() {
        Some(enhanced) if (500..600).contains(&basic) && NO_SUCH_MAILBOX.contains(&enhanced) => Certainty::Certain,
        Some(enhanced) if enhanced.starts_with('5') => Certainty::No,
        _ if !matches!(basic, 550 | 551 | 553) => Certainty::No,
        _ if ABOUT_US.iter().any(|word| said.contains(word)) => Certainty::No,
        _ => Certainty::Likely,
    }
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};

    use super::*;
    use crate::error::explain;

    #[test]
    fn a_certificate_that_is_not_trusted_is_told_as_that() {
        let other_name = || CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("mail.example.com").unwrap(),
            presented: vec!["DnsName(\"canary.example\")".to_owned()],
        };
        let tls = |error: Error| io::Error::new(io::ErrorKind::InvalidData, error);
        for (error, told) in [
            (tls(Error::InvalidCertificate(CertificateError::UnknownIssuer)), "certificate is not trusted"),
            (tls(Error::InvalidCertificate(CertificateError::Expired)), "certificate has expired"),
            (tls(Error::InvalidCertificate(other_name())), "certificate is for another name"),
            (tls(Error::AlertReceived(AlertDescription::HandshakeFailure)), "agree on no TLS"),
            (io::ErrorKind::UnexpectedEof.into(), BROKEN_OFF),
        ] {
            let meant = SendError::Connect(ConnectError::Tls(error)).meaning();
            assert!(meant.to_string().contains(told), "{meant}");
            assert!(!explain(&meant).contains("canary"), "{meant}");
        }
    }
}
