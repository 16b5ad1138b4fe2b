//! `POST /api/webhook/{platform}`: what commerce platforms report.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::wire;
use crate::delivery::Delivery;
use crate::error::ErrorCode;
use crate::http::Reply;
use crate::http::body::BodyRule;
use crate::http::proof::Event;
use crate::http::row::{Answering, Docs, Handler, Row, Verb};
use crate::order::Source;

/// Where the names of platforms stand.
const BASE: &str = "/api/webhook/";

/// The path that a commerce platform calls: `/api/webhook/` and the [name](crate::platform::Platform::name) of the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlatformPath(&'static str);

impl PlatformPath {
    /// The platforms that this crate reads.
    pub const BUILT_IN: [Self; 8] = [
        Self("/api/webhook/stripe"),
        Self("/api/webhook/shopify"),
        Self("/api/webhook/lemonsqueezy"),
        Self("/api/webhook/paddle"),
        Self("/api/webhook/gumroad"),
        Self("/api/webhook/woocommerce"),
        Self("/api/webhook/polar"),
        Self("/api/webhook/standard"),
    ];

    /// The path of a platform of the host's own, such as `/api/webhook/fastspring`; `None` unless lower-case letters, digits and
    /// hyphens follow `/api/webhook/`, and for the path of another endpoint.
    #[must_use]
    pub fn new(path: &'static str) -> Option<Self> {
        is_path(path).then_some(Self(path))
    }

    /// Those of the platforms that the host has added, as far as their names can end a path.
    pub(in crate::http) fn of_host(delivery: &Delivery) -> impl Iterator<Item = Self> {
        delivery.inner.platforms.names().filter_map(Self::named).filter(|path| !Self::BUILT_IN.contains(path))
    }

    /// The path of a platform with this name.
    fn named(name: &Source) -> Option<Self> {
        // A path lasts as long as the program: the program has few names of platforms, and may build many services.
        static PATHS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let path = format!("{BASE}{name}");
        if !is_path(&path) {
            return None;
        }
        let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = paths.get(path.as_str()).copied();
        let path = known.unwrap_or_else(|| path.leak());
        paths.insert(path);
        Some(Self(path))
    }

    /// The path, relative to where the API is mounted.
    #[must_use]
    pub fn path(self) -> &'static str {
        self.0
    }

    /// The name of the platform.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.strip_prefix(BASE).unwrap_or(self.0)
    }
}

fn is_path(path: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let name = path.strip_prefix(BASE).filter(|name| !matches!(*name, "" | "order"));
    name.is_some_and(|name| name.bytes().all(is_name))
}

pub(in crate::http) static EVENT: Row = Row {
    path: "/api/webhook/{platform}",
    verb: Verb::Post,
    body: BodyRule::Any { limit: 1 << 20, deadline: Duration::from_secs(10) },
    // A platform is never refused for a limit: some never try again. What is not authentic is counted.
    limit: None,
    handler: Handler::SignedWebhook(event),
    codes: &[
        ErrorCode::InvalidParams,
        ErrorCode::Unauthorized,
        ErrorCode::NotFound,
        ErrorCode::MethodNotAllowed,
        ErrorCode::PayloadTooLarge,
        ErrorCode::RateLimited,
        ErrorCode::Internal,
        ErrorCode::Unavailable,
    ],
    openapi: Docs {
        tag: "platform",
        id: "event",
        summary: "An event",
        description: "What the platform sends, signed as it signs. Once the event is kept it is answered 200, whatever it means, and \
            however often it is sent. A sale issues a key and sends it to the buyer; a refund revokes the key. Only requests that \
            are not signed count against the limit.",
        parameters: &[],
        body: Some("Event"),
        success: Some("Received"),
    },
};

fn event(delivery: &Delivery, event: Event) -> Answering<'_> {
    Box::pin(async move {
        let (source, notification) = event.into_parts();
        match delivery.receive(&source, notification).await {
            Ok(_) => received(),
            Err(error) => error.into(),
        }
    })
}

/// The answer to what was kept, and to a test of the connection.
pub(in crate::http) fn received() -> Reply {
    Reply::json(&wire::Received { received: true })
}
