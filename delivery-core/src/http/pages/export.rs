//! Downloads of the seller's lists as CSV tables.

use super::{ApiError, PageRequest, SignedIn};
use crate::http::Reply;
use crate::http::export::table;

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    if request.form.is_some() {
        return Err(ApiError::MALFORMED);
    }
    // This page does not export a person's data, because the person's e-mail address would be in the URL. The page that
    // erases a customer has a form that exports this data.
    let table = table(request.delivery, request.call)?.ok_or(ApiError::MALFORMED)?;
    let reply = table.reply(request.delivery, &seller.actor).await?;
    Ok(reply.security_headers(""))
}
