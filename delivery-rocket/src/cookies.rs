//! Private cookies, for the sign-in of a host application.

use std::collections::BTreeMap;

use rocket::Request;

/// The private cookies of a request, by name. A [`Seller`](delivery_core::seller::Seller) finds them in the extensions of
/// the [`Head`](delivery_core::seller::Head). They are there if the request has private cookies that Rocket could decrypt
/// with its `secret_key`.
///
/// ```
/// use async_trait::async_trait;
/// use delivery_rocket::PrivateCookies;
/// use delivery_rocket::delivery_core::key::Actor;
/// use delivery_rocket::delivery_core::seller::{Head, Seller};
///
/// #[derive(Debug)]
/// struct Staff;
///
/// #[async_trait]
/// impl Seller for Staff {
///     async fn authenticate(&self, head: &Head<'_>) -> Option<Actor> {
///         head.extensions.get::<PrivateCookies>()?.get("user")?.parse().ok()
///     }
/// }
/// ```
#[derive(Clone)]
pub struct PrivateCookies(BTreeMap<String, String>);

impl PrivateCookies {
    pub(crate) fn of(request: &Request<'_>) -> Option<Self> {
        let jar = request.cookies();
        let names: Vec<String> = jar.iter().map(|cookie| cookie.name().to_owned()).collect();
        let opened = names.into_iter().filter_map(|name| {
            let value = jar.get_private(&name)?.value().to_owned();
            Some((name, value))
        });
        let cookies: BTreeMap<_, _> = opened.collect();
        (!cookies.is_empty()).then_some(Self(cookies))
    }

    /// Returns the value of the private cookie with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// Shows the names alone.
impl std::fmt::Debug for PrivateCookies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
