//! A cache of lists of posts. Queries that find the same posts in the same versions share one list, which is read from
//! the database and encoded only once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::post::{Post, PostId};

/// The maximum number of lists in the cache. Queries that find different posts, such as queries for different
/// categories, need different lists.
const LISTS: usize = 16;

/// The lists that were used most recently, the most recent one first.
#[derive(Debug, Default)]
pub(in crate::store) struct PostCache(Mutex<VecDeque<Held>>);

/// A post's id, and how often the post was changed.
pub(in crate::store) type PostVersion = (PostId, i64);

type Held = (Vec<PostVersion>, Arc<Vec<Post>>);

impl PostCache {
    /// Returns the list of exactly these posts in these versions; `None` if the list is not cached.
    pub(in crate::store) fn get(&self, posts: &[PostVersion]) -> Option<Arc<Vec<Post>>> {
        let mut held = self.held();
        let at = held.iter().position(|(versions, _)| versions == posts)?;
        let found = held.remove(at)?;
        held.push_front(found.clone());
        Some(found.1)
    }

    /// Adds a list of posts with these versions, unless the cache already has that list. Returns the list in the cache.
    pub(in crate::store) fn keep(&self, versions: Vec<PostVersion>, posts: Vec<Post>) -> Arc<Vec<Post>> {
        let mut held = self.held();
        // Another caller may have added the list since this one looked.
        if let Some((_, known)) = held.iter().find(|(known, _)| *known == versions) {
            return known.clone();
        }
        let posts = Arc::new(posts);
        held.push_front((versions, posts.clone()));
        held.truncate(LISTS);
        posts
    }

    fn held(&self) -> MutexGuard<'_, VecDeque<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
