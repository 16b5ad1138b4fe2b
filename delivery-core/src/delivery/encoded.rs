//! Lists that everybody may ask for, encoded once: however many clients read however slowly, a list has its bytes once.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use crate::post::Post;
use crate::product::Listing;

/// Lists of posts whose bytes are kept although nobody reads them.
const RECENT: usize = 16;

/// What the public lists were encoded to.
#[derive(Default)]
pub(crate) struct EncodedLists {
    products: Mutex<Option<(Arc<Vec<Listing>>, Bytes)>>,
    posts: Mutex<EncodedPosts>,
    seed: RandomState,
}

/// Lists of posts by a hash of all that is in them, whose seed nobody knows: a host's catalog may change a post.
#[derive(Default)]
struct EncodedPosts {
    recent: VecDeque<Arc<Vec<u8>>>,
    /// Also those that somebody is still reading.
    alive: HashMap<u64, Weak<Vec<u8>>>,
}

/// A reader's share of the bytes.
struct Share(Arc<Vec<u8>>);

impl AsRef<[u8]> for Share {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl EncodedLists {
    /// The bytes of the list of products: encoded anew when it is another one.
    pub(crate) fn products(&self, list: &Arc<Vec<Listing>>, encode: impl FnOnce() -> Bytes) -> Bytes {
        let mut held = lock(&self.products);
        match &*held {
            Some((known, bytes)) if Arc::ptr_eq(known, list) || known == list => bytes.clone(),
            _ => held.insert((list.clone(), encode())).1.clone(),
        }
    }

    /// The bytes of a list of posts.
    pub(crate) fn posts(&self, posts: &[Post], encode: impl FnOnce() -> Bytes) -> Bytes {
        let hash = self.seed.hash_one(posts);
        let known = lock(&self.posts).alive.get(&hash).and_then(Weak::upgrade);
        let bytes = known.unwrap_or_else(|| lock(&self.posts).keep(hash, Arc::new(encode().into())));
        Bytes::from_owner(Share(bytes))
    }
}

impl EncodedPosts {
    /// Keeps the bytes of a list, and answers those that are kept: of two that were encoded at once, one.
    fn keep(&mut self, hash: u64, bytes: Arc<Vec<u8>>) -> Arc<Vec<u8>> {
        if let Some(known) = self.alive.get(&hash).and_then(Weak::upgrade) {
            return known;
        }
        self.recent.push_front(bytes.clone());
        self.recent.truncate(RECENT);
        self.alive.retain(|_, bytes| bytes.strong_count() > 0);
        self.alive.insert(hash, Arc::downgrade(&bytes));
        bytes
    }
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::post::{Category, NewPost, PostId};

    fn posts(ids: std::ops::Range<i64>) -> Vec<Post> {
        let post = NewPost::new("t", Category::new("c").unwrap(), DateTime::UNIX_EPOCH).unwrap();
        ids.map(|id| Post::new(PostId::new(id).unwrap(), post.clone())).collect()
    }

    #[test]
    fn a_list_that_somebody_reads_is_not_encoded_again_whatever_else_is_asked_for() {
        let lists = EncodedLists::default();
        let ask = |last: i64| lists.posts(&posts(1..last), || Bytes::from(vec![0; 100]));
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
            let post = NewPost::new("t", Category::new("c").unwrap(), DateTime::UNIX_EPOCH).unwrap();
            [Post::new(PostId::new(1).unwrap(), post.content(content).unwrap())]
        };
        let ask = |content: &'static str| lists.posts(&post(content), || Bytes::from(content));
        assert_eq!([ask("old"), ask("new"), ask("old")], ["old", "new", "old"]);
    }
}
