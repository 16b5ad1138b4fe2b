//! x
pub mod clock;
pub mod email;
pub mod entropy;
pub mod key;
pub mod limit;
pub mod order;
pub mod post;
pub mod product;
pub mod secret;
pub mod store;
pub mod terms;
mod text;
pub use clock::Clock;
pub use entropy::Entropy;
pub use text::Invalid;
