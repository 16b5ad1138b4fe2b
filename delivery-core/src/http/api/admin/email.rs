//! The seller's endpoint for previews of e-mails.

use serde::Serialize;

use super::{FINDING, query};
use crate::delivery::Delivery;
use crate::http::describe::shape;
use crate::http::error::ApiError;
use crate::http::filters;
use crate::http::proof::Seller;
use crate::http::row::{Docs, Row};
use crate::http::{Call, Reply, parameter};
use crate::language::Language;

pub(in crate::http) static PREVIEW_EMAIL: Row = query(
    "/api/admin/email",
    FINDING,
    |delivery, seller, call| Box::pin(preview(delivery, seller, call)),
    Docs {
        id: "previewEmail",
        summary: "Preview an e-mail",
        description: "The e-mail is about an example key for the first product. It is rendered with the templates, the \
            name and the addresses of this shop. Buyers who have lost their keys get the kind `resend` too.",
        parameters: &[parameter::EMAIL_KIND, parameter::LANGUAGE],
        success: shape!(Preview<'_>),
        ..Docs::SELLER
    },
);

async fn preview(delivery: &Delivery, seller: Seller, call: &Call) -> Result<Reply, ApiError> {
    let (kind, language) = filters::email(call)?;
    let preview = delivery.desk(seller.actor()).preview_email(kind, language.as_ref()).await?;
    let languages = delivery.email_languages();
    Ok(Reply::json(&Preview {
        kind: preview.kind.as_str(),
        language: preview.language.as_str(),
        languages: languages.iter().map(Language::as_str).collect(),
        subject: &preview.subject,
        text: &preview.text,
        html: &preview.html,
    }))
}

/// An e-mail about an example key.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Preview<'a> {
    kind: &'static str,
    /// The language of the e-mail.
    language: &'a str,
    /// The languages for which there are templates.
    languages: Vec<&'a str>,
    subject: &'a str,
    text: &'a str,
    html: &'a str,
}
