//! The public lists: `GET /api/products` and `GET /api/posts`. They need no key and have no rate limit, so they must
//! be cheap: a list is encoded once, and all replies share its bytes.

use super::wire;
use crate::delivery::Delivery;
use crate::error::ErrorCode;
use crate::http::body::BodyRule;
use crate::http::fields::Fault;
use crate::http::row::{Answering, Docs, Handler, Parameter, Row, Verb};
use crate::http::{Call, Reply, query};
use crate::post::Category;
use crate::store::{PostQuery, fitting};

const DEFAULT_POSTS: usize = 10;
const MOST_POSTS: i64 = 100;

pub(in crate::http) static PRODUCTS: Row = Row {
    path: "/api/products",
    verb: Verb::Get,
    body: BodyRule::None,
    limit: None,
    handler: Handler::Public(products),
    codes: &[ErrorCode::MethodNotAllowed, ErrorCode::Internal, ErrorCode::Unavailable],
    openapi: Docs {
        tag: "public",
        id: "listProducts",
        summary: "The products",
        description: "All of them, without what keys unlock.",
        parameters: &[],
        body: None,
        success: Some("Products"),
    },
};

pub(in crate::http) static POSTS: Row = Row {
    path: "/api/posts",
    verb: Verb::Get,
    body: BodyRule::None,
    limit: None,
    handler: Handler::Public(posts),
    codes: &[ErrorCode::InvalidParams, ErrorCode::MethodNotAllowed, ErrorCode::Internal, ErrorCode::Unavailable],
    openapi: Docs {
        tag: "public",
        id: "listPosts",
        summary: "The posts",
        description: "Those that are published by now, newest first.",
        parameters: &[Parameter::Category, Parameter::Limit],
        body: None,
        success: Some("Posts"),
    },
};

fn products<'c>(delivery: &'c Delivery, _: &'c Call) -> Answering<'c> {
    Box::pin(async move {
        match delivery.products().await {
            Ok(products) => {
                let encode = || wire::encode(&wire::Products::of(&products, delivery.inner.list_details));
                Reply::encoded(delivery.inner.encoded.products(&products, encode))
            }
            Err(error) => error.into(),
        }
    })
}

fn posts<'c>(delivery: &'c Delivery, call: &'c Call) -> Answering<'c> {
    Box::pin(async move { list(delivery, call).await.unwrap_or_else(Reply::from) })
}

async fn list(delivery: &Delivery, call: &Call) -> Result<Reply, Fault> {
    let (category, limit) = parameters(call)?;
    let Ok(category) = category.map(Category::new).transpose() else {
        // No post can have an invalid category, so the list is empty. This is not an error.
        return Ok(Reply::json(&wire::Posts::of(&[])));
    };
    let query = PostQuery { category, until: delivery.inner.clock.now(), limit };
    Ok(match delivery.posts(&query).await {
        Ok(posts) => {
            let fit = fitting(posts.iter().map(|post| post.content().len()));
            let encode = || wire::encode(&wire::Posts::of(posts.get(..fit).unwrap_or_default()));
            Reply::encoded(delivery.inner.encoded.posts(&posts, encode))
        }
        Err(error) => error.into(),
    })
}

fn parameters(call: &Call) -> Result<(Option<String>, usize), Fault> {
    let limit = match query::parameter(call, "limit")? {
        Some(text) => query::at_least_one("limit", &text, MOST_POSTS)?,
        None => DEFAULT_POSTS,
    };
    Ok((query::parameter(call, "category")?.map(std::borrow::Cow::into_owned), limit))
}
