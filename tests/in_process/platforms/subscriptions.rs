//! What becomes of the key of a subscription: it lives as long as that is paid for, and three days.

use delivery_core::key::{Actor, Change, Status};
use delivery_core::ledger::EventOutcome::{self, Ended, Ignored, Issued, Renewed, Restored, Revoked};
use delivery_core::platform::{Event, Line, Recurrence, Sale, Standing, Term};
use delivery_core::terms::{NEVER, OwnTerms, Validity};

use super::shop::{Shop, called, charge, charged, day, dispute, line, refunded, word};

/// Tells of events. After each of them there is one key, which expires so many days after the shop opened.
async fn tell(shop: &Shop, events: impl IntoIterator<Item = (Event, EventOutcome, i64)>) {
    for (event, outcome, days) in events {
        let case = format!("{event:?}");
        assert_eq!(shop.tell(event).await, Some(outcome), "{case}");
        assert_eq!((shop.keys().await.len(), shop.days().await), (1, days), "{case}");
    }
}

#[tokio::test]
async fn a_charge_dates_the_key_and_a_refund_takes_its_date_back() {
    let shop = Shop::with_guide().await;
    let events = [
        (charged("A", 0), Issued, 33),
        (charged("c1", 30), Renewed, 63),
        (charged("c1", 30), Ignored, 63),
        (charged("c2", 60), Renewed, 93),
        // A later one counts.
        (refunded("c1"), Revoked, 93),
        (refunded("c1"), Revoked, 93),
        (refunded("c2"), Revoked, 33),
        // Refunded before it was charged.
        (refunded("c3"), Revoked, 33),
        (charged("c3", 60), Ignored, 33),
        // Paid after retries: until the end of the same period.
        (Event::Paid(Sale { at: Some(day(81)), ..charge("c4", 60) }), Renewed, 93),
        (refunded("A"), Revoked, 93),
    ];
    tell(&shop, events).await;
    assert_eq!(shop.statuses().await, [Status::Valid]);
    // None counts, until one does.
    tell(&shop, [(refunded("c4"), Revoked, 93)]).await;
    assert_eq!(shop.statuses().await, [Status::Revoked]);
    tell(&shop, [(charged("c5", 90), Renewed, 123)]).await;
    assert_eq!(shop.statuses().await, [Status::Valid]);
    assert_eq!(shop.sent().await, 1, "the key: that it was revoked is not true any more");
}

#[tokio::test]
async fn the_first_sale_of_a_subscription_that_comes_late_has_the_key_of_its_further_charge() {
    let shop = Shop::with_guide().await;
    tell(&shop, [(charged("c1", 30), Issued, 63), (charged("A", 0), Renewed, 63)]).await;
    assert_eq!(shop.sent().await, 1);
    tell(&shop, [(refunded("c1"), Revoked, 33)]).await;
    assert_eq!(shop.statuses().await, [Status::Valid]);
    tell(&shop, [(refunded("A"), Revoked, 33)]).await;
    assert_eq!(shop.statuses().await, [Status::Revoked]);
}

#[tokio::test]
async fn a_charge_that_was_refunded_before_the_first_sale_came_leaves_that_the_key() {
    let shop = Shop::with_guide().await;
    tell(&shop, [(charged("c1", 30), Issued, 63), (refunded("c1"), Revoked, 63)]).await;
    assert_eq!(shop.statuses().await, [Status::Revoked]);
    tell(&shop, [(charged("A", 0), Renewed, 33)]).await;
    assert_eq!(shop.statuses().await, [Status::Valid]);
}

#[tokio::test]
async fn the_most_exact_of_what_is_said_tells_until_when_a_charge_pays() {
    let of = |order: &str, at: i64, term: Term| {
        Event::Paid(Sale { at: Some(day(at)), lines: vec![Line { term, ..line("guide") }], ..charge(order, at) })
    };
    let month = Term::Every(Recurrence::Months(1));
    let until = |on: i64, status: Standing| word(on, status, Term::Until(day(40)));
    for (case, events, days) in [
        ("its period", vec![of("A", 0, Term::Until(day(31)))], 34),
        ("its period, and not a word", vec![of("A", 0, Term::Until(day(31))), until(1, Standing::Active)], 34),
        ("a trial, beside a period", vec![of("A", 0, Term::Until(day(31))), until(1, Standing::Trialing)], 43),
        ("a word", vec![of("A", 0, Term::Unsaid), until(1, Standing::Active)], 43),
        ("a word that came first", vec![until(1, Standing::Leaving), of("A", 0, Term::Unsaid)], 43),
        ("a word, and not the recurrence", vec![of("A", 0, month), until(1, Standing::Active)], 43),
        // From the 21st of November to that of December, and of January.
        ("the recurrence", vec![of("A", 0, month)], 33),
        ("the recurrence, again", vec![of("A", 0, month), of("c1", 30, month)], 64),
        ("nothing: the product's own days, without grace", vec![of("A", 0, Term::Unsaid)], 30),
        ("nothing, again", vec![of("A", 0, Term::Unsaid), of("c1", 40, Term::Unsaid)], 70),
    ] {
        let shop = Shop::with_guide().await;
        for event in events {
            shop.tell(event).await;
        }
        assert_eq!((shop.keys().await.len(), shop.days().await), (1, days), "{case}");
    }
}

#[tokio::test]
async fn a_word_ends_the_key_and_a_newer_one_takes_the_end_back() {
    let shop = Shop::with_guide().await;
    let ended = |on: i64| word(on, Standing::Ended, Term::Until(day(on)));
    let events = [
        (charged("A", 0), Issued, 33),
        (word(10, Standing::Leaving, Term::Until(day(30))), Ignored, 33),
        // Without grace.
        (ended(20), Ended, 20),
        (word(25, Standing::Active, Term::Unsaid), Renewed, 33),
        (ended(24), Ignored, 33),
        // At the same time the end counts.
        (ended(25), Ended, 25),
        // A charge after the end counts in full.
        (charged("c1", 50), Renewed, 83),
        (ended(60), Ended, 60),
    ];
    tell(&shop, events).await;
    assert_eq!((shop.statuses().await, shop.sent().await), (vec![Status::Valid], 1));
    // Without a charge it issues nothing, and counts when one comes.
    let shop = Shop::with_guide().await;
    assert_eq!((shop.tell(ended(20)).await, shop.keys().await.len()), (Some(Ignored), 0));
    tell(&shop, [(charged("A", 0), Issued, 20)]).await;
}

#[tokio::test]
async fn a_dispute_about_any_charge_revokes_the_key_until_it_is_won() {
    let shop = Shop::with_guide().await;
    tell(&shop, [(charged("A", 0), Issued, 33), (charged("c1", 30), Renewed, 63)]).await;
    tell(&shop, [(Event::Disputed(dispute("A")), Revoked, 63), (charged("c2", 60), Renewed, 93)]).await;
    assert_eq!(shop.statuses().await, [Status::Revoked]);
    tell(&shop, [(Event::Won(dispute("A")), Restored, 93)]).await;
    assert_eq!(shop.statuses().await, [Status::Valid]);
}

#[tokio::test]
async fn the_date_of_the_seller_overrules_what_was_paid_until_more_is() {
    let shop = Shop::with_guide().await;
    let set = async |days: i64| {
        let (at, by) = (delivery_core::Clock::now(shop.clock.as_ref()), Actor::admin());
        let change = Change::SetTerms { at, by, expires_at: Some(day(days)), limit: None };
        shop.delivery.change(shop.keys().await[0].id(), change).await.unwrap();
    };
    tell(&shop, [(charged("A", 0), Issued, 33)]).await;
    set(10).await;
    tell(&shop, [(charged("A", 0), Ignored, 10), (charged("c1", 30), Renewed, 63)]).await;
    set(200).await;
    let ended = word(20, Standing::Ended, Term::Until(day(20)));
    tell(&shop, [(ended, Ignored, 200), (refunded("c1"), Revoked, 200), (charged("c2", 180), Renewed, 213)]).await;
}

#[tokio::test]
async fn another_product_has_a_key_of_its_own_and_the_first_ends_with_what_was_paid_for_it() {
    let shop = Shop::open();
    let (guide, atlas) = (shop.product("guide").await.id(), shop.product("atlas").await.id());
    let of_atlas = |order: &str, at: i64, from: i64| {
        let sold = charge(order, from);
        let lines = sold.lines.iter().map(|line| Line { names: vec!["atlas".to_owned()], ..line.clone() }).collect();
        Event::Paid(Sale { at: Some(day(at)), lines, ..sold })
    };
    // It names no product: that of the charge before it.
    let unnamed = Event::Paid(Sale { lines: Vec::new(), ..charge("c2", 60) });
    for (event, outcome, expected) in [
        (charged("A", 0), Issued, [Some(33), None]),
        (of_atlas("u1", 10, 0), Issued, [Some(33), Some(33)]),
        (of_atlas("c1", 30, 30), Renewed, [Some(33), Some(63)]),
        (unnamed, Renewed, [Some(33), Some(90)]),
    ] {
        assert_eq!(shop.tell(event).await, Some(outcome));
        let keys = shop.keys().await;
        let days = [guide, atlas].map(|product| {
            let key = keys.iter().find(|key| key.product() == product)?;
            Some((key.expires_at() - day(0)).num_days())
        });
        assert_eq!((days, keys.len()), (expected, expected.iter().flatten().count()));
    }
}

#[tokio::test]
async fn a_key_of_a_product_that_is_sold_for_ever_has_no_end() {
    let shop = Shop::open();
    let terms = OwnTerms { validity: Validity::from_days(-1).ok(), ..OwnTerms::default() };
    shop.delivery.add_product(called(&["guide"]).terms(terms)).await.unwrap();
    let ended = word(20, Standing::Ended, Term::Until(day(20)));
    for (event, outcome) in [(charged("A", 0), Issued), (charged("c1", 30), Renewed), (ended, Ignored)] {
        assert_eq!(shop.tell(event).await, Some(outcome));
        assert_eq!((shop.keys().await[0].expires_at(), shop.statuses().await), (NEVER, vec![Status::Valid]));
    }
    for (order, status) in [("c1", Status::Valid), ("A", Status::Revoked)] {
        assert_eq!(shop.tell(refunded(order)).await, Some(Revoked));
        assert_eq!(shop.statuses().await, [status], "{order}");
    }
}
