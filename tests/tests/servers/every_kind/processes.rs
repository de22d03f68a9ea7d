//! Processes that hold or wait, and are killed or suspended.

use std::env;

use redlatch_tests::child::{self, Process};

use super::prelude::*;

redlatch_tests::on_every_server!(
    a_killed_holder_of_every_kind_frees_it_with_its_lease,
    a_suspended_holder_of_every_kind_learns_of_its_loss_on_resuming,
    a_killed_waiter_of_every_kind_delays_the_next_once,
    a_suspended_waiter_of_every_kind_delays_the_next_once,
);

impl Bed {
    async fn objects(&self) -> Vec<Object> {
        objects(&self.urls()).await
    }

    /// Starts a process that holds or waits for an object of each kind, and returns when it does.
    fn victim(&self, role: &str) -> Process {
        let vars = [(ROLE, role.to_owned()), (URLS, self.urls().join(" "))];
        let mut victim = Process::start("every_kind::processes::run_as_the_victim", &vars);
        assert_eq!(victim.hears().as_deref(), Some("ready"));
        victim
    }
}

async fn objects(urls: &[String]) -> Vec<Object> {
    let mut clients = join_all(urls.iter().map(|url| connect(url))).await;
    let (client, others) = (clients.remove(0), clients);
    let party = Party { client, others };
    let object = |kind: &AnyKind| Object::new(*kind, &stem(*kind), &party);
    KINDS.iter().map(object).collect()
}

type Waiting = JoinHandle<(Instant, Box<dyn Hold>)>;

/// Lets each object be waited for.
fn waiting(objects: &[Object]) -> Vec<(AnyKind, Waiting)> {
    let waiting = objects.iter().map(|object| {
        let (kind, object) = (object.kind, object.clone());
        let waiter = async move {
            let hold = object.get(LEASES.of(kind)).await.unwrap();
            (Instant::now(), hold)
        };
        (kind, tokio::spawn(waiter))
    });
    waiting.collect()
}

async fn served((kind, waiter): (AnyKind, Waiting)) -> (AnyKind, Instant, Box<dyn Hold>) {
    let served = timeout(GENEROUS, waiter).await;
    let (at, hold) = served
        .unwrap_or_else(|_| panic!("{kind:?} waits in vain"))
        .unwrap();
    assert!(hold.believed(), "{kind:?} is lost at once");
    (kind, at, hold)
}

async fn end(kind: AnyKind, hold: Box<dyn Hold>) {
    let outcome = hold.give_back().await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Ended, "{kind:?}");
}

// L2, L21, L30, L31, L37
async fn a_killed_holder_of_every_kind_frees_it_with_its_lease(binary: ServerBinary) {
    let bed = Bed::start(&binary, ServerOptions::new());
    let victim = bed.victim("holder");
    let objects = bed.objects().await;
    let waiters = waiting(&objects);
    sleep(LEASE * 2).await;
    for (kind, waiter) in &waiters {
        let served = waiter.is_finished();
        assert!(!served, "{kind:?} lasts while its holder lives");
    }
    drop(victim);
    let killed = Instant::now();
    for object in &objects {
        // What the dead one has counted stays, and somebody has to go on.
        object.kind.after_death(object).await;
    }
    for waiter in waiters {
        let (kind, at, hold) = served(waiter).await;
        let waited = at - killed;
        println!("{binary}, {kind:?}: {waited:?} after the kill, the lease was {LEASE:?}");
        assert!(waited < LEASE + 10 * SECOND, "{kind:?}: {waited:?}");
        end(kind, hold).await;
    }
    for object in &objects {
        // A red-lock may be held by a majority while the last server still counts the dead holder.
        object.freed().await;
    }
}

async fn a_suspended_holder_of_every_kind_learns_of_its_loss_on_resuming(binary: ServerBinary) {
    let bed = Bed::start(&binary, ServerOptions::new());
    let mut victim = bed.victim("holder");
    let objects = bed.objects().await;
    let losing = |kind: &AnyKind| kind.servers() > 1 || kind.loses();
    let objects: Vec<_> = objects.into_iter().filter(|it| losing(&it.kind)).collect();
    victim.suspend();
    let mut next = Vec::new();
    for waiter in waiting(&objects) {
        let (kind, _, hold) = served(waiter).await;
        next.push((kind, hold));
    }
    victim.resume();
    for _ in &next {
        let said = victim.hears().unwrap();
        let (kind, cause) = said.split_once(' ').unwrap();
        println!("{binary}: {kind}: {cause}");
        // A renewal may have been on its way when the holder was suspended.
        let causes = ["Expired", "Taken", "Unreachable"];
        assert!(causes.contains(&cause), "{said}");
    }
    // Late renewals touch nothing.
    sleep(LEASE).await;
    for (kind, hold) in next {
        assert!(hold.believed(), "{kind:?} is lost");
        end(kind, hold).await;
    }
}

// L24
async fn a_killed_waiter_of_every_kind_delays_the_next_once(binary: ServerBinary) {
    a_dead_waiter_delays_the_next_once(&binary, false).await;
}

async fn a_suspended_waiter_of_every_kind_delays_the_next_once(binary: ServerBinary) {
    a_dead_waiter_delays_the_next_once(&binary, true).await;
}

/// It is first in the line. The next one is served when the server has given up the first, which
/// gets a new place if it goes on.
async fn a_dead_waiter_delays_the_next_once(binary: &ServerBinary, goes_on: bool) {
    let bed = Bed::start(binary, ServerOptions::new());
    let mine = bed.objects().await;
    let mut held = Vec::new();
    for object in &mine {
        let hold = object.take(LEASES.of(object.kind)).await.unwrap();
        held.push((object.kind, hold));
    }
    let mut victim = bed.victim("waiter");
    for object in mine.iter().filter(|object| object.kind.queues()) {
        object.awaited().await;
    }
    if goes_on {
        victim.suspend();
    } else {
        drop(victim);
        victim = bed.victim("idler");
    }
    let waiters = waiting(&bed.objects().await);
    sleep(SECOND / 5).await;
    let freed = Instant::now();
    for (kind, hold) in held {
        end(kind, hold).await;
    }
    for waiter in waiters {
        let (kind, at, hold) = served(waiter).await;
        let waited = at - freed;
        println!("{binary}, {kind:?}: {waited:?} after the release, a dead waiter before it");
        assert!(waited < 5 * SECOND + 10 * SECOND, "{kind:?}: {waited:?}");
        end(kind, hold).await;
    }
    if goes_on {
        victim.resume();
        let mut all: Vec<_> = KINDS.iter().map(|kind| stem(*kind)).collect();
        while !all.is_empty() {
            let said = victim.hears().unwrap();
            all.retain(|kind| *kind != said);
        }
    }
}

/// Part of the tests above: does something only when they start it.
#[tokio::test(flavor = "multi_thread")]
async fn run_as_the_victim() {
    let (Ok(role), Ok(urls)) = (env::var(ROLE), env::var(URLS)) else {
        return;
    };
    let urls: Vec<_> = urls.split(' ').map(str::to_owned).collect();
    let objects = objects(&urls).await;
    match role.as_str() {
        "holder" => hold_all(&objects).await,
        "waiter" => {
            let waiters = waiting(&objects);
            child::say("ready");
            for waiter in waiters {
                tokio::spawn(async move {
                    let (kind, hold) = waiter;
                    let (_, hold) = hold.await.unwrap();
                    end(kind, hold).await;
                    child::say(&stem(kind));
                });
            }
        }
        _ => child::say("ready"),
    }
    std::future::pending().await
}

/// Holds an object of each kind for as long as it can, and says when it is lost.
async fn hold_all(objects: &[Object]) {
    let mut holds = Vec::new();
    for object in objects {
        holds.push((object.kind, object.take(LEASE).await.unwrap()));
    }
    child::say("ready");
    for (kind, hold) in holds {
        let told = hold.lost();
        tokio::spawn(async move {
            let cause = told.await;
            child::say(&format!("{kind:?} {cause:?}"));
        });
        tokio::spawn(async move {
            while kind.renews() || !kind.extends() || hold.prolong(LEASE).await.is_ok() {
                sleep(LEASE / 3).await;
            }
        });
    }
}

const LEASE: Duration = Duration::from_secs(2);
const LEASES: Leases = Leases::renewed(LEASE);
const ROLE: &str = "REDLATCH_TEST_VICTIM";
const URLS: &str = "REDLATCH_TEST_VICTIM_URLS";
