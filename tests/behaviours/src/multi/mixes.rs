//! Several locks of different kinds held as one.

use tokio::sync::Mutex;

use super::Fleet;
use crate::prelude::*;

fleet_behaviours! { 2;
    every_kind_is_held_and_released_as_one,
    an_owner_re_enters_every_kind,
    both_sides_of_one_name_count_as_the_write_side,
    one_name_as_two_kinds_is_refused_before_anything_is_sent,
    readers_share_their_side_and_writers_do_not,
    reader_that_asks_to_write_takes_no_member,
    loss_of_a_member_of_any_kind_is_loss_of_all,
    mixed_members_in_opposite_orders_do_not_deadlock,
}

/// One member of each kind, over two servers.
pub fn mix(clients: &[Client]) -> MultiLock {
    let rows = clients[0].striped_lock("rows", 4).unwrap();
    clients[0].multi_lock(&[
        &clients[1].read_write_lock("w").write_side(),
        &clients[0].read_write_lock("r").read_side(),
        &clients[1].fair_lock("f"),
        &rows.of("row:1"),
        &clients[0].lock("p"),
    ])
}

/// Checks that nobody holds or waits anywhere, whatever the kind.
pub async fn assert_quiet(fleet: &Fleet, clients: &[Client]) {
    fleet.pass(10 * MS).await;
    fleet.assert_nothing_left(clients).await;
    for key in fleet.0.iter().flat_map(Backend::keys) {
        assert!(!key.ends_with("}:q") && !key.ends_with("}:r"), "{key}");
    }
}

async fn every_kind_is_held_and_released_as_one([clients, others]: [Vec<Client>; 2]) {
    let guard = mix(&clients).lock().await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    let kinds: Vec<_> = guard.members().iter().map(|held| held.kind()).collect();
    let expected = ["fair_lock", "lock", "lock", "read_lock", "write_lock"];
    assert_eq!(kinds, expected);
    assert!(mix(&others).try_lock().await.unwrap().is_none());
    assert!(others[0].lock("p").try_lock().await.unwrap().is_none());
    assert!(others[1].fair_lock("f").try_lock().await.unwrap().is_none());
    let reads = others[0].read_write_lock("r");
    assert!(reads.try_write().await.unwrap().is_none());
    let writes = others[1].read_write_lock("w");
    assert!(writes.try_read().await.unwrap().is_none());
    let beside = reads.try_read().await.unwrap().unwrap();
    assert_eq!(guard.token("r"), Some(beside.token()));
    beside.release().await.unwrap();
    guard.extend(60 * SECOND).await.unwrap();
    assert!(guard.remaining() > 50 * SECOND);
    let ended = guard.release().await.unwrap();
    assert_eq!(ended.len(), 5);
    for (name, released) in ended {
        assert_eq!(released, Released::Free, "{name}");
    }
}

async fn an_owner_re_enters_every_kind(clients: Vec<Client>) {
    let first = |owner: &redlatch::Owner| {
        let all = clients[0].multi_lock(&[
            &clients[0].lock("p"),
            &clients[0].fair_lock("f"),
            &clients[0].read_write_lock("r").read_side(),
            &clients[0].read_write_lock("w").write_side(),
        ]);
        all.try_lock().owner(owner)
    };
    let owner = clients[0].owner();
    let outer = first(&owner).await.unwrap().unwrap();
    let inner = first(&owner).await.unwrap().unwrap();
    for (outer, inner) in outer.members().iter().zip(inner.members()) {
        assert_eq!(outer.token(), inner.token(), "{}", outer.kind());
        assert_eq!(outer.hold_count(), 2, "{}", outer.kind());
    }
    // A member held alone before is re-entered as well.
    let read = clients[0].read_write_lock("w").read().owner(&owner);
    let read = read.await.unwrap();
    for (_, released) in outer.release().await.unwrap() {
        assert_eq!(released, Released::StillHeld(1));
    }
    assert!(inner.check().is_ok());
    assert!(first(&clients[0].owner()).await.unwrap().is_none());
    inner.release().await.unwrap();
    read.release().await.unwrap();
}

async fn both_sides_of_one_name_count_as_the_write_side(clients: Vec<Client>) {
    let lock = clients[0].read_write_lock("x");
    let other = clients[1].read_write_lock("x");
    let both = clients[0].multi_lock(&[
        &lock.read_side(),
        &lock.write_side(),
        &lock.read_side(),
        &other.read_side(),
        &other.read_side(),
    ]);
    assert_eq!(both.len(), 2);
    let guard = both.try_lock().await.unwrap().unwrap();
    let kinds: Vec<_> = guard.members().iter().map(|held| held.kind()).collect();
    assert!(kinds.contains(&"write_lock") && kinds.contains(&"read_lock"));
    assert!(lock.info().await.unwrap().writer.is_some());
    assert_eq!(other.info().await.unwrap().readers, 1);
    guard.release().await.unwrap();
}

async fn one_name_as_two_kinds_is_refused_before_anything_is_sent(fleet: &Fleet) {
    let clients = fleet.clients().await;
    let (plain, fair) = (clients[0].lock("x"), clients[0].fair_lock("x"));
    let read = clients[0].read_write_lock("x").read_side();
    let before = fleet.0[0].script_calls();
    let mixes: [&[&dyn Lockable]; 3] = [&[&plain, &fair], &[&read, &plain], &[&fair, &read]];
    for members in mixes {
        let ended = clients[0].multi_lock(members).lock().await;
        assert_fails(ended, ErrorKind::WrongKind);
    }
    assert_eq!(fleet.0[0].script_calls(), before);
    // On another server it is another name.
    let both = clients[0].multi_lock(&[&plain, &clients[1].fair_lock("x")]);
    let guard = both.try_lock().await.unwrap().unwrap();
    guard.release().await.unwrap();
}

async fn readers_share_their_side_and_writers_do_not(fleet: &Fleet, [a, b]: [Vec<Client>; 2]) {
    let reading = |clients: &[Client], plain: &str| {
        let read = clients[1].read_write_lock("x").read_side();
        clients[0].multi_lock(&[&clients[0].lock(plain), &read])
    };
    let first = reading(&a, "a").try_lock().await.unwrap().unwrap();
    let second = reading(&b, "b").try_lock().await.unwrap().unwrap();
    let writing = b[0].multi_lock(&[&b[0].lock("c"), &b[1].read_write_lock("x").write_side()]);
    assert!(writing.try_lock().await.unwrap().is_none());
    assert_busy(&fleet.0[0], writing.try_lock_for(100 * MS).await);
    let waiting = tokio::spawn(writing.lock().into_future());
    fleet.pass(50 * MS).await;
    first.release().await.unwrap();
    second.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn reader_that_asks_to_write_takes_no_member(clients: Vec<Client>) {
    let lock = clients[0].read_write_lock("x");
    let owner = clients[0].owner();
    let reads = lock.read().owner(&owner).await.unwrap();
    let all = clients[0].multi_lock(&[&clients[0].lock("a"), &lock.write_side()]);
    assert_fails(all.lock().owner(&owner).await, ErrorKind::WouldDeadlock);
    clients[0].settled().await;
    assert!(!clients[0].lock("a").is_locked().await.unwrap());
    assert!(reads.check().is_ok());
    reads.release().await.unwrap();
}

async fn loss_of_a_member_of_any_kind_is_loss_of_all(fleet: &Fleet, clients: Vec<Client>) {
    for lost in ["f", "r", "w"] {
        let guard = mix(&clients).lock().renewed_lease(SECOND).await.unwrap();
        let work = guard.run(std::future::pending::<()>());
        let force = async {
            fleet.pass(10 * MS).await;
            let forced = match lost {
                "f" => clients[1].fair_lock("f").force_release().await.unwrap(),
                name => {
                    let lock = clients[usize::from(name == "w")].read_write_lock(name);
                    lock.force_release().await.unwrap() == 1
                }
            };
            assert!(forced, "{lost}");
        };
        let (worked, ()) = tokio::join!(work, force);
        let kind = worked.unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Lost(LossCause::Revoked), "{lost}");
        assert_eq!(guard.lost().await, LossCause::Revoked);
        for (name, released) in guard.release().await.unwrap() {
            let expected = [Released::Free, Released::Revoked][usize::from(name == lost)];
            assert_eq!(released, expected, "{name} after the loss of {lost}");
        }
        assert_quiet(fleet, &clients).await;
    }
}

async fn mixed_members_in_opposite_orders_do_not_deadlock(fleet: &Fleet) {
    let inside = Arc::new(Mutex::new(0));
    let mut tasks = Vec::new();
    for task in 0..6 {
        let (clients, inside) = (fleet.clients().await, Arc::clone(&inside));
        tasks.push(tokio::spawn(async move {
            let (plain, fair) = (clients[0].lock("x"), clients[1].fair_lock("y"));
            let both = clients[0].read_write_lock("z");
            let (read, write) = (both.read_side(), both.write_side());
            let members: [&dyn Lockable; 3] = match task % 3 {
                0 => [&plain, &fair, &write],
                1 => [&read, &fair, &plain],
                _ => [&fair, &write, &plain],
            };
            let all = clients[0].multi_lock(&members);
            for _ in 0..4 {
                let guard = all.lock().await.unwrap();
                *inside.try_lock().expect("nobody else is inside") += 1;
                guard.release().await.unwrap();
            }
            clients
        }));
    }
    for clients in finished(tasks).await {
        assert_quiet(fleet, &clients).await;
    }
    assert_eq!(*inside.lock().await, 24);
}
