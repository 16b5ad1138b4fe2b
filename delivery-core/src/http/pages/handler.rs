//! The handler of a page.

use futures_util::future::BoxFuture;

use super::error::PageError;
use super::request::{PageRequest, SignedIn};
use crate::http::Reply;

/// The future of a page's reply.
pub(in crate::http) type Answering<'c> = BoxFuture<'c, Result<Reply, PageError>>;

/// Who may see a page, and the function that renders it.
#[derive(Clone, Copy)]
pub(in crate::http) enum PageHandler {
    /// Anybody may see the page.
    Public(for<'c> fn(PageRequest<'c>) -> Answering<'c>),
    /// Only a signed-in seller may see the page.
    Seller(for<'c> fn(PageRequest<'c>, SignedIn) -> Answering<'c>),
}
