//! Queues in which waiters come and go all the time, and servers that take over without having
//! heard the latest of it. Entries of waiters that have gone come back with them.

use super::prelude::*;

redlatch_tests::on_every_server!(
    queues_move_on_after_a_failover_by_order,
    queues_move_on_after_a_restart_from_an_old_snapshot,
    queues_move_on_after_rights_were_taken_away_for_a_while,
);

/// Lets a crowd queue while something happens to the server.
async fn moves_on(binary: &ServerBinary, url: &str, fault: impl AsyncFnOnce()) {
    let load = Load::crowd(&parties(url).await).await;
    load.get_on().await;
    fault().await;
    let began = Instant::now();
    load.get_on().await;
    let took = began.elapsed();
    println!("{binary}: all have got on twice within {took:?}");
    load.end().await;
}

async fn queues_move_on_after_a_failover_by_order(binary: ServerBinary) {
    let group = group(&binary);
    moves_on(&binary, &group.url(), async || {
        let before = group.master().port();
        group.fail_over();
        group.await_other_than(before);
    })
    .await;
}

async fn queues_move_on_after_a_restart_from_an_old_snapshot(binary: ServerBinary) {
    let server = Server::start(&binary, ServerOptions::new());
    moves_on(&binary, &server.url(), async || {
        server.command(&["SAVE"]).unwrap();
        // What is saved grows old.
        sleep(500 * MS).await;
        server.kill();
        server.restart();
    })
    .await;
}

async fn queues_move_on_after_rights_were_taken_away_for_a_while(binary: ServerBinary) {
    let options = ServerOptions::new().user("app on >secret ~* &* +@all");
    let server = Server::start(&binary, options);
    let url = format!("redis://app:secret@{}", server.address());
    let app = |rights: &str| drop(server.command(&["ACL", "SETUSER", "app", rights]).unwrap());
    moves_on(&binary, &url, async || {
        app("-@all");
        sleep(500 * MS).await;
        app("+@all");
    })
    .await;
}
