//! The steps of a start before the server answers requests: folders, secrets, the store, the service, the greeting.

pub(crate) mod assemble;
pub(crate) mod background;
mod dotenv;
pub(crate) mod private;
pub(crate) mod secrets;
pub(crate) mod welcome;
