//! Connections and requests: how many are served, how long a client may occupy a connection, and how the server stops.

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
