//! Health checks for a service manager: whether the process is alive, and whether the store answers.

use delivery_core::Delivery;

use super::signal::Stop;

/// Alive: the process answers.
pub const LIVE: &str = "/healthz";
/// Ready: the store answers too, and the server was not asked to stop.
pub const READY: &str = "/readyz";

/// Status and JSON of a health route; `None` for another path.
pub async fn check(path: &str, delivery: &Delivery, stop: &Stop) -> Option<(u16, &'static str)> {
    match path {
        LIVE => Some((200, r#"{"status":"ok"}"#)),
        READY if stop.has_begun() => Some((503, r#"{"status":"stopping"}"#)),
        READY => Some(match delivery.ready().await {
            Ok(()) => (200, r#"{"status":"ready"}"#),
            Err(_) => (503, r#"{"status":"unavailable"}"#),
        }),
        _ => None,
    }
}
