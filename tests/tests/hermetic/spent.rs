//! The record of attempts that may not act any more: what it costs, and how long it lasts.

use redlatch_behaviours::releases::WAYS;
use redlatch_embedded::engine::Model;

use crate::{
    prelude::*,
    scripts::{
        bed::{Bed, Call, key},
        calls::{Ask, Of},
        pool::calls::change,
    },
};

/// A server time that no test reaches, in ms.
const FAR: u64 = 9_999_999_999_999;

const KINDS: [Of; 6] = [
    Of::Plain,
    Of::Fair,
    Of::Write,
    Of::Read,
    Of::Permits,
    Of::Each,
];

/// What a call does with an attempt.
#[derive(Clone, Copy, Debug)]
enum Act {
    Acquire,
    Release,
    /// Releases, and marks the attempt as undone until this server time, in ms.
    Undo(u64),
}

impl Act {
    /// All attempts at a lock have one owner. A pool has three permits.
    fn call(self, bed: &Bed, of: Of, by: u64, attempt: &str) -> Call {
        let mut ask = Ask::new(of, bed, "a:0", 0).lease(30_000);
        (ask.by, ask.size) = (by, Some(3));
        attempt.clone_into(&mut ask.attempt);
        match self {
            Self::Acquire => ask.call(),
            Self::Release => ask.release(&[0], None, ""),
            Self::Undo(void) => ask.release(&[0], Some(void), ""),
        }
    }
}

impl Bed {
    /// Returns the verdict.
    fn act(&mut self, kind: Of, act: Act, by: u64, attempt: &str) -> String {
        let call = act.call(self, kind, by, attempt);
        self.ask(&call).swap_remove(1)
    }

    /// Takes the name and gives it back; returns how many commands that runs, and the length of the
    /// longest field.
    fn cost(&mut self, kind: Of, attempt: &str) -> (u64, usize) {
        let before = self.commands();
        for act in [Act::Acquire, Act::Release] {
            self.act(kind, act, self.millis() + 5_000, attempt);
        }
        let after = self.commands();
        (after - before - 2, self.size())
    }

    fn commands(&self) -> u64 {
        self.engine.command_counts().values().sum()
    }

    /// Returns the length of the longest field.
    fn size(&mut self) -> usize {
        let fields = self.hash(&key("x"));
        fields.values().map(String::len).max().unwrap_or(0)
    }
}

/// The longest record of so many clients.
const fn longest(clients: usize) -> usize {
    clients * "1700000000123 c39:399 ".len()
}

#[test]
fn ended_attempts_cost_the_same_however_many_there_are() {
    for model in Model::ALL {
        for kind in KINDS {
            let mut bed = Bed::new(model);
            bed.cost(kind, "a:1");
            let (commands, _) = bed.cost(kind, "a:2");
            let void = bed.millis() + 5_000;
            let undone: Vec<_> = (0..400).map(|n| format!("c{}:{n}", n % 40)).collect();
            for attempt in &undone {
                let before = bed.commands();
                bed.act(kind, Act::Undo(void), FAR, attempt);
                let cost = bed.commands() - before;
                assert!(cost <= 8, "{kind:?}: {cost}");
                assert!(bed.size() <= longest(41), "{kind:?}");
            }
            for attempt in &undone {
                let verdict = bed.act(kind, Act::Acquire, void, attempt);
                assert_eq!(verdict, "void", "{kind:?} {attempt}");
            }
            let fields = bed.hash(&key("x"));
            assert!(fields.len() <= 8, "{kind:?}: {fields:?}");
            let (with, _) = bed.cost(kind, "a:3");
            assert_eq!(with, commands, "{kind:?}");
            bed.pass(Duration::from_secs(6));
            bed.cost(kind, "a:4");
            assert!(bed.size() <= 64, "{kind:?}");
        }
    }
}

/// Clients know the server's time differently well, by their round trips. However many others were
/// served a moment ago, a request that is a little behind theirs is a new one.
#[test]
fn client_whose_clock_is_behind_is_served_among_many() {
    for kind in KINDS {
        let mut bed = Bed::new(Model::default());
        let by = bed.millis() + 5_000;
        for round in 1..=3 {
            for client in 0..40 {
                let attempt = format!("c{client}:{round}");
                assert_eq!(bed.act(kind, Act::Acquire, by, &attempt), "granted");
                bed.act(kind, Act::Release, FAR, &attempt);
            }
            let far = format!("far:{round}");
            let verdict = bed.act(kind, Act::Acquire, by - 500, &far);
            assert_eq!(verdict, "granted", "{kind:?}");
            bed.act(kind, Act::Release, FAR, &far);
            let copy = bed.act(kind, Act::Acquire, by - 500, &far);
            assert_eq!(copy, "void", "{kind:?}");
        }
        assert!(bed.size() <= longest(41), "{kind:?}");
        // Those who come later remove those who have gone.
        for (client, ms) in [("d", 3_000), ("e", 2_500)] {
            bed.pass(Duration::from_millis(ms));
            for n in 0..40 {
                bed.cost(kind, &format!("{client}{n}:1"));
            }
        }
        assert!(bed.size() <= longest(81), "{kind:?}");
    }
}

/// A later undo of the same attempt may reach further, and so does that of a later attempt.
#[test]
fn prolonged_record_lasts_until_its_new_end() {
    for kind in KINDS {
        for later in ["b:3", "b:4"] {
            let mut bed = Bed::new(Model::default());
            let (from, second) = (bed.millis(), Duration::from_secs(1));
            bed.act(kind, Act::Undo(from + 1_000), FAR, "b:3");
            bed.pass(second / 2);
            bed.act(kind, Act::Undo(from + 5_000), FAR, later);
            for n in 0..4 {
                bed.pass(second);
                bed.cost(kind, &format!("a:{n}"));
                let verdict = bed.act(kind, Act::Acquire, from + 5_000, "b:3");
                assert_eq!(verdict, "void", "{kind:?} {n}");
            }
        }
    }
}

/// Nobody uses the name any more: its record ends with its key, and is small where the key stays.
#[test]
fn record_of_a_name_that_nobody_uses_ends_with_its_key() {
    for kind in KINDS {
        let mut bed = Bed::new(Model::default());
        let from = bed.millis();
        for n in 0..100 {
            bed.act(kind, Act::Undo(from + 5_000), FAR, &format!("b:{n}"));
        }
        assert!(bed.size() <= 64, "{kind:?}");
        let ttl = bed.ttl(&key("x")).unwrap();
        assert!((5_000..=600_000).contains(&ttl), "{kind:?} {ttl}");
        bed.pass(Duration::from_millis(600_001));
        assert_eq!(bed.ttl(&key("x")), None, "{kind:?}");
    }
}

/// A pool that ends by its time, or is deleted, may be made anew while copies are under way.
#[test]
fn record_outlives_its_pool() {
    for kind in [Of::Permits, Of::Each] {
        for deleted in [false, true] {
            let mut bed = Bed::new(Model::default());
            let from = bed.millis();
            bed.ask(&change(FAR, "c:set", "set", 3, "1000"));
            for n in 0..200 {
                let attempt = format!("b{}:{n}", n % 4);
                bed.act(kind, Act::Undo(from + 5_000), FAR, &attempt);
            }
            if deleted {
                bed.ask(&change(FAR, "c:delete", "delete", 3, ""));
            } else {
                bed.pass(Duration::from_secs(2));
            }
            for n in [0, 63, 64, 199] {
                let attempt = format!("b{}:{n}", n % 4);
                let verdict = bed.act(kind, Act::Acquire, from + 5_000, &attempt);
                assert_eq!(verdict, "void", "{kind:?} {n}");
            }
            assert_eq!(bed.act(kind, Act::Acquire, FAR, "a:1"), "granted");
            assert_eq!(bed.act(kind, Act::Release, FAR, "a:1"), "released");
        }
    }
}

/// The record is all that stays, also where a key has no TTL and no client comes again.
#[tokio::test(start_paused = true)]
async fn cancelled_waits_leave_one_short_record_of_each_client() {
    for way in WAYS {
        let (backend, clients) = embedded::<4>().await;
        let held = (way.lock)(&clients[0], "x").await.unwrap();
        for _ in 0..20 {
            let waits = clients.iter().cycle().take(40);
            let waits = join_all(waits.map(|client| (way.lock)(client, "x")));
            let cancelled = timeout(Duration::from_millis(20), waits).await;
            assert!(cancelled.is_err(), "{}", way.kind);
        }
        drop(held);
        assert_all_empty(&clients).await;
        backend.pass(Duration::from_secs(30)).await;
        for key in backend.keys() {
            let fields = backend.hash(&key);
            let id = clients[0].id().as_str().len();
            let record = fields["v"].len();
            assert!(record <= clients.len() * (id + 32), "{key} {fields:?}");
            assert!(fields.len() <= 5, "{key} {fields:?}");
            let stays = matches!(way.kind, "semaphore" | "permits");
            assert!(stays || backend.ends(&key), "{key} {fields:?}");
        }
    }
}
