//! Products and posts in memory.

mod posts;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod products;

pub(super) use self::posts::PostCache;
pub(crate) use self::posts::fitting;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) use self::products::ProductCache;
