//! The seller's endpoint for the secrets of commerce platforms.

use super::refs::platform_named;
use super::{command, done};
use crate::delivery::{Delivery, SecretError};
use crate::http::Reply;
use crate::http::describe::{Body, PLATFORM, SECRET, shape};
use crate::http::error::ApiError;
use crate::http::fields::{Fault, Fields};
use crate::http::proof::Seller;
use crate::http::row::{Docs, Row};
use crate::text::Invalid;

pub(in crate::http) static SET_PLATFORM_SECRET: Row = command(
    "/api/admin/platform/secret",
    |delivery, seller, fields| Box::pin(set(delivery, seller, fields)),
    Docs {
        id: "setPlatformSecret",
        summary: "Set the secret of a platform",
        description: "From then on, every server accepts events that are signed with this secret. It replaces the \
            secret that was set before. `null` removes the secret. The secret is stored encrypted and never shown. If \
            the settings of the server have a secret for the platform, that one takes precedence, and none can be set \
            here.",
        body: Some(Body {
            name: "PlatformSecret",
            about: "The secret of a platform.",
            fields: &[
                PLATFORM.required(),
                SECRET.or_null().about("The secret, as the platform shows it. At most 1,000 bytes. `null` removes it."),
            ],
            example: r#"{"platform":"lemonsqueezy","secret":"a-secret-of-the-webhook"}"#,
        }),
        success: shape!(super::wire::Done),
        ..Docs::SELLER
    },
);

async fn set(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let unknown = || Fault::malformed(PLATFORM.name, Invalid::expected("must be a platform such as stripe"));
    let source = platform_named(delivery, &fields.required_text(PLATFORM)?).ok_or_else(unknown)?;
    let secret = if fields.clears(SECRET) { None } else { Some(fields.required_text(SECRET)?) };
    let set = delivery.desk(seller.actor()).set_platform_secret(&source, secret.as_deref()).await;
    set.map_err(|error| match error {
        SecretError::UnknownPlatform => unknown().into(),
        SecretError::InSettings => {
            Fault::invalid("The settings of the server have the secret of this platform.").into()
        }
        SecretError::Invalid(expected) => Fault::malformed(SECRET.name, expected).into(),
        SecretError::Store(error) => ApiError::from(error),
    })?;
    done(true)
}
