//! The public lists: `GET /api/products` and `GET /api/posts`. They need no key and have no limit, so they must cost little:
//! a list is encoded once, and every answer shares its bytes.

use super::fields::{Fault, integer};
use super::{Call, Reply, query, wire};
use crate::delivery::Delivery;
use crate::post::Category;
use crate::store::{PostQuery, fitting};
use crate::text::Invalid;

const DEFAULT_POSTS: usize = 10;
const MOST_POSTS: i64 = 100;

pub(super) async fn products(delivery: &Delivery) -> Reply {
    match delivery.products().await {
        Ok(products) => {
            let encode = || wire::encode(&wire::Products::of(&products, delivery.inner.list_details));
            Reply::encoded(delivery.inner.encoded.products(&products, encode))
        }
        Err(error) => error.into(),
    }
}

pub(super) async fn posts(delivery: &Delivery, call: &Call) -> Reply {
    let (category, limit) = match parameters(call) {
        Ok(parameters) => parameters,
        Err(fault) => return fault.into(),
    };
    let Ok(category) = category.map(Category::new).transpose() else {
        // No post has such a category: it is unknown, not wrong.
        return Reply::json(&wire::Posts::of(&[]));
    };
    let query = PostQuery { category, until: delivery.inner.clock.now(), limit };
    match delivery.posts(&query).await {
        Ok(posts) => {
            let fit = fitting(posts.iter().map(|post| post.content().len()));
            let posts = posts.get(..fit).unwrap_or_default();
            Reply::encoded(delivery.inner.encoded.posts(posts, || wire::encode(&wire::Posts::of(posts))))
        }
        Err(error) => error.into(),
    }
}

fn parameters(call: &Call) -> Result<(Option<String>, usize), Fault> {
    const EXPECTED: Invalid = Invalid::expected("must be an integer of 1 or more");
    let at_least_one = |limit: i64| if limit >= 1 { Ok(limit.min(MOST_POSTS)) } else { Err(EXPECTED) };
    let limit = match query::parameter(call, "limit")? {
        // However large: above 100 it is 100.
        Some(text) if text.len() > 18 && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0') => {
            usize::try_from(MOST_POSTS).unwrap_or(DEFAULT_POSTS)
        }
        Some(text) => usize::try_from(integer("limit", &text, at_least_one)?).unwrap_or(DEFAULT_POSTS),
        None => DEFAULT_POSTS,
    };
    Ok((query::parameter(call, "category")?.map(std::borrow::Cow::into_owned), limit))
}
