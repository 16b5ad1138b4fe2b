//! Events that wait: to be applied, for the seller, or until they are dismissed.

use chrono::TimeDelta;
use tokio::task::JoinSet;

use super::events::{all, inbound, inbox, keys, messages, paid, receive, shop, waits};
use super::fixtures::{Port, RACERS, alice, at, edit, now};
use delivery_core::key::Actor;
use delivery_core::ledger::{
    Action, EventOutcome, Handling, InboundEvent, InboxEvent, Links, NO_ADDRESS, UNKNOWN_PRODUCT,
};
use delivery_core::order::{OrderId, Source};
use delivery_core::product::RefName;
use delivery_core::store::{AuditEntry, AuditQuery, InboxQuery, MAX_RETRY_DELAY};

pub(super) async fn a_product_that_is_not_sold_here_is_listed_once(ledger: Port) {
    let (tea, cup) = (format!("{UNKNOWN_PRODUCT}tea"), format!("{UNKNOWN_PRODUCT}cup"));
    let told = [("a", "no address"), ("b", &tea), ("c", &cup), ("d", &tea), ("e", "no address"), ("f", &tea)];
    for (event, reason) in told {
        receive(&ledger, waits(event, reason)).await;
    }
    let names = |listed: Vec<InboxEvent>| listed.iter().map(|event| event.id.name.to_string()).collect::<Vec<_>>();
    let outcome = Some(EventOutcome::NeedsAttention);
    for (outcome, is_grouped, listed) in
        [(outcome, true, "feca"), (outcome, false, "fedcba"), (None, true, "fedcba"), (None, false, "fedcba")]
    {
        let query = InboxQuery { outcome, is_grouped, limit: 9, ..InboxQuery::default() };
        let found = inbox(&ledger).events(&query).await.expect("listed");
        assert_eq!(names(found.items).concat(), listed, "{query:?}");
    }
    // A later page does not list a product again either.
    let first = InboxQuery { outcome, is_grouped: true, limit: 3, ..InboxQuery::default() };
    let page = inbox(&ledger).events(&first).await.expect("listed");
    let next = inbox(&ledger).events(&InboxQuery { before: page.next, ..first }).await.expect("listed");
    assert_eq!((names(page.items), names(next.items)), (vec!["f".into(), "e".into(), "c".into()], vec!["a".into()]));
}

pub(super) async fn an_event_that_waits_is_leased_to_one_and_applied_once(ledger: Port) {
    receive(&ledger, inbound("evt_1", None)).await;
    let claim = async |after: i64| {
        let at = now() + TimeDelta::seconds(after);
        inbox(&ledger).claim_events(at, at + TimeDelta::minutes(1), 10).await.expect("claimed")
    };
    assert_eq!(claim(14).await, []);
    let [claimed] = &claim(15).await[..] else { panic!("an event is due") };
    assert_eq!((claimed.id.name.as_str(), claimed.attempts), ("evt_1", 1));
    assert_eq!(claim(16).await, [], "it is leased");
    let [again] = &claim(76).await[..] else { panic!("the lease is over") };
    assert_eq!(again.attempts, 2);
    // Both lease holders apply the event.
    for claimed in [claimed, again] {
        let sale = paid("evt_1", "A", Links::default());
        let applied = receive(&ledger, InboundEvent { event: claimed.clone(), ..sale }).await;
        assert!(!applied.is_new);
        assert_eq!(applied.event.outcome, Some(EventOutcome::Issued));
    }
    assert_eq!((keys(&ledger).await.len(), messages(&ledger).await), (1, 1));
    assert_eq!(claim(3600).await, [], "it is done");
}

/// A time far in the future may come from a server whose clock was a year ahead.
pub(super) async fn a_time_that_no_clock_should_have_written_delays_no_event(ledger: Port) {
    receive(&ledger, waits("evt_1", "no product")).await;
    let latest = at(1) + MAX_RETRY_DELAY;
    for (until, is_due) in [(latest + TimeDelta::days(365), true), (latest, false)] {
        let claim = async |until| inbox(&ledger).claim_events(at(1), until, 10).await.expect("claimed").len();
        assert_eq!((claim(until).await, claim(until).await), (1, usize::from(is_due)), "{until}");
    }
}

pub(super) async fn an_event_that_waits_for_the_seller_is_due_when_it_is_retried(ledger: Port) {
    receive(&ledger, waits("evt_1", "no product")).await;
    receive(&ledger, inbound("evt_2", Some(Handling::Ignore("nothing".to_owned())))).await;
    let claim = async || inbox(&ledger).claim_events(now(), at(1), 10).await.expect("claimed");
    let retry = async |source: Option<&Source>, customer: Option<&OrderId>| {
        inbox(&ledger).retry_events(source, customer, now()).await.expect("retried")
    };
    assert_eq!(claim().await, []);
    let other: Source = "paddle".parse().expect("a platform");
    assert_eq!((retry(Some(&other), None).await, retry(Some(&shop()), None).await), (0, 1));
    assert_eq!(claim().await.len(), 1);
    // Of the events that wait for an address, only those of this customer are retried.
    for (name, reason, customer) in
        [("evt_3", NO_ADDRESS, r#"ctm\"1"#), ("evt_4", NO_ADDRESS, r#"ctm\"11"#), ("evt_5", "no product", r#"ctm\"1"#)]
    {
        let lacks = waits(name, reason);
        let body = Some(format!(r#"{{"buyer":{{"email":null,"customer":"{customer}"}}}}"#));
        receive(&ledger, InboundEvent { event: InboxEvent { body, ..lacks.event }, ..lacks }).await;
    }
    let customer: OrderId = r#"ctm"1"#.parse().expect("a reference");
    assert_eq!(retry(Some(&shop()), Some(&customer)).await, 1);
    let due: Vec<_> = claim().await.into_iter().map(|event| event.id.name.to_string()).collect();
    assert_eq!(due, ["evt_3"]);
    for event in all(&ledger, None).await.into_iter().filter(|event| event.id.name.as_str() > "evt_2") {
        let done = inbound("evt", Some(Handling::Ignore("nothing".to_owned())));
        receive(&ledger, InboundEvent { event, ..done }).await;
    }
    assert_eq!(retry(None, None).await, 1, "the caller that leased it is too late");
    let [claimed] = &claim().await[..] else { panic!("it is due") };
    assert_eq!(retry(None, None).await, 1, "while it is looked at");
    let late = InboundEvent { event: claimed.clone(), ..waits("evt_1", "no product") };
    receive(&ledger, late).await;
    let [claimed] = &claim().await[..] else { panic!("it stays due") };
    // The seller adds something to the event, which then still waits, and is applied later.
    let by = Some(alice());
    let event = InboxEvent { body: Some("with more".to_owned()), ..claimed.clone() };
    let adds = InboundEvent { event, by: by.clone(), ..waits("evt_1", "no address") };
    let added = receive(&ledger, adds.clone()).await.event;
    assert_eq!((added.body.as_deref(), added.due_at.is_some()), (Some("with more"), true));
    // A caller who read the event before that change must read it again.
    let other = InboxEvent { body: Some("with something else".to_owned()), ..adds.event.clone() };
    let late = receive(&ledger, InboundEvent { event: other, ..adds.clone() }).await;
    assert_eq!((late.is_outdated, late.event.body.as_deref()), (true, Some("with more")));
    let read =
        async || all(&ledger, None).await.into_iter().find(|it| it.id.name == added.id.name).expect("it is there");
    // Adding nothing to an event that still waits is not a change.
    let nothing = receive(&ledger, InboundEvent { event: read().await, ..adds }).await;
    assert!(!nothing.is_outdated);
    let sale = paid("evt_1", "A", Links::default());
    let applied = InboundEvent { event: read().await, by: by.clone(), ..sale };
    assert_eq!(receive(&ledger, applied).await.issued.len(), 1);
    let audit = audit(&ledger).await;
    let said: Vec<_> =
        audit.iter().map(|entry| (entry.action, Some(entry.actor.clone()), entry.detail.as_deref())).collect();
    let once = (Action::EventApplied, by, Some("stripe evt_1"));
    assert_eq!(said, [once.clone(), once]);
    assert_eq!(retry(None, None).await, 0);
}

async fn audit(ledger: &Port) -> Vec<AuditEntry> {
    let records = ledger.office().expect("records");
    records.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.expect("read").items
}

/// Returns the actions in the audit log, newest first.
async fn actions(ledger: &Port) -> Vec<Action> {
    audit(ledger).await.into_iter().map(|entry| entry.action).collect()
}

pub(super) async fn an_event_that_is_dismissed_keeps_what_it_says_until_that_is_taken_back(ledger: Port) {
    let wait = || Handling::Wait("no product".to_owned());
    receive(&ledger, waits("evt_1", "no product")).await;
    let read = async || all(&ledger, None).await.remove(0);
    let handle = async |by: Option<Actor>, step: Handling| {
        let inbound = InboundEvent { event: read().await, by, ..inbound("evt_1", Some(step)) };
        let InboxEvent { outcome, reason, body, due_at, .. } = receive(&ledger, inbound).await.event;
        (outcome, reason, body.is_some(), due_at.is_some())
    };
    let dismissed = (Some(EventOutcome::Ignored), Some("dismissed".to_owned()), true, false);
    for _ in 0..2 {
        assert_eq!(handle(Some(alice()), Handling::Dismiss).await, dismissed);
    }
    assert_eq!(inbox(&ledger).retry_events(None, None, now()).await.expect("retried"), 0);
    assert_eq!(handle(None, wait()).await, dismissed, "who had leased it is too late");
    let waiting = (Some(EventOutcome::NeedsAttention), Some("no product".to_owned()), true, true);
    assert_eq!(handle(Some(alice()), wait()).await, waiting);
    assert_eq!(handle(Some(alice()), Handling::Dismiss).await, dismissed);
    assert_eq!(actions(&ledger).await, [Action::Dismissed, Action::EventApplied, Action::Dismissed]);
    assert_eq!(inbox(&ledger).prune_inbox(now() + TimeDelta::milliseconds(1)).await.expect("pruned"), 1);
}

pub(super) async fn a_product_is_dismissed_once_until_that_is_taken_back(ledger: Port) {
    let mug: RefName = "plink_mug".parse().expect("a name");
    let is_dismissed =
        async |shop: &Source, name: &RefName| inbox(&ledger).is_dismissed(shop, name).await.expect("answered");
    for is_put_aside in [true, false] {
        let mut racing = JoinSet::new();
        for _ in 0..RACERS {
            let (ledger, mug) = (ledger.clone(), mug.clone());
            racing.spawn(async move { inbox(&ledger).dismiss(&shop(), &mug, is_put_aside, edit()).await });
        }
        assert!(racing.join_all().await.iter().all(Result::is_ok));
        assert_eq!(is_dismissed(&shop(), &mug).await, is_put_aside);
        assert!(!is_dismissed(&"paddle".parse().expect("a platform"), &mug).await);
        assert!(!is_dismissed(&shop(), &"plink_MUG".parse().expect("a name")).await);
    }
    assert_eq!(actions(&ledger).await, [Action::DismissalLifted, Action::Dismissed]);
}
