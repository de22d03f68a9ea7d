//! Locks over several may be dropped at every await: poll k times, drop, look what is left (L2,
//! L41).

use redlatch_behaviours::multi::{
    Fleet,
    mixes::{assert_quiet, mix},
    red_lock::red,
};

use crate::prelude::*;

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_multi_lock_leaves_nothing() {
    let polls = after_each_poll(async |polls| {
        let fleet = Fleet::embedded(2);
        let clients = fleet.clients().await;
        let (a, b) = (clients[0].lock("a"), clients[1].lock("b"));
        let all = clients[0].multi_lock(&[&a, &b, &clients[0].lock("c")]);
        let pair = task(async move {
            let guard = all.lock().lease(300 * MS).await.unwrap();
            guard.release().await.unwrap();
        });
        let done = polled(&fleet.0[0], pair, polls).await.is_some();
        fleet.pass(10 * MS).await;
        fleet.assert_nothing_left(&clients).await;
        done
    });
    assert!(polls.await > 3);
}

/// Members of every kind. Either they are free, or each is held by another for a while, so that it
/// is waited for, and others behind it are free or not. After each drop others get everything.
#[tokio::test(start_paused = true)]
async fn cancelled_mixed_lock_leaves_nothing() {
    for (busy, least) in [(false, 5), (true, 50)] {
        let polls = after_each_poll(async |polls| {
            let fleet = Fleet::embedded(2);
            let clients = fleet.clients().await;
            let mut holder = None;
            if busy {
                let guard = mix(&fleet.clients().await).lock().await.unwrap();
                holder = Some(tokio::spawn(async move {
                    for (at, member) in guard.into_members().into_iter().enumerate() {
                        sleep(5 * MS * (at as u32 + 1)).await;
                        member.release().await.unwrap();
                    }
                }));
            }
            let waiting = mix(&clients).lock().into_future();
            let got = polled(&fleet.0[0], waiting, polls).await;
            let done = got.map(Result::unwrap).is_some();
            finished(holder).await;
            for client in &clients {
                client.settled().await;
            }
            let others = fleet.clients().await;
            let again = mix(&others).try_lock().await.unwrap();
            let again = again.unwrap_or_else(|| panic!("{busy}: held after {polls} polls"));
            again.release().await.unwrap();
            assert_quiet(&fleet, &clients).await;
            assert_quiet(&fleet, &others).await;
            done
        });
        let polls = polls.await;
        assert!(polls > least, "{busy}: {polls}");
    }
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_red_lock_leaves_nothing() {
    after_each_poll(async |polls| {
        let fleet = Fleet::embedded(3);
        let clients = fleet.clients().await;
        let lock = red(&clients);
        let pair = task(async move { lock.lock().await.unwrap().release().await.unwrap() });
        let done = polled(&fleet.0[0], pair, polls).await.is_some();
        fleet.pass(10 * MS).await;
        fleet.assert_nothing_left(&clients).await;
        done
    })
    .await;
}
