//! Who may see a page, and what shows it.

use futures_util::future::BoxFuture;

use super::error::PageError;
use super::request::{PageRequest, SignedIn};
use crate::http::Reply;

/// An answer under way.
pub(in crate::http) type Answering<'c> = BoxFuture<'c, Result<Reply, PageError>>;

/// Who may see a page, and what shows it.
#[derive(Clone, Copy)]
pub(in crate::http) enum PageHandler {
    /// Anybody.
    Public(for<'c> fn(PageRequest<'c>) -> Answering<'c>),
    /// A seller who is signed in.
    Seller(for<'c> fn(PageRequest<'c>, SignedIn) -> Answering<'c>),
}
