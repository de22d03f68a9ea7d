//! Changes that are no holds, whose replies are lost: each is made once, and copies of it that come
//! late change nothing.

use redlatch_behaviours::once::{daily, fail, succeed};
use redlatch_lua::{LATCH, LIMIT, ONCE, POOL, REENTRANT, RWLOCK, Source};
use redlatch_tests::proxy::Exchange;

use super::prelude::*;

redlatch_tests::on_every_server!(every_change_whose_reply_is_lost_is_made_once,);

/// A client behind a proxy, which loses replies.
struct Rig {
    backend: Backend,
    proxy: Proxy,
    client: Client,
    then: Then,
    lost: Mutex<Vec<Exchange>>,
}

impl Rig {
    /// Does something with `name`, and the reply of `script` is lost.
    async fn lossy<T>(
        &self,
        script: &Source,
        name: &str,
        change: impl IntoFuture<Output = Result<T, Error>>,
    ) -> T {
        let next = call(self.backend.server(), script, name);
        let lost = self.proxy.drop_reply(next, self.then);
        let done = change.await.unwrap();
        let exchange = lost.answered().await;
        exchange.copy().deliver().await.unwrap();
        self.lost.lock().unwrap().push(exchange);
        done
    }

    /// Delivers copies of all that was lost.
    async fn late(&self) {
        let lost = std::mem::take(&mut *self.lost.lock().unwrap());
        for exchange in lost {
            exchange.copy().deliver().await.unwrap();
        }
    }
}

// L1, L37
async fn every_change_whose_reply_is_lost_is_made_once(binary: ServerBinary) {
    for then in [Then::Stall, Then::Cut] {
        let backend = Backend::real(&binary);
        preload(backend.server());
        let proxy = Proxy::start(backend.server().address());
        let client = Client::connect(&proxy.url()).await.unwrap();
        let lost = Mutex::default();
        let rig = Rig {
            backend,
            proxy,
            client,
            then,
            lost,
        };
        latch(&rig).await;
        limit(&rig).await;
        semaphore(&rig).await;
        part_of_permits(&rig).await;
        downgrade(&rig).await;
        re_entry(&rig).await;
        job(&rig).await;
        assert_tables_empty(&rig.client).await;
    }
}

async fn latch(rig: &Rig) {
    let latch = rig.client.count_down_latch("latch");
    assert!(rig.lossy(&LATCH.set, "latch", latch.try_set_count(5)).await);
    let counted = rig.lossy(&LATCH.count_down, "latch", latch.count_down(2));
    assert_eq!(counted.await, 3);
    assert_eq!(latch.count().await.unwrap(), 3, "counted once");
    assert!(rig.lossy(&LATCH.delete, "latch", latch.delete()).await);
    assert_eq!(latch.info().await.unwrap(), None, "a copy sets nothing");
    assert!(latch.try_set_count(4).await.unwrap());
    rig.late().await;
    assert_eq!(latch.count().await.unwrap(), 4, "copies change nothing");
    assert!(latch.delete().await.unwrap());
}

async fn limit(rig: &Rig) {
    let limiter = rig.client.rate_limiter("limit");
    let limiter = limiter.rate(10, Duration::from_secs(86_400));
    let pass = rig.lossy(&LIMIT.acquire, "limit", limiter.try_acquire(4));
    let pass = pass.await.pass().unwrap();
    assert_eq!(limiter.peek().await.unwrap().remaining(), 6, "taken once");
    // A pass whose answer was lost gives nothing back.
    rig.lossy(&LIMIT.settle, "limit", pass.settle(1)).await;
    assert_eq!(limiter.peek().await.unwrap().remaining(), 6);
    let pass = limiter.acquire(2).await.unwrap();
    rig.lossy(&LIMIT.settle, "limit", pass.settle(5)).await;
    rig.late().await;
    let left = limiter.peek().await.unwrap().remaining();
    assert_eq!(left, 1, "copies change nothing");
}

async fn semaphore(rig: &Rig) {
    let semaphore = rig.client.semaphore("semaphore");
    let (change, x) = (&POOL.change, "semaphore");
    let set = rig.lossy(change, x, semaphore.try_set_permits(5)).await;
    assert!(set);
    for (more, expected) in [(4, 9), (-2, 7)] {
        let permits = rig.lossy(change, x, semaphore.add_permits(more)).await;
        assert_eq!(permits, expected);
    }
    let held = semaphore.acquire_many(3).await.unwrap();
    let drained = rig.lossy(change, x, semaphore.drain_permits()).await;
    assert_eq!(drained, 4);
    semaphore.set_permits(6).await.unwrap();
    rig.late().await;
    let totals = semaphore.totals().await.unwrap();
    assert_eq!((totals.permits, totals.acquired), (6, 3), "{totals:?}");
    assert!(rig.lossy(change, x, semaphore.delete()).await);
    semaphore.set_permits(2).await.unwrap();
    rig.late().await;
    let permits = semaphore.permits().await.unwrap();
    assert_eq!(permits, 2, "copies change nothing");
    drop(held);
    assert!(semaphore.delete().await.unwrap());
}

async fn part_of_permits(rig: &Rig) {
    let semaphore = rig.client.semaphore("parts").permits_if_unset(9);
    let mut guard = semaphore.acquire_many(6).await.unwrap();
    let part = guard.split(2).unwrap().release();
    let left = rig.lossy(&POOL.release, "parts", part).await;
    assert_eq!(left, Released::StillHeld(4));
    let forgotten = guard.split(1).unwrap().forget();
    rig.lossy(&POOL.release, "parts", forgotten).await;
    rig.late().await;
    let totals = semaphore.totals().await.unwrap();
    assert_eq!((totals.permits, totals.acquired), (8, 3), "{totals:?}");
    guard.release().await.unwrap();
    assert!(semaphore.delete().await.unwrap());
}

async fn downgrade(rig: &Rig) {
    let lock = rig.client.read_write_lock("sides");
    let writer = lock.write().await.unwrap();
    let token = writer.token();
    let reader = rig.lossy(&RWLOCK.downgrade, "sides", writer.downgrade());
    let reader = reader.await;
    assert_eq!(reader.token(), token);
    let info = lock.info().await.unwrap();
    assert_eq!((info.writer, info.readers), (None, 1));
    assert_eq!(reader.release().await.unwrap(), Released::Free);
    let next = lock.write().await.unwrap();
    rig.late().await;
    assert_eq!(lock.write_count(next.owner()).await.unwrap(), 1);
    next.release().await.unwrap();
}

async fn re_entry(rig: &Rig) {
    let lock = rig.client.lock("lock");
    let outer = lock.lock().await.unwrap();
    let enter = lock.lock().owner(outer.owner());
    let inner = rig.lossy(&REENTRANT.acquire, "lock", enter).await;
    assert_eq!(lock.hold_count(outer.owner()).await.unwrap(), 2);
    assert_eq!(outer.token(), inner.token());
    let left = rig.lossy(&REENTRANT.release, "lock", inner.release()).await;
    assert_eq!(left, Released::StillHeld(1));
    rig.late().await;
    assert_eq!(lock.hold_count(outer.owner()).await.unwrap(), 1);
    assert_eq!(outer.release().await.unwrap(), Released::Free);
}

/// What a job leaves is a record, and copies of a run come when a later slot is on record.
async fn job(rig: &Rig) {
    let work = async |run: &JobRun| Ok::<_, String>(run.attempt());
    let first = daily(&rig.client, 20_000).retries(1);
    let ran = rig.lossy(&ONCE.claim, "x", first.run(work)).await;
    assert_eq!(ran.ran(), Some(1));
    let next = daily(&rig.client, 20_001).retries(1);
    assert!(matches!(fail(&next).await, Once::Failed(_)));
    let again = rig.lossy(&ONCE.release, "x", next.run(work)).await;
    assert_eq!(again.ran(), Some(2));
    rig.late().await;
    assert_eq!(rig.client.once("x").holder().await.unwrap(), None);
    let reset = rig.lossy(&ONCE.reset, "x", next.reset()).await;
    assert!(reset, "it was this one");
    assert!(succeed(&next).await.ran().is_some());
    rig.late().await;
    assert!(matches!(succeed(&next).await, Once::Done(_)));
}
