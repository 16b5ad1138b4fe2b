//! Connections and requests, as they come and as the server ends: what a client can hold, and for how long.

pub(crate) mod alarm;
mod chunks;
pub mod health;
mod heard;
mod idle;
mod pace;
pub(crate) mod places;
pub mod requests;
mod serve;
pub(crate) mod signal;

pub use self::heard::Heard;
pub use self::serve::{Application, bind, reserve, serve};
