//! What a service manager asks: does the process live, does the store answer?

use delivery_core::Delivery;

use super::signal::Stop;

/// Alive: the process answers.
pub const LIVE: &str = "/healthz";
/// Ready: the store answers too, and the server was not asked to stop.
pub const READY: &str = "/readyz";

/// Status and JSON of a health route; nothing for another path.
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
