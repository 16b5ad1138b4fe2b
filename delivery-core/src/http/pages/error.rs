//! Why a page cannot be shown.

use crate::http::Reply;
use crate::store::StoreError;

/// Why a page cannot be shown.
#[derive(Debug)]
pub(in crate::http) enum PageError {
    /// There is no such thing.
    NotFound,
    /// The form is not one of ours, or is too old.
    Forged,
    /// The request makes no sense.
    Malformed,
    /// The answer is made already.
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
