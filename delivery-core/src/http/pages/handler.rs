//! The handler of a page.

use super::session::{PageRequest, SignedIn};
#[cfg(feature = "files")]
use crate::http::body::Pieces;
use crate::http::error::Answering;

/// Who may see a page, and the function that renders it.
#[derive(Clone, Copy)]
pub(in crate::http) enum PageHandler {
    /// Anybody may see the page.
    Public(for<'c> fn(PageRequest<'c>) -> Answering<'c>),
    /// Only a signed-in seller may see the page.
    Seller(for<'c> fn(PageRequest<'c>, SignedIn) -> Answering<'c>),
    /// Only a signed-in seller may see the page. The handler reads the form while it arrives, and checks its CSRF
    /// token.
    #[cfg(feature = "files")]
    Upload(for<'c> fn(PageRequest<'c>, SignedIn, Pieces<'c>) -> Answering<'c>),
}
