//! Keys as the last batches left them: most of what a batch must know, it need not ask for.
//!
//! It may be old, for another server may have changed the row since. So nothing comes of it but a statement that writes a key
//! only if its row still is the version that was remembered ([`count`](super::count)); a refusal is never taken from it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use quick_cache::unsync::Cache;

use super::plan::Row;
use crate::key::KeyId;

/// Keys remembered at most, by each committer: some 300 bytes each.
const KEYS: usize = 1 << 16;
/// A key that another server has changed is asked for before each of its next batches, so many: it goes on using it.
const DOUBT: u32 = 64;
/// A session that rested for so long may have been cut off meanwhile. A question finds that out and does no harm; of a write
/// that is lost, nobody knows whether it happened.
const AWAKE: Duration = Duration::from_millis(500);

/// A row, and which one it is: the transaction that wrote it (`xmin`), so that any change, of any column by anyone, makes
/// another. (The same number comes again after four thousand million transactions; a session that is gone takes all it
/// remembers with it, for a server that crashed or was replaced may give numbers anew.)
#[derive(Clone)]
pub(super) struct Version {
    pub(super) row: Row,
    pub(super) written_by: i64,
}

/// What a session knows of keys.
pub(super) struct Remembered {
    keys: Cache<KeyId, Known>,
    /// When the session was last seen alive.
    seen: Option<Duration>,
}

struct Known {
    version: Version,
    /// Batches for which it is not believed.
    doubt: u32,
}

impl Default for Remembered {
    fn default() -> Self {
        Self { keys: Cache::new(KEYS), seen: None }
    }
}

impl Remembered {
    /// Parts the keys of a batch into those that are known, and those to ask for.
    pub(super) fn part(&mut self, keys: HashSet<KeyId>, now: Duration) -> (HashMap<KeyId, Version>, HashSet<KeyId>) {
        let mut known = HashMap::new();
        if self.seen.is_none_or(|seen| now.saturating_sub(seen) >= AWAKE) {
            return (known, keys);
        }
        let mut unknown = keys;
        unknown.retain(|id| match self.keys.get_mut(id) {
            Some(mut doubted) if doubted.doubt > 0 => {
                doubted.doubt -= 1;
                true
            }
            Some(believed) => {
                known.insert(*id, believed.version.clone());
                false
            }
            None => true,
        });
        (known, unknown)
    }

    /// Keeps what a batch has written.
    pub(super) fn keep(&mut self, written: impl IntoIterator<Item = (KeyId, Version)>, now: Duration) {
        for (id, version) in written {
            let doubt = self.keys.peek(&id).map_or(0, |known| known.doubt);
            self.keys.insert(id, Known { version, doubt });
        }
        self.seen = Some(now);
    }

    /// Another server has changed a key.
    pub(super) fn doubt(&mut self, id: &KeyId) {
        if let Some(mut known) = self.keys.get_mut(id) {
            known.doubt = DOUBT;
        }
    }

    /// What is remembered of a key does not do: it is to be asked for once.
    pub(super) fn ask_for(&mut self, id: &KeyId) {
        if let Some(mut known) = self.keys.get_mut(id) {
            known.doubt = known.doubt.max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::key::{Key, NewKey, RingVersion};

    fn id(number: u128) -> KeyId {
        KeyId::from_bytes(number.to_be_bytes())
    }

    fn version(number: u128) -> (KeyId, Version) {
        let key = NewKey {
            id: id(number),
            ring: RingVersion::from_stored(1),
            product: crate::product::ProductId::new(1).unwrap(),
            email: "a@example.com".parse().unwrap(),
            order: None,
            issued_at: DateTime::UNIX_EPOCH,
            expires_at: DateTime::UNIX_EPOCH,
            limit: crate::terms::UseLimit::Unlimited,
        };
        let row = Row { key: Key::from(key), number: 1, last_use: None, dirty: false };
        (id(number), Version { row, written_by: 7 })
    }

    /// Which of keys 1 to 3 are to be asked for.
    fn asked(remembered: &mut Remembered, now: Duration) -> Vec<u128> {
        let (known, unknown) = remembered.part([1, 2, 3].map(id).into(), now);
        assert_eq!(known.len() + unknown.len(), 3);
        assert!(known.iter().all(|(id, version)| *id == version.row.key.id() && version.written_by == 7));
        let mut unknown: Vec<u128> = unknown.into_iter().map(KeyId::as_u128).collect();
        unknown.sort_unstable();
        unknown
    }

    #[test]
    fn keys_are_asked_for_until_a_batch_has_written_them_and_again_when_they_may_be_old() {
        let mut remembered = Remembered::default();
        let now = Duration::from_secs(1000);
        assert_eq!(asked(&mut remembered, now), [1, 2, 3], "nothing is known at first");
        remembered.keep([version(1), version(2)], now);
        assert_eq!(asked(&mut remembered, now), [3]);
        remembered.ask_for(&id(1));
        assert_eq!(asked(&mut remembered, now), [1, 3], "it was changed otherwise");
        remembered.keep([version(1)], now);
        remembered.doubt(&id(2));
        for _ in 0..DOUBT {
            assert_eq!(asked(&mut remembered, now), [2, 3], "another server uses it too");
            remembered.keep([version(2)], now);
            remembered.ask_for(&id(2));
        }
        assert_eq!(asked(&mut remembered, now), [2, 3]);
        assert_eq!(asked(&mut remembered, now + AWAKE.mul_f32(0.9)), [3]);
        assert_eq!(asked(&mut remembered, now + AWAKE), [1, 2, 3], "nobody knows whether the session is still there");
        remembered.keep([], now + AWAKE);
        assert_eq!(asked(&mut remembered, now + AWAKE), [3], "it is");
    }
}
