//! Tests of the limit with concurrent requests. A scheduler runs each test in many interleavings of its threads.

use std::sync::Arc;

use super::*;
use crate::sync::atomic::AtomicU64;
use crate::sync::interleave;

const SCHEDULES: usize = 20_000;
const SECOND: u64 = 1_000_000_000;

/// A table and a clock that the test sets.
struct Door {
    table: Table<u64>,
    seconds: AtomicU64,
}

impl Door {
    fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { table: Table::new(capacity), seconds: AtomicU64::new(0) })
    }

    fn admitted(&self, subject: u64) -> usize {
        let clock = || self.seconds.load(Ordering::SeqCst) * SECOND;
        let decision = self.table.decide(subject, subject & !0xffff, Quota::per_minute(2).unwrap(), clock);
        usize::from(matches!(decision, Decision::Admitted { .. }))
    }

    /// Starts three threads that make two requests each. A thread returns how many of its requests were admitted.
    fn six_requests(self: &Arc<Self>, subject: u64) -> Vec<shuttle::thread::JoinHandle<usize>> {
        let threads = (0..3).map(|_| {
            let door = self.clone();
            shuttle::thread::spawn(move || door.admitted(subject) + door.admitted(subject))
        });
        threads.collect()
    }
}

fn joined(threads: Vec<shuttle::thread::JoinHandle<usize>>) -> usize {
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

#[test]
fn a_subject_is_admitted_as_often_as_it_may_and_no_more() {
    interleave(SCHEDULES, || assert_eq!(joined(Door::new(1000).six_requests(1)), 2));
}

/// A new subject for which there is no room shares the window of its prefix bucket. When room becomes free, the subject
/// must not get a second allowance.
#[test]
fn room_that_comes_free_in_the_middle_gives_no_second_allowance() {
    interleave(SCHEDULES, || {
        let door = Door::new(SHARDS);
        let newcomer = 1 << 40;
        let shard = |subject: &u64| std::ptr::from_ref(door.table.shard(door.table.hasher.hash_one(subject)));
        let is_in_same_shard = |other: &u64| shard(other) == shard(&newcomer);
        let resident = (0..).find(is_in_same_shard).unwrap();
        assert_eq!(door.admitted(resident), 1);
        // Act as if another subject had already used a shared window, so that shared windows are read from now on.
        door.table.overflowed.store(true, Ordering::SeqCst);
        door.seconds.store(59, Ordering::SeqCst);
        let threads = door.six_requests(newcomer);
        // While the threads run, the request of the subject that fills the shard leaves its window. So there is room
        // for the new subject.
        door.seconds.store(60, Ordering::SeqCst);
        assert_eq!(joined(threads), 2);
    });
}
