//! The rejection of a request without a valid key, as a response and as an error.

use std::error::Error;
use std::fmt;

use delivery_core::delivery;
use delivery_core::http::Reply;
use delivery_core::store::StoreError;
use rocket::Request;
use rocket::response::{self, Responder};

use crate::exchange;

/// The API's response to a refused request. A handler may return it as its error.
#[derive(Debug, Clone)]
pub struct GrantRejection(Box<Reply>);

impl GrantRejection {
    /// Returns the API's response, for example for a route that handles one status itself.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        &self.0
    }
}

impl fmt::Display for GrantRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused with {}", self.0.status())
    }
}

impl Error for GrantRejection {}

impl From<delivery::Error> for GrantRejection {
    fn from(error: delivery::Error) -> Self {
        Self(Box::new(Reply::failure(&error)))
    }
}

impl From<StoreError> for GrantRejection {
    fn from(error: StoreError) -> Self {
        delivery::Error::from(error).into()
    }
}

impl From<Box<Reply>> for GrantRejection {
    fn from(reply: Box<Reply>) -> Self {
        Self(reply)
    }
}

impl<'r> Responder<'r, 'static> for GrantRejection {
    fn respond_to(self, _: &'r Request<'_>) -> response::Result<'static> {
        Ok(exchange::response(*self.0))
    }
}
