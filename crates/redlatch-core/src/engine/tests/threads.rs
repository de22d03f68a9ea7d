//! Scenarios of threads that share a client.

use std::{
    cell::Cell,
    future::{Future, pending},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    span::{Attributes, Id, Record},
    subscriber::set_global_default,
};

use super::{AcquireOptions, Held, LocalQueues, Wait};
use crate::{
    Client, Error, ErrorKind, HoldState, LossCause, Moment,
    base::{primitive::Side, rules::Rules, sync::AtomicUsize, timeouts},
    net::CalledBy,
    protocol::{
        name::{Prefix, key},
        waiter::Turn,
    },
    threads::{DROPPED, Name, begin, block_on, explore, spawn, world},
};

fn take(
    client: &Client,
    name: &str,
    wait: Wait,
) -> impl Future<Output = Result<Option<Held>, Error>> + Send + use<> {
    let (client, name) = (client.clone(), Name::of(name));
    let options = AcquireOptions {
        wait,
        ..AcquireOptions::default()
    };
    async move { client.acquire(&name, &options).await }
}

/// Takes a free name.
fn taken(client: &Client, name: &str) -> Held {
    block_on(take(client, name, Wait::Never)).unwrap().unwrap()
}

fn is_lost(guard: &Held) -> bool {
    matches!(guard.state(), HoldState::Lost(_))
}

/// Waits for the end of all that `client` does in the background.
fn ends(client: &Client) {
    block_on(client.net().world.life.idle());
}

const GRACE: Duration = timeouts::PLAIN_COMMAND;

#[test]
fn each_waiter_gets_its_turn_alone_and_leaves_nothing() {
    explore(|| {
        let (client, ..) = world();
        let queues = Arc::new(LocalQueues::new(Rules::default(), Prefix::default()));
        let speaking = Arc::new(AtomicUsize::new(0));
        let waiters = (1..5).map(|id| {
            let (queues, speaking) = (Arc::clone(&queues), Arc::clone(&speaking));
            let called_by = CalledBy {
                wakes: client.wakes(0),
                silent: true,
                order: None,
            };
            begin(async move {
                let (name, now) = (key("a"), Moment::ORIGIN);
                let (place, bell) = ((name.clone(), "name", Side::Exclusive), Arc::default());
                let slot = queues.join(place, (id, id), &called_by, &bell, now);
                // One waiter leaves whether it has its turn or not.
                while id != 4 && slot.look().turn != Turn::Ours {
                    bell.news().await;
                }
                if id != 4 {
                    assert_eq!(speaking.fetch_add(1, Ordering::SeqCst), 0);
                    queues.prompt_first(&name);
                    speaking.fetch_sub(1, Ordering::SeqCst);
                }
            })
        });
        let waiters: Vec<_> = waiters.collect();
        waiters.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(queues.len(), 0);
    });
}

#[test]
fn guard_that_is_dropped_at_the_end_is_released_before_the_end() {
    explore(|| {
        let (client, server, _) = world();
        let guard = taken(&client, "a");
        let dropping = spawn(move || drop(guard));
        block_on(client.close(GRACE));
        assert!(server.is_free());
        dropping.join().unwrap();
        ends(&client);
    });
}

#[test]
fn request_behind_a_dropped_guard_finds_the_name_free() {
    explore(|| {
        let (client, server, _) = world();
        // The first use makes the link, while the others wait outside of shuttle.
        drop(taken(&client, "a"));
        let threads = ["a", "b"].map(|name| {
            let client = client.clone();
            spawn(move || {
                drop(taken(&client, name));
                drop(taken(&client, name));
                block_on(client.settled());
            })
        });
        threads.into_iter().for_each(|one| one.join().unwrap());
        assert!(server.is_free());
        block_on(client.close(GRACE));
        ends(&client);
    });
}

/// Begins acquisitions while `end` ends the client.
fn acquire_while(client: &Client, end: impl FnOnce(&Client)) {
    let held = taken(client, "a");
    let begun = ["a", "b"].map(|name| begin(take(client, name, Wait::Forever)));
    end(client);
    assert!(is_lost(&held));
    for acquisition in begun {
        match acquisition.join().unwrap() {
            Ok(guard) => assert!(is_lost(&guard.unwrap())),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        }
    }
    ends(client);
}

#[test]
fn acquisition_that_meets_a_close_ends() {
    explore(|| {
        let (client, server, _) = world();
        acquire_while(&client, |client| block_on(client.close_now()));
        assert!(server.is_free());
    });
}

#[test]
fn acquisition_that_meets_the_end_of_the_runtime_ends() {
    explore(|| {
        let (client, ..) = world();
        acquire_while(&client, |client| {
            client.net().world.life.spawn(DROPPED, pending());
        });
    });
}

#[test]
fn loss_is_final_and_told_once() {
    // Another test of this process may have set the subscriber.
    let _ = set_global_default(Losses);
    explore(|| {
        LOSSES.set(0);
        let (client, _, clock) = world();
        let guard = Arc::new(taken(&client, "a"));
        let hold = client.holds().of(&key("a")).pop().unwrap();
        let lost = begin(hold.lost());
        let looking = Arc::clone(&guard);
        let looking = spawn(move || {
            let looks = [(); 3].map(|()| is_lost(&looking));
            assert!(looks.is_sorted(), "{looks:?}");
        });
        let renewing = spawn({
            let (client, hold) = (client.clone(), Arc::clone(&hold));
            move || hold.renewed(Moment::ORIGIN + GRACE, client.now(), GRACE * 60, GRACE * 60)
        });
        clock.set(hold.kept_until());
        looking.join().unwrap();
        renewing.join().unwrap();
        clock.set(hold.kept_until());
        assert_eq!(lost.join().unwrap(), LossCause::Expired);
        assert!(is_lost(&guard));
        block_on(client.close_now());
        ends(&client);
        assert_eq!((LOSSES.get(), client.holds().len()), (1, 0));
    });
}

thread_local! {
    /// The losses told so far. Shuttle runs all threads of a test on one.
    static LOSSES: Cell<usize> = const { Cell::new(0) };
}

/// Counts losses.
struct Losses;

impl Subscriber for Losses {
    fn enabled(&self, event: &Metadata<'_>) -> bool {
        *event.level() == Level::WARN && event.fields().field("cause").is_some()
    }

    fn event(&self, _: &Event<'_>) {
        LOSSES.set(LOSSES.get() + 1);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
