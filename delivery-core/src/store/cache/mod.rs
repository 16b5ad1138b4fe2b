//! Caches of products and posts.

mod posts;
mod products;

pub(super) use self::posts::{PostCache, PostVersion};
pub(super) use self::products::ProductCache;
