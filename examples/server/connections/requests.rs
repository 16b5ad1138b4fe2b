//! The log of requests, and the id of each request in it.

use std::time::Instant;

use delivery_core::http::{Endpoint, is_request_id};
use tracing::Level;
use uuid::Uuid;

use super::health;
use crate::docs;

/// The header with a request's id, in the request and in the answer.
pub const ID: &str = "x-request-id";

/// The methods of RFC 9110 and RFC 5789.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// A request that is being answered.
pub struct Open {
    id: String,
    /// What will be logged; `None` if the level DEBUG is off.
    logged: Option<Logged>,
}

struct Logged {
    method: &'static str,
    path: &'static str,
    since: Instant,
}

impl Open {
    /// Uses the id that the client or its proxy sent, if it may be logged. Otherwise makes one.
    pub fn new(given: Option<&str>, method: &str, path: &str) -> Self {
        let given = given.filter(|id| is_request_id(id));
        let id = given.map_or_else(|| Uuid::new_v4().simple().to_string(), str::to_owned);
        let wanted = tracing::enabled!(target: "request", Level::DEBUG);
        Self { id, logged: wanted.then(|| Logged::new(method, path)) }
    }

    /// The id of the request.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Logs the request at level DEBUG: `RUST_LOG=info,request=debug` shows it.
    pub fn answered(&self, status: u16) {
        if let Some(Logged { method, path, since }) = self.logged {
            let elapsed = since.elapsed();
            tracing::debug!(target: "request", id = self.id, method, path, status, ?elapsed);
        }
    }
}

impl Logged {
    /// Never logs the query, which may contain a key, nor an unknown method or path, which may contain anything.
    fn new(method: &str, path: &str) -> Self {
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("another method");
        // A path with parameters is logged as in the API reference, without their values: a ticket is a secret.
        let known = Endpoint::all().chain(Endpoint::pages()).find(|endpoint| endpoint.is_at(path));
        let path = known
            .map(Endpoint::path)
            .or_else(|| [health::LIVE, health::READY, docs::PATH].into_iter().find(|ours| *ours == path));
        let path = path.unwrap_or("another path");
        #[expect(clippy::disallowed_methods, reason = "the duration of a request is only logged")]
        let since = Instant::now();
        Self { method, path, since }
    }
}
