//! Grants to a waiter of another client, which learns of them from a message.

use redlatch::runtime::ServerError;
use redlatch_embedded::calls;

use super::*;

#[tokio::test(start_paused = true)]
async fn hand_over_costs_no_request_of_the_next_holder() {
    for kind in KINDS {
        let (backend, clients, guard, waiter) = contended::<2>(kind).await;
        let before = backend.script_calls();
        let token = guard.token();
        assert_eq!(guard.release().await.unwrap(), Released::Free);
        let next = waiter.await.unwrap();
        assert_eq!(backend.script_calls() - before, 1, "only the release");
        assert!(next.token() > token || kind == Kind::Semaphore);
        assert!(!next.is_after_abandonment());
        assert!(next.remaining() <= 5 * SECOND && next.remaining() > 4 * SECOND);
        // A release before the confirmation is the only other request.
        assert_eq!(next.release().await.unwrap(), Released::Free);
        backend.pass(2 * SECOND).await;
        assert_eq!(backend.script_calls() - before, 2, "{kind:?}");
        assert_tables_empty(&clients[1]).await;
    }
}

/// An attempt that no server has executed gets another number, which the message then names.
#[tokio::test(start_paused = true)]
async fn grant_reaches_a_waiter_whose_first_request_was_refused() {
    for kind in KINDS {
        let (backend, clients, guard) = held::<2>(kind).await;
        let loading = "LOADING the server is loading its data";
        refuse_next(&backend, kind.acquire_script(), loading);
        let waiter = queued(&backend, &clients[1], kind).await;
        let before = backend.script_calls();
        guard.release().await.unwrap();
        waiter.await.unwrap().release().await.unwrap();
        assert_eq!(backend.script_calls() - before, 2, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn first_renewal_makes_a_granted_hold_whole() {
    for kind in KINDS {
        let (backend, _clients, guard, waiter) = contended::<2>(kind).await;
        guard.release().await.unwrap();
        let next = waiter.await.unwrap();
        assert!(kind.lasts(&backend) <= 5_000 && kind.is_unconfirmed(&backend));
        {
            // A time that is longer than the first lease does not end the work before the first
            // renewal.
            let mut ending = pin!(next.ending(10 * SECOND));
            assert!(poll!(&mut ending).is_pending());
            backend.pass(510 * MS).await;
            assert!(poll!(&mut ending).is_pending(), "{kind:?}");
        }
        assert!(kind.lasts(&backend) > 29_000 && !kind.is_unconfirmed(&backend));
        assert!(next.remaining() > 28 * SECOND);
        backend.pass(60 * SECOND).await;
        assert_eq!(next.state(), HoldState::Held);
        assert_eq!(next.release().await.unwrap(), Released::Free);
    }
}

/// Nobody becomes a holder by a message to the waiter's channel.
#[tokio::test(start_paused = true)]
async fn message_without_the_nonce_makes_no_holder() {
    for kind in KINDS {
        let (backend, _clients, guard, waiter) = contended::<2>(kind).await;
        let entry = first_entry(&backend);
        let (channel, n) = (&entry[1], &entry[2]);
        let now = backend.embedded_server().now();
        let ends = now.millis() + 5_000;
        let token = guard.token().map_or(0, u64::from).max(now.micros()) + 1;
        for forged in [
            format!("{KEY} {n}"),
            format!("{KEY} {n} g{:016x}.{token}.{ends}.0", 7),
            format!("{KEY} {n} g.{token}.{ends}.0"),
            format!("{KEY} {n} g{:016x}.{token}", 7),
        ] {
            backend.command(&["PUBLISH", channel, &forged]);
            backend.pass(20 * MS).await;
            assert!(!waiter.is_finished(), "{kind:?}: {forged}");
        }
        assert_eq!(guard.state(), HoldState::Held);
        guard.release().await.unwrap();
        waiter.await.unwrap().release().await.unwrap();
    }
}

/// A late message about the grant comes while the release waits for a server that refuses it.
#[tokio::test(start_paused = true)]
async fn withdrawal_of_a_hold_under_release_is_no_loss() {
    for kind in KINDS {
        let (backend, clients, guard, waiter) = contended::<3>(kind).await;
        let entry = first_entry(&backend);
        let last = queued(&backend, &clients[2], kind).await;
        guard.release().await.unwrap();
        let next = waiter.await.unwrap();
        let message = kind.message(&backend, &entry);
        let client = entry[1].rsplit(':').next().unwrap();
        for _ in 0..3 {
            let loading = ServerError::parse("LOADING the server is loading its data");
            let (client, release) = (client.to_owned(), calls::of_script(kind.release_script()));
            let own = move |command: &Command| {
                let mut args = command.args();
                release(command) && args.any(|arg| arg.starts_with(client.as_bytes()))
            };
            backend.embedded_server().fail_next(own, loading);
        }
        let releasing = tokio::spawn(next.release());
        backend.pass(2 * MS).await;
        backend.command(&["PUBLISH", &entry[1], &message]);
        // Later holds, of which the server knows only the last.
        assert_eq!(last.await.unwrap().release().await.unwrap(), Released::Free);
        let latest = kind.acquire(&clients[0]).await.unwrap();
        assert!(!releasing.is_finished(), "{kind:?}");
        let released = releasing.await.unwrap().unwrap();
        let unsure = matches!(released, Released::Free | Released::Unconfirmed);
        assert!(unsure, "{kind:?}: {released:?}");
        assert_eq!(latest.release().await.unwrap(), Released::Free);
    }
}

/// The message about a grant that has lapsed comes when another holds. In some rounds the server's
/// clock is set back before, and the waiter knows of the other.
#[tokio::test(start_paused = true)]
async fn message_about_a_lapsed_grant_makes_no_holder() {
    let set_back = [(Kind::Fair, true), (Kind::Write, true)];
    for (kind, set_back) in KINDS.map(|kind| (kind, false)).into_iter().chain(set_back) {
        let (backend, clients, guard) = held::<3>(kind).await;
        let mut slow = pin!(kind.acquire(&clients[1]));
        polled_into_the_queue(&backend, slow.as_mut()).await;
        let entry = first_entry(&backend);
        let next = queued(&backend, &clients[2], kind).await;
        backend.embedded_server().drop_messages(1);
        let start = Instant::now();
        guard.release().await.unwrap();
        let late = kind.message(&backend, &entry);
        // Nobody polls the first waiter, so its grant lapses. That costs the others 5 s.
        let next = next.await.unwrap();
        assert!(start.elapsed() >= 5 * SECOND && start.elapsed() < 5_100 * MS);
        // Nobody knows what the first one did.
        assert!(next.is_after_abandonment() || kind == Kind::Semaphore);
        if set_back {
            backend.embedded_server().set_back(4 * SECOND);
            let before = backend.script_calls();
            while backend.script_calls() == before {
                assert!(poll!(&mut slow).is_pending(), "{kind:?}");
                backend.pass(5 * MS).await;
            }
        }
        backend.command(&["PUBLISH", &entry[1], &late]);
        for _ in 0..20 {
            let waits = poll!(&mut slow).is_pending();
            assert!(waits, "{kind:?}, set back: {set_back}");
            backend.pass(5 * MS).await;
        }
        assert!(set_back || next.state() == HoldState::Held, "{kind:?}");
        assert_eq!(next.release().await.unwrap(), Released::Free);
        slow.await.unwrap().release().await.unwrap();
    }
}

/// A second copy of the message finds no waiter. It ends nothing.
#[tokio::test(start_paused = true)]
async fn copy_of_the_message_leaves_the_hold() {
    for kind in KINDS {
        let (backend, clients, guard, waiter) = contended::<3>(kind).await;
        let entry = first_entry(&backend);
        let behind = queued(&backend, &clients[2], kind).await;
        guard.release().await.unwrap();
        let copy = kind.message(&backend, &entry);
        let next = waiter.await.unwrap();
        backend.command(&["PUBLISH", &entry[1], &copy]);
        backend.pass(100 * MS).await;
        assert!(kind.is_unconfirmed(&backend), "{kind:?}");
        assert_eq!(next.state(), HoldState::Held);
        assert!(!behind.is_finished());
        assert_eq!(next.release().await.unwrap(), Released::Free);
    }
}

/// A grant whose message was lost, and whose waiter then gave up, goes to the next at once. If the
/// holder before had not finished, the next learns that.
#[tokio::test(start_paused = true)]
async fn waiter_that_leaves_before_it_hears_passes_the_grant_on() {
    for (kind, forced) in each(false, true) {
        if (kind, forced) == (Kind::Semaphore, true) {
            continue;
        }
        let (backend, clients, guard, leaves) = contended::<3>(kind).await;
        let next = queued(&backend, &clients[2], kind).await;
        // A forced end also has a message for the holder.
        let messages = 1 + usize::from(forced);
        backend.embedded_server().drop_messages(messages);
        if forced && kind == Kind::Fair {
            assert!(clients[2].fair_lock("x").force_release().await.unwrap());
        } else if forced {
            let lock = clients[2].read_write_lock("x");
            assert_eq!(lock.force_release().await.unwrap(), 1);
        }
        let released = guard.release().await.unwrap();
        assert_eq!(released == Released::Revoked, forced, "{released:?}");
        leaves.abort();
        let next = soon(kind, next).await;
        assert_eq!(next.is_after_abandonment(), forced, "{kind:?}");
        next.release().await.unwrap();
        assert_tables_empty(&clients[1]).await;
    }
}

/// The waiter asks again as it would for any lost message, and learns that it holds.
#[tokio::test(start_paused = true)]
async fn lost_message_costs_a_re_check_and_no_turn() {
    for kind in KINDS {
        let (backend, clients, guard, first) = contended::<2>(kind).await;
        let second = queued(&backend, &clients[1], kind).await;
        backend.embedded_server().drop_messages(1);
        guard.release().await.unwrap();
        let guard = within(5 * SECOND, kind, first).await.unwrap();
        assert!(guard.remaining() > 25 * SECOND, "it has asked");
        assert!(!second.is_finished());
        guard.release().await.unwrap();
        second.await.unwrap().release().await.unwrap();
    }
}

/// A grant that its waiter does not hear of lasts until the waiter asks, or is none.
#[tokio::test(start_paused = true)]
async fn lost_message_costs_no_place_whatever_the_lease() {
    for kind in KINDS {
        for lease in [1_000, 1_500, 2_500, 3_900, 4_000] {
            let (backend, clients, guard) = held::<3>(kind).await;
            let acquiring = kind.acquire_for(&clients[1], lease * MS);
            let first = queues(&backend, acquiring).await;
            let second = queued(&backend, &clients[2], kind).await;
            backend.embedded_server().drop_messages(1);
            guard.release().await.unwrap();
            let guard = match select(first, second).await {
                Either::Left((guard, _)) => guard.unwrap(),
                Either::Right(_) => panic!("{kind:?} {lease}: a later waiter was served"),
            };
            guard.release().await.unwrap();
        }
    }
}

/// The server stops right after it has granted, or no longer answers. The holder knows of the loss
/// before the grant lapses.
#[tokio::test(start_paused = true)]
async fn silent_server_ends_a_granted_hold_before_it_lapses() {
    for (kind, stops) in each(false, true) {
        let (backend, _clients, guard, waiter) = contended::<2>(kind).await;
        let server = backend.embedded_server();
        guard.release().await.unwrap();
        let next = waiter.await.unwrap();
        let ends = kind.ends(&backend);
        if stops {
            server.stop();
        } else {
            server.drop_replies(100, LostReply::Hangs);
        }
        assert_eq!(next.lost().await, LossCause::Unreachable);
        if stops {
            let now = server.now().millis();
            assert!(now < ends && now + 400 > ends, "{kind:?}: {now} {ends}");
        }
        assert!(matches!(next.state(), HoldState::Lost(_)));
        server.clear_trouble();
        server.resume();
    }
}

/// The registration's reply is lost, and its copy comes when the hold that a release granted is
/// over.
#[tokio::test(start_paused = true)]
async fn lost_reply_to_the_registration_leaves_one_hold_and_no_entry() {
    for kind in KINDS {
        let (backend, clients, guard) = held::<3>(kind).await;
        lose_reply(&backend, kind.acquire_script(), LostReply::Cuts);
        let waiter = queued(&backend, &clients[1], kind).await;
        guard.release().await.unwrap();
        let next = waiter.await.unwrap();
        assert_eq!(next.release().await.unwrap(), Released::Free);
        clients[1].settled().await;
        assert_eq!(backend.members(QUEUE), 0);
        within(50 * MS, kind, kind.acquire(&clients[2]))
            .await
            .unwrap();
    }
}

/// The future is polled again after the grant has lapsed. It waits for its turn once more.
#[tokio::test(start_paused = true)]
async fn waiter_that_is_polled_too_late_asks() {
    for kind in KINDS {
        let (backend, clients, guard) = held::<2>(kind).await;
        let mut waiting = pin!(kind.acquire(&clients[1]));
        polled_into_the_queue(&backend, waiting.as_mut()).await;
        guard.release().await.unwrap();
        backend.pass(6 * SECOND).await;
        assert!(poll!(&mut waiting).is_pending(), "the grant has lapsed");
        let next = waiting.await.unwrap();
        let lasts = kind.lasts(&backend);
        assert!(lasts > 29_000, "it asked for its whole lease: {lasts}");
        assert!(next.is_after_abandonment() || kind == Kind::Semaphore);
        next.release().await.unwrap();
    }
}

/// Places are lost, and no hold: the first waiter that is granted without a place tells the others
/// of its client, which would else look one by one, each when it became the first.
#[tokio::test(start_paused = true)]
async fn grant_without_a_place_makes_the_others_of_the_client_queue_again() {
    for kind in [Kind::Fair, Kind::Semaphore] {
        let (backend, clients, guard) = held::<2>(kind).await;
        let mut waiters = Vec::new();
        for _ in 0..10 {
            let waiter = queued(&backend, &clients[1], kind).await;
            waiters.push(tokio::spawn(async move {
                waiter.await.unwrap().release().await.unwrap()
            }));
        }
        backend.command(&["DEL", QUEUE, &format!("{KEY}:l")]);
        let served = async {
            guard.release().await.unwrap();
            finished(waiters).await
        };
        let served = within(2_450 * MS, kind, served).await;
        assert_eq!(served, [Released::Free; 10], "{kind:?}");
    }
}
