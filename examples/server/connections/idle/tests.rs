//! Which connections are closed to make room.

use std::pin::pin;

use futures_util::FutureExt;

use super::*;

fn is_closed(conversation: &Conversation) -> bool {
    conversation.closed().now_or_never().is_some()
}

/// A connection over which a request has come before.
fn begin(idle: &Idle) -> Arc<Conversation> {
    let conversation = idle.begin();
    conversation.has_asked.store(true, Ordering::Relaxed);
    conversation
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_first_request_is_on_its_way_is_given_a_moment() {
    let idle = Idle::default();
    let (silent, asking) = (idle.begin(), idle.begin());
    let _wishes = [idle.make_room(), idle.make_room()];
    let (mut silence, mut request) = (pin!(silent.closed()), pin!(asking.closed()));
    assert!(silence.as_mut().now_or_never().is_none() && request.as_mut().now_or_never().is_none());
    let answer = asking.answer();
    silence.await;
    assert!(request.now_or_never().is_none(), "it asked in time, and is answered");
    drop(answer);
}

#[tokio::test(start_paused = true)]
async fn who_is_idle_longest_makes_room_for_one() {
    let idle = Idle::default();
    let all: Vec<_> = (0..3).map(|_| begin(&idle)).collect();
    drop(all[0].answer());
    all[0].flushed();
    let _wish = idle.make_room();
    assert_eq!(all.iter().map(|one| is_closed(one)).collect::<Vec<_>>(), [false, true, false]);
    assert!(!all[0].answer().is_last(), "no other is closed too");
}

#[tokio::test(start_paused = true)]
async fn while_none_is_idle_the_body_that_has_been_coming_longest_makes_room() {
    let idle = Idle::default();
    let all: Vec<_> = (0..4).map(|_| begin(&idle)).collect();
    let bodies: Vec<_> = all[..3].iter().map(Conversation::answer).collect();
    all[1].become_spare(Spare::Body);
    all[0].become_spare(Spare::Body);
    let _wishes = [idle.make_room(), idle.make_room()];
    assert_eq!([0, 2, 3].map(|one: usize| is_closed(&all[one])), [false, false, true]);
    // The body ends before the connection is closed, so the next connection makes room.
    all[1].wake();
    assert!(!is_closed(&all[1]) && is_closed(&all[0]));
    drop(bodies);
}

#[tokio::test(start_paused = true)]
async fn who_is_closed_calls_for_no_other_by_what_ends_with_it() {
    let idle = Idle::default();
    let all: Vec<_> = (0..2).map(|_| begin(&idle)).collect();
    let bodies: Vec<_> = all.iter().map(Conversation::answer).collect();
    all[0].become_spare(Spare::Idle);
    let _wish = idle.make_room();
    assert!(is_closed(&all[0]));
    // The body of the first ends. Then the body of the second is slow.
    all[0].wake();
    all[1].become_spare(Spare::Idle);
    assert!(!is_closed(&all[1]));
    drop(bodies);
}

#[tokio::test(start_paused = true)]
async fn while_none_is_idle_every_answer_is_the_last_until_there_is_room() {
    let idle = Idle::default();
    let all: Vec<_> = (0..3).map(|_| begin(&idle)).collect();
    let mut answers: Vec<_> = all.iter().map(Conversation::answer).collect();
    let wish = idle.make_room();
    // The client of the first may read its answer slowly.
    assert!(answers[0].is_last() && answers[1].is_last());
    drop(wish);
    assert!(!answers[2].is_last());
    drop(answers);
    for one in &all {
        one.flushed();
    }
    let _wish = idle.make_room();
    assert_eq!(all.iter().map(|one| is_closed(one)).collect::<Vec<_>>(), [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn who_was_to_be_closed_and_asks_is_answered_and_another_makes_room() {
    let idle = Idle::default();
    let (oldest, other) = (begin(&idle), begin(&idle));
    let _wish = idle.make_room();
    let mut answer = oldest.answer();
    assert!(!answer.is_last() && !is_closed(&oldest));
    // Now the other is chosen, but also sends a request before it is closed.
    assert!(other.answer().is_last() && !is_closed(&other) && answer.is_last());
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_comes_true_or_is_given_up_closes_no_more() {
    let idle = Idle::default();
    let (first, second) = (begin(&idle), begin(&idle));
    let wish = idle.make_room();
    assert!(is_closed(&first));
    drop((first, wish));
    drop(idle.make_room());
    assert!(is_closed(&second), "it was chosen for the one that gave up");
    let third = begin(&idle);
    assert!(!is_closed(&third) && !third.answer().is_last());
}
