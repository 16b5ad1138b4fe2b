//! Replies to requests for paths at which there is no page.

use ::http::{HeaderValue, Method, header};

use super::{Page, base, error_page};
use crate::delivery::Delivery;
use crate::http::{Call, Reply};

/// Returns the reply to a request for a path that is neither an endpoint nor a page. The result is the first of these
/// that applies:
///
/// - `None` if neither the buyer's page nor the overview is served.
/// - For GET or HEAD of the root, a redirect to the buyer's page or, if that is not served, to the overview.
/// - For GET or HEAD of the path of a page followed by slashes, a redirect to the page.
/// - An error page, if the path or `Accept` shows that the client expects HTML.
/// - `None` in all other cases.
pub(in crate::http) fn unknown(delivery: &Delivery, call: &Call) -> Option<Reply> {
    let is_served = |page: Page| page.is_served_by(delivery);
    let first = [Page::Buyer, Page::Overview].into_iter().find(|page| is_served(*page))?;
    // A router of the host application may have removed the base path.
    let path = call.path.as_deref()?;
    let below = path.strip_prefix(base(delivery)).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let path = below.unwrap_or(path);
    let reads = matches!(call.method, Method::GET | Method::HEAD);
    let bare = path.trim_end_matches('/');
    let page =
        if bare.is_empty() { Some(first) } else { Page::ALL.iter().copied().find(|page| page.row().path == bare) };
    if let Some(page) = page.filter(|page| reads && (bare != path || bare.is_empty()) && is_served(*page)) {
        let query = call.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
        return Some(Reply::see_other(&format!("{}{}{query}", base(delivery), page.row().path)));
    }
    let is_desk = path.starts_with("/desk/");
    let accepts = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.contains("text/html"));
    let is_for_people = is_desk
        || path.starts_with("/key/")
        || !path.starts_with("/api/") && call.headers.get_all(header::ACCEPT).iter().any(accepts);
    let page = if is_desk && is_served(Page::Overview) { Page::Overview } else { first };
    is_for_people.then(|| error_page(delivery, call, page, Reply::not_found()))
}
