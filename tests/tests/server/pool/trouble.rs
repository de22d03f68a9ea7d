//! Replies that are lost after the server did what it was asked, black holes and resets: everything
//! counts exactly once.

use std::time::{Duration, Instant};

use redlatch::{
    Client, PermitExpirableSemaphore, Released, Semaphore, Tables, permits::PermitRelease,
};
use redlatch_lua::{POOL, Source};
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, SECOND, call, preload},
    proxy::{Answered, Exchange, Proxy, Then},
    server::ServerBinary,
    wait::{GENEROUS, eventually},
};

redlatch_tests::on_every_server!(
    permits_whose_replies_are_lost_count_once,
    changes_whose_replies_are_lost_are_made_once,
    ids_whose_replies_are_lost_count_once,
    black_hole_and_reset_leave_no_permit_held,
);

/// A client behind a proxy of its own, and a server that has all scripts.
struct Rig {
    backend: Backend,
    proxy: Proxy,
    client: Client,
    name: String,
}

impl Rig {
    async fn new(binary: &ServerBinary, then: Then) -> Self {
        let backend = Backend::real(binary);
        preload(backend.server());
        let proxy = Proxy::start(backend.server().address());
        let client = Client::connect(&proxy.url()).await.unwrap();
        let name = format!("{then:?}");
        Self {
            backend,
            proxy,
            client,
            name,
        }
    }

    fn semaphore(&self) -> Semaphore {
        self.client.semaphore(&self.name).permits_if_unset(9)
    }

    fn ids(&self) -> PermitExpirableSemaphore {
        let permits = self.client.permit_expirable_semaphore(&self.name);
        permits.permits_if_unset(9)
    }

    /// Loses the reply of the next call of `script`.
    fn lose(&self, script: &Source, then: Then) -> Answered {
        let next = call(self.backend.server(), script, &self.name);
        self.proxy.drop_reply(next, then)
    }

    async fn assert_tables_empty(&self) {
        eventually("the client's tables to be empty", GENEROUS, async || {
            self.client.tables() == Tables::default()
        })
        .await;
    }
}

/// Returns what was answered and got lost, and what the server says when the same request comes
/// once more.
async fn and_once_more(lost: Answered) -> [String; 2] {
    let first: Exchange = lost.answered().await;
    let text = |reply: &[u8]| String::from_utf8_lossy(reply).into_owned();
    let copy = first.copy().deliver().await.unwrap();
    [text(first.reply()), text(&copy)]
}

/// Tells whether a copy was answered so, or came too late to be heard.
fn says(copy: &str, verdict: &str) -> bool {
    copy.contains(verdict) || copy.contains("late")
}

// L1
async fn permits_whose_replies_are_lost_count_once(binary: ServerBinary) {
    for then in [Then::Stall, Then::Cut] {
        let rig = Rig::new(&binary, then).await;
        let semaphore = rig.semaphore();
        let lost = rig.lose(&POOL.acquire, then);
        let mut guard = semaphore.acquire_many(6).await.unwrap();
        let [first, copy] = and_once_more(lost).await;
        assert!(first.contains("granted"), "it ran: {first}");
        assert!(says(&copy, "granted"), "and is remembered: {copy}");
        assert_eq!(semaphore.totals().await.unwrap().acquired, 6);

        let lost = rig.lose(&POOL.release, then);
        let part = guard.split(2).unwrap().release().await.unwrap();
        assert_eq!(part, Released::StillHeld(4));
        let [first, copy] = and_once_more(lost).await;
        assert!(first.contains("released") && copy.contains("already"));

        let lost = rig.lose(&POOL.release, then);
        guard.split(1).unwrap().forget().await.unwrap();
        and_once_more(lost).await;
        let totals = semaphore.totals().await.unwrap();
        assert_eq!((totals.permits, totals.acquired), (8, 3), "{totals:?}");

        let lost = rig.lose(&POOL.renew, then);
        guard.extend(60 * SECOND).await.unwrap();
        assert!(and_once_more(lost).await[0].contains("renewed"));

        let lost = rig.lose(&POOL.release, then);
        // Its reply got lost, and nothing is left that could tell.
        assert_eq!(guard.release().await.unwrap(), Released::Unconfirmed);
        let [first, copy] = and_once_more(lost).await;
        assert!(first.contains("released") && copy.contains("gone"));
        let totals = semaphore.totals().await.unwrap();
        assert_eq!((totals.permits, totals.available), (8, 8), "{totals:?}");
        rig.assert_tables_empty().await;
    }
}

// L37
async fn changes_whose_replies_are_lost_are_made_once(binary: ServerBinary) {
    for then in [Then::Stall, Then::Cut] {
        let rig = Rig::new(&binary, then).await;
        let semaphore = rig.semaphore();
        let lose = || rig.lose(&POOL.change, then);
        let done = async |lost| {
            let [first, copy] = and_once_more(lost).await;
            assert!(first.contains("done") && says(&copy, "done"), "{copy}");
        };
        let lost = lose();
        assert!(semaphore.try_set_permits(5).await.unwrap(), "this set it");
        done(lost).await;
        let lost = lose();
        assert_eq!(semaphore.add_permits(4).await.unwrap(), 9);
        done(lost).await;
        let lost = lose();
        assert_eq!(semaphore.add_permits(-2).await.unwrap(), 7);
        done(lost).await;
        let guard = semaphore.acquire_many(3).await.unwrap();
        let lost = lose();
        assert_eq!(semaphore.drain_permits().await.unwrap(), 4);
        semaphore.set_permits(6).await.unwrap();
        done(lost).await;
        let totals = semaphore.totals().await.unwrap();
        assert_eq!((totals.permits, totals.acquired), (6, 3), "{totals:?}");
        let lost = lose();
        assert!(semaphore.delete().await.unwrap(), "this deleted it");
        semaphore.set_permits(2).await.unwrap();
        and_once_more(lost).await;
        assert_eq!(semaphore.permits().await.unwrap(), 2, "of copies none");
        drop(guard);
        rig.assert_tables_empty().await;
    }
}

// L33
async fn ids_whose_replies_are_lost_count_once(binary: ServerBinary) {
    for then in [Then::Stall, Then::Cut] {
        let rig = Rig::new(&binary, then).await;
        let permits = rig.ids();
        let lost = rig.lose(&POOL.acquire, then);
        let ids = permits.acquire_many(4).await.unwrap();
        assert_eq!(permits.totals().await.unwrap().acquired, 4);
        // Given back elsewhere; the copy comes after that.
        let elsewhere = rig.backend.client().await;
        let elsewhere = elsewhere.permit_expirable_semaphore(&rig.name);
        let ids: Vec<_> = ids
            .iter()
            .map(|id| id.to_string().parse().unwrap())
            .collect();
        let released = elsewhere.release_all(&ids).await.unwrap();
        assert_eq!(released, [PermitRelease::Released; 4]);
        let [first, copy] = and_once_more(lost).await;
        assert!(first.contains("granted"), "it ran: {first}");
        assert!(says(&copy, "void"), "and never again: {copy}");
        assert_eq!(permits.totals().await.unwrap().acquired, 0);

        let ids = permits.acquire_many(2).await.unwrap();
        let lost = rig.lose(&POOL.release, then);
        let released = permits.release(&ids[0]).await.unwrap();
        assert_eq!(released, PermitRelease::Unconfirmed);
        and_once_more(lost).await;
        assert_eq!(permits.totals().await.unwrap().acquired, 1);
        let lost = rig.lose(&POOL.renew, then);
        permits.extend(&ids[1], 60 * SECOND).await.unwrap();
        and_once_more(lost).await;
        assert_eq!(
            permits.release(&ids[1]).await.unwrap(),
            PermitRelease::Released
        );
        assert_eq!(permits.available_permits().await.unwrap(), 9);
        rig.assert_tables_empty().await;
    }
}

// L2, L3
async fn black_hole_and_reset_leave_no_permit_held(binary: ServerBinary) {
    let rig = Rig::new(&binary, Then::Cut).await;
    let (semaphore, permits) = (rig.semaphore(), rig.client.permit_expirable_semaphore("y"));
    let permits = permits.permits_if_unset(9);
    let kept = semaphore.acquire_many(2).await.unwrap();
    let id = permits
        .acquire()
        .lease(Duration::from_secs(600))
        .await
        .unwrap();
    rig.proxy.black_hole();
    let before = Instant::now();
    let taking = semaphore.try_acquire_many_for(3, 400 * MS);
    assert!(taking.await.unwrap_err().is_transient());
    let taking = permits.try_acquire_many_for(3, 400 * MS);
    assert!(taking.await.unwrap_err().is_transient());
    assert!(before.elapsed() < 10 * SECOND, "{:?}", before.elapsed());
    // What is said into a black hole is said again.
    let adding = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.add_permits(1).await }
    });
    let giving_back = tokio::spawn({
        let permits = permits.clone();
        async move { permits.release(&id).await }
    });
    eventually("both to be said", GENEROUS, async || {
        rig.proxy.vanished() >= 4
    })
    .await;
    rig.proxy.pass();
    assert_eq!(adding.await.unwrap().unwrap(), 10);
    // It may have been sent more than once, and was heard once.
    let released = giving_back.await.unwrap().unwrap();
    assert!(
        matches!(
            released,
            PermitRelease::Released | PermitRelease::Unconfirmed
        ),
        "{released}"
    );
    kept.check().unwrap();

    // A reset costs who waits nothing.
    let waiter = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_many(9).await.unwrap() }
    });
    let other = rig.backend.client().await.semaphore(&rig.name);
    eventually("a waiter to queue", GENEROUS, async || {
        other.totals().await.unwrap().waiters == 1
    })
    .await;
    rig.proxy.cut();
    assert!(kept.release().await.unwrap().is_clean());
    let granted = waiter.await.unwrap();
    assert_eq!(other.totals().await.unwrap().acquired, 9);
    rig.proxy.cut();
    drop(granted);
    rig.assert_tables_empty().await;
    let totals = other.totals().await.unwrap();
    assert_eq!((totals.permits, totals.available), (10, 10), "{totals:?}");
    assert_eq!(permits.available_permits().await.unwrap(), 9);
}
