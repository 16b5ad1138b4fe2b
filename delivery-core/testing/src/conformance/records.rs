//! Messages, the audit log and figures, and how persons are erased.

use chrono::{DateTime, TimeDelta, Utc};

use super::backlog::{
    a_failed_e_mail_about_which_nobody_can_do_anything_is_not_unanswered, the_backlog_is_what_waits_and_what_failed,
};
use super::erase::{
    a_sale_without_a_key_of_an_erased_person_is_never_kept_again, addresses_in_any_script_are_found_and_erased,
    an_erased_person_is_nowhere_and_counts_stay, an_erased_person_keeps_the_aliases_of_keys_that_work,
    nothing_is_sent_to_a_person_who_was_erased, who_has_a_longer_address_is_erased_alone,
};
use super::expiry::{
    a_buyer_is_told_once_of_each_time_at_which_a_key_expires, a_key_that_was_sold_for_days_is_told_of_nothing,
    a_successor_is_told_of_no_time_that_the_buyer_knows, buyers_are_told_once_by_several_at_once,
    searches_find_the_same_before_and_after_expired_keys_are_marked,
    those_that_expire_first_are_told_first_and_the_erased_are_not,
};
use super::files::file;
use super::fixtures::{
    Whole, WholePort, alice, apply, at, day, e_mail, key, now, order, product, records, revoke, rotate, sell,
    successor, use_at,
};
use super::{Case, cases};
use delivery_core::email::Email;
use delivery_core::key::{Actor, Change, KeyId, NewKey, Status};
use delivery_core::ledger::{Action, Edit, NewSale, Outcome, Recipient, Resend, Route};
use delivery_core::post::NewPost;
use delivery_core::product::NewProduct;
use delivery_core::store::{AuditQuery, Day, MessageQuery, MessageState, Period};
use delivery_core::terms::NEVER;

cases![
    /// The promises of a store that keeps [`Records`](delivery_core::store::Records).
    RECORDS: dyn Whole, each_records_case,
    messages_are_listed_newest_first_by_state_and_key,
    every_change_is_in_the_audit_log_with_who_made_it,
    every_change_of_a_file_is_in_the_audit_log_with_who_made_it,
    a_key_is_sent_again_to_an_address_that_is_corrected,
    the_backlog_is_what_waits_and_what_failed,
    a_failed_e_mail_about_which_nobody_can_do_anything_is_not_unanswered,
    figures_count_keys_and_what_happened_on_each_day,
    a_rotation_takes_no_sale_out_of_the_figures,
    an_erased_person_is_nowhere_and_counts_stay,
    a_sale_without_a_key_of_an_erased_person_is_never_kept_again,
    addresses_in_any_script_are_found_and_erased,
    nothing_is_sent_to_a_person_who_was_erased,
    who_has_a_longer_address_is_erased_alone,
    an_erased_person_keeps_the_aliases_of_keys_that_work,
    a_buyer_is_told_once_of_each_time_at_which_a_key_expires,
    those_that_expire_first_are_told_first_and_the_erased_are_not,
    a_key_that_was_sold_for_days_is_told_of_nothing,
    a_successor_is_told_of_no_time_that_the_buyer_knows,
    buyers_are_told_once_by_several_at_once,
    searches_find_the_same_before_and_after_expired_keys_are_marked,
];

async fn messages_are_listed_newest_first_by_state_and_key(store: WholePort) {
    let mut keys = Vec::new();
    for index in 1..=4 {
        let issued_at = now() + TimeDelta::seconds(index.into());
        keys.push(sell(&store, NewKey { issued_at, ..key(index, 1) }, &format!("m{index}")).await);
    }
    // The first e-mail is sent, the second fails, the third is retried later, the fourth waits.
    let claimed = store.claim_messages(at(1), at(6), 3).await.expect("claimed");
    let outcomes = [
        Outcome::Sent { at: at(2) },
        Outcome::Fail { at: at(3), reason: "no such user".to_owned(), route: Route::from_bytes([1; 16]) },
        Outcome::Retry { due: at(4), reason: "busy".to_owned(), route: None },
    ];
    for (message, outcome) in claimed.iter().zip(outcomes) {
        store.complete_message(message.lease, outcome).await.expect("completed");
    }
    let listed = async |query: MessageQuery| {
        let page = records(&store).messages(&query).await.expect("listed");
        let index = |id: KeyId| keys.iter().position(|key| *key == id).expect("one of ours") + 1;
        (page.items.iter().map(|message| index(message.key)).collect::<Vec<_>>(), page.next)
    };
    let all = || MessageQuery { limit: 9, ..MessageQuery::default() };
    let seconds = |count| Some(now() + TimeDelta::seconds(count));
    let of_period = |from, to| MessageQuery { period: Period { since: seconds(from), until: seconds(to) }, ..all() };
    for (query, expected) in [
        (all(), vec![4, 3, 2, 1]),
        (MessageQuery { state: Some(MessageState::Queued), ..all() }, vec![4, 3]),
        (MessageQuery { state: Some(MessageState::Sent), ..all() }, vec![1]),
        (MessageQuery { state: Some(MessageState::Failed), ..all() }, vec![2]),
        (MessageQuery { key: Some(keys[2]), ..all() }, vec![3]),
        (MessageQuery { key: Some(keys[2]), state: Some(MessageState::Sent), ..all() }, vec![]),
        (MessageQuery { key: Some(key(9, 1).id), ..all() }, vec![]),
        (of_period(2, 4), vec![3, 2]),
        (MessageQuery { state: Some(MessageState::Queued), ..of_period(4, 9) }, vec![4]),
    ] {
        assert_eq!(listed(query.clone()).await.0, expected, "{query:?}");
        let mut before = None;
        for (position, one) in expected.iter().enumerate() {
            let (found, next) = listed(MessageQuery { before, limit: 1, ..query.clone() }).await;
            assert_eq!((found, next.is_some()), (vec![*one], position + 1 < expected.len()), "{query:?} in pages");
            before = next;
        }
    }
    let found = records(&store).messages(&all()).await.expect("listed").items;
    let facts: Vec<_> =
        found.iter().map(|message| (message.state, message.attempts, message.at, message.reason.as_deref())).collect();
    let queued = now() + TimeDelta::seconds(4);
    assert_eq!(
        facts,
        [
            (MessageState::Queued, 0, queued, None),
            (MessageState::Queued, 1, at(4), Some("busy")),
            (MessageState::Failed, 1, at(3), Some("no such user")),
            (MessageState::Sent, 1, at(2), None),
        ]
    );
    assert_eq!(found[3].recipient, Recipient::Email(key(1, 1).email));
    // The seller retries the second e-mail.
    assert!(store.retry_message(found[2].message, Edit::new(alice(), at(5))).await.expect("retried"));
    assert_eq!(listed(MessageQuery { state: Some(MessageState::Queued), ..all() }).await.0, [4, 3, 2]);
    let query = AuditQuery { key: Some(keys[1]), limit: 9, ..AuditQuery::default() };
    let audit = records(&store).audit(&query).await.expect("read").items;
    let audit: Vec<_> = audit.into_iter().map(|entry| (entry.action, entry.actor, entry.at)).collect();
    assert_eq!(audit, [(Action::MessageRetried, alice(), at(5))]);
}

async fn every_change_is_in_the_audit_log_with_who_made_it(store: WholePort) {
    let sold = sell(&store, key(1, 2).bought_with(order("A")), "1").await;
    let sale = NewSale { by: Some(alice()), ..NewSale::new(NewKey { issued_at: now(), ..key(2, 2) }, Vec::new()) };
    let id = store.issue(sale).await.expect("issued").into_key().id();
    let email: Email = "new@example.com".parse().expect("an address");
    for change in [
        Change::Revoke { at: at(1), reason: "fraud".parse().ok(), by: alice() },
        Change::Revoke { at: at(2), reason: None, by: alice() },
        Change::Restore { at: at(3), by: alice() },
        Change::SetTerms { at: at(4), by: alice(), expires_at: Some(at(999)), limit: None },
        Change::SetEmail { at: at(5), by: alice(), email },
        use_at(at(6)),
    ] {
        apply(&store, id, change).await.expect("allowed");
    }
    let heir = key(3, 1).id;
    rotate(&store, id, successor(heir, at(7), alice())).await;
    let made = |minutes| Edit::new(alice(), at(minutes));
    let guide = || NewProduct::new("Guide").expect("a name").content("x").expect("content");
    let product = store.add_product(guide(), made(8)).await.expect("added").id();
    store.update_product(product, guide(), None, made(9)).await.expect("updated");
    for (minutes, archived) in [(10, true), (10, true), (11, false), (11, false)] {
        store.set_archived(product, archived, made(minutes)).await.expect("answered");
    }
    let news = || NewPost::new("News", "news".parse().expect("a category"), now()).expect("a title");
    let post = store.add_post(news(), made(12)).await.expect("added").id();
    store.update_post(post, news(), None, made(13)).await.expect("updated");
    for minutes in [14, 15] {
        store.delete_post(post, made(minutes)).await.expect("deleted");
    }
    let refused = Edit { detail: Some("attempts 3".to_owned()), ..made(16) };
    records(&store).log(Action::SignInRefused, refused).await.expect("added");
    let audit = records(&store).audit(&AuditQuery { limit: 99, ..AuditQuery::default() }).await.expect("read").items;
    assert!(audit.iter().all(|entry| entry.actor == alice()));
    let was = format!("was {}", key(2, 1).email);
    let expired = key(2, 1).expires_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let told: Vec<_> = audit.iter().map(|it| (it.at, it.action, it.key, it.product, it.detail.as_deref())).collect();
    let detail = |text: &str| Some(text.to_owned());
    let expected = [
        (16, Action::SignInRefused, None, None, detail("attempts 3")),
        (14, Action::PostDeleted, None, None, detail(&format!("post {}", post.get()))),
        (13, Action::PostUpdated, None, None, detail(&format!("post {}", post.get()))),
        (12, Action::PostAdded, None, None, detail(&format!("post {}", post.get()))),
        (11, Action::ProductRestored, None, Some(product), None),
        (10, Action::ProductArchived, None, Some(product), None),
        (9, Action::ProductUpdated, None, Some(product), None),
        (8, Action::ProductAdded, None, Some(product), None),
        (7, Action::Issued, Some(heir), None, detail(&format!("in place of {id}"))),
        (7, Action::Rotated, Some(id), None, detail(&format!("successor {heir}"))),
        (5, Action::EmailChanged, Some(id), None, detail(&was)),
        (4, Action::TermsChanged, Some(id), None, detail(&format!("expires_at {expired} to 2026-11-22T02:39:00Z"))),
        (3, Action::Restored, Some(id), None, None),
        (1, Action::Revoked, Some(id), None, detail("fraud")),
        (0, Action::Issued, Some(id), None, None),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(minutes, action, key, product, detail)| (at(*minutes), *action, *key, *product, detail.as_deref()))
        .collect();
    assert_eq!(told, expected);
    for (query, expected) in [
        (AuditQuery { actor: Some(alice()), ..AuditQuery::default() }, expected.len()),
        (AuditQuery { actor: Some(Actor::system()), ..AuditQuery::default() }, 0),
        (AuditQuery { action: Some(Action::Issued), ..AuditQuery::default() }, 2),
        (AuditQuery { action: Some(Action::Issued), key: Some(id), ..AuditQuery::default() }, 1),
        (AuditQuery { period: Period { since: Some(at(3)), until: Some(at(6)) }, ..AuditQuery::default() }, 3),
        (AuditQuery { period: Period { since: Some(at(9)), until: None }, ..AuditQuery::default() }, 7),
    ] {
        let found = records(&store).audit(&AuditQuery { limit: 99, ..query.clone() }).await.expect("read").items;
        assert_eq!(found.len(), expected, "{query:?}");
        assert!(found.iter().all(|entry| query.matches(entry)), "{query:?}");
    }
    // The entries of one key, in pages.
    let (mut before, mut actions) = (None, Vec::new());
    loop {
        let query = AuditQuery { key: Some(id), before, limit: 2, ..AuditQuery::default() };
        let page = records(&store).audit(&query).await.expect("read");
        actions.extend(page.items.iter().map(|entry| entry.action.as_str()));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(actions, ["rotated", "email_changed", "terms_changed", "restored", "revoked", "issued"]);
    let of_sold = AuditQuery { key: Some(sold), limit: 9, ..AuditQuery::default() };
    assert_eq!(records(&store).audit(&of_sold).await.expect("read").items, [], "an order tells of itself");
}

async fn every_change_of_a_file_is_in_the_audit_log_with_who_made_it(store: WholePort) {
    let Some(files) = store.files() else { return };
    let made = |minutes| Edit::new(alice(), at(minutes));
    let product = store.add_product(NewProduct::new("Guide").expect("a name"), made(0)).await.expect("added").id();
    for (minutes, name) in [(1, "guide.pdf"), (2, "Guide.PDF")] {
        let number = u8::try_from(minutes).expect("small");
        assert!(files.put_file(product, file(name, number), made(minutes)).await.expect("added").is_some());
    }
    let name = "guide.pdf".parse().expect("a name");
    for minutes in [3, 4] {
        assert_eq!(files.delete_file(product, &name, made(minutes)).await.expect("answered"), minutes == 3);
    }
    let audit = records(&store).audit(&AuditQuery { limit: 99, ..AuditQuery::default() }).await.expect("read").items;
    assert!(audit.iter().all(|entry| (&entry.actor, entry.product) == (&alice(), Some(product))));
    let told: Vec<_> = audit.iter().map(|entry| (entry.at, entry.action, entry.detail.as_deref())).collect();
    let expected = [
        (at(3), Action::FileDeleted, Some("guide.pdf")),
        (at(2), Action::FileReplaced, Some("Guide.PDF")),
        (at(1), Action::FileAdded, Some("guide.pdf")),
        (at(0), Action::ProductAdded, None),
    ];
    assert_eq!(told, expected);
}

async fn a_key_is_sent_again_to_an_address_that_is_corrected(store: WholePort) {
    let id = sell(&store, key(1, 2), "1").await;
    let resend = |email: Option<&str>, name: &str, minutes| Resend {
        at: at(minutes),
        by: alice(),
        email: email.map(|email| email.parse().expect("an address")),
        messages: e_mail(name),
        corrected: Vec::new(),
    };
    let sent = store.resend(id, resend(None, "2", 1)).await.expect("queued").expect("known").expect("not revoked");
    assert_eq!(sent.email(), &key(1, 2).email);
    let sent = store.resend(id, resend(Some("b@example.com"), "3", 2)).await.expect("queued").expect("known");
    assert_eq!(sent.expect("not revoked").email().as_str(), "b@example.com");
    let due = store.claim_messages(at(3), at(8), 9).await.expect("claimed");
    let told: Vec<_> = due.iter().map(|it| (it.message_id.as_str(), it.recipient.to_string())).collect();
    let first = key(1, 2).email.to_string();
    let expected =
        [("1@example.com", first.clone()), ("2@example.com", first), ("3@example.com", "b@example.com".into())];
    assert_eq!(told, expected);
    let query = AuditQuery { key: Some(id), limit: 9, ..AuditQuery::default() };
    let audit = records(&store).audit(&query).await.expect("read").items;
    let mut actions: Vec<_> = audit.iter().map(|entry| entry.action.as_str()).collect();
    // Two of the actions happened at the same time.
    actions[..2].sort_unstable();
    assert_eq!(actions, ["email_changed", "resent", "resent"]);
    apply(&store, id, revoke(at(4), None)).await.expect("allowed");
    let refused = store.resend(id, resend(Some("c@example.com"), "4", 5)).await.expect("answered").expect("known");
    assert_eq!(refused.expect_err("revoked").key.email().as_str(), "b@example.com");
    assert_eq!(store.resend(key(9, 1).id, resend(None, "5", 6)).await.expect("answered"), None);
    assert!(store.claim_messages(at(6), at(7), 9).await.expect("claimed").is_empty());
}

async fn figures_count_keys_and_what_happened_on_each_day(store: WholePort) {
    let sold = async |index, days, expires_at, of| {
        let granted = NewKey { issued_at: day(days), expires_at, product: product(of), ..key(index, 1) };
        sell(&store, granted, &index.to_string()).await
    };
    let (old, used) = (sold(1, -40, NEVER, 1).await, sold(2, -1, NEVER, 1).await);
    sold(3, -1, day(0), 2).await;
    let (revoked, rotated) = (sold(4, 0, NEVER, 1).await, sold(5, 0, NEVER, 1).await);
    let spend = async |id, at| apply(&store, id, use_at(at)).await;
    spend(old, day(-30)).await.expect("granted");
    spend(used, day(-1)).await.expect("granted");
    apply(&store, revoked, revoke(day(0), None)).await.expect("allowed");
    rotate(&store, rotated, successor(key(6, 1).id, day(0), alice())).await;
    let figures = records(&store).figures(day(-7), day(0)).await.expect("counted");
    assert_eq!(figures.replaced, [(product(1), 1)], "each key is counted, the rotated one apart");
    let date = |days| day(days).date_naive();
    let expected = [
        Day { issued: 2, uses: 1, ..Day::new(date(-1)) },
        // A rotated key does not count as revoked, and counts as issued only once.
        Day { issued: 2, revoked: 1, ..Day::new(date(0)) },
    ];
    assert_eq!(figures.days, expected);
    let count = |of: i64, status| {
        let found = figures.keys.iter().filter(|(of_product, with, _)| (*of_product, *with) == (product(of), status));
        found.map(|(.., count)| *count).collect::<Vec<_>>()
    };
    let statuses = [Status::Valid, Status::Exhausted, Status::Expired, Status::Revoked];
    assert_eq!(statuses.map(|status| count(1, status)), [vec![1], vec![2], vec![], vec![1]]);
    assert_eq!(statuses.map(|status| count(2, status)), [vec![], vec![], vec![1], vec![]]);
}

/// The successor of an old key is recorded after newer sales, with a much larger number.
async fn a_rotation_takes_no_sale_out_of_the_figures(store: WholePort) {
    let sold = async |index: u8, days| {
        let granted = NewKey { id: id_at(day(days), index), issued_at: day(days), ..key(index, -1) };
        sell(&store, granted, &index.to_string()).await
    };
    let old = sold(1, -60).await;
    sold(2, -1).await;
    for _ in 0..64 {
        apply(&store, old, use_at(day(-1))).await.expect("granted");
    }
    rotate(&store, old, successor(id_at(day(0), 3), day(0), alice())).await;
    sold(4, 0).await;
    let figures = records(&store).figures(day(-30), day(0)).await.expect("counted");
    let issued: Vec<_> = figures.days.iter().map(|day| (day.date, day.issued)).collect();
    assert_eq!(issued, [(day(-1).date_naive(), 1), (day(0).date_naive(), 1)]);
}

/// Returns an id such as a service makes at this time.
fn id_at(at: DateTime<Utc>, index: u8) -> KeyId {
    let mut bytes = (u128::try_from(at.timestamp_millis()).expect("after 1970") << 80).to_be_bytes();
    bytes[15] = index;
    KeyId::from_bytes(bytes)
}
