//! Sentinels that fail a master over, and a master that was deposed.

use std::time::Instant;

use redlatch::{Client, ErrorKind, HoldState, Released};
use redlatch_tests::{
    backend::assert_tables_empty,
    fixture::{MS, SECOND, key, waiting},
    server::{SentinelGroup, Server, ServerBinary, ServerOptions},
    wait::{GENEROUS, eventually},
};

use super::support::{
    await_copy, group, have_left, held_and_waited_for, other, registered, script_calls,
    served_in_time, take_and_free,
};

redlatch_tests::on_every_server!(
    a_hold_and_its_waiter_outlive_a_planned_failover,
    a_hold_and_its_waiter_outlive_the_crash_of_the_master,
    locks_work_while_all_sentinels_are_away,
    unknown_service_is_reported,
    servers_and_sentinels_have_credentials_of_their_own,
    a_password_can_change_while_connected,
);

async fn a_hold_and_its_waiter_outlive_a_planned_failover(binary: ServerBinary) {
    let group = group(&binary);
    let a = Client::connect(&group.url()).await.unwrap();
    let b = Client::connect(&group.url()).await.unwrap();
    let guard = a.lock("x").lock().await.unwrap();
    let waiter = waiting(b.lock("x"));
    registered(|| group.master(), "x").await;
    let before = group.master();
    let (freed, served) = held_and_waited_for(&a, &b, "freed", || before).await;
    let began = Instant::now();
    drop(freed);
    group.fail_over();
    println!("{binary}: a planned failover took {:?}", began.elapsed());
    served_in_time(&binary, began, Instant::now(), served).await;
    // The sentinels say it everywhere at once: a client may hear it a little later than this test
    // does, and the old master serves until it is told.
    have_left(before, [&a, &b]).await;
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    waiter.await.unwrap().release().await.unwrap();
    // The deposed one is asked for nothing any more.
    before.reset_stats();
    take_and_free(&a.lock("x"), 20).await;
    take_and_free(&b.lock("y"), 20).await;
    assert_eq!(script_calls(before), 0);
    let after = group.master();
    assert!(after.keys().contains(&key("y")));
    assert_tables_empty(&a).await;
    assert_tables_empty(&b).await;
}

async fn a_hold_and_its_waiter_outlive_the_crash_of_the_master(binary: ServerBinary) {
    let group = group(&binary);
    let a = Client::connect(&group.url()).await.unwrap();
    let b = Client::connect(&group.url()).await.unwrap();
    let guard = a.lock("x").lock().await.unwrap();
    let waiter = waiting(b.lock("x"));
    registered(|| group.master(), "x").await;
    let deposed = group.master();
    let (freed, served) = held_and_waited_for(&a, &b, "freed", || deposed).await;
    await_copy(other(&group, deposed), "x");
    deposed.kill();
    let killed = Instant::now();
    drop(freed);
    group.await_other_than(deposed.port());
    served_in_time(&binary, killed, Instant::now(), served).await;
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    println!(
        "{binary}: the hold extended {:?} after the crash",
        killed.elapsed()
    );
    // A sentinel may be behind the others: both have found the new one before the old one is back.
    take_and_free(&b.lock("z"), 1).await;
    // It comes back as it was started, as a master, until the sentinels see it.
    deposed.restart();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    let released = Instant::now();
    waiter.await.unwrap().release().await.unwrap();
    println!(
        "{binary}: the waiter served {:?} after the release",
        released.elapsed()
    );
    take_and_free(&a.lock("x"), 50).await;
    assert_eq!(script_calls(deposed), 0);
    assert_tables_empty(&a).await;
    assert_tables_empty(&b).await;
}

async fn locks_work_while_all_sentinels_are_away(binary: ServerBinary) {
    let group = group(&binary);
    let client = Client::connect(&group.url()).await.unwrap();
    let guard = client.lock("x").lock().await.unwrap();
    for sentinel in group.sentinels() {
        sentinel.kill();
    }
    // Running holds and new ones need no sentinel.
    take_and_free(&client.lock("y"), 20).await;
    guard.extend(60 * SECOND).await.unwrap();
    for sentinel in group.sentinels() {
        sentinel.restart();
    }
    let before = group.master().port();
    eventually("the sentinels to fail over", GENEROUS, async || {
        let order = ["SENTINEL", "FAILOVER", SentinelGroup::SERVICE];
        group.sentinels()[0].command(&order).error().is_none()
    })
    .await;
    group.await_other_than(before);
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    take_and_free(&client.lock("y"), 20).await;
    assert_tables_empty(&client).await;
}

async fn unknown_service_is_reported(binary: ServerBinary) {
    let group = group(&binary);
    let url = group.url().replace("/main", "/mane");
    let error = Client::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedServer, "{error:?}");
    assert!(format!("{error}").contains("mane"), "{error}");
}

async fn servers_and_sentinels_have_credentials_of_their_own(binary: ServerBinary) {
    let options = ServerOptions::new()
        .password("server")
        .config("masterauth server");
    let group = SentinelGroup::start_with_password(&binary, 1, 1_000 * MS, &options, "sentinel");
    let client = Client::connect(&group.url()).await.unwrap_err();
    assert_eq!(client.kind(), ErrorKind::Auth, "{client:?}");
    let url = group.url().replace("://", "://:server@") + "?sentinel_password=sentinel";
    let client = Client::connect(&url).await.unwrap();
    take_and_free(&client.lock("x"), 5).await;
    let sentinels: Vec<_> = group.sentinels().iter().map(Server::url).collect();
    let built = redlatch::ClientBuilder::sentinel(SentinelGroup::SERVICE, sentinels)
        .credentials(None, Some("server"))
        .sentinel_credentials(None, Some("sentinel"))
        .connect()
        .await
        .unwrap();
    take_and_free(&built.lock("x"), 5).await;
    group.fail_over();
    take_and_free(&client.lock("x"), 5).await;
    take_and_free(&built.lock("x"), 5).await;
    assert_tables_empty(&client).await;
}

async fn a_password_can_change_while_connected(binary: ServerBinary) {
    let server = Server::start(&binary, ServerOptions::new().password("old"));
    let url = server.url().replace("://", "://:old@");
    let client = Client::connect(&url).await.unwrap();
    take_and_free(&client.lock("x"), 1).await;
    server.config_set("requirepass", "new");
    // What is connected stays so; the next connection needs the new one.
    take_and_free(&client.lock("x"), 1).await;
    client.set_credentials(None, Some("new"));
    server.client_kill(redlatch_tests::server::ClientType::Normal);
    take_and_free(&client.lock("x"), 5).await;
    assert_tables_empty(&client).await;
}
