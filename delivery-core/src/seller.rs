//! Who may call the seller's endpoints.
//!
//! An [`AdminToken`] lets in whoever sends it. A host whose sellers sign in already implements [`Seller`] on that instead:
//!
//! ```
//! use async_trait::async_trait;
//! use delivery_core::key::Actor;
//! use delivery_core::seller::{Head, Seller};
//!
//! /// Whom the host's own middleware has signed in, as it leaves it with the request.
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

/// Tells who a caller of the seller's endpoints is.
///
/// A host that goes by cookies must refuse requests from other sites itself: the endpoints take JSON alone, which a form of
/// another site cannot send, and check no `Origin`.
#[async_trait]
pub trait Seller: Debug + Send + Sync + 'static {
    /// Who the caller is, for the audit log; `None` to answer 401. Called after the limit per address. It must not tell
    /// callers apart by the time it takes.
    async fn authenticate(&self, head: &Head<'_>) -> Option<Actor>;

    /// The tokens that open the pages of the desk, whose sign-in form takes one of them. `None`, unless said otherwise: whoever is
    /// [authenticated](Self::authenticate) is at the desk, and signs in and out where the host says.
    fn tokens(&self) -> Option<AdminTokens> {
        None
    }
}

/// What is known of a caller.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Head<'c> {
    /// The header fields, in the order sent.
    pub headers: &'c HeaderMap,
    /// What the host's middleware left with the request. Rocket has no such thing: it is empty there.
    pub extensions: &'c Extensions,
    /// The address at the other end of the connection; `None` if the host does not know it.
    pub peer: Option<IpAddr>,
}

impl<'c> Head<'c> {
    pub(crate) fn new(headers: &'c HeaderMap, extensions: &'c Extensions, peer: Option<IpAddr>) -> Self {
        Self { headers, extensions, peer }
    }

    /// The token of `Authorization: Bearer`. `None` for another scheme, for none, and for two: a caller cannot tell them
    /// apart.
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
