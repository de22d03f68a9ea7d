//! A server that is out of memory: it takes nothing new, and lets go of everything.

use redlatch_tests::calls;

use super::prelude::*;

redlatch_tests::on_every_server!(
    every_kind_is_kept_and_given_back_on_a_full_server,
    every_call_to_a_full_server_is_refused_whole_or_served,
);

/// A budget of one byte, or a tenth too little. What one connection takes comes and goes, so a byte
/// less would not do.
fn budgets(server: &Server) -> [u64; 2] {
    [1, server.used_memory() / 10 * 9]
}

// L12
async fn every_kind_is_kept_and_given_back_on_a_full_server(binary: ServerBinary) {
    for budget in [0, 1] {
        let bed = Bed::start(&binary, ServerOptions::new());
        let mut scene = bed.begin(Leases::renewed(2 * SECOND)).await;
        let limit = budgets(&bed.server)[budget];
        bed.server.config_set("maxmemory", &limit.to_string());
        let until = Instant::now() + 3 * SECOND;
        while Instant::now() < until {
            for pair in &scene.pairs {
                assert!(pair.believed().await, "{:?} is lost", pair.kind);
            }
            sleep(20 * MS).await;
        }
        for pair in &scene.pairs {
            pair.prolong(60 * SECOND).await;
            let outcome = pair.let_go().await.unwrap();
            assert_eq!(outcome, ReleaseOutcome::Ended, "{:?}", pair.kind);
        }
        bed.server.config_set("maxmemory", "0");
        for pair in &mut scene.pairs {
            // The next one asks after that, or was refused a place when it looked before.
            match pair.served().await.got {
                Ok(hold) => drop(hold.give_back().await.unwrap()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ServerFull, "{:?}", pair.kind),
            }
        }
        bed.end(scene).await;
    }
}

/// What takes something, of whatever kind, and is refused.
const TAKES: &str = "lock try_lock read write try_write upgradable_read upgrade acquire \
     acquire_many try_acquire run limit_acquire limit_acquire_for limit_try_acquire \
     limit_try_acquire_each limit_reserve";

/// What keeps or ends something, or only looks, and is served.
const KEEPS: &str = "extend release force_release is_locked is_held_by hold_count read_count \
     write_count remaining info holders totals count count_down last holder reset limit_settle \
     limit_peek";

// L19
async fn every_call_to_a_full_server_is_refused_whole_or_served(binary: ServerBinary) {
    for budget in [0, 1] {
        let server = Server::start(&binary, ServerOptions::new());
        preload(&server);
        let clients = [connect(&server.url()).await];
        let mut all = Vec::new();
        // A candidate of an election campaigns until there is room.
        let on_one = |kind: &&&dyn calls::Kind| kind.servers() == 1;
        let kinds = calls::KINDS.iter().filter(on_one);
        for kind in kinds.filter(|kind| format!("{kind:?}") != "Election") {
            let calls = kind.calls(&clients).await.into_iter();
            all.extend(calls.map(|call| (kind, call)));
        }
        let limit = budgets(&server)[budget];
        server.config_set("maxmemory", &limit.to_string());
        for (kind, call) in all {
            let (what, keys) = (call.what, server.keys());
            let outcome = timeout(GENEROUS, call.run).await;
            let outcome = outcome.unwrap_or_else(|_| panic!("{kind:?}: {what} is not answered"));
            let is_in = |list: &str| list.split(' ').any(|one| one == what);
            let is_full = |error: &Error| error.kind() == ErrorKind::ServerFull;
            let refused = outcome.err().filter(is_full);
            let is_refused = refused.is_some();
            println!("{binary}, {kind:?}: {what} is refused: {is_refused}");
            if let Some(error) = &refused {
                assert!(error.is_transient() && error.is_not_executed(), "{error:?}");
                let is_new = |key: &String| !keys.contains(key);
                let new: Vec<_> = server.keys().into_iter().filter(is_new).collect();
                assert_eq!(new, [""; 0], "{kind:?}: {what} has written something");
            }
            assert!(is_refused || !is_in(TAKES), "{kind:?}: {what}");
            assert!(!is_refused || !is_in(KEEPS), "{kind:?}: {what}");
        }
        let connecting = Client::connect(&server.url()).await;
        assert_eq!(connecting.unwrap_err().kind(), ErrorKind::ServerFull);
    }
}
