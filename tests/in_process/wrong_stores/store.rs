//! A store with a fault.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::key::{Alias, Change, Fingerprint, Key, KeyId, LimitChange, NewKey, Refusal};
use delivery_core::ledger::{
    Answer, ChangeKey, CompleteMessage, Edit, FailedMessage, FetchProduct, Issue, Lease, LeasedMessage, MessageNumber,
    NewSale, Notice, Operation, Outcome, Refused, Route, Successor,
};
use delivery_core::order::{OrderRef, Source};
use delivery_core::store::{Backend, KeyQuery, Ledger, Office, Page, Period, StoreError, Use, UseId};
use delivery_core::terms::UseLimit;
use delivery_testing::{Fixture, MemoryStore};

use super::fault::Fault::{self, *};

/// Opens wrong stores over the same rows, which outlive the stores, as a file does.
pub struct WrongFixture {
    fault: Fault,
    inner: Arc<MemoryStore>,
}

impl WrongFixture {
    pub fn new(fault: Fault) -> Self {
        Self { fault, inner: Arc::default() }
    }
}

impl Fixture for WrongFixture {
    type Store = Wrong;

    async fn open(&self) -> Arc<Wrong> {
        let inner = if self.fault == ForgetsAtReopening { Arc::default() } else { self.inner.clone() };
        Arc::new(Wrong { fault: self.fault, inner, ..Wrong::default() })
    }
}

/// A store with a fault.
#[derive(Debug, Default)]
pub struct Wrong {
    pub fault: Fault,
    pub inner: Arc<MemoryStore>,
    closed: AtomicBool,
    pub favours: AtomicU64,
    first: Mutex<Option<KeyId>>,
    leases: Mutex<HashMap<MessageNumber, Lease>>,
    seen: Mutex<HashMap<KeyId, Key>>,
    pub aliases: Mutex<HashMap<Alias, KeyId>>,
    pub first_time: Mutex<Option<DateTime<Utc>>>,
}

impl Wrong {
    pub fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    pub fn open(&self) -> Result<&dyn Ledger, StoreError> {
        if self.closed.load(Ordering::SeqCst) && !self.is(AnswersWhenClosed) {
            return Err(StoreError::unavailable("closed"));
        }
        Ok(self.inner.as_ref())
    }

    pub fn kept(&self) -> Result<&dyn Office, StoreError> {
        self.open()?.office().ok_or(StoreError::Unsupported)
    }

    /// Whether it does a favour for the first time.
    fn is_first(&self) -> bool {
        self.favours.fetch_add(1, Ordering::SeqCst) == 0
    }

    /// Answers as if it had changed the key.
    async fn answer_only(&self, id: KeyId, change: &Change) -> Result<Option<Result<Key, Refused>>, StoreError> {
        let found = self.open()?.find(id).await?;
        Ok(found.map(|key| key.apply(change).map_err(|refusal| Refused { refusal, key })))
    }
}

#[async_trait]
impl Ledger for Wrong {
    async fn submit(&self, operation: Operation) -> Result<Answer, StoreError> {
        Ok(match operation {
            Operation::Issue(sale) => Answer::Issued(self.issue_wrongly(*sale).await?),
            Operation::Change(ChangeKey { key, change, messages }) => {
                Answer::Changed(self.change_wrongly(key, change, messages).await?)
            }
            Operation::Rotate(rotate) => Answer::Rotated(self.rotate_wrongly(rotate.key, rotate.successor).await?),
            Operation::Fetch(FetchProduct { key, fetch }) => Answer::Fetched(self.fetch_wrongly(key, fetch).await?),
            Operation::Receive(inbound) => Answer::Received(Box::new(self.receive_wrongly(*inbound).await?)),
            Operation::Complete(CompleteMessage { lease, outcome }) => {
                self.complete_wrongly(lease, outcome).await?;
                Answer::Completed
            }
            resend @ Operation::Resend(_) => self.open()?.submit(resend).await?,
        })
    }

    async fn find(&self, id: KeyId) -> Result<Option<Key>, StoreError> {
        let found = self.open()?.find(id).await?;
        if self.is(ServesACopy)
            && let Some(key) = &found
        {
            return Ok(Some(self.seen.lock().unwrap().entry(id).or_insert_with(|| key.clone()).clone()));
        }
        if self.is(FindsWhatIsNotThere) && found.is_none() {
            return Ok(self.inner.search(&KeyQuery::default()).await?.items.pop());
        }
        Ok(found)
    }
}

impl Wrong {
    async fn issue_wrongly(&self, sale: NewSale) -> Result<Issue, StoreError> {
        let NewSale { mut key, mut messages, by, mut imported } = sale;
        let inner = self.open()?;
        match self.fault {
            ForgetsTheOrder => key.order = Option::None,
            IgnoresTheSource => key.order.iter_mut().for_each(|order| order.source = Source::webhook()),
            TakesTheAddressForTheOrder => {
                let id = key.email.as_str().parse().unwrap();
                key.order.get_or_insert(OrderRef { source: Source::webhook(), id });
            }
            LosesTheMessage => messages.clear(),
            ForgetsUsesMadeElsewhere => imported.iter_mut().for_each(|imported| imported.used = 0),
            _ => {}
        }
        if self.is(RefusesARepeatedSale) && inner.find(key.id).await?.is_some() {
            return Err(StoreError::Refused { source: Option::None });
        }
        self.first.lock().unwrap().get_or_insert(key.id);
        let again = (key.clone(), messages.clone());
        let issue = match inner.issue(NewSale { key, messages, by, imported }).await {
            Err(StoreError::Refused { .. }) if self.is(SellsWithoutTheAlias) => {
                inner.issue(NewSale::new(again.0.clone(), again.1.clone())).await?
            }
            issue => issue?,
        };
        match issue {
            Issue::Existing(_) if self.is(GivesAReplayAnAlias) => {
                let sale = NewSale::new(NewKey { order: Option::None, ..again.0 }, Vec::new());
                // An alias that has a key is refused.
                let _ = inner.issue(NewSale { imported, ..sale }).await;
                Ok(issue)
            }
            Issue::Existing(_) if self.is(QueuesAMessageForAReplay) => {
                inner.issue(NewSale::new(NewKey { order: Option::None, ..again.0 }, again.1)).await?;
                Ok(issue)
            }
            Issue::Existing(key) if self.is(AnswersAReplayWithTheKeyAsItWasIssued) => {
                Ok(Issue::Existing(Key::from(key.granted().as_ref().clone())))
            }
            issue => Ok(issue),
        }
    }

    async fn change_wrongly(
        &self,
        mut id: KeyId,
        mut change: Change,
        mut messages: Vec<Notice>,
    ) -> Result<Option<Result<Key, Refused>>, StoreError> {
        let inner = self.open()?;
        let is_use = matches!(change, Change::Use { .. });
        match (&change, self.fault) {
            (Change::Use { .. }, CountsTwice) => drop(inner.change(id, change.clone(), Vec::new()).await?),
            (Change::Use { .. }, CountsWithoutKeeping) => return self.answer_only(id, &change).await,
            // The last use before the store is closed is not there yet.
            (Change::Use { .. }, AnswersBeforeTheCommit) if self.is_first() => {
                return self.answer_only(id, &change).await;
            }
            (&Change::Use { product, at, .. }, AsksNoRule) => change = Change::use_of(product, at),
            (Change::Use { .. }, CountsForAnotherKey) => id = self.first.lock().unwrap().unwrap_or(id),
            (Change::Use { at, .. }, RestoresByItself) => {
                let restore = Change::Restore { at: *at, by: "nobody".parse().unwrap() };
                drop(inner.change(id, restore, Vec::new()).await?);
            }
            (Change::Restore { .. }, DoesNotRestore) | (Change::SetEmail { .. }, KeepsTheOldAddress) => {
                return Ok(inner.find(id).await?.map(Ok));
            }
            (Change::SetTerms { at, by, .. }, IgnoresNewTerms) => {
                change = Change::SetTerms { at: *at, by: by.clone(), expires_at: Option::None, limit: Option::None };
            }
            _ => {}
        }
        if self.is(LosesTheMessageOfAChange) {
            messages.clear();
        }
        let changed = inner.change(id, change.clone(), messages.clone()).await?;
        let Some(Err(Refused { refusal, key })) = changed else { return Ok(changed) };
        if is_use && self.is(GrantsWhatIsRefused) {
            return Ok(Some(Ok(key)));
        }
        if self.is(QueuesAMessageForARefusal) {
            let another = NewKey { id: KeyId::from_bytes([0xff; 16]), ..key.granted().as_ref().clone() };
            inner.issue(NewSale::new(another, messages)).await?;
            return Ok(Some(Err(Refused { refusal, key })));
        }
        let used_up = matches!(refusal, Refusal::Exhausted { .. });
        if used_up && self.is(GrantsOneUseTooMany) && self.is_first() {
            let UseLimit::Uses(one) = UseLimit::from_count(1).unwrap() else { unreachable!("one is a limit") };
            let (at, by, limit) = (DateTime::UNIX_EPOCH, "nobody".parse().unwrap(), Some(LimitChange::Add(one)));
            let more = Change::SetTerms { at, by, expires_at: Option::None, limit };
            inner.change(id, more, Vec::new()).await?;
            return inner.change(id, change, messages).await;
        }
        Ok(Some(Err(Refused { refusal, key })))
    }

    async fn rotate_wrongly(
        &self,
        id: KeyId,
        successor: Successor,
    ) -> Result<Option<Result<Issue, Refused>>, StoreError> {
        let inner = self.open()?;
        if self.is(RotatesAgain)
            && let Some(key) = inner.find(id).await?
            && key.successor().is_some()
        {
            let id = successor.id;
            let granted = NewKey { id, order: Option::None, ..key.granted().as_ref().clone() };
            return Ok(Some(Ok(inner.issue(NewSale::new(granted, successor.messages)).await?)));
        }
        match inner.rotate(id, successor).await? {
            Some(Ok(Issue::New(key))) if self.is(CountsFromZeroAfterARotation) => {
                Ok(Some(Ok(Issue::New(Key::from(key.granted().as_ref().clone())))))
            }
            rotated => Ok(rotated),
        }
    }

    async fn complete_wrongly(&self, mut lease: Lease, mut outcome: Outcome) -> Result<(), StoreError> {
        let inner = self.open()?;
        let now = DateTime::UNIX_EPOCH;
        outcome = match (outcome, self.fault) {
            (Outcome::Sent { .. }, SendsAgain) | (Outcome::Release, CountsARelease) => {
                Outcome::Retry { due: now, reason: String::new(), route: Option::None }
            }
            (Outcome::Retry { reason, route, .. }, RetriesAtOnce) => Outcome::Retry { due: now, reason, route },
            (Outcome::Postpone { due, reason }, CountsAPostponement) => {
                Outcome::Retry { due, reason, route: Option::None }
            }
            (Outcome::Fail { at, .. }, ForgetsAFailure) => Outcome::Sent { at },
            (outcome, _) => outcome,
        };
        if self.is(CompletesAnOldLease) {
            lease = self.leases.lock().unwrap().get(&lease.message).copied().unwrap_or(lease);
        }
        inner.complete_message(lease, outcome).await
    }
}

#[async_trait]
impl Backend for Wrong {
    async fn register(&self, keyring: &[Fingerprint]) -> Result<(), StoreError> {
        let registered = self.open()?.register(keyring).await;
        if self.is(AcceptsAnyKeyring) { Ok(()) } else { registered }
    }

    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        let inner = self.open()?;
        let mut query = query.clone();
        match self.fault {
            IgnoresTheStatus => query.status = Option::None,
            IgnoresThePeriod => query.period = Period::default(),
            IgnoresTheBeginOfAnAddress => query.email_prefix = Option::None,
            IgnoresThePageSize => query.limit = 1000,
            _ => {}
        }
        let mut page = inner.search(&query).await?;
        match self.fault {
            ListsOldestFirst => page.items.reverse(),
            SkipsAKeyBetweenPages => {
                let below = |id: KeyId| KeyId::from_bytes(id.as_u128().saturating_sub(1 << 120).to_be_bytes());
                page.next = page.next.filter(|_| page.items.len() > 1).map(below);
            }
            _ => {}
        }
        Ok(page)
    }

    async fn claim_messages(
        &self,
        now: DateTime<Utc>,
        mut lease_until: DateTime<Utc>,
        mut limit: usize,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        let inner = self.open()?;
        match self.fault {
            HandsOutMoreThanAskedFor => limit += 1,
            LeasesToMany => lease_until = now - TimeDelta::minutes(1),
            LeasesForTooLong => lease_until += TimeDelta::minutes(9),
            _ => {}
        }
        let mut claimed = inner.claim_messages(now, lease_until, limit).await?;
        if self.is(HandsOutNewestFirst) {
            claimed.reverse();
        }
        if self.is(HandsOutByNumber) {
            claimed.sort_by_key(|claimed| claimed.lease.message);
        }
        self.leases.lock().unwrap().extend(claimed.iter().map(|claimed| (claimed.lease.message, claimed.lease)));
        Ok(claimed)
    }

    async fn renew_leases(&self, leases: &[Lease], lease_until: DateTime<Utc>) -> Result<(), StoreError> {
        let inner = self.open()?;
        if self.is(RenewsNothing) { Ok(()) } else { inner.renew_leases(leases, lease_until).await }
    }

    async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError> {
        let mut failed = self.open()?.failed_messages(limit).await?;
        if self.is(ListsFailuresByNumber) {
            failed.sort_by_key(|failed| failed.message);
        }
        Ok(failed)
    }

    async fn retry_message(&self, message: MessageNumber, edit: Edit) -> Result<bool, StoreError> {
        self.open()?.retry_message(message, edit).await
    }

    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.open()?.retry_messages(route.filter(|_| !self.is(RetriesTheSameRoute)), now).await
    }

    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        let first = before.filter(|_| !self.is(RepeatsTheFirstPageOfAHistory));
        let mut page = self.open()?.history(id, first, limit).await?;
        if before.is_some() && self.is(RepeatsTheFirstPageOfAHistory) {
            page.next = Option::None;
        }
        Ok(page)
    }

    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let inner = self.open()?;
        if self.is(PrunesNothing) { Ok(0) } else { inner.prune_history(before).await }
    }

    fn office(&self) -> Option<&dyn Office> {
        Some(self)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        if self.is(HasNoPulse) { Err(StoreError::unavailable("no pulse")) } else { self.open()?.ping().await }
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}
