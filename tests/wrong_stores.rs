//! Does the conformance suite catch wrong stores? Each of these breaks one promise, and fails the case that is named for it. The
//! same wrapper without a fault passes every case.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::key::{Change, Fingerprint, Key, KeyId, LimitChange, NewKey, Refusal};
use delivery_core::limit::{Decision, LimitError, MemoryLimiter, Quota, RateLimiter, Subject};
use delivery_core::order::{OrderRef, Source};
use delivery_core::store::{
    Backend, FailedMessage, History, Issue, KeyQuery, Lease, LeasedMessage, Ledger, MemoryStore, MessageId,
    MessageNumber, Outcome, Page, Refused, Route, StoreError, Use, UseId,
};
use delivery_core::terms::UseLimit;
use delivery_testing::conformance::{Case, LEDGER, RATE_LIMITER, REOPENED, SHARED};
use delivery_testing::{Fixture, ManualClock};

/// What is wrong with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    // Keys and orders.
    FindsWhatIsNotThere,
    ForgetsTheOrder,
    IgnoresTheSource,
    TakesTheAddressForTheOrder,
    QueuesAMessageForAReplay,
    AnswersAReplayWithTheKeyAsItWasIssued,
    CountsTwice,
    CountsWithoutKeeping,
    GrantsWhatIsRefused,
    GrantsOneUseTooMany,
    CountsForAnotherKey,
    RestoresByItself,
    DoesNotRestore,
    IgnoresNewTerms,
    AcceptsAnyKeyring,
    HasNoPulse,
    // Searches and histories.
    ListsOldestFirst,
    IgnoresTheStatus,
    IgnoresThePageSize,
    SkipsAKeyBetweenPages,
    RepeatsTheFirstPageOfAHistory,
    PrunesNothing,
    // Messages.
    LosesTheMessage,
    HandsOutNewestFirst,
    HandsOutMoreThanAskedFor,
    LeasesToMany,
    LeasesForTooLong,
    SendsAgain,
    RetriesAtOnce,
    CountsAPostponement,
    CountsARelease,
    CompletesAnOldLease,
    ForgetsAFailure,
    ListsFailuresByNumber,
    RetriesTheSameRoute,
    RenewsNothing,
    // Opening again, and two handles.
    ForgetsAtReopening,
    AnswersBeforeTheCommit,
    AnswersWhenClosed,
    ServesACopy,
}

use Fault::*;

/// The fault, and the case that it must fail.
const WRONG: &[(Fault, &str)] = &[
    (FindsWhatIsNotThere, "an_unknown_key_is_not_found_and_not_changed"),
    (ForgetsTheOrder, "an_order_and_product_have_one_key_however_many_calls_race"),
    (IgnoresTheSource, "another_product_source_or_order_is_another_purchase"),
    (TakesTheAddressForTheOrder, "a_key_issued_by_hand_has_no_order_and_is_always_new"),
    (QueuesAMessageForAReplay, "a_replayed_order_answers_with_its_key_as_it_stands_and_queues_no_message"),
    (AnswersAReplayWithTheKeyAsItWasIssued, "a_replayed_order_answers_with_its_key_as_it_stands_and_queues_no_message"),
    (CountsTwice, "a_use_is_counted_and_answered_with_the_key_as_it_stands"),
    (CountsWithoutKeeping, "a_use_is_counted_and_answered_with_the_key_as_it_stands"),
    (GrantsWhatIsRefused, "a_refused_change_changes_nothing"),
    (GrantsOneUseTooMany, "of_many_racing_uses_exactly_the_limit_is_granted"),
    (CountsForAnotherKey, "uses_of_different_keys_do_not_mix"),
    (RestoresByItself, "a_revoked_key_stays_revoked"),
    (DoesNotRestore, "a_restored_key_is_what_it_was"),
    (IgnoresNewTerms, "new_terms_hold_from_the_next_use_on"),
    (AcceptsAnyKeyring, "a_keyring_with_a_known_secret_is_accepted_and_a_foreign_one_refused"),
    (HasNoPulse, "a_ledger_in_use_answers_a_ping"),
    (ListsOldestFirst, "keys_are_searched_by_every_field_newest_first_in_pages"),
    (IgnoresTheStatus, "keys_are_searched_by_every_field_newest_first_in_pages"),
    (SkipsAKeyBetweenPages, "keys_are_searched_by_every_field_newest_first_in_pages"),
    (IgnoresThePageSize, "a_page_has_at_least_one_and_at_most_a_thousand"),
    (RepeatsTheFirstPageOfAHistory, "history_has_every_use_newest_first_in_pages"),
    (PrunesNothing, "pruned_history_is_forgotten_and_counts_stay"),
    (LosesTheMessage, "messages_come_oldest_first_and_no_more_than_asked_for"),
    (HandsOutNewestFirst, "messages_come_oldest_first_and_no_more_than_asked_for"),
    (HandsOutMoreThanAskedFor, "messages_come_oldest_first_and_no_more_than_asked_for"),
    (LeasesToMany, "a_message_is_claimed_by_one_of_many"),
    (LeasesForTooLong, "a_claimed_message_is_leased_until_its_time_is_over"),
    (SendsAgain, "a_sent_message_is_never_due_again"),
    (RetriesAtOnce, "a_retried_message_is_due_at_its_time_with_its_attempts_counted"),
    (CountsAPostponement, "a_postponed_message_is_due_at_its_time_and_its_attempt_not_counted"),
    (CountsARelease, "a_released_message_is_due_at_once_and_its_attempt_not_counted"),
    (CompletesAnOldLease, "a_lease_settles_once_and_only_with_the_newest_lease"),
    (ForgetsAFailure, "a_failed_message_waits_for_the_seller"),
    (ListsFailuresByNumber, "failed_messages_are_in_the_order_in_which_they_failed"),
    (RetriesTheSameRoute, "messages_that_failed_by_another_way_are_due_again"),
    (RenewsNothing, "a_lease_is_renewed_as_long_as_it_is_held"),
    (ForgetsAtReopening, "what_was_acknowledged_is_there_when_the_store_is_opened_again"),
    (AnswersBeforeTheCommit, "a_key_goes_on_where_it_was_when_the_store_is_opened_again"),
    (AnswersWhenClosed, "a_closed_store_refuses_everything"),
    (ForgetsAtReopening, "what_one_handle_writes_the_other_reads"),
    (ServesACopy, "what_one_handle_writes_the_other_reads"),
];

/// A place for wrong stores. What it holds outlives the stores, as a file does.
struct Place {
    fault: Fault,
    inner: Arc<MemoryStore>,
}

impl Place {
    fn new(fault: Fault) -> Self {
        Self { fault, inner: Arc::default() }
    }
}

impl Fixture for Place {
    type Store = Wrong;

    async fn open(&self) -> Arc<Wrong> {
        let inner = if self.fault == ForgetsAtReopening { Arc::default() } else { self.inner.clone() };
        Arc::new(Wrong { fault: self.fault, inner, ..Wrong::default() })
    }
}

/// A store with a fault.
#[derive(Debug)]
struct Wrong {
    fault: Fault,
    inner: Arc<MemoryStore>,
    closed: AtomicBool,
    favours: AtomicU64,
    first: Mutex<Option<KeyId>>,
    leases: Mutex<HashMap<MessageNumber, Lease>>,
    seen: Mutex<HashMap<KeyId, Key>>,
}

impl Default for Wrong {
    fn default() -> Self {
        let (first, leases, seen) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { fault: None, inner: Arc::default(), closed: false.into(), favours: 0.into(), first, leases, seen }
    }
}

impl Wrong {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn open(&self) -> Result<&dyn Ledger, StoreError> {
        if self.closed.load(Ordering::SeqCst) && !self.is(AnswersWhenClosed) {
            return Err(StoreError::unavailable("closed"));
        }
        Ok(self.inner.as_ref())
    }
}

#[async_trait]
impl Ledger for Wrong {
    async fn issue(&self, mut key: NewKey, mut message: Option<MessageId>) -> Result<Issue, StoreError> {
        let inner = self.open()?;
        match self.fault {
            ForgetsTheOrder => key.order = Option::None,
            IgnoresTheSource => key.order.iter_mut().for_each(|order| order.source = Source::webhook()),
            TakesTheAddressForTheOrder => {
                let id = key.email.as_str().parse().unwrap();
                key.order.get_or_insert(OrderRef { source: Source::webhook(), id });
            }
            LosesTheMessage => message = Option::None,
            _ => {}
        }
        self.first.lock().unwrap().get_or_insert(key.id);
        let again = (key.clone(), message.clone());
        let issue = inner.issue(key, message).await?;
        match issue {
            Issue::Existing(_) if self.is(QueuesAMessageForAReplay) => {
                inner.issue(NewKey { order: Option::None, ..again.0 }, again.1).await?;
                Ok(issue)
            }
            Issue::Existing(key) if self.is(AnswersAReplayWithTheKeyAsItWasIssued) => {
                Ok(Issue::Existing(Key::from(key.granted().as_ref().clone())))
            }
            issue => Ok(issue),
        }
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

    async fn change(&self, mut id: KeyId, mut change: Change) -> Result<Option<Result<Key, Refused>>, StoreError> {
        let inner = self.open()?;
        let is_use = matches!(change, Change::Use { .. });
        match (&change, self.fault) {
            (Change::Use { .. }, CountsTwice) => drop(inner.change(id, change.clone()).await?),
            (Change::Use { .. }, CountsWithoutKeeping) => {
                let found = inner.find(id).await?;
                return Ok(found.map(|key| key.apply(&change).map_err(|refusal| Refused { refusal, key })));
            }
            // The last use before the store is closed is not there yet.
            (Change::Use { .. }, AnswersBeforeTheCommit) if self.favours.fetch_add(1, Ordering::SeqCst) == 0 => {
                let found = inner.find(id).await?;
                return Ok(found.map(|key| key.apply(&change).map_err(|refusal| Refused { refusal, key })));
            }
            (Change::Use { .. }, CountsForAnotherKey) => id = self.first.lock().unwrap().unwrap_or(id),
            (Change::Use { at, .. }, RestoresByItself) => {
                let restore = Change::Restore { at: *at, by: "nobody".parse().unwrap() };
                drop(inner.change(id, restore).await?);
            }
            (Change::Restore { .. }, DoesNotRestore) => {
                return Ok(inner.find(id).await?.map(Ok));
            }
            (Change::SetTerms { at, by, .. }, IgnoresNewTerms) => {
                change = Change::SetTerms { at: *at, by: by.clone(), expires_at: Option::None, limit: Option::None };
            }
            _ => {}
        }
        let changed = inner.change(id, change.clone()).await?;
        let Some(Err(Refused { refusal, key })) = changed else { return Ok(changed) };
        if is_use && self.is(GrantsWhatIsRefused) {
            return Ok(Some(Ok(key)));
        }
        let used_up = matches!(refusal, Refusal::Exhausted { .. });
        if used_up && self.is(GrantsOneUseTooMany) && self.favours.fetch_add(1, Ordering::SeqCst) == 0 {
            let one = match UseLimit::from_count(1).unwrap() {
                UseLimit::Uses(one) => LimitChange::Add(one),
                UseLimit::Unlimited => unreachable!("one is a limit"),
            };
            let (at, by) = (DateTime::UNIX_EPOCH, "nobody".parse().unwrap());
            inner.change(id, Change::SetTerms { at, by, expires_at: Option::None, limit: Some(one) }).await?;
            return inner.change(id, change).await;
        }
        Ok(Some(Err(Refused { refusal, key })))
    }

    async fn complete_message(&self, mut lease: Lease, mut outcome: Outcome) -> Result<(), StoreError> {
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

    async fn retry_message(&self, message: MessageNumber, now: DateTime<Utc>) -> Result<bool, StoreError> {
        self.open()?.retry_message(message, now).await
    }

    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.open()?.retry_messages(route.filter(|_| !self.is(RetriesTheSameRoute)), now).await
    }

    fn uses(&self) -> Option<&dyn History> {
        Some(self)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        if self.is(HasNoPulse) { Err(StoreError::unavailable("no pulse")) } else { self.open()?.ping().await }
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl History for Wrong {
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
}

/// Whether a store with this fault passes the case of this name.
async fn passes(fault: Fault, name: &'static str) -> bool {
    let ran = tokio::spawn(async move {
        if let Some(case) = LEDGER.iter().find(|case| case.name() == name) {
            case.run(Place::new(fault)).await;
        } else if let Some(case) = REOPENED.iter().chain(SHARED).find(|case| case.name() == name) {
            case.run(Place::new(fault)).await;
        } else {
            unreachable!("no case is called {name}");
        }
    });
    match ran.await {
        Ok(()) => true,
        Err(error) => {
            let panic = error.into_panic();
            let said = panic.downcast_ref::<String>().map_or("", String::as_str);
            assert!(!said.contains("no case is called"), "{said}");
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wrong_store_fails_the_case_that_is_named_for_it() {
    let mut unnoticed = Vec::new();
    for (fault, name) in WRONG {
        if passes(*fault, name).await {
            unnoticed.push((fault, name));
        }
    }
    assert_eq!(unnoticed, []);
    let faults: HashSet<String> = WRONG.iter().map(|(fault, _)| format!("{fault:?}")).collect();
    assert!(faults.len() >= 30, "{}", faults.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_fault_every_case_passes() {
    for name in LEDGER.iter().map(Case::name).chain(REOPENED.iter().chain(SHARED).map(Case::name)) {
        assert!(passes(None, name).await, "{name}");
    }
}

/// A limiter with a fault.
#[derive(Debug)]
struct WrongLimiter {
    inner: MemoryLimiter,
    clock: Arc<ManualClock>,
    fault: WrongLimit,
}

#[derive(Debug, Clone, Copy)]
enum WrongLimit {
    AdmitsOneMore,
    CountsByTheMinute,
    SharesOneCount,
    SaysTooSoon,
}

#[async_trait]
impl RateLimiter for WrongLimiter {
    async fn admit(&self, subject: &Subject, quota: Quota) -> Result<Decision, LimitError> {
        use delivery_core::clock::Clock;
        use delivery_core::limit::Identity;
        let (mut subject, mut quota) = (*subject, quota);
        match self.fault {
            WrongLimit::AdmitsOneMore => quota = Quota::per_minute(quota.limit().get() + 1).unwrap(),
            // Another subject each minute: the count begins anew.
            WrongLimit::CountsByTheMinute => {
                subject.identity = Identity::Key(u128::from(self.clock.monotonic().as_secs() / 60));
            }
            WrongLimit::SharesOneCount => subject.identity = Identity::Key(0),
            WrongLimit::SaysTooSoon => {}
        }
        let decision = self.inner.admit(&subject, quota).await?;
        Ok(match decision {
            Decision::Refused { retry_after } if matches!(self.fault, WrongLimit::SaysTooSoon) => {
                Decision::Refused { retry_after: retry_after / 2 }
            }
            decision => decision,
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wrong_limiter_fails_the_case_that_is_named_for_it() {
    for (fault, name) in [
        (WrongLimit::AdmitsOneMore, "a_window_admits_its_limit_and_not_one_more"),
        (WrongLimit::CountsByTheMinute, "the_window_slides_and_has_no_edge_to_burst_over"),
        (WrongLimit::SharesOneCount, "subjects_and_policies_do_not_influence_each_other"),
        (WrongLimit::SaysTooSoon, "the_same_request_fits_exactly_after_the_time_given"),
    ] {
        let case = RATE_LIMITER.iter().find(|case| case.name() == name).unwrap();
        let run = case.run(move |clock| WrongLimiter { inner: MemoryLimiter::new(clock.clone()), clock, fault });
        assert!(tokio::spawn(run).await.is_err(), "{fault:?} passes {name}");
    }
}
