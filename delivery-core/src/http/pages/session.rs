//! Requests for pages: sessions, cookies, and protection against cross-site request forgery (CSRF).

use ::http::{HeaderName, Method, header};
use chrono::TimeDelta;
use subtle::ConstantTimeEq;

use super::ApiError;
use super::form::Form;
use crate::delivery::Delivery;
use crate::http::limits::{admit, client};
use crate::http::proof::Seller;
use crate::http::{Call, Reply};
use crate::key::Actor;
use crate::ledger::EventOutcome;
use crate::limit::{Identity, Policy};
use crate::look::Look;
use crate::seller::AdminTokens;
use crate::store::{Backlog, InboxQuery, SignIn, SignInId};

/// The lifetime of a session, in seconds: 12 hours.
pub(super) const SESSION: i64 = 12 * 60 * 60;
/// How long a browser keeps the cookie of a session, in seconds: a week. After the session has expired, the cookie no
/// longer authenticates the seller. It only shows that the seller was signed in with this browser. A form that is
/// submitted too late can then be [handled after signing in again](super::sign_in::resumed).
pub(super) const SESSION_COOKIE: i64 = 7 * 24 * 60 * 60;
/// The length of the random secret in a cookie, in bytes.
const SECRET: usize = 24;
/// The length of the message authentication code (MAC) in a cookie, in bytes. It is short, because it only serves to
/// recognize forged cookies without querying the store.
const TAG: usize = 8;

/// If at least this many events and messages need the seller's attention, the navigation shows only `99+`.
const MOST_WAITING: usize = 99;

pub(in crate::http) struct PageRequest<'c> {
    pub(in crate::http) delivery: &'c Delivery,
    pub(in crate::http) look: &'c Look,
    pub(in crate::http) call: &'c Call,
    /// The path of the page, without the base path.
    pub(super) path: &'static str,
    /// The submitted form, if the request is a POST.
    pub(super) form: Option<Form>,
}

/// A signed-in seller. If the request has a form, handlers receive the seller only after the CSRF token in the form was
/// checked. There are two exceptions: the handlers of uploads check the token themselves, and signing out needs no
/// token.
#[derive(Debug)]
pub(in crate::http) struct SignedIn {
    pub(super) actor: Actor,
    /// The id of the session. `None` if sellers sign in at the host application instead of with the desk's sign-in
    /// form.
    pub(super) session: Option<SignInId>,
    pub(super) csrf: Csrf,
    /// The number of events and messages that need the seller's attention, as the navigation shows it. Empty if there
    /// are none.
    pub(super) waits: String,
    /// The number of queued and of failed messages. `None` if the store could not count them.
    pub(super) backlog: Option<Backlog>,
}

/// The CSRF tokens that a form may have: one for each signing secret, newest first.
#[derive(Debug)]
pub(super) struct Csrf(Vec<String>);

/// The cookies that the pages set.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cookie {
    /// The secret of a session.
    Session,
    /// A random secret that binds the sign-in form to the browser before the seller is signed in. It is not in the
    /// session cookie, because the sign-in form must not overwrite the cookie of a signed-in seller. Such a seller sees
    /// the sign-in form after following a link from another site: the browser does not send the `SameSite=Strict`
    /// session cookie then.
    Form,
}

impl Csrf {
    /// Returns the token of a form that is shown now.
    pub(super) fn text(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// Refuses a form if its `token` is not one of these valid tokens.
    pub(super) fn check(&self, token: &str) -> Result<(), ApiError> {
        let is_ours = self.0.iter().any(|ours| bool::from(ours.as_bytes().ct_eq(token.as_bytes())));
        if is_ours { Ok(()) } else { Err(ApiError::Forged) }
    }
}

impl Cookie {
    /// Returns the purpose of the cookie's MAC. The purpose depends on the kind of the cookie, so that a form cookie,
    /// which everybody gets, is not valid as a session cookie.
    fn purpose(self) -> &'static str {
        match self {
            Self::Session => "desk session cookie",
            Self::Form => "desk form cookie",
        }
    }
}

impl SignedIn {
    pub(super) fn new(actor: Actor, session: Option<SignInId>, csrf: Csrf) -> Self {
        Self { actor, session, csrf, waits: String::new(), backlog: None }
    }

    /// Counts the events and messages that need the seller's attention. Queued messages count only if the oldest has
    /// waited for at least a minute. Store errors are ignored, because they must not prevent the page from being shown.
    pub(super) async fn counting(self, delivery: &Delivery) -> Self {
        let outcome = Some(EventOutcome::NeedsAttention);
        let events = InboxQuery { outcome, is_grouped: true, limit: MOST_WAITING, ..InboxQuery::default() };
        let events = delivery.events(&events).await.map_or(0, |page| page.items.len());
        let backlog = delivery.backlog().await.ok();
        let messages = backlog.map_or(0, |backlog| {
            let is_late = |oldest| delivery.now().signed_duration_since(oldest) >= TimeDelta::minutes(1);
            backlog.unanswered + if backlog.oldest.is_some_and(is_late) { backlog.queued } else { 0 }
        });
        let waits = match events.saturating_add(usize::try_from(messages).unwrap_or(usize::MAX)) {
            0 => String::new(),
            count if count < MOST_WAITING => count.to_string(),
            _ => format!("{MOST_WAITING}+"),
        };
        Self { waits, backlog, ..self }
    }

    /// Returns the signed-in seller who sent the request. The request is counted against the rate limit before the
    /// seller is looked up. A form that another site sent is refused. This function does not check the CSRF token,
    /// because the form has not been read yet: [`Csrf::check`] does so later.
    ///
    /// Returns `None` if the sender is not signed in.
    pub(super) async fn find(request: &PageRequest<'_>) -> Result<Option<Self>, ApiError> {
        let found = match &request.delivery.inner.tokens {
            Some(tokens) => Self::by_cookie(request, tokens).await?,
            None => Self::by_host(request).await?,
        };
        if found.is_some() && request.is_form() {
            request.check_origin()?;
        }
        Ok(found)
    }

    /// Returns the reply to a sender who is not signed in: a redirect to the sign-in form. After signing in, the seller
    /// is sent back to the page, unless the request submitted a form. If sellers sign in at the host application, the
    /// reply is the error 401 instead.
    pub(super) fn is_missing(request: &PageRequest<'_>) -> ApiError {
        if request.delivery.inner.tokens.is_none() {
            return Reply::error(crate::error::ErrorCode::Unauthorized).into();
        }
        let query = request.call.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
        let here = format!("{}{query}", request.path);
        // The input of a submitted form is lost, so the seller is not sent back to the form. The two forms with files
        // are exceptions, because a GET of their paths shows the form or redirects to it.
        let is_lost = request.is_form() && !["/desk/product/files", "/desk/import"].contains(&request.path);
        if is_lost || here == "/desk" {
            return request.go_to("/desk/sign-in").into();
        }
        let next = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", &here).finish();
        request.go_to(&format!("/desk/sign-in?{next}")).into()
    }

    async fn by_cookie(request: &PageRequest<'_>, tokens: &AdminTokens) -> Result<Option<Self>, ApiError> {
        let Some(secret) = request.cookie(Cookie::Session) else { return Ok(None) };
        let Some(sign_ins) = request.delivery.inner.ledger.office() else { return Ok(None) };
        let counted_as =
            request.mac("desk session", &secret).iter().take(16).fold(0, |all, byte| all << 8 | u128::from(*byte));
        admit(request.delivery, Policy::Desk, Identity::Key(counted_as)).await?;
        let mut found = None;
        for id in request.session_ids(&secret) {
            found = sign_ins.signed_in(id).await?;
            if found.is_some() {
                break;
            }
        }
        let Some(SignIn { id, actor, token, expires_at }) = found else { return Ok(None) };
        // The session is valid only while the seller's token is the one with which the session was started. So changing
        // a token ends the sessions that were started with it.
        let is_token = |digest| request.macs("desk token", digest).any(|mac| bool::from(mac.ct_eq(&token)));
        let holds = tokens.each().any(|(name, digest)| *name == actor && is_token(digest));
        let is_over = expires_at <= request.delivery.inner.clock.now();
        Ok((holds && !is_over).then(|| Self::new(actor, Some(id), request.csrf(&secret))))
    }

    /// Authenticates the seller through the host application. Before that, the request is counted against the rate
    /// limit of the client's address, because the authentication may be expensive.
    async fn by_host(request: &PageRequest<'_>) -> Result<Option<Self>, ApiError> {
        let (delivery, call) = (request.delivery, request.call);
        if delivery.inner.seller.is_none() {
            return Ok(None);
        }
        admit(delivery, Policy::Desk, client(delivery, call)).await?;
        let found = Seller::of(delivery, call).await.map(|seller| seller.actor().clone());
        Ok(found.map(|actor| {
            let csrf = request.csrf(actor.as_str().as_bytes());
            Self::new(actor, None, csrf)
        }))
    }
}

impl PageRequest<'_> {
    /// Returns whether the request submits a form.
    pub(super) fn is_form(&self) -> bool {
        self.call.method == Method::POST
    }

    /// Returns a new random secret for a cookie, and the value of the cookie.
    pub(super) fn new_secret(&self, cookie: Cookie) -> ([u8; SECRET], String) {
        let mut secret = [0; SECRET];
        self.delivery.inner.entropy.fill(&mut secret);
        (secret, self.cookie_text(cookie, &secret))
    }

    /// Returns the value of a cookie with this secret: the secret and its MAC.
    pub(super) fn cookie_text(&self, cookie: Cookie, secret: &[u8; SECRET]) -> String {
        let mut text = data_encoding::BASE64URL_NOPAD.encode(secret);
        let mac = self.mac(cookie.purpose(), secret);
        text.push_str(&data_encoding::BASE64URL_NOPAD.encode(mac.split_at(TAG).0));
        text
    }

    /// Returns the value of `Set-Cookie` for a cookie that lasts `seconds` seconds.
    pub(super) fn set_cookie(&self, cookie: Cookie, text: &str, seconds: i64) -> String {
        let secure = if self.is_secure() { "; Secure" } else { "" };
        format!("{}={text}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", self.cookie_name(cookie))
    }

    /// Returns the secret from the request's cookie of the given kind. Returns `None` if there is no such cookie, or if
    /// its MAC is wrong.
    pub(super) fn cookie(&self, cookie: Cookie) -> Option<[u8; SECRET]> {
        let text = self.cookie_text_named(self.cookie_name(cookie))?;
        let (secret, tag) = text.split_at_checked(SECRET * 4 / 3)?;
        let decode = |text: &str| data_encoding::BASE64URL_NOPAD.decode(text.as_bytes()).ok();
        let secret: [u8; SECRET] = decode(secret)?.try_into().ok()?;
        let tag = decode(tag)?;
        let is_its = |mac: [u8; 32]| bool::from(mac.split_at(TAG).0.ct_eq(&tag));
        self.macs(cookie.purpose(), &secret).any(is_its).then_some(secret)
    }

    /// Returns the value of `Set-Cookie` for a cookie about a buyer's key. `name` is the cookie's name without the
    /// prefix `__Secure-`.
    pub(super) fn cookie_of_buyer(&self, name: &str, text: &str, (seconds, same_site): (u64, &str)) -> String {
        let (name, secure) = (self.name_of_buyer(name), if self.is_secure() { "; Secure" } else { "" });
        // Only the pages at and below `/key` need the cookie. With this path, the browser does not send it with other
        // requests. This matters because a browser may have many such cookies.
        let path = format!("{}/key", base(self.delivery));
        format!("{name}={text}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}")
    }

    /// Returns the value of a cookie that [`cookie_of_buyer`](Self::cookie_of_buyer) has set under this name.
    pub(super) fn text_of_buyer(&self, name: &str) -> Option<&str> {
        self.cookie_text_named(&self.name_of_buyer(name))
    }

    fn name_of_buyer(&self, name: &str) -> String {
        format!("{}{name}", if self.is_https() { "__Secure-" } else { "" })
    }

    /// Returns whether cookies get the attribute `Secure`. `Origin` is checked too, because the configured base URL may
    /// begin with `http` behind a proxy that terminates TLS.
    fn is_secure(&self) -> bool {
        self.is_https() || self.origin().is_some_and(|origin| origin.starts_with("https://"))
    }

    fn cookie_text_named(&self, name: &str) -> Option<&str> {
        // Split the bytes of the header, because cookies of other applications may not be UTF-8 text.
        let lines = self.call.headers.get_all(header::COOKIE).iter();
        let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
        let mut pairs = pairs.filter_map(|pair| std::str::from_utf8(pair).ok()?.trim().split_once('='));
        pairs.find(|(of, _)| *of == name).map(|(_, text)| text)
    }

    /// Returns the ids that a session with this secret may have: one for each signing secret, newest first.
    pub(super) fn session_ids(&self, secret: &[u8]) -> impl Iterator<Item = SignInId> {
        self.macs("desk session", secret).map(SignInId::from_bytes)
    }

    /// Returns the CSRF tokens for forms. They are derived from the secret in a cookie or, if the host application has
    /// authenticated the seller, from the seller's name.
    pub(super) fn csrf(&self, secret: &[u8]) -> Csrf {
        Csrf(self.macs("desk form", secret).map(|mac| data_encoding::BASE64URL_NOPAD.encode(&mac)).collect())
    }

    /// Refuses requests from other sites. The host in `Origin` must be the host in `Host`, or `Origin` must be equal to
    /// the origin of the base URL.
    pub(super) fn check_origin(&self) -> Result<(), ApiError> {
        let origin = self.origin().ok_or(ApiError::Forged)?;
        let ours = &self.delivery.inner.outbox.base_url;
        let ours = ours.strip_suffix(base(self.delivery)).unwrap_or(ours);
        let (scheme, host) = origin.split_once("://").ok_or(ApiError::Forged)?;
        // If the base URL has https and the same host as `Origin`, an origin with http is refused. An attacker in the
        // network could have served a page with this http origin.
        let is_seen_so = self.is_https() && ours.split_once("://").is_some_and(|(_, ours)| ours == host);
        let is_web = scheme == "https" || scheme == "http" && !is_seen_so;
        let is_host = is_web && Some(host) == self.one(&header::HOST);
        if origin.eq_ignore_ascii_case(ours) || is_host { Ok(()) } else { Err(ApiError::Forged) }
    }

    /// Refuses requests from other sites, but accepts requests without `Origin`.
    pub(super) fn check_origin_if_any(&self) -> Result<(), ApiError> {
        if self.call.headers.contains_key(header::ORIGIN) { self.check_origin() } else { Ok(()) }
    }

    fn origin(&self) -> Option<&str> {
        self.one(&header::ORIGIN)
    }

    /// Returns the value of a header field that occurs exactly once.
    fn one(&self, name: &HeaderName) -> Option<&str> {
        let mut values = self.call.headers.get_all(name).iter();
        let first = values.next().and_then(|value| value.to_str().ok());
        first.filter(|_| values.next().is_none())
    }

    pub(super) fn mac(&self, purpose: &str, bytes: &[u8]) -> [u8; 32] {
        self.delivery.inner.keyring.mac(purpose, bytes)
    }

    pub(super) fn macs(&self, purpose: &str, bytes: &[u8]) -> impl Iterator<Item = [u8; 32]> {
        self.delivery.inner.keyring.macs(purpose, bytes)
    }

    fn is_https(&self) -> bool {
        self.delivery.inner.outbox.base_url.starts_with("https://")
    }

    fn cookie_name(&self, cookie: Cookie) -> &'static str {
        match (cookie, self.is_https()) {
            (Cookie::Session, true) => "__Host-desk",
            (Cookie::Session, false) => "desk",
            (Cookie::Form, true) => "__Host-desk-form",
            (Cookie::Form, false) => "desk-form",
        }
    }
}

/// Returns the path of the configured base URL, such as `/shop`, or "". The pages are mounted below this path.
pub(super) fn base(delivery: &Delivery) -> &str {
    let url = &delivery.inner.outbox.base_url;
    let after = url.split_once("://").map_or("", |(_, after)| after);
    after.find('/').map_or("", |at| after.get(at..).unwrap_or_default())
}
