//! The preview of the e-mails to buyers, for an example key.

use ::http::HeaderValue;
use minijinja::context;

use super::frame::desk;
use super::lists::options;
use super::{ApiError, PageRequest, SignedIn};
use crate::http::{Reply, filters, names, query};
use crate::ledger::MessageKind;
use crate::mail::{EmailPreview, named};

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    if request.form.is_some() {
        return Err(ApiError::MALFORMED);
    }
    let (kind, language) = filters::email(request.call)?;
    let preview = request.delivery.desk(&seller.actor).preview_email(kind, language.as_ref()).await?;
    if query::parameter(request.call, "part")?.is_some() {
        return Ok(framed(preview));
    }
    let languages = request.delivery.email_languages().into_iter().map(|tag| tag.to_string());
    let values = context! {
        kinds => options(named().map(MessageKind::as_str)),
        languages => languages.collect::<Vec<_>>(),
        kind => kind.as_str(),
        spoken => preview.language.as_str(),
        subject => preview.subject,
        text => preview.text,
        sender => request.delivery.inner.outbox.sender.to_string(),
        ..desk(&request, &seller, "/desk/setup")
    };
    request.page_with("email.html", values, "; frame-src 'self'")
}

/// Returns the HTML of an e-mail as a separate document. Its content security policy forbids scripts, forms, and
/// anything from other hosts.
fn framed(preview: EmailPreview) -> Reply {
    const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; \
        form-action 'none'; frame-ancestors 'self'; sandbox";
    Reply::text("text/html; charset=utf-8", preview.html.into())
        .security_headers("")
        .text_header(&names::CONTENT_SECURITY_POLICY, POLICY)
        .with_header(&names::FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN"))
}
