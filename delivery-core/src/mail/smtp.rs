//! Sends e-mails by SMTP.

mod connections;
mod exchange;
mod pace;
mod wire;

use std::error::Error;
use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::extension::ClientId;
use percent_encoding::percent_decode_str;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::{Host, Url};

use self::connections::{Connections, Security, Server, Tls};
use self::exchange::SendError;
use self::pace::Pace;
use super::{MailError, Mailer, Message, Sender, mime};
use crate::email::host_name;
use crate::text::{Invalid, UNESCAPED, is_cut_short};

/// Sends e-mails through one SMTP server. Connections stay open for some seconds, so that the next e-mail can use them.
///
/// Parsed from a URL of one of these forms:
///
/// - `smtps://user:password@host:465` for implicit TLS
/// - `smtp://user:password@host:587?tls=required` for STARTTLS
/// - `smtp://host:port` without TLS, only for a mail server on this machine
/// - `smtp://host:port?tls=none` without TLS, for any host
///
/// Reserved characters in the user name and the password must be percent-encoded. Certificates are verified against the
/// system's roots.
///
/// In EHLO, the mailer sends the domain of the sender if that is a DNS name, and otherwise the name of this machine. If
/// the server refuses this name, set [another](Self::helo).
#[derive(Clone)]
pub struct SmtpMailer {
    connections: Arc<Connections>,
    helo: Option<ClientId>,
    pace: Option<Arc<Pace>>,
}

/// Why an [`SmtpMailer`] cannot be made from a URL. The error repeats no part of the URL, which may contain a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SmtpError {
    /// The URL has none of the accepted forms.
    #[error(
        "must be smtp://user:password@host:587?tls=required, smtps://user:password@host:465 or, on this machine, smtp://localhost:25"
    )]
    Malformed,
    /// The user name or the password contains an unescaped `/`, `?` or `#`.
    #[error("{UNESCAPED}")]
    Unescaped,
    /// With this URL, keys and the password would be sent over a network without encryption.
    #[error("smtp:// to another machine needs ?tls=required, or ?tls=none if keys and password may travel in clear")]
    Clear,
    /// The host is not a name for which a certificate can be issued, or this machine has no usable root certificates.
    #[error("TLS cannot be set up for this host")]
    Tls(#[source] Box<dyn Error + Send + Sync>),
}

/// Returns a TLS configuration that verifies the certificate of `host` against the system's roots.
fn secured(host: &str) -> Result<Tls, SmtpError> {
    let refused = |source: Box<dyn Error + Send + Sync>| SmtpError::Tls(source);
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|error| refused(error.into()))?;
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    if roots.add_parsable_certificates(found.certs).0 == 0 {
        return Err(refused(found.errors.into_iter().next().map_or_else(|| "no root certificates".into(), Into::into)));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.into()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Tls { connector: TlsConnector::from(Arc::new(config)), host: name })
}

impl FromStr for SmtpMailer {
    type Err = SmtpError;

    fn from_str(url: &str) -> Result<Self, SmtpError> {
        if is_cut_short(url) {
            return Err(SmtpError::Unescaped);
        }
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
        let (security, port) = match (url.scheme(), tls) {
            ("smtps", None) => (Security::Implicit(secured(host)?), 465),
            ("smtp", Some("required")) => (Security::StartTls(secured(host)?), 587),
            ("smtp", Some("none")) => (Security::None, 25),
            ("smtp", None) if is_this_machine(&url) => (Security::None, 25),
            ("smtp", None) => return Err(SmtpError::Clear),
            _ => return Err(SmtpError::Malformed),
        };
        let port = url.port().unwrap_or(port);
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            ("", Some(_)) => return Err(SmtpError::Malformed),
            (user, password) => {
                let decode = |text| percent_decode_str(text).decode_utf8().map_err(|_| SmtpError::Malformed);
                let (user, password) = (decode(user)?, decode(password.unwrap_or_default())?);
                Some(Credentials::new(user.into_owned(), password.into_owned()))
            }
        };
        let server = Server { host: host.to_owned(), port, security, credentials };
        Ok(Self { connections: Connections::to(Arc::new(server), None), helo: None, pace: None })
    }
}

impl SmtpMailer {
    /// Returns whether `url` names a mail server on this machine, for example one for trying out the service.
    #[must_use]
    pub fn is_loopback(url: &str) -> bool {
        Url::parse(url).is_ok_and(|url| is_this_machine(&url))
    }

    /// Sets the name that the mailer uses in EHLO.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `name` is not a DNS name with a dot, such as `shop.example`.
    pub fn helo(self, name: &str) -> Result<Self, Invalid> {
        let name = host_name(name).map_err(|_| Invalid::expected("must be a DNS name such as shop.example"))?;
        Ok(Self { helo: Some(ClientId::Domain(name)), ..self })
    }

    /// Sets how many connections to the mail server may be open at once, 1 or more. By default there is no limit: the
    /// outbox sends 16 e-mails at once, and more if the server takes minutes to confirm some of them. A connection that
    /// waits for such a confirmation counts towards the limit. Each process counts its own connections. An e-mail that
    /// gets no connection within a minute [is not tried](super::Failure::NotTried).
    #[must_use]
    pub fn connections(self, limit: NonZeroUsize) -> Self {
        Self { connections: Connections::to(self.connections.server.clone(), Some(limit)), ..self }
    }

    /// Sets the maximum number of e-mails that are sent in a second. They are spaced evenly. By default there is no
    /// limit. Each process counts its own e-mails.
    #[must_use]
    pub fn rate(self, per_second: NonZeroU32) -> Self {
        Self { pace: Some(Arc::new(Pace::of(per_second))), ..self }
    }

    /// Checks that the mail server can be used for e-mails from `from`: connects, secures the connection and signs in,
    /// but sends no e-mail. In EHLO, it sends the same name as for such an e-mail.
    ///
    /// # Errors
    ///
    /// [`MailError`] if one of these steps fails. If the server refused the step, the error contains the reply code.
    pub async fn check(&self, from: &Sender) -> Result<(), MailError> {
        self.connections.check(&self.hello(from)).await.map_err(SendError::meaning)
    }

    /// Returns the name in EHLO for e-mails from `from`.
    fn hello(&self, from: &Sender) -> ClientId {
        let of_sender = || host_name(from.domain()).map_or_else(|_| ClientId::default(), ClientId::Domain);
        self.helo.clone().unwrap_or_else(of_sender)
    }
}

#[async_trait]
impl Mailer for SmtpMailer {
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        let mime = mime::compose(message)?;
        if let Some(pace) = &self.pace {
            pace.wait().await;
        }
        self.connections.send(&mime, &self.hello(&message.from)).await.map_err(SendError::meaning)
    }

    fn at_once(&self) -> usize {
        self.connections.limit.map_or(usize::MAX, NonZeroUsize::get)
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        // `smtp` is not a special scheme, so the URL parser returns an IPv4 address as a domain name.
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
        f.debug_struct("SmtpMailer").field("server", &self.connections.server.to_string()).finish_non_exhaustive()
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
            ("smtp://user:12/34@localhost", None),
            ("smtps://:pass@mail.example.com", None),
            ("", None),
        ] {
            let mailer = url.parse::<SmtpMailer>().ok();
            let server = mailer.map(|mailer| mailer.connections.server.to_string());
            assert_eq!(server.as_deref(), accepted, "{url}");
        }
    }

    #[test]
    fn signatures_of_every_curve_that_authorities_use_are_known() {
        use tokio_rustls::rustls::SignatureScheme;
        let known = aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes();
        for scheme in [
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED25519,
            SignatureScheme::RSA_PSS_SHA512,
        ] {
            assert!(known.contains(&scheme), "{scheme:?}");
        }
    }

    #[tokio::test]
    async fn a_helo_name_is_a_dns_name() {
        for (name, accepted) in [
            ("shop.example", Some("shop.example")),
            ("Bücher.example", Some("xn--bcher-kva.example")),
            ("localhost", None),
            ("15b0717dc4c2", None),
            ("192.0.2.1", None),
            ("shop.example\r\nMAIL", None),
            ("", None),
        ] {
            let mailer: SmtpMailer = "smtp://localhost".parse().unwrap();
            let helo = mailer.helo(name).ok().and_then(|mailer| mailer.helo).map(|helo| helo.to_string());
            assert_eq!(helo.as_deref(), accepted, "{name}");
        }
    }

    #[tokio::test]
    async fn a_password_is_never_shown() {
        let mailer: SmtpMailer = "smtps://user:hunter2hunter2@mail.example.com".parse().unwrap();
        assert_eq!(format!("{mailer:?}"), r#"SmtpMailer { server: "mail.example.com:465", .. }"#);
    }
}
