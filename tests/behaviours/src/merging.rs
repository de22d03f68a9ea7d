//! Calls of tasks that are ready together, which go to the server as one call.

use std::task::Poll;

use futures_util::future::join;

use crate::{
    prelude::*,
    releases::{Guard, Way, guarded},
};

behaviours! {
    Cluster:
        dropped_guards_free_their_names_for_the_next_tries_of_their_client,
        common_calls_survive_flushed_scripts,
        name_of_another_type_fails_alone,
        cancelled_call_leaves_nothing_and_the_others_go_on;
}

/// Names in one slot, so that their calls merge in a cluster too.
fn names(tag: &str) -> Vec<String> {
    (0..NAMES).map(|n| format!("{{{tag}}}{n}")).collect()
}

/// Checks that fewer scripts ran than calls were made since there were `before`. A server that
/// others use as well runs their scripts, too.
fn assert_merged(backend: &Backend, before: u64, calls: u64) {
    assert_fewer(backend, backend.script_calls() - before, calls);
}

fn assert_fewer(backend: &Backend, ran: u64, calls: u64) {
    if matches!(backend, Backend::Shared(_)) {
        return;
    }
    println!("{ran} scripts for {calls} calls");
    // With several threads, how many share a request depends on when the task that sends is polled.
    let most = calls - u64::from(backend.is_embedded()) * calls / 4;
    assert!(ran < most, "{ran} scripts for {calls} calls");
}

/// Whoever lets go of many names and asks for them again at once has let go by then, whether it
/// asks for all at once or for one after another.
async fn dropped_guards_free_their_names_for_the_next_tries_of_their_client(backend: &Backend) {
    let client = backend.client().await;
    for way in guarded().filter(|way| way.kind != "multi") {
        let rounds = if way.kind == "lock" { 1_000 } else { 100 };
        let before = backend.script_calls();
        let_go_of_all_and_try(&way, &client, rounds).await;
        assert_merged(backend, before, 2 * (NAMES * rounds) as u64);
    }
    assert_tables_empty(&client).await;
}

async fn let_go_of_all_and_try(way: &Way, client: &Client, rounds: usize) {
    let names = names(way.kind);
    let mut held = try_all(way, client, &names).await;
    for round in 0..rounds {
        for (at, guard) in held.iter().enumerate() {
            assert!(guard.is_some(), "{}: {at} busy in round {round}", way.kind);
        }
        held.clear();
        if round % 4 == 0 {
            for name in &names {
                held.push((way.try_lock)(client, name).await.unwrap());
            }
        } else {
            held = try_all(way, client, &names).await;
        }
    }
}

async fn try_all(way: &Way, client: &Client, names: &[String]) -> Vec<Option<Guard>> {
    let tries = names.iter().map(|name| (way.try_lock)(client, name));
    try_join_all(tries).await.unwrap()
}

/// A server that forgets its scripts in the middle of a load gets them again, and no call fails.
async fn common_calls_survive_flushed_scripts(backend: &Backend, client: Client) {
    let before = backend.script_calls();
    let rounds = 60;
    let loads = names("flushed").into_iter().map(|name| {
        let lock = client.lock(&name);
        async move {
            for _ in 0..rounds {
                let guard = lock.lock().await.unwrap();
                assert_eq!(guard.release().await.unwrap(), Released::Free);
            }
        }
    });
    let flushes = async {
        for _ in 0..20 {
            backend.command(&["SCRIPT", "FLUSH"]);
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        }
    };
    join(join_all(loads), flushes).await;
    assert_merged(backend, before, (2 * NAMES * rounds) as u64);
}

/// A key of another type gets its error, the other names are served, and merge again later.
async fn name_of_another_type_fails_alone(backend: &Backend, client: Client) {
    let names = names("typed");
    let (bad, good) = names.split_last().unwrap();
    // The server keeps the token of a name that was held.
    drop(client.lock(bad).lock().await.unwrap());
    client.settled().await;
    let key = backend.keys().into_iter().find(|key| key.contains(bad));
    let key = key.unwrap();
    backend.command(&["DEL", &key]);
    backend.command(&["SET", &key, "text", "PX", "600000"]);
    let single = client.lock(bad).try_lock().await.map(drop).unwrap_err();
    // The client asks for each name of a refused call by itself for a second. On a busy machine a
    // round may last so long that the bad name spoils the next list, too.
    let mut fewest = u64::MAX;
    for round in 0..30 {
        let before = backend.script_calls();
        let try_lock = |name| client.lock(name).try_lock().into_future();
        let mut tried = join_all(names.iter().map(try_lock)).await;
        let error = tried.pop().unwrap().map(drop).unwrap_err();
        assert_eq!(error.kind(), single.kind(), "{error:?}");
        assert_ne!(error.kind(), ErrorKind::Protocol, "{error:?}");
        let tried = tried.into_iter();
        let guards: Vec<_> = tried.map(|tried| tried.unwrap().unwrap()).collect();
        assert_eq!(guards.len(), good.len());
        fewest = fewest.min(backend.script_calls() - before);
        for released in join_all(guards.into_iter().map(LockGuard::release)).await {
            assert_eq!(released.unwrap(), Released::Free, "round {round}");
        }
        backend.pass(100 * MS).await;
    }
    assert_fewer(backend, fewest, names.len() as u64);
}

/// Of calls that have joined, any may be dropped at any time: nothing of it stays behind, and the
/// others are served.
async fn cancelled_call_leaves_nothing_and_the_others_go_on(backend: &Backend, client: Client) {
    let names = names("dropped");
    for round in 0..120_usize {
        let (polls, dropped) = (round % 12, round % names.len());
        let call = |name| Some(client.lock(name).lock().into_future());
        let mut calls: Vec<_> = names.iter().map(call).collect();
        let (mut guards, mut polled) = (Vec::new(), 0);
        while calls.iter().any(Option::is_some) {
            if polled == polls {
                calls[dropped] = None;
            }
            for call in &mut calls {
                if let Some(waiting) = call
                    && let Poll::Ready(guard) = futures_util::poll!(waiting)
                {
                    *call = None;
                    guards.push(guard.unwrap());
                }
            }
            polled += 1;
            assert!(polled < 100_000, "round {round}");
            tokio::task::yield_now().await;
            if polled > 20 {
                backend.pass(Duration::from_micros(100)).await;
            }
        }
        assert!(guards.len() >= names.len() - 1, "round {round}");
        for guard in guards {
            assert_eq!(guard.release().await.unwrap(), Released::Free);
        }
        client.settled().await;
        for name in &names {
            let is_locked = client.lock(name).is_locked().await.unwrap();
            assert!(!is_locked, "round {round}: {name}");
        }
    }
}

const NAMES: usize = 16;
