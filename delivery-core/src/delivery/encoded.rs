//! Caches the public lists of products and posts, encoded as JSON. A cached list is not encoded again, and all clients
//! share its bytes, however slowly they read.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use crate::post::Post;
use crate::product::Listing;

/// The maximum number of encoded lists of posts that are kept although no client is reading them.
const RECENT: usize = 16;

/// The encoded public lists.
#[derive(Default)]
pub(crate) struct EncodedLists {
    products: Mutex<Option<(Arc<Vec<Listing>>, Bytes)>>,
    posts: Mutex<EncodedPosts>,
    seed: RandomState,
}

/// Encoded lists of posts. Each list is identified by a hash of its whole content. The numbers of its posts are not
/// enough, because a host application's store may change a post without changing its number. The seed of the hash is
/// random, so that nobody can construct two lists with the same hash. If a list is the same `Arc` as one in `recent`,
/// it is found without computing the hash.
#[derive(Default)]
struct EncodedPosts {
    recent: VecDeque<Recent>,
    /// Maps the hash of a list to its bytes: for the lists in `recent`, and for lists that a client is still reading.
    alive: HashMap<u64, Weak<Vec<u8>>>,
}

/// A list that was encoded, and its bytes.
type Recent = (Weak<Vec<Post>>, Arc<Vec<u8>>);

/// A reference to the bytes of an encoded list, held by a client that reads them.
struct Share(Arc<Vec<u8>>);

impl AsRef<[u8]> for Share {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl EncodedLists {
    /// Returns the encoded list of products. Encodes it only if it differs from the previous list.
    pub(crate) fn products(&self, list: &Arc<Vec<Listing>>, encode: impl FnOnce() -> Bytes) -> Bytes {
        let mut held = lock(&self.products);
        match &*held {
            Some((known, bytes)) if Arc::ptr_eq(known, list) || known == list => bytes.clone(),
            _ => held.insert((list.clone(), encode())).1.clone(),
        }
    }

    /// Returns an encoded list of posts. Encodes it only if its bytes are not cached.
    pub(crate) fn posts(&self, posts: &Arc<Vec<Post>>, encode: impl FnOnce() -> Bytes) -> Bytes {
        let known = lock(&self.posts).of_list(posts);
        let bytes = known.unwrap_or_else(|| {
            let hash = self.seed.hash_one(posts.as_slice());
            let known = lock(&self.posts).alive.get(&hash).and_then(Weak::upgrade);
            let bytes = known.unwrap_or_else(|| Arc::new(encode().into()));
            lock(&self.posts).keep(posts, hash, bytes)
        });
        Bytes::from_owner(Share(bytes))
    }
}

impl EncodedPosts {
    /// Caches the bytes of a list and returns the cached bytes. If two callers have encoded the same list at the same
    /// time, only one of the two results is kept.
    fn keep(&mut self, posts: &Arc<Vec<Post>>, hash: u64, bytes: Arc<Vec<u8>>) -> Arc<Vec<u8>> {
        let bytes = self.alive.get(&hash).and_then(Weak::upgrade).unwrap_or(bytes);
        self.recent.push_front((Arc::downgrade(posts), bytes.clone()));
        self.recent.truncate(RECENT);
        self.alive.retain(|_, bytes| bytes.strong_count() > 0);
        self.alive.insert(hash, Arc::downgrade(&bytes));
        bytes
    }

    /// Returns the cached bytes of a list, if the list is the same `Arc` as one that was encoded before.
    fn of_list(&self, posts: &Arc<Vec<Post>>) -> Option<Arc<Vec<u8>>> {
        let same =
            |known: &Weak<Vec<Post>>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(posts)) && known.strong_count() > 0;
        self.recent.iter().find(|(known, _)| same(known)).map(|(_, bytes)| bytes.clone())
    }
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::post::{NewPost, PostId};

    fn posts(ids: std::ops::Range<i64>) -> Vec<Post> {
        let post = NewPost::new("t", "c".parse().unwrap(), DateTime::UNIX_EPOCH).unwrap();
        ids.map(|id| Post::new(PostId::new(id).unwrap(), post.clone())).collect()
    }

    #[test]
    fn a_list_that_somebody_reads_is_not_encoded_again_whatever_else_is_asked_for() {
        let lists = EncodedLists::default();
        let ask = |last: i64| lists.posts(&Arc::new(posts(1..last)), || Bytes::from(vec![0; 100]));
        let read = ask(100);
        for last in 1..90 {
            ask(last);
        }
        assert_eq!(ask(100).as_ptr(), read.as_ptr());
        assert!(lock(&lists.posts).alive.len() <= RECENT + 2, "what nobody reads is forgotten");
    }

    #[test]
    fn a_post_that_changed_under_its_number_is_encoded_anew() {
        let lists = EncodedLists::default();
        let post = |content: &str| {
            let post = NewPost::new("t", "c".parse().unwrap(), DateTime::UNIX_EPOCH).unwrap();
            [Post::new(PostId::new(1).unwrap(), post.content(content).unwrap())]
        };
        let ask = |content: &'static str| lists.posts(&Arc::new(post(content).to_vec()), || Bytes::from(content));
        assert_eq!([ask("old"), ask("new"), ask("old")], ["old", "new", "old"]);
    }
}
