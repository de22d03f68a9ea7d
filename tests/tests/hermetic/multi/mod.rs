//! Locks over several: of one server or more, and over a quorum of servers.

mod cancel;
mod red_lock;

use redlatch::{Acquire, MultiGuard};
use redlatch_lua::REENTRANT;
use redlatch_tests::slow::far_client;

use crate::{prelude::*, trouble::lose_notes};

/// The server answers no write of a note. Each write ends after a second.
#[tokio::test(start_paused = true)]
async fn notes_of_several_holds_are_written_at_the_same_time() {
    let (backend, [client]) = preloaded().await;
    let locks: Vec<_> = (0..5).map(|n| client.lock(format!("{{a}}{n}"))).collect();
    let members: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    let all = client.multi_lock(&members);
    lose_notes(&backend);
    let held = all.try_lock_for(SECOND).note("inventory");
    let held = within(3 * SECOND, "the notes", held).await.unwrap();
    assert!(held.is_some());
}

/// Four others hold the second member in turn. The wait for it is longer than the lease.
#[tokio::test(start_paused = true)]
async fn fixed_lease_is_kept_during_a_longer_wait() {
    let (backend, [client, other]) = preloaded().await;
    let others = spawned(4, |_| {
        let busy = other.fair_lock("b");
        async move {
            for _ in 0..100 {
                let held = busy.lock().await.unwrap();
                sleep(400 * MS).await;
                held.release().await.unwrap();
            }
        }
    });
    backend.pass(SECOND).await;
    let both = client.multi_lock(&[&client.fair_lock("a"), &client.fair_lock("b")]);
    let start = Instant::now();
    let guard = both.try_lock_for(30 * SECOND).lease(SECOND).await.unwrap();
    let guard = guard.expect("its turn comes");
    assert!(start.elapsed() > SECOND, "{:?}", start.elapsed());
    assert!(guard.remaining() > 900 * MS, "{:?}", guard.remaining());
    guard.release().await.unwrap();
    others.iter().for_each(JoinHandle::abort);
}

/// Also if the lease of its client is much shorter than that of the first member.
#[tokio::test(start_paused = true)]
async fn member_outlasts_its_longest_time_during_the_wait_for_another() {
    for other_lease in [false, true] {
        let (backend, [client, other]) = preloaded().await;
        let builder = backend.builder().default_lease(SECOND);
        let brief = builder.connect().await.unwrap();
        let busy = other.lock("c").lock().await.unwrap();
        let (a, c) = (client.lock("a"), client.lock("c"));
        let b = if other_lease { &brief } else { &client }.lock("b");
        let acquire = match other_lease {
            true => client.multi_lock(&[&a, &b, &c]).lock(),
            false => client.multi_lock(&[&b, &c]).lock().renewed_lease(SECOND),
        };
        let waiting = tokio::spawn(acquire.max_hold(SECOND).into_future());
        backend.pass(100 * MS).await;
        let first = b.info().await.unwrap().unwrap().token;
        backend.pass(10 * SECOND).await;
        busy.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert_eq!(guard.token("b"), Some(first), "lost, {other_lease}");
        guard.check().unwrap();
        guard.release().await.unwrap();
    }
}

/// Checks that an acquisition gives up after twice the patience of its client.
async fn fails_after_twice_the_patience(acquire: Acquire<MultiGuard>) {
    let start = Instant::now();
    let ended = timeout(60 * SECOND, acquire.into_future());
    let ended = ended.await.expect("it ends by itself");
    assert_fails(ended, ErrorKind::Unavailable);
    let took = start.elapsed();
    assert!(took >= 20 * SECOND && took < 25 * SECOND, "{took:?}");
}

/// Two members of two kinds cost two round trips, and the first one ends before the second answer.
#[tokio::test(start_paused = true)]
async fn leases_that_end_before_the_answers_fail_after_twice_the_patience() {
    let backend = Backend::embedded();
    backend.preload();
    let client = far_client(&backend, 60 * MS).await;
    let both = client.multi_lock(&[&client.lock("a"), &client.fair_lock("b")]);
    fails_after_twice_the_patience(both.lock().lease(200 * MS)).await;
    assert_tables_empty(&client).await;
}

/// The server refuses all renewals, and another owner holds the second member for ever.
#[tokio::test(start_paused = true)]
async fn leases_that_are_never_renewed_fail_after_twice_the_patience() {
    let (backend, [client, other]) = preloaded().await;
    let _busy = other.lock("b").lock().lease(100 * SECOND).await.unwrap();
    let both = client.multi_lock(&[&client.lock("a"), &client.lock("b")]);
    for _ in 0..2_000 {
        refuse_next(&backend, REENTRANT.renew.text, "NOPERM no rights");
    }
    fails_after_twice_the_patience(both.lock().renewed_lease(SECOND)).await;
}

/// One process names a server, and the other one the cluster to which it belongs.
#[tokio::test]
async fn order_of_members_does_not_depend_on_the_form_of_the_address() {
    let order = |url: &str| -> Vec<String> {
        let client = Client::builder(url).connect_lazy().unwrap();
        let names = (0..10).flat_map(|n| [format!("n{n}"), format!("{n}{{t{}}}", n % 2)]);
        let locks: Vec<_> = names.map(|name| client.lock(name)).collect();
        let members: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
        let shown = format!("{:?}", client.multi_lock(&members));
        let names = shown.split("name: \"").skip(1);
        let names = names.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
        names.collect()
    };
    let [one, other] = ["redis://a:7000", "redis+cluster://a:7000"].map(order);
    assert_eq!(one.len(), 20);
    assert_eq!(one, other);
    // One script can take those that share a tag.
    let tag = |name: &String| name.split_once('{').map(|(_, tag)| tag.to_owned());
    let mut tags: Vec<_> = one.iter().map(tag).collect();
    tags.dedup();
    let tagged = tags.iter().flatten();
    assert_eq!(tagged.collect::<Vec<_>>(), ["t0}", "t1}"]);
}
