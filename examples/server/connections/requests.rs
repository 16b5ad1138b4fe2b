//! The log of requests, and the name each of them has in it.

use std::time::Instant;

use delivery_core::http::{Endpoint, is_request_id};
use tracing::Level;
use uuid::Uuid;

use super::health;
use crate::docs;

/// The header that holds a request's name, in the request and in the answer.
pub const ID: &str = "x-request-id";

/// The methods of RFC 9110 and RFC 5789.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// A request that is being answered.
pub struct Open {
    id: String,
    /// What the log will say of it, if it wants to know.
    logged: Option<Logged>,
}

struct Logged {
    method: &'static str,
    path: &'static str,
    since: Instant,
}

impl Open {
    /// Takes the name that the client or its proxy gave the request, if it is fit for a log; else makes one.
    pub fn new(given: Option<&str>, method: &str, path: &str) -> Self {
        let given = given.filter(|id| is_request_id(id));
        let id = given.map_or_else(|| Uuid::new_v4().simple().to_string(), str::to_owned);
        let wanted = tracing::enabled!(target: "request", Level::DEBUG);
        Self { id, logged: wanted.then(|| Logged::new(method, path)) }
    }

    /// The name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Tells the log, at level DEBUG: `RUST_LOG=info,request=debug` shows it.
    pub fn answered(&self, status: u16) {
        if let Some(Logged { method, path, since }) = self.logged {
            let elapsed = since.elapsed();
            tracing::debug!(target: "request", id = self.id, method, path, status, ?elapsed);
        }
    }
}

impl Logged {
    /// Never logs the query, which may hold a key, nor an unknown method or path, which may hold anything.
    fn new(method: &str, path: &str) -> Self {
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("another method");
        // A path with parameters is logged as the API writes it: its ticket is a secret.
        let known = Endpoint::ALL.iter().copied().chain(Endpoint::pages()).find(|endpoint| endpoint.is_at(path));
        let path = known
            .map(Endpoint::path)
            .or_else(|| [health::LIVE, health::READY, docs::PATH].into_iter().find(|ours| *ours == path));
        let path = path.unwrap_or("another path");
        #[expect(clippy::disallowed_methods, reason = "how long a request took is told to the log alone")]
        let since = Instant::now();
        Self { method, path, since }
    }
}
