//! Requests for paths that are no endpoint.

use super::{Call, Reply};
use crate::delivery::Delivery;

impl Reply {
    /// Returns the reply to a call that is at no endpoint, for the fallback of a binding: its [path](Call::path) must be set.
    /// It is [`not_found`](Self::not_found), unless the service has pages and a browser asks. Then `/` leads to the buyer's page,
    /// `/desk/` to the desk, and any other path outside `/api/` gets a page that says that there is none.
    #[must_use]
    #[cfg_attr(not(feature = "pages"), expect(unused_variables, reason = "there are no pages"))]
    pub fn unknown(delivery: &Delivery, call: &Call) -> Self {
        #[cfg(feature = "pages")]
        if let Some(reply) = super::pages::unknown(delivery, call) {
            return reply;
        }
        Self::not_found()
    }
}
