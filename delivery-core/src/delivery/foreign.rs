//! Keys whose texts were made by another system. When such a key is imported, the store keeps a MAC of its text, called
//! the [alias](crate::key::Alias) of the key. The service finds the key of a text by this alias.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Delivery;
use crate::key::KeyId;
use crate::store::{Office, StoreError};

/// How long this server assumes that the store has no aliases, after the store was asked. Then the server asks again,
/// because another server may have imported keys.
const NONE_FOR: Duration = Duration::from_secs(3);

/// Whether the store has aliases, as far as this server knows.
#[derive(Debug, Default)]
pub(crate) struct KnownAliases {
    /// Whether the store ever had an alias. This server then assumes that the store still has aliases.
    any: AtomicBool,
    /// The time of the monotonic clock until which this server assumes that the store has no aliases.
    none_until: Mutex<Duration>,
}

impl KnownAliases {
    /// Records that the store has an alias.
    pub(super) fn found(&self) {
        self.any.store(true, Ordering::Relaxed);
    }
}

impl Delivery {
    /// Returns the id of the key with this text; `None` if there is no such key. For a text that the service's keyring
    /// signed, does the same as [`verify`](Self::verify). A text in another form may be the text of an imported key, so
    /// it is looked up if the store has imported key texts. A text that has the service's form but that the keyring did
    /// not sign is refused without I/O.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read.
    pub async fn identify(&self, text: &str) -> Result<Option<KeyId>, StoreError> {
        let keyring = &self.inner.keyring;
        if let Some(id) = keyring.verify(text) {
            return Ok(Some(id));
        }
        let Some(office) = self.inner.ledger.office().filter(|_| keyring.is_foreign(text)) else { return Ok(None) };
        if !self.has_aliases(office).await? {
            return Ok(None);
        }
        office.alias(&keyring.aliases(text)).await
    }

    /// Returns whether the store has aliases. Asks the store only if its last answer may be out of date.
    async fn has_aliases(&self, office: &dyn Office) -> Result<bool, StoreError> {
        let (known, now) = (&self.inner.aliases, self.inner.clock.monotonic());
        if known.any.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if now < *known.none_until.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(false);
        }
        let has_aliases = office.has_aliases().await?;
        if has_aliases {
            known.found();
        } else {
            *known.none_until.lock().unwrap_or_else(PoisonError::into_inner) = now + NONE_FOR;
        }
        Ok(has_aliases)
    }
}
