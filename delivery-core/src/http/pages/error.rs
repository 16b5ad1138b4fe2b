//! Errors of pages.

use crate::http::Reply;
use crate::store::StoreError;

/// Why a page cannot be shown.
#[derive(Debug)]
pub(in crate::http) enum PageError {
    /// The page, or the record that it shows, does not exist.
    NotFound,
    /// The form was not sent by one of our pages, or is too old.
    Forged,
    /// A parameter or a field of the form is malformed.
    Malformed,
    /// The reply is already complete, such as a redirect to the sign-in form.
    Answered(Box<Reply>),
}

impl From<Reply> for PageError {
    fn from(reply: Reply) -> Self {
        Self::Answered(Box::new(reply))
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unsupported => Self::NotFound,
            error => Reply::from(error).into(),
        }
    }
}
