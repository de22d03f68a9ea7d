//! What a lock does when nothing goes wrong, and what it refuses.

use redlatch_tests::wait::unique_name;

use crate::prelude::*;

behaviours! {
    Everywhere:
        a_free_lock_is_taken_and_freed_with_two_commands,
        closing_releases_and_refuses;
    Cluster:
        every_key_has_an_end,
        scan_finds_locks_by_pattern,
        a_forced_release_ends_one_hold_and_tells_its_holder,
        a_forced_release_tells_a_holder_by_message,
        names_with_braces_lock_independently,
        random_operations_leave_nothing_behind,
        prefixes_separate_locks;
    Single:
        every_acquisition_excludes_every_other,
        an_owner_re_enters_and_the_last_guard_frees,
        nested_calls_pick_up_the_owner_of_a_scope,
        a_token_is_stable_over_re_entry_and_rises_with_each_hold,
        a_token_rises_after_its_counter_has_expired,
        re_entry_with_a_shorter_lease_does_not_shorten,
        a_lease_belongs_to_one_acquisition,
        release_reports_the_state_of_the_hold,
        info_shows_holder_count_and_remaining_time,
        closing_waits_for_a_release_in_progress,
        foreign_type_under_the_key_is_a_typed_error,
        owner_of_another_client_is_refused;
}

async fn a_free_lock_is_taken_and_freed_with_two_commands(backend: Emptied<'_>, client: Client) {
    let lock = client.lock("orders:42");
    lock.lock().await.unwrap().release().await.unwrap();
    let before = backend.script_calls();
    let guard = lock.lock().await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_eq!(backend.script_calls() - before, 2);
}

async fn every_acquisition_excludes_every_other([a, b]: [Client; 2]) {
    let guard = a.lock("x").lock().await.unwrap();
    // In the same client and task, in another client, and another name.
    for (client, name, is_free) in [(&a, "x", false), (&b, "x", false), (&b, "y", true)] {
        let taken = client.lock(name).try_lock().await.unwrap();
        assert_eq!(taken.is_some(), is_free, "{name} of {}", client.id());
    }
    guard.release().await.unwrap();
    assert!(b.lock("x").try_lock().await.unwrap().is_some());
}

async fn an_owner_re_enters_and_the_last_guard_frees(lock: Lock) {
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().owner(outer.owner()).await.unwrap();
    let innermost = lock.try_lock().owner(outer.owner()).await.unwrap().unwrap();
    assert_eq!(outer.hold_count(), 3);
    assert_eq!(lock.hold_count(outer.owner()).await.unwrap(), 3);
    assert_eq!(innermost.release().await.unwrap(), Released::StillHeld(2));
    // The first one need not be the last to go.
    assert_eq!(outer.release().await.unwrap(), Released::StillHeld(1));
    assert!(lock.is_held_by(inner.owner()).await.unwrap());
    assert_eq!(inner.state(), HoldState::Held);
    assert_eq!(inner.release().await.unwrap(), Released::Free);
    assert!(!lock.is_locked().await.unwrap());
}

async fn nested_calls_pick_up_the_owner_of_a_scope(client: Client) {
    let lock = client.lock("x");
    let (owner, other) = (client.owner(), client.owner());
    let scope = owner.scope(async {
        let outer = lock.lock().await.unwrap();
        let inner = lock.lock().await.unwrap();
        assert_eq!((outer.owner(), inner.owner()), (&owner, &owner));
        let apart = lock.clone();
        let spawned = tokio::spawn(async move { apart.try_lock().await });
        for (why, taken) in [
            ("opted out", lock.try_lock().fresh_owner().await),
            ("given", lock.try_lock().owner(&other).await),
            ("a task inherits no scope", spawned.await.unwrap()),
        ] {
            assert!(taken.unwrap().is_none(), "{why}");
        }
    });
    scope.await;
}

// L38, L39
async fn a_token_is_stable_over_re_entry_and_rises_with_each_hold(lock: Lock) {
    let mut last = None;
    for _ in 0..20 {
        let outer = lock.lock().await.unwrap();
        let inner = lock.lock().owner(outer.owner()).await.unwrap();
        assert_eq!(outer.token(), inner.token());
        assert!(Some(outer.token()) > last);
        last = Some(outer.token());
        inner.release().await.unwrap();
        outer.release().await.unwrap();
    }
}

// L40
async fn a_token_rises_after_its_counter_has_expired(backend: &Backend, lock: Lock) {
    let guard = lock.lock().await.unwrap();
    let first = guard.token();
    guard.release().await.unwrap();
    backend.command(&["DEL", "redlatch:{x}"]);
    backend.pass(MS).await;
    assert!(lock.lock().await.unwrap().token() > first);
}

// L15
async fn re_entry_with_a_shorter_lease_does_not_shorten(backend: &Backend, lock: Lock) {
    let outer = lock.lock().lease(60_000 * MS).await.unwrap();
    let inner = lock.lock().owner(outer.owner()).lease(100 * MS);
    let inner = inner.await.unwrap();
    let left = async || lock.remaining().await.unwrap().unwrap();
    assert!(left().await > 50 * SECOND);
    // There is one deadline per hold.
    assert!(outer.remaining() > 50 * SECOND && inner.remaining() > 50 * SECOND);
    inner.release().await.unwrap();
    assert!(left().await > 50 * SECOND, "an inner release leaves it");
    // The token is kept beyond the lease.
    assert!(backend.ttl("redlatch:{x}").unwrap() > 600 * SECOND);
}

// L16
async fn a_lease_belongs_to_one_acquisition(client: Client) {
    let (x, y) = (client.lock("x"), client.lock("y"));
    let _short = x.lock().lease(10_000 * MS).await.unwrap();
    let _long = y.lock().lease(50_000 * MS).await.unwrap();
    assert!(x.remaining().await.unwrap().unwrap() <= 10_000 * MS);
    assert!(y.remaining().await.unwrap().unwrap() > 40_000 * MS);
    assert!(x.clone().try_lock().await.unwrap().is_none());
}

// L19
async fn every_key_has_an_end(backend: &Backend, client: Client) {
    let longest = Duration::from_secs(365 * 24 * 3600);
    let _short = client.lock("short").lock().lease(50 * MS).await.unwrap();
    let long = client.lock("long");
    let _long = long.lock().lease(longest).await.unwrap();
    assert_busy(backend, long.try_lock_for(300 * MS).await);
    client.settled().await;
    for key in backend.keys() {
        assert!(backend.ends(&key), "{key} has no end");
    }
    assert!(backend.ttl("redlatch:{long}").unwrap() > longest);
}

async fn release_reports_the_state_of_the_hold(backend: &Backend, lock: Lock) {
    let expired = lock.lock().lease(50 * MS).await.unwrap();
    backend.pass_lease(50 * MS).await;
    assert_eq!(expired.release().await.unwrap(), Released::Expired);

    let taken = lock.lock().lease(50 * MS).await.unwrap();
    backend.pass_lease(50 * MS).await;
    let next = lock.lock().await.unwrap();
    assert_eq!(taken.release().await.unwrap(), Released::TakenOver);
    // A late release touches nothing of a later hold.
    assert!(lock.is_held_by(next.owner()).await.unwrap());

    lock.force_release().await.unwrap();
    assert_eq!(next.release().await.unwrap(), Released::Revoked);

    let forgotten = lock.lock().await.unwrap();
    backend.command(&["DEL", "redlatch:{x}"]);
    assert_eq!(forgotten.release().await.unwrap(), Released::Forgotten);
}

async fn info_shows_holder_count_and_remaining_time(backend: &Backend, lock: Lock) {
    assert_eq!(lock.info().await.unwrap(), None);
    let guard = lock.lock().lease(50_000 * MS).await.unwrap();
    let info = lock.info().await.unwrap().unwrap();
    let owner = guard.owner().to_string();
    assert_eq!((info.name.as_str(), info.owner), ("x", owner));
    assert_eq!((info.count, info.waiters), (1, 0));
    assert_eq!(info.token, guard.token());
    assert!(info.remaining <= 50_000 * MS && info.age < 5_000 * MS);
    let waiter = backend.client().await.lock("x");
    assert_busy(backend, waiter.try_lock_for(300 * MS).await);
    assert!(!lock.is_held_by(&lock.client().owner()).await.unwrap());
}

async fn scan_finds_locks_by_pattern(client: Client) {
    let mut guards = Vec::new();
    let names = "orders:1 orders:2 users:1 {orders}:3 a{b a}b";
    for name in names.split(' ') {
        guards.push(client.lock(name).lock().await.unwrap());
    }
    drop(client.lock("orders:free").lock().await.unwrap());
    client.settled().await;
    let find = async |pattern: &str| {
        let (mut locks, mut names) = (client.locks(pattern), Vec::new());
        while let Some(holder) = locks.next().await {
            names.push(holder.unwrap().info.name);
        }
        names.sort();
        names.dedup();
        names
    };
    for (pattern, found) in [
        ("orders:*", &["orders:1", "orders:2"][..]),
        ("*orders*", &["orders:1", "orders:2", "{orders}:3"][..]),
        ("a?b", &["a{b", "a}b"][..]),
        ("nothing", &[][..]),
    ] {
        assert_eq!(find(pattern).await, found);
    }
}

async fn a_forced_release_ends_one_hold_and_tells_its_holder(backend: &Backend, client: Client) {
    let lock = client.lock("x");
    assert!(!lock.force_release().await.unwrap(), "nobody holds it");
    let guard = lock.lock().renewed_lease(3_000 * MS).await.unwrap();
    let token = guard.token();
    assert!(lock.force_release().await.unwrap());
    let next = backend.client().await.lock("x").lock().await.unwrap();
    assert!(next.token() > token && next.is_after_abandonment());
    // The same order again is harmless, and ends no later hold.
    assert!(lock.force_release().token(token).await.unwrap_or(true));
    next.extend(30_000 * MS).await.unwrap();
    // The next renewal reports it.
    assert_eq!(guard.lost().await.as_str(), "revoked");
    assert_fails(guard.check(), ErrorKind::Lost(LossCause::Revoked));
}

/// The next renewal is far away. The holder has not been checked, and has never waited.
async fn a_forced_release_tells_a_holder_by_message(backend: &Backend) {
    let holder = backend.builder().connect_lazy().unwrap();
    let operator = backend.client().await;
    let name = unique_name("told");
    for after_lease in [false, true] {
        let locking = holder.lock(&name).lock().renewed_lease(3600 * SECOND);
        let guard = locking.await.unwrap();
        let channel = format!("redlatch:w:{}", holder.id());
        let listens = async || backend.subscribers(&channel) == 1;
        wait_for("the holder to listen", listens).await;
        let end = operator.lock(&name).force_release();
        let ended = match after_lease {
            false => end.await,
            true => end.after_lease().await,
        };
        assert!(ended.unwrap());
        let told = timeout(GENEROUS, guard.lost()).await;
        assert_eq!(told.expect("a message"), LossCause::Revoked);
    }
}

// L50
async fn names_with_braces_lock_independently(_: Emptied<'_>, client: Client) {
    let long = "x".repeat(512);
    let names = [
        "a{b", "a}b", "{}", "}{", "{t}x", "{t}x:q", "{t}x:d", "{{x}}", "é🔒", "%", "%{", "a b\n",
        &long,
    ];
    let mut guards = Vec::new();
    for name in names {
        let lock = client.lock(name);
        let guard = lock.try_lock().await.unwrap();
        guards.push(guard.expect("no two names share a lock"));
        assert!(lock.try_lock().await.unwrap().is_none());
        assert_eq!(lock.info().await.unwrap().unwrap().name, name);
    }
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Released::Free);
    }
}

// L49
async fn random_operations_leave_nothing_behind(backend: Emptied<'_>, client: Client) {
    let round = async |i: usize| {
        let lock = client.lock(format!("n{i}"));
        let guard = lock.lock().await.unwrap();
        let inner = lock.lock().owner(guard.owner()).await.unwrap();
        if i.is_multiple_of(10) {
            assert_busy(&backend, lock.try_lock_for(400 * MS).await);
        }
        drop(guard);
        drop(inner);
    };
    // Those who wait do so together, or a real server would take minutes.
    join_all((0..200).map(round)).await;
}

// L20
async fn closing_releases_and_refuses(backend: Emptied<'_>, [client, other]: [Client; 2]) {
    let mut guards = Vec::new();
    for i in 0..1_000 {
        guards.push(client.lock(format!("n{i}")).lock().await.unwrap());
    }
    let _foreign = other.lock("busy").lock().await.unwrap();
    let waiters = spawned(1_000, |i| {
        let lock = client.lock(["busy", "n7"][i % 2]);
        async move { lock.lock().await.map(drop).unwrap_err().kind() }
    });
    backend.pass(20 * MS).await;
    let watch = guards[3].lost();
    client.close_now().await;
    assert_eq!(watch.await, LossCause::Closed);
    assert_eq!(finished(waiters).await, [ErrorKind::Closed; 1_000]);
    assert_fails(client.lock("new").lock().await, ErrorKind::Closed);
    for i in 0..1_000 {
        let locked = other.lock(format!("n{i}")).is_locked().await.unwrap();
        assert!(!locked, "n{i}");
    }
}

/// Every other release is dropped, so that the releaser has to finish it.
async fn closing_waits_for_a_release_in_progress(backend: &Backend, other: Client) {
    for round in 0..40 {
        let client = backend.client().await;
        let mut release = Box::pin(client.lock("x").lock().await.unwrap().release());
        let close = client.close(10 * SECOND);
        if round % 2 == 0 {
            let (released, ()) = tokio::join!(release, close);
            assert_eq!(released.unwrap(), Released::Free);
        } else {
            // The request is on the way, or a fast server has answered.
            let _ = futures_util::poll!(&mut release);
            tokio::join!(close, async move { drop(release) });
        }
        assert!(!other.lock("x").is_locked().await.unwrap());
    }
}

async fn prefixes_separate_locks(backend: &Backend, a: Client) {
    let b = backend.builder().prefix("other").connect().await.unwrap();
    let _guard = a.lock("x").lock().await.unwrap();
    assert!(b.lock("x").try_lock().await.unwrap().is_some());
}

async fn foreign_type_under_the_key_is_a_typed_error(backend: &Backend, client: Client) {
    backend.command(&["SET", "redlatch:{x}", "mine"]);
    let lock = client.lock("x");
    assert_fails(lock.lock().await, ErrorKind::WrongKind);
    assert_fails(lock.try_lock().await, ErrorKind::WrongKind);
    assert_fails(lock.info().await, ErrorKind::WrongKind);
    assert_fails(lock.force_release().await, ErrorKind::WrongKind);
    assert_tables_empty(&client).await;
    assert_eq!(backend.keys(), ["redlatch:{x}"]);
}

async fn owner_of_another_client_is_refused(backend: &Backend, [a, b]: [Client; 2]) {
    let owner = b.owner();
    let lock = a.lock("x");
    assert_fails(lock.lock().owner(&owner).await, ErrorKind::ForeignOwner);
    // Nothing was sent that left a trace.
    assert_tables_empty(&a).await;
    assert_eq!(backend.keys(), [""; 0]);
    // A scope of another client says nothing about this one.
    let guard = owner.scope(async { lock.lock().await.unwrap() }).await;
    assert_eq!(guard.owner().client(), a.id());
}
