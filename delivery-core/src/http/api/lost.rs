//! `POST /api/resend`: sends a buyer who lost their keys all unrevoked keys of their address.

use std::time::Duration;

use serde::Serialize;

use crate::delivery::Delivery;
use crate::email::Email;
use crate::error::ErrorCode;
use crate::http::Reply;
use crate::http::body::BodyRule;
use crate::http::describe::{Body, CUSTOMER_EMAIL, shape};
use crate::http::error::ApiError;
use crate::http::fields::{Fault, Fields};
use crate::http::row::{Docs, Handler, Row, Verb};
use crate::limit::Policy;

/// The message of the reply. It is the same for every address, so it does not reveal whether the address has keys.
pub(in crate::http) const SAME_ANSWER: &str = "If this address has keys, an e-mail with them is on its way. It may take a few minutes. Look into your \
    spam folder too; another one is sent after an hour at the earliest.";

/// The body of a request about one buyer: the buyer's e-mail address.
pub(in crate::http) const THE_CUSTOMER: Body = Body {
    name: "TheCustomer",
    about: "The e-mail address of a buyer.",
    fields: &[CUSTOMER_EMAIL.required()],
    example: r#"{"customer_email":"ada@example.com"}"#,
};

/// The request for lost keys was accepted.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct Asked {
    /// Always true.
    success: bool,
    /// A sentence for the buyer, the same for every address.
    message: &'static str,
}

pub(in crate::http) static RESEND: Row = Row {
    path: "/api/resend",
    verb: Verb::Post,
    body: BodyRule::Read { limit: 64 << 10, deadline: Duration::from_secs(10) },
    limit: Some(Policy::Resend),
    cross_origin: false,
    handler: Handler::PublicPost(address, |delivery, email| Box::pin(send_keys(delivery, email))),
    codes: &[
        ErrorCode::MissingParams,
        ErrorCode::InvalidParams,
        ErrorCode::NotFound,
        ErrorCode::MethodNotAllowed,
        ErrorCode::PayloadTooLarge,
        ErrorCode::UnsupportedMediaType,
        ErrorCode::RateLimited,
        ErrorCode::Internal,
        ErrorCode::Unavailable,
    ],
    openapi: Docs {
        tag: "buyer",
        id: "sendKeys",
        summary: "E-mail a buyer their lost keys",
        description: "For a buyer who has lost a key. If the address has keys, an e-mail to it lists all keys that are \
            not revoked. The service sends an address at most one such e-mail an hour. Neither the answer nor its \
            timing shows whether the address has keys.",
        body: Some(THE_CUSTOMER),
        success: shape!(Asked),
        ..Docs::EMPTY
    },
};

fn address(fields: &Fields<'_>) -> Result<Email, Fault> {
    fields.parsed(CUSTOMER_EMAIL)?.ok_or_else(|| Fault::missing(CUSTOMER_EMAIL.name))
}

async fn send_keys(delivery: &Delivery, email: Email) -> Result<Reply, ApiError> {
    delivery.ask_for_keys(&email).await?;
    Ok(Reply::json(&Asked { success: true, message: SAME_ANSWER }))
}

#[cfg(all(test, feature = "pages"))]
mod tests {
    #[test]
    fn the_page_gives_the_same_answer() {
        assert!(include_str!("../../look/templates/_words.html").contains(super::SAME_ANSWER));
    }
}
