//! A master that lives on where nobody else sees it.

use redlatch_tests::server::{Connection, Reply};

use crate::prelude::*;

redlatch_tests::on_every_server!(a_master_cut_off_from_its_sentinels_is_left_when_they_tell);

/// Sentinels and replicas reach the old master no more, our client does, over connections that
/// stand. Sentinels depose it; it knows nothing of that and would go on answering.
async fn a_master_cut_off_from_its_sentinels_is_left_when_they_tell(binary: ServerBinary) {
    let group = SentinelGroup::start(&binary, 1, 1_000 * MS, &ServerOptions::new());
    let connect = || Client::builder(&group.url()).client_name("ours").connect();
    let (a, b) = (connect().await.unwrap(), connect().await.unwrap());
    let guard = a.lock("x").lock().await.unwrap();
    // Connections of its own, which stand before the partition.
    let durable = Durability::Replicas(1);
    let before = a.lock("y").lock().durability(durable).await.unwrap();
    before.release().await.unwrap();
    let old = group.master();
    let replica = other(&group, old);
    await_copy(replica, "x");
    let mut admin = old.connect().unwrap();
    cut_off_from_all_but_ours(&mut admin);
    group.await_other_than(old.port());
    let role = admin.command(&["ROLE"]).unwrap().array();
    assert_eq!(role[0].clone().text(), "master", "it believes in itself");
    // All its replicas have left it: what it grants to whoever asks for them does not count.
    let error = a.lock("y").try_lock().durability(durable).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotEnoughReplicas, "{error:?}");
    // Whoever was told by the sentinels is with the new one, and so are its holds.
    eventually_blocking("both clients to leave the old master", GENEROUS, || {
        let list = admin.command(&["CLIENT", "LIST"]).unwrap().text();
        (!list.contains(OURS)).then_some(())
    });
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    assert!(b.lock("x").try_lock().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_eq!(group.master().port(), replica.port());
    admin
        .command(&["CONFIG", "SET", "requirepass", ""])
        .unwrap()
        .unwrap();
    let before = old.script_calls();
    take_and_free(&a.lock("x"), 10).await;
    take_and_free(&b.lock("z"), 10).await;
    assert_eq!(old.script_calls(), before);
    assert_all_empty([&a, &b]).await;
}

/// Asks newcomers for a password that nobody has, and closes all connections but our clients' and
/// this one.
fn cut_off_from_all_but_ours(admin: &mut Connection) {
    let mut ask = |args: &[&str]| -> Reply { admin.command(args).unwrap().unwrap() };
    ask(&["CONFIG", "SET", "requirepass", "nobody knows"]);
    let me = ask(&["CLIENT", "ID"]).int().to_string();
    let list = ask(&["CLIENT", "LIST"]).text();
    for line in list.lines() {
        let id = line.split(' ').find_map(|field| field.strip_prefix("id="));
        let id = id.expect("each has an id");
        if id != me && !line.contains(OURS) {
            ask(&["CLIENT", "KILL", "ID", id]);
        }
    }
}

/// What our clients call themselves.
const OURS: &str = " name=ours ";
