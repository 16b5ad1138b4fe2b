//! The log of requests, and the name each of them has in it.

use std::time::Instant;

use delivery_core::http::{Endpoint, is_request_id};
use uuid::Uuid;

use super::{docs, health};

/// The header that holds a request's name, in the request and in the answer.
pub const ID: &str = "x-request-id";

/// The methods of RFC 9110 and RFC 5789.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// A request that is being answered.
pub struct Open {
    id: String,
    since: Instant,
}

impl Open {
    /// Takes the name that the client or its proxy gave the request, if it is fit for a log; else makes one.
    pub fn new(given: Option<&str>) -> Self {
        let given = given.filter(|id| is_request_id(id));
        let id = given.map_or_else(|| Uuid::now_v7().simple().to_string(), str::to_owned);
        #[expect(clippy::disallowed_methods, reason = "how long a request took is told to the log alone")]
        let since = Instant::now();
        Self { id, since }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Tells the log, at level DEBUG: `RUST_LOG=info,request=debug` shows it. Never the query, which may hold a key, nor
    /// a method or path that is not a known one: it may hold anything.
    pub fn answered(&self, method: &str, path: &str, status: u16) {
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("another method");
        let path = known(path).unwrap_or("another path");
        let elapsed = self.since.elapsed();
        tracing::debug!(target: "request", id = self.id, method, path, status, ?elapsed);
    }
}

fn known(path: &str) -> Option<&'static str> {
    let ours = Endpoint::ALL.into_iter().map(Endpoint::path).chain([health::LIVE, health::READY, docs::PATH]);
    ours.into_iter().find(|ours| *ours == path)
}
