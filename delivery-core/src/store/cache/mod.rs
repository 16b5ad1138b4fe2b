//! Products and posts in memory.

mod posts;
mod products;

pub(super) use self::posts::{PostCache, PostVersion};
pub(super) use self::products::ProductCache;
