//! The store in memory: the reference for every other, and a test double. Nothing outlives the process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, SubsecRound, Utc};

use super::lists::{PostLists, fitting};
use super::steady::Steady;
use super::{
    Catalog, FARTHEST, Issue, KeyQuery, LONGEST_LEASE, Ledger, Letter, LetterId, MessageId, Outcome, Page,
    ParkedLetter, PostQuery, Receipt, Route, StoreError, Use, UseId, page_size,
};
use crate::key::{Acceptance, Change, Fingerprint, Key, KeyId, NewKey, Refusal};
use crate::order::OrderRef;
use crate::post::{NewPost, Post, PostId};
use crate::product::{Listing, NewProduct, Product, ProductId};

/// Everything in memory, behind one lock.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    steady: Steady,
}

#[derive(Default)]
struct State {
    ring: Vec<Fingerprint>,
    keys: BTreeMap<KeyId, Key>,
    orders: HashMap<(OrderRef, ProductId), KeyId>,
    uses: HashMap<KeyId, Vec<(i64, DateTime<Utc>)>>,
    used: i64,
    letters: BTreeMap<LetterId, Entry>,
    products: BTreeMap<ProductId, Arc<Product>>,
    posts: Vec<Post>,
    lists: PostLists,
}

struct Entry {
    message_id: MessageId,
    key: KeyId,
    queued_at: DateTime<Utc>,
    attempts: u32,
    fence: i64,
    state: Waiting,
    /// The way it could not go.
    route: Option<Route>,
}

enum Waiting {
    Due(DateTime<Utc>),
    Leased(DateTime<Utc>),
    Sent,
    Parked(DateTime<Utc>, String, Route),
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every method changes the state in one step at its end, so a panic elsewhere leaves it whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn key(&self, id: KeyId) -> Result<Key, StoreError> {
        self.keys.get(&id).cloned().ok_or(StoreError::corrupt("a letter without its key"))
    }
}

#[async_trait]
impl Ledger for MemoryStore {
    async fn enroll(&self, ring: &[Fingerprint]) -> Result<(), StoreError> {
        let mut state = self.state();
        let newest = state.keys.values().next_back().map(|key| key.granted().ring);
        match Fingerprint::accepts(&state.ring, newest, ring) {
            Acceptance::Accepted => {}
            Acceptance::Retired => return Err(StoreError::RetiredSecret),
            Acceptance::Foreign => return Err(StoreError::ForeignSecret),
        }
        let new: Vec<_> = ring.iter().filter(|fingerprint| !state.ring.contains(fingerprint)).copied().collect();
        state.ring.extend(new);
        Ok(())
    }

    async fn issue(&self, key: NewKey, letter: Option<MessageId>) -> Result<Issue, StoreError> {
        let mut state = self.state();
        let identity = key.order.clone().map(|order| (order, key.product));
        if let Some(id) = identity.as_ref().and_then(|identity| state.orders.get(identity)) {
            return Ok(Issue::Existing(state.key(*id)?));
        }
        if let Some(identity) = identity {
            state.orders.insert(identity, key.id);
        }
        if let Some(message_id) = letter {
            let number = LetterId::new(i64::try_from(state.letters.len()).unwrap_or(i64::MAX));
            let (queued_at, state_now) = (key.issued_at, Waiting::Due(key.issued_at));
            let entry =
                Entry { message_id, key: key.id, queued_at, attempts: 0, fence: 0, state: state_now, route: None };
            state.letters.insert(number, entry);
        }
        let key = Key::from(key);
        state.keys.insert(key.id(), key.clone());
        Ok(Issue::New(key))
    }

    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        Ok(self.state().keys.get(&id).cloned())
    }

    async fn change(&self, id: KeyId, change: Change) -> Result<Option<Result<Key, Refusal>>, StoreError> {
        let mut state = self.state();
        let Some(key) = state.keys.get(&id) else { return Ok(None) };
        let changed = match key.apply(&change) {
            Ok(changed) => changed,
            Err(refusal) => return Ok(Some(Err(refusal))),
        };
        if let Change::Use { at, .. } = change {
            state.used += 1;
            let number = state.used;
            state.uses.entry(id).or_default().push((number, at.trunc_subsecs(3)));
        }
        state.keys.insert(id, changed.clone());
        Ok(Some(Ok(changed)))
    }

    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        let size = query.page_size();
        let mut items: Vec<Key> =
            self.state().keys.values().rev().filter(|key| query.fits(key)).take(size + 1).cloned().collect();
        let more = items.len() > size;
        items.truncate(size);
        let next = items.last().map(Key::id).filter(|_| more);
        Ok(Page { items, next })
    }

    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        let size = page_size(limit);
        let state = self.state();
        let uses = state.uses.get(&id).map(Vec::as_slice).unwrap_or_default();
        let older = uses.iter().rev().filter(|(number, _)| before.is_none_or(|before| *number < before.get()));
        let mut found: Vec<_> = older.take(size + 1).copied().collect();
        let more = found.len() > size;
        found.truncate(size);
        let next = found.last().map(|(number, _)| UseId::new(*number)).filter(|_| more);
        Ok(Page { items: found.into_iter().map(|(_, at)| Use { at }).collect(), next })
    }

    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut pruned = 0;
        for uses in self.state().uses.values_mut() {
            let kept = uses.len();
            uses.retain(|(_, at)| *at >= before);
            pruned += (kept - uses.len()) as u64;
        }
        Ok(pruned)
    }

    async fn claim_letters(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        let (now, lease_until) = (self.steady.corrected(now), self.steady.corrected(lease_until));
        let mut state = self.state();
        let ahead = |at: DateTime<Utc>, most| at.signed_duration_since(now) > most;
        let due = |entry: &Entry| match entry.state {
            Waiting::Due(due) => Some(due).filter(|due| *due <= now || ahead(*due, FARTHEST)),
            Waiting::Leased(end) => Some(end).filter(|end| *end <= now || ahead(*end, LONGEST_LEASE)),
            Waiting::Sent | Waiting::Parked(..) => None,
        };
        let mut waiting: Vec<_> =
            state.letters.iter().filter_map(|(id, entry)| due(entry).map(|due| (due, *id))).collect();
        waiting.sort_unstable();
        let mut leased = Vec::new();
        for (_, id) in waiting.into_iter().take(limit) {
            let Some(entry) = state.letters.get_mut(&id) else { continue };
            entry.state = Waiting::Leased(lease_until);
            entry.queued_at = entry.queued_at.min(now);
            entry.attempts += 1;
            entry.fence += 1;
            let receipt = Receipt { letter: id, fence: entry.fence };
            let (message_id, attempt) = (entry.message_id.clone(), entry.attempts);
            let (key, queued_at) = (entry.key, entry.queued_at);
            leased.push(Letter { receipt, message_id, key: state.key(key)?, attempt, queued_at });
        }
        Ok(leased)
    }

    async fn renew_letters(&self, receipts: &[Receipt], lease_until: DateTime<Utc>) -> Result<(), StoreError> {
        let lease_until = self.steady.corrected(lease_until);
        let mut state = self.state();
        for receipt in receipts {
            if let Some(entry) = state.letters.get_mut(&receipt.letter).filter(|entry| entry.fence == receipt.fence)
                && matches!(entry.state, Waiting::Leased(_))
            {
                entry.state = Waiting::Leased(lease_until);
            }
        }
        Ok(())
    }

    async fn settle_letter(&self, receipt: Receipt, outcome: Outcome) -> Result<(), StoreError> {
        let mut state = self.state();
        let Some(entry) = state.letters.get_mut(&receipt.letter) else { return Ok(()) };
        if entry.fence != receipt.fence || !matches!(entry.state, Waiting::Leased(_)) {
            return Ok(());
        }
        entry.state = match outcome {
            Outcome::Sent { .. } => Waiting::Sent,
            Outcome::Retry { due, route, .. } => {
                entry.route = route;
                Waiting::Due(self.steady.corrected(due))
            }
            Outcome::Postpone { due, .. } => {
                (entry.attempts, entry.route) = (entry.attempts - 1, None);
                Waiting::Due(self.steady.corrected(due))
            }
            Outcome::Park { at, reason, route } => Waiting::Parked(at, reason, route),
            Outcome::Release => {
                (entry.attempts, entry.route) = (entry.attempts - 1, None);
                Waiting::Due(entry.queued_at)
            }
        };
        // A settled lease is over: the receipt settles nothing a second time.
        entry.fence += 1;
        Ok(())
    }

    async fn parked_letters(&self, limit: usize) -> Result<Vec<ParkedLetter>, StoreError> {
        let state = self.state();
        let mut parked = Vec::new();
        for (letter, entry) in &state.letters {
            if let Waiting::Parked(parked_at, reason, _) = &entry.state {
                let (letter, key, parked_at, reason) = (*letter, state.key(entry.key)?, *parked_at, reason.clone());
                parked.push(ParkedLetter { letter, key, attempts: entry.attempts, parked_at, reason });
            }
        }
        parked.truncate(limit);
        Ok(parked)
    }

    async fn unpark_letter(&self, letter: LetterId, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(entry) = state.letters.get_mut(&letter) else { return Ok(false) };
        let parked = matches!(entry.state, Waiting::Parked(..));
        if parked {
            (entry.state, entry.attempts, entry.queued_at) = (Waiting::Due(now), 0, now);
        }
        Ok(parked)
    }

    async fn unpark_letters(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut count = 0;
        for entry in self.state().letters.values_mut() {
            match entry.state {
                Waiting::Parked(_, _, way) if Some(way) != route => {
                    (entry.state, entry.attempts, entry.queued_at) = (Waiting::Due(now), 0, now);
                }
                Waiting::Due(_) if entry.route.is_some() && entry.route != route => {
                    entry.state = Waiting::Due(now);
                }
                _ => continue,
            }
            count += 1;
        }
        Ok(count)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl Catalog for MemoryStore {
    async fn product(&self, id: ProductId) -> Result<Option<Arc<Product>>, StoreError> {
        Ok(self.state().products.get(&id).cloned())
    }

    async fn products(&self) -> Result<Arc<Vec<Listing>>, StoreError> {
        Ok(Arc::new(self.state().products.values().map(|product| Listing::of(product)).collect()))
    }

    async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        let mut state = self.state();
        let id =
            ProductId::new(next_number(state.products.len())).map_err(|_| StoreError::corrupt("product numbers"))?;
        let product = Arc::new(Product::new(id, product));
        state.products.insert(id, product.clone());
        Ok(product)
    }

    async fn posts(&self, query: &PostQuery) -> Result<Arc<Vec<Post>>, StoreError> {
        let state = self.state();
        let fits = |post: &&Post| {
            post.published_at() <= query.until
                && query.category.as_ref().is_none_or(|category| category == post.category())
        };
        let mut posts: Vec<&Post> = state.posts.iter().filter(fits).collect();
        posts.sort_by_key(|post| std::cmp::Reverse((post.published_at(), post.id())));
        posts.truncate(query.limit);
        posts.truncate(fitting(posts.iter().map(|post| post.content().len())));
        let ids: Vec<PostId> = posts.iter().map(|post| post.id()).collect();
        Ok(state.lists.get(&ids).unwrap_or_else(|| state.lists.keep(posts.into_iter().cloned().collect())))
    }

    async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        let mut state = self.state();
        let id = PostId::new(next_number(state.posts.len())).map_err(|_| StoreError::corrupt("post numbers"))?;
        let post = Post::new(id, post);
        state.posts.push(post.clone());
        Ok(post)
    }
}

fn next_number(count: usize) -> i64 {
    i64::try_from(count).map_or(i64::MAX, |count| count.saturating_add(1))
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("keys", &self.state().keys.len()).finish_non_exhaustive()
    }
}
