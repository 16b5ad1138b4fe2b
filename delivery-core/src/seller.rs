//! Who may call the seller's endpoints.
//!
//! An [`AdminToken`] admits every caller that presents it. If a host application already signs its sellers in, it
//! implements [`Seller`] instead:
//!
//! ```
//! use async_trait::async_trait;
//! use delivery_core::key::Actor;
//! use delivery_core::seller::{Head, Seller};
//!
//! /// The user that the host application's middleware has signed in and put into the request's extensions.
//! #[derive(Clone)]
//! struct User { name: String, is_staff: bool }
//!
//! #[derive(Debug)]
//! struct Staff;
//!
//! #[async_trait]
//! impl Seller for Staff {
//!     async fn authenticate(&self, head: &Head<'_>) -> Option<Actor> {
//!         let user = head.extensions.get::<User>().filter(|user| user.is_staff)?;
//!         user.name.parse().ok()
//!     }
//! }
//! ```

mod tokens;

use std::fmt::Debug;
use std::net::IpAddr;

use async_trait::async_trait;
use http::{Extensions, HeaderMap, header};

pub use self::tokens::AdminTokens;
use crate::key::Actor;
use crate::secret::AdminToken;

/// Identifies the caller of a seller endpoint.
///
/// # To ensure correctness
///
/// * Return a caller only for somebody who may use every seller endpoint and the whole desk (the seller's HTML pages).
///   Nothing else checks what a seller may do.
/// * Return the same name for the same person, and different names for different people. The audit log shows the name,
///   and the tokens in the desk's forms depend on it.
/// * An implementation that relies on cookies must itself refuse requests from other sites, for example by cookies that
///   are `SameSite=Strict`. The desk checks the `Origin` of its forms, and a token in them. The API does not check
///   `Origin`: every API request that changes something has a JSON body or, for an upload, the method PUT, and an HTML
///   form on another site can send neither.
/// * Compare credentials in constant time. Otherwise the response time could reveal parts of a valid credential.
#[async_trait]
pub trait Seller: Debug + Send + Sync + 'static {
    /// Returns the caller as the audit log shows it. Returns `None` if the caller is no seller, and the response is
    /// then 401. This method is called after the rate limit per client address was checked.
    async fn authenticate(&self, head: &Head<'_>) -> Option<Actor>;

    /// Returns the tokens that the sign-in form of the desk (the seller's HTML pages) accepts. With `None`, the
    /// default, the desk has no sign-in form: it admits every caller that [`authenticate`](Self::authenticate) accepts,
    /// and the host application signs sellers in and out.
    fn tokens(&self) -> Option<AdminTokens> {
        None
    }
}

/// The head of a request, by which a seller is identified.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Head<'c> {
    /// The header fields.
    pub headers: &'c HeaderMap,
    /// The values that the host application's middleware has attached to the request. With Rocket, these are the values
    /// that `DeliveryFairing::extensions` adds.
    pub extensions: &'c Extensions,
    /// The address at the other end of the connection; `None` if the host application does not know it.
    pub peer: Option<IpAddr>,
}

impl<'c> Head<'c> {
    pub(crate) fn new(headers: &'c HeaderMap, extensions: &'c Extensions, peer: Option<IpAddr>) -> Self {
        Self { headers, extensions, peer }
    }

    /// Returns the token of an `Authorization: Bearer` header; `None` if the header is missing, occurs twice, or has
    /// another scheme.
    #[must_use]
    pub fn bearer(&self) -> Option<&'c str> {
        let mut values = self.headers.get_all(header::AUTHORIZATION).iter();
        let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        let token = token.trim_matches(' ');
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    }
}

#[async_trait]
impl Seller for AdminToken {
    async fn authenticate(&self, head: &Head<'_>) -> Option<Actor> {
        self.matches(head.bearer()?.as_bytes()).then(Actor::admin)
    }

    fn tokens(&self) -> Option<AdminTokens> {
        AdminTokens::default().with_admin(self.clone()).ok()
    }
}
