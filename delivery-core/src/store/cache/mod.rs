//! Products and posts in memory.

mod posts;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod products;

pub(crate) use self::posts::fitting;
pub(super) use self::posts::{PostCache, PostVersion};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) use self::products::ProductCache;
