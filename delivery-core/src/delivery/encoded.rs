//! Lists that everybody may ask for, encoded once: all answers share the bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::post::Post;
use crate::product::Listing;

/// Encoded lists held at most, of each kind.
const LISTS: usize = 16;

/// What the public lists that were asked for most recently were encoded to.
#[derive(Default)]
pub(crate) struct EncodedLists {
    pub(crate) products: Encoded<Listing>,
    pub(crate) posts: Encoded<Post>,
}

/// Lists and their bytes. A list that is held here is not freed, so that no other has its address.
pub(crate) struct Encoded<T>(Mutex<VecDeque<(Arc<Vec<T>>, Bytes)>>);

impl<T> Default for Encoded<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: PartialEq> Encoded<T> {
    /// The bytes of `list`: encoded anew unless the same list, or its like, was before.
    pub(crate) fn of(&self, list: &Arc<Vec<T>>, encode: impl FnOnce() -> Bytes) -> Bytes {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found =
            held.iter().find(|(held, _)| Arc::ptr_eq(held, list) || held == list).map(|(_, bytes)| bytes.clone());
        found.unwrap_or_else(|| {
            let bytes = encode();
            held.push_front((list.clone(), bytes.clone()));
            held.truncate(LISTS);
            bytes
        })
    }
}
