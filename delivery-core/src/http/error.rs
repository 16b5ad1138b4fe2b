//! The error type that handlers, pages and the pipeline share. It says why a request is refused.

#[cfg(feature = "pages")]
use ::http::StatusCode;
use futures_util::future::BoxFuture;

use super::Reply;
use super::api::wire;
use super::fields::Fault;
use crate::delivery::{Error, PreviewError};
use crate::error::ErrorCode;
use crate::limit::bodies::GaveWay;
use crate::store::StoreError;

/// The future that a handler returns. It resolves to the reply, or to the reason for a refusal.
pub(super) type Answering<'c> = BoxFuture<'c, Result<Reply, ApiError>>;

/// Why a request is refused. `?` converts other errors into this type, and [`Reply::from`] converts this type into the
/// reply.
#[derive(Debug)]
pub(super) enum ApiError {
    /// The reply is the standard one for this code.
    Code(ErrorCode),
    /// A parameter or a field is missing or malformed.
    Fault(Fault),
    /// An operation was refused, or it failed. If the reply is a 500 or a 503, the cause is logged.
    Failed(Error),
    /// The request submits a form that did not come from one of our pages, or that is too old.
    #[cfg(feature = "pages")]
    Forged,
    /// The reply is already complete, such as a redirect to the sign-in form.
    Answered(Box<Reply>),
}

impl ApiError {
    /// The endpoint or the page does not exist, or the record that was requested does not exist.
    pub(super) const NOT_FOUND: Self = Self::Code(ErrorCode::NotFound);
    /// A parameter of a page, or a field of its form, is malformed. Our own pages never send such a request.
    #[cfg(feature = "pages")]
    pub(super) const MALFORMED: Self = Self::Code(ErrorCode::InvalidParams);
}

impl From<ErrorCode> for ApiError {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<GaveWay> for ApiError {
    fn from(_: GaveWay) -> Self {
        Self::Code(ErrorCode::Unavailable)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<PreviewError> for ApiError {
    fn from(error: PreviewError) -> Self {
        match error {
            PreviewError::Store(error) => error.into(),
            PreviewError::Template(error) => Reply::internal().because(error).into(),
        }
    }
}

impl From<Reply> for ApiError {
    fn from(reply: Reply) -> Self {
        Self::Answered(Box::new(reply))
    }
}

impl Reply {
    /// Converts an error of [`Delivery`](crate::Delivery) into the API's reply, for the host application's own routes.
    /// The cause of a 500 or a 503 is logged, but not shown.
    #[must_use]
    pub fn failure(error: &Error) -> Self {
        Self::of_host(ApiError::Failed(error.clone()), None)
    }

    /// Converts an error into the reply of a route of the host application. The cause of a 500 or a 503 is logged, with
    /// the request id `request` if it is given.
    pub(super) fn of_host(error: ApiError, request: Option<&str>) -> Self {
        Self::from(error).report(request).confidential()
    }
}

impl From<ApiError> for Reply {
    fn from(error: ApiError) -> Self {
        let coded = |code| match code {
            ErrorCode::Unavailable => Self::unavailable(),
            ErrorCode::InvalidKey => Self::error(code).challenge(),
            code => Self::error(code),
        };
        match error {
            ApiError::Code(code) => coded(code),
            ApiError::Fault(fault) if fault.code() == ErrorCode::Unavailable => Self::unavailable(),
            ApiError::Fault(fault) => {
                Self::json(&wire::Error::new(fault.code(), fault.message())).with_status(fault.code())
            }
            ApiError::Failed(error) => match error.code() {
                code @ ErrorCode::Denied => match error.denied() {
                    Some(denied) => Self::json(&wire::Error::denied(denied)).with_status(code),
                    None => coded(code),
                },
                code @ (ErrorCode::Unavailable | ErrorCode::Internal) => coded(code).because(error),
                code => coded(code),
            },
            #[cfg(feature = "pages")]
            ApiError::Forged => Self::error(ErrorCode::InvalidParams).with_code(StatusCode::FORBIDDEN),
            ApiError::Answered(reply) => *reply,
        }
    }
}
