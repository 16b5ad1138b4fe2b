//! A cache of post lists. Queries that find the same posts in the same versions share one list, which is read and
//! encoded once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::post::{Post, PostId};

/// The most lists in the cache. Different categories and limits have different lists.
const LISTS: usize = 16;

/// The most recently used lists, newest first.
#[derive(Debug, Default)]
pub(in crate::store) struct PostCache(Mutex<VecDeque<Held>>);

/// A post's id, and how often the post was changed.
pub(in crate::store) type PostVersion = (PostId, i64);

type Held = (Vec<PostVersion>, Arc<Vec<Post>>);

impl PostCache {
    /// Returns the list of exactly these posts in these versions.
    pub(in crate::store) fn get(&self, posts: &[PostVersion]) -> Option<Arc<Vec<Post>>> {
        let mut held = self.held();
        let at = held.iter().position(|(versions, _)| versions == posts)?;
        let found = held.remove(at)?;
        held.push_front(found.clone());
        Some(found.1)
    }

    /// Adds a list of posts with these versions, unless the cache already has it. Returns the list in the cache.
    pub(in crate::store) fn keep(&self, versions: Vec<PostVersion>, posts: Vec<Post>) -> Arc<Vec<Post>> {
        self.get(&versions).unwrap_or_else(|| {
            let posts = Arc::new(posts);
            let mut held = self.held();
            held.push_front((versions, posts.clone()));
            held.truncate(LISTS);
            posts
        })
    }

    fn held(&self) -> MutexGuard<'_, VecDeque<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
