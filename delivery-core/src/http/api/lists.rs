//! The public lists: `GET /api/products` and `GET /api/posts`. Anybody may call these endpoints without a key, and
//! there is no rate limit. To make replies cheap, the encoded bytes of a list are cached, and replies share them.

use super::wire;
use crate::delivery::Delivery;
use crate::error::ErrorCode;
use crate::http::body::BodyRule;
use crate::http::describe::shape;
use crate::http::error::ApiError;
use crate::http::row::{Docs, Handler, Row, Verb};
use crate::http::{Call, Reply, parameter};
use crate::store::{PostQuery, fitting};

pub(in crate::http) static PRODUCTS: Row = Row {
    path: "/api/products",
    verb: Verb::Get,
    body: BodyRule::None,
    limit: None,
    cross_origin: true,
    handler: Handler::Public(|delivery, _| Box::pin(products(delivery))),
    codes: &[ErrorCode::MethodNotAllowed, ErrorCode::Internal, ErrorCode::Unavailable],
    openapi: Docs {
        tag: "public",
        id: "listProducts",
        summary: "The products",
        description: "All products that are not archived, by id, without their content.",
        success: shape!(wire::Products<'_>),
        ..Docs::EMPTY
    },
};

pub(in crate::http) static POSTS: Row = Row {
    path: "/api/posts",
    verb: Verb::Get,
    body: BodyRule::None,
    limit: None,
    cross_origin: true,
    handler: Handler::Public(|delivery, call| Box::pin(posts(delivery, call))),
    codes: &[ErrorCode::InvalidParams, ErrorCode::MethodNotAllowed, ErrorCode::Internal, ErrorCode::Unavailable],
    openapi: Docs {
        tag: "public",
        id: "listPosts",
        summary: "The posts",
        description: "All posts that are published by now, newest first. The posts in one answer have at most 1 MiB of \
            content together, so there may be fewer than `limit`.",
        parameters: &[parameter::CATEGORY, parameter::LIMIT],
        success: shape!(wire::Posts<'_>),
        ..Docs::EMPTY
    },
};

async fn products(delivery: &Delivery) -> Result<Reply, ApiError> {
    let products = delivery.products().await?;
    let encode = || wire::encode(&wire::Products::of(&products, delivery.inner.list_details));
    Ok(Reply::encoded(delivery.inner.encoded.products(&products, encode)))
}

async fn posts(delivery: &Delivery, call: &Call) -> Result<Reply, ApiError> {
    let limit = parameter::LIMIT.count(call, parameter::DEFAULT_POSTS)?;
    let category = parameter::CATEGORY.text(call)?;
    let Ok(category) = category.map(|category| category.parse()).transpose() else {
        // An invalid category in the query is not an error. The list is empty, because no post can have such a
        // category.
        return Ok(Reply::json(&wire::Posts::of(&[])));
    };
    let query = PostQuery { category, until: delivery.inner.clock.now(), before: None, limit };
    let posts = delivery.posts(&query).await?;
    let fit = fitting(posts.iter().map(|post| post.content().len()));
    let encode = || wire::encode(&wire::Posts::of(posts.get(..fit).unwrap_or_default()));
    Ok(Reply::encoded(delivery.inner.encoded.posts(&posts, encode)))
}
