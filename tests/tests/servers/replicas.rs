//! A master and its replicas, failed over by hand.

use crate::prelude::*;

redlatch_tests::on_every_server!(
    the_master_is_found_among_its_replicas,
    read_only_master_is_left_for_another,
    demoted_server_is_left_although_no_request_writes,
    two_masters_are_refused,
);

async fn the_master_is_found_among_its_replicas(binary: ServerBinary) {
    let servers = Replicated::start(&binary, 1, &ServerOptions::new());
    servers.promote(1);
    servers.await_in_step();
    let client = Client::connect(&servers.url()).await.unwrap();
    let guard = client.lock("x").lock().await.unwrap();
    assert!(servers.servers()[1].keys().contains(&key("x")));
    assert_eq!(servers.servers()[0].script_calls(), 0);
    guard.release().await.unwrap();
    assert_tables_empty(&client).await;
    // A replica alone is none to lock on.
    let replica = servers.servers()[0].address();
    let url = format!("redis+replicas://{replica}");
    let error = Client::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

async fn read_only_master_is_left_for_another(binary: ServerBinary) {
    let (servers, client) = with_one_replica(&binary).await;
    let guard = client.lock("x").lock().await.unwrap();
    await_copy(&servers.servers()[1], "x");
    servers.promote(1);
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    servers.await_in_step();
    servers.servers()[0].reset_stats();
    take_and_free(&client.lock("y"), 20).await;
    assert_eq!(servers.servers()[0].script_calls(), 0);
    // The other way round, by a crash.
    await_copy(&servers.servers()[0], "x");
    servers.servers()[1].kill();
    servers.promote(0);
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    take_and_free(&client.lock("y"), 20).await;
    assert_tables_empty(&client).await;
}

async fn demoted_server_is_left_although_no_request_writes(binary: ServerBinary) {
    let (servers, client) = with_one_replica(&binary).await;
    let lease = 3600 * SECOND;
    let held = client.lock("x").lock().lease(lease).await.unwrap();
    await_copy(&servers.servers()[1], "x");
    // The old master follows nobody that it could hear from, and keeps what it knew.
    let [old, new] = servers.servers() else {
        panic!("there are two")
    };
    old.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    new.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    new.command(&["DEL", &key("x")]).unwrap();
    let lock = client.lock("x");
    wait_for("the new master to answer", async || {
        let locked = lock.is_locked().await;
        !locked.is_ok_and(|locked| locked)
    })
    .await;
    let taken = async || lock.try_lock().await.is_ok_and(|guard| guard.is_some());
    wait_for("the name to be taken", taken).await;
    drop(held);
}

async fn two_masters_are_refused(binary: ServerBinary) {
    let one = Server::start(&binary, ServerOptions::new());
    let other = Server::start(&binary, ServerOptions::new());
    let url = format!("redis+replicas://{},{}", one.address(), other.address());
    let error = Client::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(one.keys(), [""; 0]);
    assert_eq!(other.keys(), [""; 0]);
}
