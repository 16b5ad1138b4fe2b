//! The secrets of commerce platforms that the seller sets while the service runs. They are stored encrypted. Before a
//! server refuses a request whose signature is wrong, it reads the secrets from the store again. Every server therefore
//! uses a new secret at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::delivery::running::until_stopped;
use crate::delivery::settings::PlatformRow;
use crate::delivery::{Delivery, Desk};
use crate::ledger::Edit;
use crate::order::Source;
use crate::platform::{Platform, Secrets};
use crate::store::{SealedSecret, StoreError};
use crate::text::{Invalid, is_invisible};
use crate::throttle::log_seldom;

/// How often each server reads the secrets. For up to this long, it still accepts a secret that was removed or replaced
/// at another server.
const PERIOD: Duration = Duration::from_secs(5);
/// The minimum time between the end of one read and the start of the next. A request with a wrong signature also causes
/// a read, so this limits how often strangers can make the server read the store.
const PAUSE: Duration = Duration::from_millis(250);
/// The maximum length of a secret, in bytes.
const LONGEST: usize = 1_000;

/// Why the secret of a platform was not set.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The service has no built-in platform of this name.
    #[error("there is no such platform whose secret can be set")]
    UnknownPlatform,
    /// The settings of the server have the platform's secret, or the host application has added the platform. Both take
    /// precedence over a secret that the seller sets.
    #[error("the settings of the server have the secret of this platform")]
    InSettings,
    /// The text cannot be a secret of the platform, for example because it has the wrong form.
    #[error("the secret {0}")]
    Invalid(Invalid),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A platform's encrypted secret as stored, and the platform that was made with the secret.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) sealed: Option<Vec<u8>>,
    /// `None` if there is no secret, if the keyring cannot decrypt it, or if it is not valid for the platform.
    pub(super) platform: Option<Arc<dyn Platform>>,
}

impl Slot {
    pub(super) fn is_unreadable(&self) -> bool {
        self.sealed.is_some() && self.platform.is_none()
    }
}

/// Coordinates the reads of the secrets from the store.
#[derive(Default)]
pub(super) struct Reads {
    /// How many reads have begun.
    begun: AtomicU64,
    /// The last read that has ended. The lock also makes reads and changes take turns, so that a slow read cannot
    /// restore a secret that was replaced meanwhile.
    ended: tokio::sync::Mutex<Ended>,
}

#[derive(Default)]
struct Ended {
    number: u64,
    error: Option<StoreError>,
    /// When the read ended, by the monotonic clock; `None` before the first read.
    at: Option<Duration>,
}

impl Ended {
    /// Returns how long the next read has to wait after `now`.
    fn pause(&self, now: Duration) -> Duration {
        self.at.map_or(Duration::ZERO, |at| PAUSE.saturating_sub(now.saturating_sub(at)))
    }
}

impl Desk<'_> {
    /// Sets the secret of a built-in commerce platform, in place of the previous one. From then on, every server
    /// accepts events that are signed with the new secret. With `None`, removes the secret. In both cases, other
    /// servers may accept the previous secret for five more seconds. The secret is stored encrypted, with a key that is
    /// derived from the keyring.
    ///
    /// # Errors
    ///
    /// [`SecretError`]. Nothing was changed, unless the outcome is [unknown](StoreError::Unknown).
    pub async fn set_platform_secret(&self, source: &Source, secret: Option<&str>) -> Result<(), SecretError> {
        let inner = &self.delivery.inner;
        let office = inner.office()?;
        let mounted = inner.platforms.find(source.as_str()).ok_or(SecretError::UnknownPlatform)?;
        let row = mounted.row.ok_or(SecretError::UnknownPlatform)?;
        let slot = match secret.map(str::trim) {
            None => Slot::default(),
            Some(_) if mounted.given.is_some() => return Err(SecretError::InSettings),
            Some(secret) => {
                let platform = self.delivery.platform_of(row, secret).map_err(SecretError::Invalid)?;
                let sealed = inner.keyring.seal(source.as_str(), secret, inner.entropy.as_ref());
                Slot { sealed: Some(sealed), platform: Some(platform) }
            }
        };
        let edit = Edit { detail: Some(source.to_string()), ..self.edit() };
        let _turn = inner.platforms.reads.ended.lock().await;
        office.set_platform_secret(source, slot.sealed.clone(), edit).await?;
        mounted.fill(slot);
        Ok(())
    }
}

impl Delivery {
    /// Reads the secrets from the store and uses them. If several callers wait, one read serves all of them. There is a
    /// pause between two reads, so that requests from strangers cause only a few reads.
    pub(crate) async fn read_secrets(&self) -> Result<(), StoreError> {
        let reads = &self.inner.platforms.reads;
        let begun = reads.begun.load(Ordering::SeqCst);
        let mut ended = reads.ended.lock().await;
        // A read that began after this call serves this call too.
        if ended.number > begun {
            return ended.error.clone().map_or(Ok(()), Err);
        }
        let clock = &self.inner.clock;
        sleep(ended.pause(clock.monotonic())).await;
        let number = reads.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let read = self.inner.office()?.platform_secrets().await;
        *ended = Ended { number, error: read.as_ref().err().cloned(), at: Some(clock.monotonic()) };
        self.use_secrets(&read?);
        Ok(())
    }

    /// Reads the secrets for a page that shows which platforms have one. If a read is in progress or has just ended,
    /// returns at once, and the page shows the result of the previous read.
    #[cfg(feature = "pages")]
    pub(crate) async fn read_secrets_at_once(&self) -> Result<(), StoreError> {
        let now = self.inner.clock.monotonic();
        let is_due = self.inner.platforms.reads.ended.try_lock().is_ok_and(|ended| ended.pause(now).is_zero());
        if is_due { self.read_secrets().await } else { Ok(()) }
    }

    fn use_secrets(&self, all: &[SealedSecret]) {
        for mounted in &self.inner.platforms.mounted {
            let Some(row) = mounted.row else { continue };
            let sealed = all.iter().find(|secret| secret.source == mounted.name).map(|secret| &secret.sealed);
            if mounted.slot().sealed.as_ref() != sealed {
                let platform = sealed.and_then(|sealed| self.unsealed(row, &mounted.name, sealed));
                mounted.fill(Slot { sealed: sealed.cloned(), platform });
            }
        }
    }

    /// Decrypts a secret, and makes the platform with it. Returns `None` if the keyring cannot decrypt the secret, or
    /// if the secret is not valid for the platform.
    fn unsealed(&self, row: &PlatformRow, source: &Source, sealed: &[u8]) -> Option<Arc<dyn Platform>> {
        let platform = source.as_str();
        let Some(unsealed) = self.inner.keyring.unseal(platform, sealed) else {
            tracing::error!(
                platform,
                "the secret of a platform cannot be decrypted, because KEY_SECRET has changed: set it again at the desk"
            );
            return None;
        };
        let made = self.platform_of(row, &unsealed.text);
        made.inspect_err(|expected| {
            tracing::error!(platform, %expected, "the secret of a platform is not valid: set it again at the desk");
        })
        .ok()
    }

    fn platform_of(&self, row: &PlatformRow, secret: &str) -> Result<Arc<dyn Platform>, Invalid> {
        if secret.len() > LONGEST || secret.contains(|c: char| c.is_control() || is_invisible(c)) {
            return Err(Invalid::expected("must be at most 1000 bytes, without line breaks and invisible characters"));
        }
        row.make(&Secrets::new([secret])?, &self.inner.platforms.details)
    }

    /// Re-encrypts, with the newest secret of the keyring, each platform secret that is encrypted with an older one.
    /// The older secret can then be removed from the keyring.
    pub(in crate::delivery) async fn reseal_secrets(&self) -> Result<(), StoreError> {
        let (inner, office) = (&self.inner, self.inner.office()?);
        for SealedSecret { source, sealed } in office.platform_secrets().await? {
            if let Some(unsealed) = inner.keyring.unseal(source.as_str(), &sealed)
                && !unsealed.is_newest
            {
                let again = inner.keyring.seal(source.as_str(), &unsealed.text, inner.entropy.as_ref());
                office.reseal_platform_secret(&source, &sealed, again).await?;
            }
        }
        Ok(())
    }

    /// Re-encrypts the secrets if necessary, and reads them every five seconds, until `stop` is true.
    pub(in crate::delivery) async fn watch_secrets(self, stop: watch::Receiver<bool>) {
        if self.inner.platforms.mounted.iter().all(|mounted| mounted.row.is_none()) {
            return;
        }
        let watch = async {
            let mut is_resealed = false;
            loop {
                // Re-encrypt only once. Otherwise two servers whose keyrings have different newest secrets would
                // re-encrypt each other's results again and again.
                let resealed = if is_resealed { Ok(()) } else { self.reseal_secrets().await };
                is_resealed |= resealed.is_ok();
                if let Err(error) = resealed.and(self.read_secrets().await) {
                    log_seldom!(
                        warn,
                        error = &error,
                        "secrets of platforms that were set at the desk cannot be read or encrypted anew"
                    );
                }
                sleep(PERIOD).await;
            }
        };
        until_stopped(stop, watch).await;
    }
}
