//! The guarded set. A worker adds an element under a lock: it reads the whole set, thinks, and
//! writes the whole set. A second writer at the same time overwrites the first one's elements.
//!
//! One set compares tokens, and its writers are careless: some think longer than their lease lasts
//! and write nevertheless. The other set compares nothing, and its writers check their guard right
//! before they write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::record::{Record, Write};
use fastrand::Rng;
use redlatch_tests::hold::held;

use super::{Bench, Crew, Wanted, millis};
use crate::{clock::now, names};

/// Starts the workers of a set that is guarded by its own lock. The set `fenced` compares tokens.
pub(super) fn start(crew: &mut Crew<'_>, stem: &str) {
    let set = Arc::new(Set {
        name: names::name(stem, 0),
        fenced: stem == "fenced",
        inner: Mutex::default(),
    });
    for _ in 0..4 {
        let set = Arc::clone(&set);
        crew.spawn(|bench, mut random| async move {
            while bench.goes_on() {
                add(&bench, &set, &mut random).await;
                tokio::time::sleep(millis(&mut random, 0..30)).await;
            }
        });
    }
}

/// A set of numbers that is read and written as a whole.
#[derive(Debug)]
struct Set {
    name: String,
    fenced: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    elements: Vec<u64>,
    greatest: u64,
}

async fn add(bench: &Bench, set: &Set, random: &mut Rng) {
    let lock = bench.client(random).lock(&set.name);
    let lease = millis(random, 300..1_500);
    let kind = if set.fenced { "fenced" } else { "checked" };
    let what = Wanted::of(kind, &set.name);
    let given = bench.acquire(random, what, lock.lock().lease(lease));
    let Some((mut hold, guard)) = given.await else {
        return;
    };
    let guard = held(guard);
    let token = guard.fence().filter(|_| set.fenced).unwrap_or(0);
    let valid = guard.believed();
    let (read, elements) = set.read(token);
    let (name, asked) = (set.name.clone(), hold.asked);
    let write = |(at, accepted, lost), valid| {
        bench.history.add(Record::Write(Write {
            name,
            token,
            asked,
            read,
            at,
            accepted,
            valid,
            lost,
        }));
    };
    if let Some(elements) = elements {
        let late = random.u8(..30) == 0;
        let thinks = if late {
            lease + millis(random, 0..800)
        } else {
            millis(random, 0..12)
        };
        tokio::time::sleep(thinks).await;
        // There is no await from here to the write, so the result of the check is as fresh as
        // possible.
        let valid = hold.look(&*guard);
        if set.fenced || valid {
            write(set.write(token, elements, bench.history.id()), valid);
        }
    } else {
        write((read, false, 0), valid);
    }
    bench.give_back(random, hold, guard).await;
}

impl Set {
    /// Returns the time, and all elements unless a writer with a greater token was here.
    fn read(&self, token: u64) -> (u64, Option<Vec<u64>>) {
        let mut inner = self.inner();
        // The time is read under the lock, so the order of times is the order of the events.
        let now = now();
        if token < inner.greatest {
            return (now, None);
        }
        inner.greatest = token;
        (now, Some(inner.elements.clone()))
    }

    /// Replaces all elements by `elements` and `one`. Returns the time, whether it wrote, and the
    /// number of other writers' elements that are lost by it.
    fn write(&self, token: u64, mut elements: Vec<u64>, one: u64) -> (u64, bool, u32) {
        let mut inner = self.inner();
        let now = now();
        if token < inner.greatest {
            return (now, false, 0);
        }
        let gone = |element: &&u64| !elements.contains(element);
        let lost = inner.elements.iter().filter(gone).count();
        elements.push(one);
        // The oldest elements are removed, or each update would cost more than the one before.
        let excess = elements.len().saturating_sub(KEPT);
        inner.elements = elements.split_off(excess);
        inner.greatest = token;
        (now, true, u32::try_from(lost).unwrap_or(u32::MAX))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const KEPT: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn set(fenced: bool) -> Set {
        Set {
            name: "x".to_owned(),
            fenced,
            inner: Mutex::default(),
        }
    }

    fn read(set: &Set, token: u64) -> Vec<u64> {
        set.read(token).1.unwrap()
    }

    fn write(set: &Set, token: u64, elements: Vec<u64>, one: u64) -> (bool, u32) {
        let (_, accepted, lost) = set.write(token, elements, one);
        (accepted, lost)
    }

    #[test]
    fn later_writer_without_token_overwrites_the_earlier() {
        let set = set(false);
        let (a, b) = (read(&set, 0), read(&set, 0));
        assert_eq!(write(&set, 0, a, 1), (true, 0));
        assert_eq!(write(&set, 0, b, 2), (true, 1));
    }

    #[test]
    fn writer_with_the_older_token_is_refused() {
        let set = set(true);
        let (a, b) = (read(&set, 1), read(&set, 2));
        assert_eq!(write(&set, 1, a, 1), (false, 0), "the younger has read");
        assert_eq!(write(&set, 2, b, 2), (true, 0));
        assert_eq!(set.read(1).1, None);
    }

    #[test]
    fn removed_old_elements_do_not_count_as_lost() {
        let set = set(false);
        for one in 0..3 * KEPT as u64 {
            let all = read(&set, 0);
            assert_eq!(write(&set, 0, all, one), (true, 0));
        }
        assert_eq!(read(&set, 0).len(), KEPT);
    }
}
