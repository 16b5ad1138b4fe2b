//! `POST /api/webhook/{platform}`: signed events of commerce platforms.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::delivery::{Delivery, PLATFORMS};
use crate::error::ErrorCode;
use crate::http::Reply;
use crate::http::body::BodyRule;
use crate::http::describe::{Body, shape};
use crate::http::error::ApiError;
use crate::http::proof::Event;
use crate::http::row::{Docs, Handler, Row, Verb};
use crate::order::Source;

/// The part of the path before the name of the platform.
const BASE: &str = "/api/webhook/";

/// The path to which a commerce platform sends its events: `/api/webhook/` and the
/// [name](crate::platform::Platform::name) of the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlatformPath(&'static str);

impl PlatformPath {
    /// Returns the paths of the platforms that this crate supports.
    pub fn built_in() -> impl Iterator<Item = Self> {
        PLATFORMS.iter().map(|row| Self(row.path))
    }

    /// Returns the path of a platform that the host application adds, such as `/api/webhook/fastspring`.
    ///
    /// Returns `None` if the path does not begin with `/api/webhook/`, or if the rest is not a valid name. A valid name
    /// consists of lower-case letters, digits and hyphens. It must not be `order`, because `/api/webhook/order` is
    /// another endpoint.
    #[must_use]
    pub fn new(path: &'static str) -> Option<Self> {
        is_path(path).then_some(Self(path))
    }

    /// Returns the paths of the commerce platforms that the host application adds. Skips platforms whose names are not
    /// valid in a path.
    pub(in crate::http) fn of_host(delivery: &Delivery) -> impl Iterator<Item = Self> {
        let is_new = |path: &Self| Self::built_in().all(|known| known != *path);
        delivery.inner.platforms.names().filter_map(Self::named).filter(is_new)
    }

    /// Returns the path of the platform with this name. Returns `None` if the name is not valid in a path.
    fn named(name: &Source) -> Option<Self> {
        // A path must be `'static`, so its memory is never freed. This set contains all paths allocated so far. A
        // program that builds many services with the same few platforms therefore allocates each path only once.
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

    /// Returns the path, relative to where the API is mounted.
    #[must_use]
    pub fn path(self) -> &'static str {
        self.0
    }

    /// Returns the name of the platform.
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
    body: BodyRule::Read { limit: 1 << 20, deadline: Duration::from_secs(10) },
    // Signed events are never refused by a rate limit, because some platforms never send a refused event again. The
    // pipeline, which calls the handler, counts only connection tests and requests without a valid signature.
    limit: None,
    cross_origin: false,
    handler: Handler::SignedWebhook(|delivery, signed| Box::pin(event(delivery, signed))),
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
        description: "The platform sends its events here, with its own signature. As soon as an event is saved, the \
            answer is 200, whatever the event means and however often it is sent. A sale issues a key and sends it to \
            the buyer. A full refund revokes the key. Only requests without a valid signature count against the rate \
            limit.",
        body: Some(Body {
            name: "Event",
            about: "An event in the platform's own format, byte for byte as it was signed.",
            fields: &[],
            example: "{}",
        }),
        success: shape!(Received),
        ..Docs::EMPTY
    },
};

/// The event was saved.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
struct Received {
    /// Always true.
    received: bool,
}

async fn event(delivery: &Delivery, event: Event) -> Result<Reply, ApiError> {
    let (source, notification) = event.into_parts();
    delivery.receive(&source, notification).await?;
    Ok(received())
}

/// Returns the reply that confirms an event after it was saved. A connection test gets the same reply.
pub(in crate::http) fn received() -> Reply {
    Reply::json(&Received { received: true })
}
