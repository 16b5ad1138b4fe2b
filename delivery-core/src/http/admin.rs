//! The seller's endpoints: `POST /api/admin/…`.

use chrono::{DateTime, Timelike, Utc};

use super::fields::{Fault, Fields};
use super::{Body, Call, Endpoint, Reply, query, wire};
use crate::delivery::Delivery;
use crate::error::ErrorCode;
use crate::post::{Category, NewPost};
use crate::product::{NewProduct, ProductId};
use crate::terms::{OwnTerms, UseLimit, Validity};
use crate::text::Invalid;

/// Size and type, token, fields, product.
pub(super) async fn answer(endpoint: Endpoint, delivery: &Delivery, call: &Call, body: &Body) -> Reply {
    let answer = async {
        let text = Fields::text(call, body)?;
        if !is_admin(delivery, call) {
            return Ok(Reply::error(ErrorCode::Unauthorized).challenge());
        }
        let fields = Fields::parse(text)?;
        match endpoint {
            Endpoint::IssueKey => issue_key(delivery, &fields).await,
            Endpoint::AddPost => add_post(delivery, &fields).await,
            _ => add_product(delivery, &fields).await,
        }
    };
    answer.await.unwrap_or_else(|fault: Fault| fault.into())
}

/// No token, another scheme, two tokens and a wrong one are the same to a stranger.
pub(super) fn is_admin(delivery: &Delivery, call: &Call) -> bool {
    let token = query::bearer(call).ok().flatten();
    token.is_some_and(|token| delivery.inner.admin_token.matches(token.as_bytes()))
}

async fn add_product(delivery: &Delivery, fields: &Fields<'_>) -> Result<Reply, Fault> {
    let checked = |field: &'static str| move |expected: Invalid| Fault::malformed(field, expected);
    let product = NewProduct::new(fields.required_text("name")?).map_err(checked("name"))?;
    let product = product.content(fields.required_text("content")?).map_err(checked("content"))?;
    let description = fields.text_of("description")?.unwrap_or_default();
    let mut product = product.description(description).map_err(checked("description"))?;
    if let Some(kind) = fields.text_of("type")? {
        product = product.kind(kind).map_err(checked("type"))?;
    }
    let product = product.price(fields.number("price")?.unwrap_or_default()).terms(terms(fields)?);
    Ok(match delivery.add_product(product).await {
        Ok(product) => Reply::json(&wire::Added::of(&product)),
        Err(error) => error.into(),
    })
}

async fn issue_key(delivery: &Delivery, fields: &Fields<'_>) -> Result<Reply, Fault> {
    let product = fields.integer("product_id", ProductId::new)?.ok_or_else(|| Fault::missing("product_id"))?;
    let email = fields.parsed("customer_email")?.ok_or_else(|| Fault::missing("customer_email"))?;
    let terms = terms(fields)?;
    let send_email = fields.boolean("send_email")?.unwrap_or(true);
    Ok(match delivery.issue_by_hand(product, email, terms, send_email).await {
        Ok(issued) => Reply::json(&wire::IssuedByHand::of(&issued, send_email)),
        Err(error) => error.into(),
    })
}

async fn add_post(delivery: &Delivery, fields: &Fields<'_>) -> Result<Reply, Fault> {
    let checked = |field: &'static str| move |expected: Invalid| Fault::malformed(field, expected);
    let title = fields.required_text("title")?;
    let category = Category::new(fields.required_text("category")?).map_err(checked("category"))?;
    let published_at = published_at(fields)?.unwrap_or_else(|| delivery.inner.clock.now());
    let post = NewPost::new(title, category, published_at).map_err(checked("title"))?;
    let post = post.content(fields.required_text("content")?).map_err(checked("content"))?;
    Ok(match delivery.add_post(post).await {
        Ok(post) => Reply::json(&wire::PostAdded::of(&post)),
        Err(error) => error.into(),
    })
}

fn terms(fields: &Fields<'_>) -> Result<OwnTerms, Fault> {
    Ok(OwnTerms {
        validity: fields.integer("expires_days", Validity::from_days)?,
        limit: fields.integer("max_uses", UseLimit::from_count)?,
    })
}

/// RFC 3339 with an offset, in a year that RFC 3339 can write back.
fn published_at(fields: &Fields<'_>) -> Result<Option<DateTime<Utc>>, Fault> {
    const EXPECTED: Invalid =
        Invalid::expected("must be an RFC 3339 timestamp from 1970 to 9999, such as 2026-11-21T10:00:00Z");
    let Some(text) = fields.text_of("published_at")? else { return Ok(None) };
    let at = DateTime::parse_from_rfc3339(&text).map_err(|_| Fault::malformed("published_at", EXPECTED))?.to_utc();
    // Of a leap second the first half, so that what is answered is what is listed.
    let at = at.with_nanosecond(0).unwrap_or(at);
    let writable = (DateTime::UNIX_EPOCH..=crate::terms::NEVER).contains(&at);
    writable.then_some(Some(at)).ok_or_else(|| Fault::malformed("published_at", EXPECTED))
}
