//! Lists of posts that were read. Lists of the same posts in the same versions are one list, read and encoded once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::post::{Post, PostId};

/// Lists held at most: those of some categories and limits.
const LISTS: usize = 16;

/// The lists that were asked for most recently.
#[derive(Debug, Default)]
pub(in crate::store) struct PostCache(Mutex<VecDeque<Held>>);

/// A post, and how often it was changed.
pub(in crate::store) type PostVersion = (PostId, i64);

type Held = (Vec<PostVersion>, Arc<Vec<Post>>);

impl PostCache {
    /// The list of just these posts.
    pub(in crate::store) fn get(&self, posts: &[PostVersion]) -> Option<Arc<Vec<Post>>> {
        let mut held = self.held();
        let at = held.iter().position(|(versions, _)| versions == posts)?;
        let found = held.remove(at)?;
        held.push_front(found.clone());
        Some(found.1)
    }

    /// Keeps a list of posts in these versions, and answers the one that is kept: of two that were read at once, one.
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
