//! Who may see a page, and what shows it.

use futures_util::future::BoxFuture;

use super::trouble::Trouble;
use super::visit::{SignedIn, Visit};
use crate::http::Reply;

/// An answer under way.
pub(in crate::http) type Answering<'c> = BoxFuture<'c, Result<Reply, Trouble>>;

/// Who may see a page, and what shows it.
#[derive(Clone, Copy)]
pub(in crate::http) enum Shows {
    /// Anybody.
    Anybody(for<'c> fn(Visit<'c>) -> Answering<'c>),
    /// A seller who is signed in.
    Seller(for<'c> fn(Visit<'c>, SignedIn) -> Answering<'c>),
}
