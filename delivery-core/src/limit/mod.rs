//! Rate limits: exact sliding windows behind a small trait.
//!
//! # Implementing `RateLimiter`
//!
//! [`admit`](RateLimiter::admit) decides and counts in one atomic step for each subject. The conformance cases in
//! `delivery-testing` check this contract:
//!
//! - In *any* window of the quota's length, at most `limit` requests are admitted.
//! - A request that fits is never refused.
//! - A refused request is not counted.
//! - The same request fits as soon as `retry_after` has passed, but not earlier.
//! - Subjects do not influence each other. There is one exception: an implementation whose memory is full, for example
//!   under attack, may let *new* subjects share an allowance. Such a subject never gets more than the quota, but may
//!   get less.
//!
//! ```
//! use async_trait::async_trait;
//! use delivery_core::limit::{Decision, LimitError, Quota, RateLimiter, Subject};
//!
//! /// A host that limits in its reverse proxy.
//! #[derive(Debug)]
//! struct Elsewhere;
//!
//! #[async_trait]
//! impl RateLimiter for Elsewhere {
//!     async fn admit(&self, _: &Subject, quota: Quota) -> Result<Decision, LimitError> {
//!         Ok(Decision::Admitted { remaining: quota.limit().get(), reset: quota.window() })
//!     }
//! }
//! ```

pub(crate) mod bodies;
mod memory;
#[cfg(feature = "redis")]
mod redis;
mod subjects;
mod table;
mod window;

use std::error::Error;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

pub use self::memory::MemoryLimiter;
#[cfg(feature = "redis")]
pub use self::redis::{RedisLimiter, RedisUrlError};
use crate::text::Invalid;

/// Decides whether a request may pass its rate limit. See the [module documentation](self) for how to implement it.
///
/// # To ensure correctness
///
/// * Decide and count in one atomic step for each subject.
/// * Admit at most the quota in *any* window of its length, and never refuse a request that fits.
#[async_trait]
pub trait RateLimiter: Debug + Send + Sync + 'static {
    /// Admits and counts a request of `subject` if it fits into `quota`. If it does not fit, counts nothing and returns
    /// how long to wait until it fits.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the limiter cannot decide. The request is then answered 503. An event that a platform has
    /// signed is an exception: it is saved and applied nevertheless.
    async fn admit(&self, subject: &Subject, quota: Quota) -> Result<Decision, LimitError>;
}

/// The number of requests that are admitted in any window of a given length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Quota {
    limit: NonZeroU32,
    window: Duration,
}

/// Defines [`Policy`] and [`Quotas`]. Each row of the table is a policy: its variant, the field of its quota, which is
/// also its name in the `RateLimit` headers, and the default quota, in requests per minute.
macro_rules! policies {
    ($($(#[doc = $doc:literal])+ $policy:ident, $quota:ident = $limit:literal;)+) => {
        /// One of the service's limits. Its name appears in the `RateLimit` headers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Policy {
            $($(#[doc = $doc])+ $policy,)+
            /// A limit that the host application defines. Limits that have the same name but different quotas are
            /// counted separately, because the quota determines when a request leaves the window.
            Host(HostPolicy, Quota),
        }

        /// The quotas of all policies. The documentation of each field states the default.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal with `..Default::default()`")]
        pub struct Quotas {
            $($(#[doc = $doc])+ #[doc = concat!("The default is ", $limit, " per minute.")] pub $quota: Quota,)+
        }

        impl Default for Quotas {
            fn default() -> Self {
                let window = Duration::from_mins(1);
                Self { $($quota: Quota { limit: NonZeroU32::new($limit).unwrap_or(NonZeroU32::MIN), window },)+ }
            }
        }

        impl Quotas {
            /// Returns the quota of `policy`.
            #[must_use]
            pub fn of(&self, policy: Policy) -> Quota {
                match policy {
                    $(Policy::$policy => self.$quota,)+
                    Policy::Host(_, quota) => quota,
                }
            }
        }

        impl Policy {
            /// Returns the name of the policy in the `RateLimit` headers.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$policy => stringify!($quota),)+
                    Self::Host(HostPolicy(name), _) => name,
                }
            }
        }
    };
}

policies! {
    /// Fetches of products, counted per key.
    Product, product = 100;
    /// Validations of keys, counted per client address.
    Validate, validate = 60;
    /// Webhook calls, counted per client address. Calls that a platform signed are not counted.
    Webhook, webhook = 30;
    /// Calls of admin endpoints and sign-ins at the seller's desk, counted together per client address.
    Admin, admin = 10;
    /// Fetches with a key that does not verify, counted per client address.
    Failures, failures = 60;
    /// New events, counted per commerce platform. Events beyond the quota are applied later.
    Events, events = 600;
    /// Requests for lost keys, counted per client address.
    Resend, resend = 5;
    /// Views of the seller's HTML pages (the desk), counted per session. If the host application signs sellers in,
    /// views are counted per client address instead.
    Desk, desk = 300;
    /// Downloads of files, and views of products that the buyer has already opened, counted per key.
    Files, files = 300;
}

/// The name of a limit of the host application. It appears in the `RateLimit` headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPolicy(&'static str);

/// The client, key, platform or session whose requests are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Identity {
    /// A key, given by its id. Also a session at the seller's desk, or a commerce platform: each of these is given by a
    /// digest.
    Key(u128),
    /// An IPv4 client, given by its address.
    V4(Ipv4Addr),
    /// An IPv6 client, given by its /64 network, because a client usually has all addresses of such a network.
    V6(u64),
    /// A client whose address is unknown. All such clients share one allowance.
    Unknown,
}

/// An identity and the policy under which its requests are counted. Each such pair has its own window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "it is a pair")]
pub struct Subject {
    /// The policy under which the requests are counted.
    pub policy: Policy,
    /// The client, key, platform or session.
    pub identity: Identity,
}

/// What a limiter decided about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a request passes or it does not")]
pub enum Decision {
    /// The request passes and was counted.
    Admitted {
        /// How many more requests would be admitted now.
        remaining: u32,
        /// The time until the oldest counted request leaves the window.
        reset: Duration,
    },
    /// The request does not pass and was not counted.
    Refused {
        /// The exact time to wait until the same request fits, if no other request of the subject is admitted first.
        retry_after: Duration,
    },
}

/// The limiter could not decide.
#[derive(Debug, Error)]
#[error("the rate limiter cannot decide: {reason}")]
pub struct LimitError {
    reason: &'static str,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Quota {
    /// Returns a quota of `limit` requests, 1 or more, in any `window` of 1 s to 366 days. For each subject, a limiter
    /// stores the times of up to `limit` requests, at 8 to 16 bytes each. In a constant, the quota is checked at
    /// compile time:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use delivery_core::limit::Quota;
    /// const DOWNLOADS: Quota = match Quota::new(5, Duration::from_hours(1)) {
    ///     Ok(quota) => quota,
    ///     Err(_) => panic!("out of range"),
    /// };
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `limit` or `window` is out of range.
    pub const fn new(limit: u32, window: Duration) -> Result<Self, Invalid> {
        const LONGEST: Duration = Duration::from_hours(366 * 24);
        let Some(limit) = NonZeroU32::new(limit) else { return Err(Invalid::expected("must be 1 or more requests")) };
        if window.as_secs() < 1 || window.as_nanos() > LONGEST.as_nanos() {
            return Err(Invalid::expected("must have a window of 1 s to 366 days"));
        }
        Ok(Self { limit, window })
    }

    /// Returns a quota of `limit` requests, 1 or more, in any 60 seconds.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `limit` is 0.
    pub fn per_minute(limit: u32) -> Result<Self, Invalid> {
        let limit = NonZeroU32::new(limit).ok_or(Invalid::expected("must be 1 or more requests per minute"))?;
        Ok(Self { limit, window: Duration::from_mins(1) })
    }

    /// Returns how many requests are admitted in a window.
    #[must_use]
    pub fn limit(self) -> NonZeroU32 {
        self.limit
    }

    /// Returns the length of the window.
    #[must_use]
    pub fn window(self) -> Duration {
        self.window
    }
}

impl HostPolicy {
    /// Creates the name of a limit: 1 to 24 characters of `a-z`, `0-9` and `-`. In a constant, the name is checked at
    /// compile time.
    ///
    /// # Panics
    ///
    /// If the name is not of this form.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        let mut bytes = name.as_bytes();
        assert!(!bytes.is_empty() && bytes.len() <= 24, "the name of a limit has 1 to 24 characters");
        while let [byte, rest @ ..] = bytes {
            assert!(matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'), "the name of a limit has only a-z, 0-9 and -");
            bytes = rest;
        }
        Self(name)
    }
}

impl From<IpAddr> for Identity {
    /// Converts an address. An address `::ffff:a.b.c.d` counts as the IPv4 address `a.b.c.d`. Any other IPv6 address
    /// counts as its /64 network.
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::V6((u128::from(address) >> 64) as u64),
        }
    }
}

impl LimitError {
    /// Returns an error. `reason` must be in lower case and contain no secrets. `source` is the cause, which is logged.
    #[must_use]
    pub fn new(reason: &'static str, source: Option<Box<dyn Error + Send + Sync>>) -> Self {
        Self { reason, source }
    }
}
