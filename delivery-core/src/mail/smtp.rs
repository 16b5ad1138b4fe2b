//! Letters by SMTP.

mod connections;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use percent_encoding::percent_decode_str;
use thiserror::Error;
use url::{Host, Url};

use self::connections::{Connections, SendError, Server};
use super::{MailError, Mailer, Message, SEND_TIMEOUT, mime};

/// Sends through one SMTP server, over connections that are kept for the next letter for some seconds.
///
/// Parsed from a URL: `smtps://user:password@host:465` for implicit TLS, `smtp://user:password@host:587?tls=required`
/// for STARTTLS, `smtp://host:port` in clear for this machine alone, `smtp://host:port?tls=none` in clear wherever that is
/// asked for. A user's or password's reserved characters are percent-encoded. Certificates are verified against the
/// system's roots.
#[derive(Clone)]
pub struct SmtpMailer {
    connections: Arc<Connections>,
}

/// A URL that is no SMTP server's. It repeats nothing of the URL, which may hold a password.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SmtpError {
    /// It has another form.
    #[error(
        "must be smtp://user:password@host:587?tls=required, smtps://user:password@host:465 or, on this machine, smtp://localhost:25"
    )]
    Malformed,
    /// It would send keys and the password in clear through a network.
    #[error("smtp:// to another machine needs ?tls=required, or ?tls=none if keys and password may travel in clear")]
    Clear,
    /// The TLS library refuses the host.
    #[error("TLS cannot be set up for this host")]
    Tls(#[source] lettre::transport::smtp::Error),
}

impl FromStr for SmtpMailer {
    type Err = SmtpError;

    fn from_str(url: &str) -> Result<Self, SmtpError> {
        let url = Url::parse(url).map_err(|_| SmtpError::Malformed)?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(SmtpError::Malformed)?;
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(SmtpError::Malformed);
        }
        let options: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let tls = match options.as_slice() {
            [] => None,
            [(name, value)] if name == "tls" => Some(value.as_str()),
            _ => return Err(SmtpError::Malformed),
        };
        let parameters = || TlsParameters::new(host.to_owned()).map_err(SmtpError::Tls);
        let (tls, port) = match (url.scheme(), tls) {
            ("smtps", None) => (Tls::Wrapper(parameters()?), 465),
            ("smtp", Some("required")) => (Tls::Required(parameters()?), 587),
            ("smtp", Some("none")) => (Tls::None, 25),
            ("smtp", None) if is_this_machine(&url) => (Tls::None, 25),
            ("smtp", None) => return Err(SmtpError::Clear),
            _ => return Err(SmtpError::Malformed),
        };
        let port = url.port().unwrap_or(port);
        let mut credentials = None;
        if !url.username().is_empty() {
            let decode = |text| percent_decode_str(text).decode_utf8().map_err(|_| SmtpError::Malformed);
            let (user, password) = (decode(url.username())?, decode(url.password().unwrap_or_default())?);
            credentials = Some(Credentials::new(user.into_owned(), password.into_owned()));
        }
        let server = Server { host: host.to_owned(), port, tls, credentials };
        Ok(Self { connections: Connections::to(server) })
    }
}

#[async_trait]
impl Mailer for SmtpMailer {
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        let mime = mime::compose(message)?;
        // lettre's own timeout ends after connecting: https://github.com/lettre/lettre/issues/1021
        match tokio::time::timeout(SEND_TIMEOUT, self.connections.send(&mime)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(failure(error)),
            Err(_) => Err(MailError::transient("the mail server did not answer in time")),
        }
    }
}

/// What a failure means for the letter.
///
/// Only a reply about this very recipient is final. A blocked sender, a refused login, a spent quota concerns every letter
/// and is the seller's to mend: letters wait meanwhile, and are parked on day five.
fn failure(error: SendError) -> MailError {
    let code = match &error {
        SendError::Smtp(error) => error.status().map(u16::from),
        SendError::Connect(_) => None,
    };
    let said = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    match code {
        Some(code) if is_about_the_recipient(code, &said) => {
            MailError::permanent(format!("the mail server knows no such recipient ({code})")).because(error)
        }
        Some(code) => MailError::transient(format!("the mail server did not take the letter ({code})")).because(error),
        None => MailError::transient("the mail server cannot be reached or broke off").because(error),
    }
}

/// By the enhanced status code where the server gives one (RFC 3463, 3.2 and 3.3), else by the plain one.
fn is_about_the_recipient(code: u16, said: &str) -> bool {
    const NO_SUCH_MAILBOX: [&str; 6] = ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"];
    let enhanced = said.split_whitespace().next().filter(|word| {
        word.starts_with("5.") && word.split('.').count() == 3 && word.bytes().all(|b| b == b'.' || b.is_ascii_digit())
    });
    match enhanced {
        Some(enhanced) => (500..600).contains(&code) && NO_SUCH_MAILBOX.contains(&enhanced),
        None => matches!(code, 550 | 551 | 553),
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        // `smtp` is no special scheme, so that the URL parser leaves IPv4 addresses as names.
        Some(Host::Domain(name)) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl fmt::Debug for SmtpMailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmtpMailer").field("server", &self.connections.server().to_string()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn urls() {
        for (url, accepted) in [
            ("smtp://localhost:2525", Some("localhost:2525")),
            ("smtp://127.0.0.1", Some("127.0.0.1:25")),
            ("smtp://[::1]:25", Some("[::1]:25")),
            ("smtp://user:p%40ss@mail.example.com:587?tls=required", Some("mail.example.com:587")),
            ("smtp://mail.example.com?tls=required", Some("mail.example.com:587")),
            ("smtp://mail.example.com?tls=none", Some("mail.example.com:25")),
            ("smtps://user:pass@mail.example.com", Some("mail.example.com:465")),
            ("smtp://mail.example.com", None),
            ("smtp://mail.example.com?tls=maybe", None),
            ("smtp://mail.example.com?tls=required&x=1", None),
            ("http://mail.example.com", None),
            ("smtp://", None),
            ("mail.example.com:25", None),
            ("", None),
        ] {
            let mailer = url.parse::<SmtpMailer>().ok();
            let server = mailer.map(|mailer| mailer.connections.server().to_string());
            assert_eq!(server.as_deref(), accepted, "{url}");
        }
    }

    #[tokio::test]
    async fn a_password_is_never_shown() {
        let mailer: SmtpMailer = "smtps://user:hunter2hunter2@mail.example.com".parse().unwrap();
        assert_eq!(format!("{mailer:?}"), r#"SmtpMailer { server: "mail.example.com:465", .. }"#);
    }
}
