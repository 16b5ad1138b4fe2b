//! Rate limits that many servers share. The exact windows are stored in Redis 6.2 or newer, or in Valkey. A script
//! decides about each request in one round trip.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use data_encoding::BASE32_DNSSEC;
use hmac::{Hmac, KeyInit, Mac};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError, Script};
use sha2::Sha256;
use thiserror::Error;
use tokio::time::timeout;

use super::{Decision, Identity, LimitError, MemoryLimiter, Policy, Quota, RateLimiter, Subject};
use crate::clock::{Clock, SystemClock};
use crate::text::{UNESCAPED, is_cut_short};

/// How long a request waits for an answer from Redis.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a ping waits for an answer from Redis.
const PING: Duration = Duration::from_secs(5);
/// How long a server does not query Redis after Redis failed to answer. Meanwhile the server counts requests by itself.
const REST: Duration = Duration::from_secs(1);

/// The script that decides about a request. It stores the times of a subject's requests, in microseconds, as a list,
/// oldest first. Requests that have left the window are removed. The list expires a second after the last request has
/// left the window. Redis runs scripts one after another, so each decision is atomic.
const WINDOW: &str = r"
    local limit, window, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
    if not now then
        local time = redis.call('TIME')
        now = time[1] * 1000000 + time[2]
    end
    local newest = tonumber(redis.call('LINDEX', KEYS[1], -1) or 0)
    if newest > now then -- the server's clock was set back: what was counted goes back with it, and leaves a window later
        for index, at in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
            redis.call('LSET', KEYS[1], index - 1, string.format('%.0f', at - (newest - now)))
        end
    end
    local oldest = tonumber(redis.call('LINDEX', KEYS[1], 0) or now)
    while now - oldest >= window do
        redis.call('LPOP', KEYS[1])
        oldest = tonumber(redis.call('LINDEX', KEYS[1], 0) or now)
    end
    local counted = redis.call('LLEN', KEYS[1])
    if counted >= limit then
        local blocking = tonumber(redis.call('LINDEX', KEYS[1], counted - limit))
        return {-1, blocking + window - now}
    end
    redis.call('RPUSH', KEYS[1], string.format('%.0f', now))
    redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000) + 1000) -- a second too late rather than a moment too early
    return {limit - counted - 1, oldest + window - now}
";

/// The address is not a `redis://` URL.
#[derive(Debug, Error)]
#[error("{expected}")]
pub struct RedisUrlError {
    expected: &'static str,
    #[source]
    source: Option<RedisError>,
}

/// Limits shared by all servers that use the same Redis.
///
/// While Redis is unavailable, each server counts requests by itself, logs this once, and queries Redis again once a
/// second. During that time, a client has a separate allowance on each server. Redis sees neither addresses nor keys,
/// because identities are hashed with a `pepper`.
pub struct RedisLimiter {
    client: Client,
    connection: Mutex<ConnectionManager>,
    script: Script,
    pepper: Hmac<Sha256>,
    clock: Arc<dyn Clock>,
    /// The clock on which windows are measured; `None` for the clock of Redis.
    times: Option<Arc<dyn Clock>>,
    patience: Duration,
    alone: MemoryLimiter,
    unavailable: Mutex<Option<Unavailable>>,
}

/// Redis did not answer, and is not queried again before `ask_again`.
#[derive(Debug, Clone, Copy)]
struct Unavailable {
    ask_again: Duration,
}

impl RedisLimiter {
    /// Returns a limiter that connects to `url`, `redis://…`, at the first request. `pepper` is a secret that all
    /// servers share: see [`Keyring::pepper`](crate::key::Keyring::pepper). Must be called within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// [`RedisUrlError`] if `url` is not the address of a Redis server. Whether the server answers is not checked yet.
    pub fn new(url: &str, pepper: [u8; 32]) -> Result<Self, RedisUrlError> {
        const EXPECTED: &str = "must be an address such as redis://user:password@host:6379/0";
        if is_cut_short(url) {
            return Err(RedisUrlError { expected: UNESCAPED, source: None });
        }
        let failed = |source| RedisUrlError { expected: EXPECTED, source: Some(source) };
        let client = Client::open(url).map_err(failed)?;
        let connection = Mutex::new(connection(&client, PATIENCE).map_err(failed)?);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Ok(Self {
            client,
            connection,
            script: Script::new(WINDOW),
            pepper: Hmac::new(&block(pepper)),
            alone: MemoryLimiter::new(clock.clone()),
            clock,
            times: None,
            patience: PATIENCE,
            unavailable: Mutex::new(None),
        })
    }

    /// Checks that Redis answers within five seconds. The limits also work without Redis: each server then counts by
    /// itself.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if Redis does not answer.
    pub async fn ping(&self) -> Result<(), LimitError> {
        // Use a separate connection. The connection for requests gives up after half a second, and a ping may take
        // longer.
        let ping = async { redis::cmd("PING").query_async::<()>(&mut connection(&self.client, PING)?).await };
        let asked = timeout(PING, ping).await;
        let answered = asked.unwrap_or_else(|elapsed| Err(std::io::Error::from(elapsed).into()));
        answered.map_err(|error| LimitError::new("Redis does not answer", Some(Box::new(error))))
    }

    /// Measures windows on `clock` instead of the clock of Redis, for tests. Requests then wait up to ten seconds for
    /// Redis, because the machine may be busy with other tests.
    #[must_use]
    pub fn on_clock(self, clock: Arc<dyn Clock>) -> Self {
        let patience = Duration::from_secs(10);
        let connection = connection(&self.client, patience).map_or(self.connection, Mutex::new);
        Self { times: Some(clock), patience, connection, ..self }
    }

    async fn ask(&self, subject: &Subject, quota: Quota) -> Result<Decision, RedisError> {
        let time = self.times.as_ref().map_or_else(String::new, |clock| clock.monotonic().as_micros().to_string());
        let window = u64::try_from(quota.window().as_micros()).unwrap_or(u64::MAX);
        let mut script = self.script.key(self.name(subject));
        script.arg(quota.limit().get()).arg(window).arg(time);
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let asked = timeout(self.patience, script.invoke_async::<(i64, u64)>(&mut connection)).await;
        let (remaining, wait) = asked.unwrap_or_else(|elapsed| Err(std::io::Error::from(elapsed).into()))?;
        let wait = Duration::from_micros(wait);
        Ok(match u32::try_from(remaining) {
            Ok(remaining) => Decision::Admitted { remaining, reset: wait },
            Err(_) => Decision::Refused { retry_after: wait },
        })
    }

    /// Returns the name of a subject's list. The name contains a keyed hash of the identity, so that it does not reveal
    /// the identity.
    fn name(&self, subject: &Subject) -> String {
        let identity = match subject.identity {
            Identity::Key(id) => [b"key".as_slice(), &id.to_be_bytes()].concat(),
            Identity::V4(address) => [b"v4".as_slice(), &address.octets()].concat(),
            Identity::V6(network) => [b"v6".as_slice(), &network.to_be_bytes()].concat(),
            Identity::Unknown => Vec::new(),
        };
        let hashed = self.pepper.clone().chain_update(identity).finalize().into_bytes();
        let short: Vec<u8> = hashed.into_iter().take(16).collect();
        let policy = match subject.policy {
            Policy::Host(_, quota) => {
                format!("host:{}:{}:{}", subject.policy.name(), quota.limit(), quota.window().as_micros())
            }
            policy => policy.name().to_owned(),
        };
        format!("delivery:{policy}:{}", BASE32_DNSSEC.encode(&short))
    }

    /// Returns why Redis is queried for this request: as usual, or to see whether Redis has recovered. Returns `None`
    /// if Redis is not queried: while Redis is unavailable, only one request in each second queries it.
    fn asking(&self) -> Option<Asking> {
        let mut unavailable = self.unavailable.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        match unavailable.as_mut() {
            Some(unavailable) if now < unavailable.ask_again => None,
            // This request checks whether Redis has recovered. The other requests of the next second do not query
            // Redis.
            Some(unavailable) => {
                unavailable.ask_again = now.saturating_add(REST);
                Some(Asking::ToSee)
            }
            None => Some(Asking::AsUsual),
        }
    }

    /// Records the result of a query. After Redis failed to answer, it counts as recovered only when it admits a
    /// request that was sent to see this ([`Asking::ToSee`]). The answer to an earlier query is no proof, because Redis
    /// may have given it before it became unavailable.
    fn note(&self, asking: Asking, asked: Result<&Decision, &RedisError>) {
        let mut unavailable = self.unavailable.lock().unwrap_or_else(PoisonError::into_inner);
        match asked {
            // Only an admission shows that Redis can store requests again. A refusal stores no request, so Redis can
            // refuse even while its memory is full.
            Ok(Decision::Admitted { .. }) if asking == Asking::ToSee => {
                *unavailable = None;
                tracing::info!("limits are shared again");
            }
            Ok(_) => {}
            Err(error) => {
                if unavailable.is_none() {
                    *unavailable = Some(Unavailable { ask_again: self.clock.monotonic().saturating_add(REST) });
                    let error = error as &dyn std::error::Error;
                    tracing::warn!(error, "Redis is unavailable: each server limits on its own until it recovers");
                }
                // Open a new connection. If the old connection is dead, TCP would give up on it only after a quarter of
                // an hour. If the old connection leads to a server that was replaced and refuses writes, it may stay
                // open for ever, although the address leads to the new server.
                if let Ok(fresh) = connection(&self.client, self.patience) {
                    *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
                }
            }
        }
    }
}

/// Why Redis is queried: as for every request, or to see whether Redis has recovered after it failed to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    AsUsual,
    ToSee,
}

/// Returns a connection that is opened when it is first used.
fn connection(client: &Client, patience: Duration) -> Result<ConnectionManager, RedisError> {
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(patience))
        .set_response_timeout(Some(patience));
    ConnectionManager::new_lazy_with_config(client.clone(), config)
}

/// Pads the pepper with zeros to the length of a block, as HMAC does with a key that is shorter than a block.
fn block(pepper: [u8; 32]) -> hmac::digest::Key<Hmac<Sha256>> {
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block.iter_mut().zip(pepper).for_each(|(to, from)| *to = from);
    block
}

#[async_trait]
impl RateLimiter for RedisLimiter {
    async fn admit(&self, subject: &Subject, quota: Quota) -> Result<Decision, LimitError> {
        if let Some(asking) = self.asking() {
            let asked = self.ask(subject, quota).await;
            self.note(asking, asked.as_ref());
            if let Ok(decision) = asked {
                return Ok(decision);
            }
        }
        self.alone.admit(subject, quota).await
    }
}

impl fmt::Debug for RedisLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimiter").field("unavailable", &self.unavailable).finish_non_exhaustive()
    }
}
