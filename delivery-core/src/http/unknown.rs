//! Requests for paths at which there is no endpoint.

use super::{Call, Reply};
use crate::delivery::Delivery;

impl Reply {
    /// Returns the reply to a call whose path has no endpoint, for the fallback route of a web framework. The
    /// [path](Call::path) of the call must be set. Without pages, the reply is always [`not_found`](Self::not_found).
    /// With pages, the first of these rules that applies determines the reply:
    ///
    /// - GET and HEAD of `/` are redirected to the buyer's page, or to the desk if there is no buyer's page.
    /// - GET and HEAD of the path of a page with a slash at its end, such as `/desk/`, are redirected to the page.
    /// - Calls below `/desk/` or `/key/` get a 404 page in HTML.
    /// - Calls outside `/api/` get the same page if the client accepts HTML.
    /// - All other calls get [`not_found`](Self::not_found).
    #[must_use]
    #[cfg_attr(not(feature = "pages"), expect(unused_variables, reason = "only pages use them"))]
    pub fn unknown(delivery: &Delivery, call: &Call) -> Self {
        #[cfg(feature = "pages")]
        if let Some(reply) = super::pages::unknown(delivery, call) {
            return reply;
        }
        Self::not_found()
    }
}
