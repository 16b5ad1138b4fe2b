//! The endpoints with which the seller finds, issues, revokes and corrects keys.

use chrono::{DateTime, Utc};

use super::{FINDING, NEEDING, command, explained, page_size, query, terms, timestamp_of, wire};
use crate::delivery::{Delivery, Error, Expiry};
use crate::http::api::wire::IssuedByHand;
use crate::http::describe::{
    ADD_USES, Body, CUSTOMER_EMAIL, DAYS_KEPT, DAYS_OF_PRODUCT, EXPIRES_AT, EXPIRES_DAYS, KEY_ID, MAX_USES, PRODUCT_ID,
    REASON, SEND_EMAIL, USES_KEPT, USES_OF_PRODUCT, shape,
};
use crate::http::error::ApiError;
use crate::http::fields::{Fault, Fields};
use crate::http::filters;
use crate::http::proof::Seller;
use crate::http::row::{Docs, Row};
use crate::http::{Call, Reply, parameter};
use crate::key::{Key, KeyId, LimitChange};
use crate::product::ProductId;
use crate::store::KeyQuery;
use crate::terms::{UseLimit, Uses, Validity};
use crate::text::Invalid;

/// The request body of commands that need only the id of a key.
const THE_KEY: Body = Body {
    name: "TheKey",
    about: "A key.",
    fields: &[KEY_ID],
    example: r#"{"id":"019aa8a0-5a00-7a5a-9a5a-5a5a5a5a5a5a"}"#,
};

pub(in crate::http) static KEYS: Row = query(
    "/api/admin/keys",
    FINDING,
    |delivery, _, call| Box::pin(keys(delivery, call)),
    Docs {
        id: "listKeys",
        summary: "Keys",
        description: "Newest first. If you send several filters, the list has only keys that match all of them.",
        parameters: &[
            parameter::EMAIL,
            parameter::EMAIL_PREFIX,
            parameter::ORDER_ID,
            parameter::SOURCE,
            parameter::OF_PRODUCT,
            parameter::STATUS,
            parameter::SINCE,
            parameter::UNTIL,
            parameter::BEFORE,
            parameter::PAGE_SIZE,
        ],
        success: shape!(wire::Keys<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static KEY: Row = query(
    "/api/admin/key",
    NEEDING,
    |delivery, seller, call| Box::pin(key(delivery, seller, call)),
    Docs {
        id: "showKey",
        summary: "A key with its history",
        description: "Returns the key with its newest 50 uses, 50 messages and 50 audit entries. If a subscription \
            renews the key, the answer names it.",
        parameters: &[parameter::ID_OF_KEY],
        success: shape!(wire::KeyHistory<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static ISSUE_KEY: Row = command(
    "/api/admin/issue-key",
    |delivery, seller, fields| Box::pin(issue_key(delivery, seller, fields)),
    Docs {
        id: "issueKey",
        summary: "Issue a key by hand",
        description: "Each call issues another key. The key is sent to the buyer unless `send_email` is false.",
        body: Some(Body {
            name: "NewKey",
            about: "A key that the seller issues by hand.",
            fields: &[
                PRODUCT_ID.required(),
                CUSTOMER_EMAIL.required(),
                EXPIRES_DAYS.about(DAYS_OF_PRODUCT),
                MAX_USES.about(USES_OF_PRODUCT),
                SEND_EMAIL,
            ],
            example: r#"{"product_id":1,"customer_email":"ada@example.com","max_uses":1}"#,
        }),
        success: shape!(IssuedByHand<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static REVOKE: Row = command(
    "/api/admin/key/revoke",
    |delivery, seller, fields| Box::pin(revoke(delivery, seller, fields)),
    Docs {
        id: "revokeKey",
        summary: "Revoke a key",
        description: "After this call, the key is treated as unknown. Revoking a key again changes nothing.",
        body: Some(Body {
            name: "RevokeKey",
            about: "A key to revoke.",
            fields: &[KEY_ID, REASON],
            example: r#"{"id":"019aa8a0-5a00-7a5a-9a5a-5a5a5a5a5a5a","reason":"shared in a forum"}"#,
        }),
        success: shape!(wire::ChangedKey<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static RESTORE: Row = command(
    "/api/admin/key/restore",
    |delivery, seller, fields| Box::pin(restore(delivery, seller, fields)),
    Docs {
        id: "restoreKey",
        summary: "Restore a revoked key",
        description: "Lifts the revocation of a key. Restoring a key that is not revoked changes nothing. A key that \
            was rotated cannot be restored.",
        body: Some(THE_KEY),
        success: shape!(wire::ChangedKey<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static CHANGE: Row = command(
    "/api/admin/key/change",
    |delivery, seller, fields| Box::pin(change(delivery, seller, fields)),
    Docs {
        id: "changeKey",
        summary: "Change the terms of a key",
        description: "A term that is left out stays as it is. If the key was already used as often as the new limit \
            allows, it is exhausted.",
        body: Some(Body {
            name: "ChangeKey",
            about: "The new terms of a key: a new expiry, a new limit, or both. Send at most one of `expires_days` and \
                `expires_at`, and at most one of `max_uses` and `add_uses`.",
            fields: &[KEY_ID, EXPIRES_DAYS.about(DAYS_KEPT), EXPIRES_AT, MAX_USES.about(USES_KEPT), ADD_USES],
            example: r#"{"id":"019aa8a0-5a00-7a5a-9a5a-5a5a5a5a5a5a","add_uses":5}"#,
        }),
        success: shape!(wire::ChangedKey<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static RESEND: Row = command(
    "/api/admin/key/resend",
    |delivery, seller, fields| Box::pin(resend(delivery, seller, fields)),
    Docs {
        id: "resendKey",
        summary: "Send a key again",
        description: "Sends the buyer a new e-mail with the key. If `customer_email` is given, it first replaces the \
            address of the key.",
        body: Some(Body {
            name: "ResendKey",
            about: "A key to send again.",
            fields: &[KEY_ID, CUSTOMER_EMAIL.about("The buyer's correct e-mail address, if the old one was wrong.")],
            example: r#"{"id":"019aa8a0-5a00-7a5a-9a5a-5a5a5a5a5a5a","customer_email":"ada@example.com"}"#,
        }),
        success: shape!(wire::ChangedKey<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static ROTATE: Row = command(
    "/api/admin/key/rotate",
    |delivery, seller, fields| Box::pin(rotate(delivery, seller, fields)),
    Docs {
        id: "rotateKey",
        summary: "Replace a key whose text leaked",
        description: "Revokes the key for good and issues a successor, which is sent to the buyer. The successor has \
            the same limit, number of uses and expiry, and belongs to the purchase from then on. If the key was \
            rotated before, the answer has its successor.",
        body: Some(THE_KEY),
        success: shape!(wire::RotatedKey<'_>),
        ..Docs::SELLER
    },
);

async fn keys(delivery: &Delivery, call: &Call) -> Result<Reply, ApiError> {
    let before = parameter::BEFORE.parsed::<KeyId>(call);
    let before = before.map_err(|_| Fault::malformed(parameter::BEFORE.name, super::MADE_UP))?;
    let query = KeyQuery { before, limit: page_size(call)?, ..filters::keys(delivery, call)? };
    Ok(Reply::json(&wire::Keys::of(&delivery.keys(&query).await?, delivery.inner.clock.now())))
}

async fn key(delivery: &Delivery, seller: Seller, call: &Call) -> Result<Reply, ApiError> {
    let id = parameter::ID_OF_KEY.parsed::<KeyId>(call)?.ok_or_else(|| Fault::missing(parameter::ID_OF_KEY.name))?;
    let now = delivery.inner.clock.now();
    let history = delivery.desk(seller.actor()).key_history(id).await?.ok_or(ApiError::NOT_FOUND)?;
    Ok(Reply::json(&wire::KeyHistory::of(&history, now)))
}

fn id(fields: &Fields<'_>) -> Result<KeyId, Fault> {
    fields.parsed(KEY_ID)?.ok_or_else(|| Fault::missing(KEY_ID.name))
}

fn changed(delivery: &Delivery, key: Result<Key, Error>) -> Result<Reply, ApiError> {
    Ok(Reply::json(&wire::ChangedKey::of(&key.map_err(explained)?, delivery.inner.clock.now())))
}

async fn issue_key(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let product = fields.integer(PRODUCT_ID, ProductId::new)?.ok_or_else(|| Fault::missing(PRODUCT_ID.name))?;
    let email = fields.parsed(CUSTOMER_EMAIL)?.ok_or_else(|| Fault::missing(CUSTOMER_EMAIL.name))?;
    let terms = terms(&fields)?;
    let send_email = fields.boolean(SEND_EMAIL)?.unwrap_or(true);
    let issued = delivery.desk(seller.actor()).issue(product, email, terms, send_email).await?;
    Ok(Reply::json(&IssuedByHand::of(&issued, send_email)))
}

async fn revoke(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let (id, reason) = (id(&fields)?, fields.parsed(REASON)?);
    changed(delivery, delivery.desk(seller.actor()).revoke(id, reason).await)
}

async fn restore(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let id = id(&fields)?;
    changed(delivery, delivery.desk(seller.actor()).restore(id).await)
}

async fn change(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    const ONE_EXPIRY: &str = "Send expires_days or expires_at, not both.";
    const ONE_LIMIT: &str = "Send max_uses or add_uses, not both.";
    let id = id(&fields)?;
    let days = fields.integer(EXPIRES_DAYS, Validity::from_days)?;
    let at: Option<DateTime<Utc>> = timestamp_of(&fields, EXPIRES_AT)?;
    let expiry = match (days, at) {
        (Some(_), Some(_)) => return Err(Fault::invalid(ONE_EXPIRY).into()),
        (Some(days), None) => Some(Expiry::AfterIssue(days)),
        (None, at) => at.map(Expiry::At),
    };
    let set = fields.integer(MAX_USES, UseLimit::from_count)?;
    let add = fields.integer(ADD_USES, added)?;
    let limit = match (set, add) {
        (Some(_), Some(_)) => return Err(Fault::invalid(ONE_LIMIT).into()),
        (Some(set), None) => Some(LimitChange::Set(set)),
        (None, add) => add.map(LimitChange::Add),
    };
    if expiry.is_none() && limit.is_none() {
        return Err(Fault::missing("expires_days, expires_at, max_uses or add_uses").into());
    }
    changed(delivery, delivery.desk(seller.actor()).set_terms(id, expiry, limit).await)
}

fn added(uses: i64) -> Result<Uses, Invalid> {
    let Ok(UseLimit::Uses(uses)) = UseLimit::from_count(uses) else {
        return Err(Invalid::expected("must be 1 to 2147483647 uses"));
    };
    Ok(uses)
}

async fn resend(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let (id, email) = (id(&fields)?, fields.parsed(CUSTOMER_EMAIL)?);
    changed(delivery, delivery.desk(seller.actor()).resend(id, email).await)
}

async fn rotate(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let id = id(&fields)?;
    let issued = delivery.desk(seller.actor()).rotate(id).await.map_err(explained)?;
    Ok(Reply::json(&wire::RotatedKey::of(&issued, delivery.inner.clock.now())))
}
