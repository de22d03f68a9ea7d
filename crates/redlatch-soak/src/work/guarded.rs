//! The guarded set: elements are added by reading it all, thinking, and writing it all back, under a lock. Whoever does so at the same time as another overwrites the other's elements.
//!
//! One set compares tokens, and its writers are careless: some think longer than their lease lasts and write nevertheless. The other compares nothing, and its writers look at
//! their guard right before they write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use tokio::task::JoinSet;

use super::{Bench, Entry, millis};
use crate::{
    clock::now,
    grip::Grip,
    names,
    record::{Record, Write},
};

pub(super) fn start(bench: &Bench, random: &mut Rng, workers: &mut JoinSet<()>) {
    for (name, fenced) in [("fenced", true), ("checked", false)] {
        let set = Set {
            name: names::name(name, 0),
            fenced,
            inner: Mutex::default(),
        };
        let set = Arc::new(set);
        for _ in 0..4 {
            let (bench, set, mut random) = (bench.clone(), Arc::clone(&set), random.fork());
            workers.spawn(async move {
                while bench.goes_on() {
                    add(&bench, &set, &mut random).await;
                    tokio::time::sleep(millis(&mut random, 0..30)).await;
                }
            });
        }
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
    let Some((asked, guard)) = bench.acquire(random, lock.lock().lease(lease)).await else {
        return;
    };
    let from = now();
    let token = if set.fenced {
        guard.token().as_u64()
    } else {
        0
    };
    let read = now();
    let elements = set.read(token);
    let late = random.u8(..30) == 0;
    let thinks = if late {
        lease + millis(random, 0..800)
    } else {
        millis(random, 0..12)
    };
    tokio::time::sleep(thinks).await;
    // No await from here to the write: what the guard says is as fresh as it can be.
    let valid = guard.valid();
    let until = if valid { now() } else { from };
    if let Some(elements) = elements
        && (set.fenced || valid)
    {
        let (accepted, lost) = set.write(token, elements, bench.history.id());
        bench.history.add(Record::Write(Write {
            name: set.name.clone(),
            token,
            read,
            at: now(),
            accepted,
            valid,
            lost,
        }));
    }
    let entry = Entry::exclusive(if set.fenced { "fenced" } else { "checked" });
    bench
        .give_back(random, entry, (asked, from, until), guard)
        .await;
}

impl Set {
    /// Returns all elements, unless somebody with a greater token was here.
    fn read(&self, token: u64) -> Option<Vec<u64>> {
        let mut inner = self.inner();
        if token < inner.greatest {
            return None;
        }
        inner.greatest = token;
        Some(inner.elements.clone())
    }

    /// Replaces all elements by `elements` and one more; says whether it did, and how many elements of others are gone thereby.
    fn write(&self, token: u64, mut elements: Vec<u64>, one: u64) -> (bool, u32) {
        let mut inner = self.inner();
        if token < inner.greatest {
            return (false, 0);
        }
        let gone = |element: &&u64| !elements.contains(element);
        let lost = inner.elements.iter().filter(gone).count();
        elements.push(one);
        // The oldest go, or each update would cost more than the one before.
        let excess = elements.len().saturating_sub(KEPT);
        inner.elements = elements.split_off(excess);
        inner.greatest = token;
        (true, u32::try_from(lost).unwrap_or(u32::MAX))
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

    #[test]
    fn without_tokens_the_later_of_two_writers_loses_the_other_s() {
        let set = set(false);
        let (a, b) = (set.read(0).unwrap(), set.read(0).unwrap());
        assert_eq!(set.write(0, a, 1), (true, 0));
        assert_eq!(set.write(0, b, 2), (true, 1));
    }

    #[test]
    fn with_tokens_the_older_of_two_is_refused() {
        let set = set(true);
        let (a, b) = (set.read(1).unwrap(), set.read(2).unwrap());
        assert_eq!(set.write(1, a, 1), (false, 0), "the younger has read");
        assert_eq!(set.write(2, b, 2), (true, 0));
        assert_eq!(set.read(1), None);
    }

    #[test]
    fn old_elements_go_unlost() {
        let set = set(false);
        for one in 0..3 * KEPT as u64 {
            let all = set.read(0).unwrap();
            assert_eq!(set.write(0, all, one), (true, 0));
        }
        assert_eq!(set.read(0).unwrap().len(), KEPT);
    }
}
