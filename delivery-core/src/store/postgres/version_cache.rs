//! The version cache: keys' rows as this writer last wrote them without locking them first, so that most batches need
//! not read rows.
//!
//! A cached row may be stale, because another server may have changed the key. So a batch that uses cached rows writes
//! a key only if its row in the database still has the cached version. An operation is never refused because of a row
//! that may be stale.

use std::collections::HashSet;
use std::time::Duration;

use quick_cache::unsync::Cache;

use crate::key::KeyId;
use crate::ledger::plan::Row;

/// The maximum number of cached rows in each writer. A row takes about 300 bytes.
const KEYS: usize = 1 << 16;
/// The number of batches that read a key from the database, not from the cache, after another server has changed the
/// key. That server probably goes on using the key.
const READ_AGAIN: u32 = 64;
/// How long after its last use a session counts as alive. The connection of a session that was idle for longer may be
/// broken. The next batch on this session therefore reads rows from the database, not from the cache. If the connection
/// is broken, the read fails before anything is written.
const AWAKE: Duration = Duration::from_millis(500);

pub(super) struct VersionCache {
    keys: Cache<KeyId, Cached>,
    /// When the session was last known to be alive.
    seen: Option<Duration>,
}

struct Cached {
    row: Row,
    /// The number of further batches that must not use the row.
    invalid: u32,
}

impl Default for VersionCache {
    fn default() -> Self {
        Self { keys: Cache::new(KEYS), seen: None }
    }
}

impl VersionCache {
    /// Returns the cached rows of `keys` that may be used, and removes the keys of these rows from `keys`. The caller
    /// must read the remaining keys. If the session may be broken, returns no rows, and all keys remain.
    pub(super) fn take(&mut self, keys: &mut HashSet<KeyId>, now: Duration) -> Vec<Row> {
        let mut cached = Vec::new();
        if !self.is_awake(now) {
            return cached;
        }
        keys.retain(|id| match self.keys.get_mut(id) {
            Some(mut known) if known.invalid > 0 => {
                known.invalid -= 1;
                true
            }
            Some(known) => {
                cached.push(Row { may_be_stale: true, ..known.row.clone() });
                false
            }
            None => true,
        });
        cached
    }

    /// Returns whether the session was known to be alive less than [`AWAKE`] ago.
    pub(super) fn is_awake(&self, now: Duration) -> bool {
        self.seen.is_some_and(|seen| now.saturating_sub(seen) < AWAKE)
    }

    /// Caches rows as a batch has written them. Also records that the session is alive.
    pub(super) fn keep(&mut self, written: impl IntoIterator<Item = Row>, now: Duration) {
        for row in written {
            let id = row.key.id();
            let invalid = self.keys.peek(&id).map_or(0, |known| known.invalid);
            self.keys.insert(id, Cached { row, invalid });
        }
        self.seen = Some(now);
    }

    /// Removes the key's row, so that the next batch reads it from the database.
    pub(super) fn invalidate(&mut self, id: &KeyId) {
        self.keys.remove(id);
    }

    /// Records that another server has changed the key. The next [`READ_AGAIN`] batches then read the key from the
    /// database.
    pub(super) fn contended(&mut self, id: &KeyId) {
        if let Some(mut known) = self.keys.get_mut(id) {
            known.invalid = READ_AGAIN;
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::key::{Key, NewKey, SecretVersion};
    use crate::terms::Terms;

    fn id(number: u128) -> KeyId {
        KeyId::from_bytes(number.to_be_bytes())
    }

    fn row(number: u128) -> Row {
        let identity = (id(number), SecretVersion::from_stored(1));
        let (product, email) = (crate::product::ProductId::new(1).unwrap(), "a@example.com".parse().unwrap());
        let key = Key::from(NewKey::on_terms(identity, product, email, Terms::default(), DateTime::UNIX_EPOCH));
        Row { key, number: 1, version: 7, last_use: None, may_be_stale: false }
    }

    /// Returns which of keys 1 to 3 must be read.
    fn read(cache: &mut VersionCache, now: Duration) -> Vec<u128> {
        let mut keys = [1, 2, 3].map(id).into();
        let cached = cache.take(&mut keys, now);
        assert_eq!(cached.len() + keys.len(), 3);
        assert!(cached.iter().all(|row| row.may_be_stale && row.version == 7));
        let mut left: Vec<u128> = keys.into_iter().map(KeyId::as_u128).collect();
        left.sort_unstable();
        left
    }

    #[test]
    fn keys_are_read_until_a_batch_has_written_them_and_again_when_they_may_be_old() {
        let mut cache = VersionCache::default();
        let now = Duration::from_secs(1000);
        assert_eq!(read(&mut cache, now), [1, 2, 3], "nothing is cached at first");
        cache.keep([row(1), row(2)], now);
        assert_eq!(read(&mut cache, now), [3]);
        cache.invalidate(&id(1));
        assert_eq!(read(&mut cache, now), [1, 3], "it was written otherwise");
        cache.keep([row(1)], now);
        cache.contended(&id(2));
        for _ in 0..READ_AGAIN {
            assert_eq!(read(&mut cache, now), [2, 3], "another server uses it too");
            cache.keep([row(2)], now);
        }
        assert_eq!(read(&mut cache, now + AWAKE.mul_f32(0.9)), [3]);
        assert_eq!(read(&mut cache, now + AWAKE), [1, 2, 3], "nobody knows whether the session is still there");
        cache.keep([], now + AWAKE);
        assert_eq!(read(&mut cache, now + AWAKE), [3], "it is");
    }
}
