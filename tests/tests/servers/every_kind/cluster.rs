//! A cluster whose nodes change places, die, and hand a slot over. All names are in one slot.

use super::prelude::*;

redlatch_tests::on_every_server!(
    every_kind_outlives_a_planned_failover,
    every_kind_outlives_the_crash_of_a_master,
    every_kind_follows_its_slot_under_load,
);

async fn every_kind_outlives_a_planned_failover(binary: ServerBinary) {
    let cluster = three_and_three(&binary);
    let parties = parties(&cluster.url()).await;
    let mut scene = Scene::begin(&kinds::on_one(), parties, TAG, Leases::renewed(9 * SECOND)).await;
    let before = cluster.owner(TAG);
    cluster.fail_over_to(cluster.replicas_of(before)[0]);
    cluster.await_agreement();
    assert_ne!(cluster.owner(TAG).port(), before.port());
    scene.renewed().await;
    before.reset_stats();
    println!("{binary}, failed over: {}", scene.hand_over().await);
    assert_eq!(before.script_calls(), 0, "the old master is asked no more");
    scene.end(&cluster.masters()).await;
}

async fn every_kind_outlives_the_crash_of_a_master(binary: ServerBinary) {
    let cluster = three_and_three(&binary);
    let parties = parties(&cluster.url()).await;
    let mut scene =
        Scene::begin(&kinds::on_one(), parties, TAG, Leases::renewed(30 * SECOND)).await;
    let master = cluster.owner(TAG);
    let replicas = cluster.replicas_of(master);
    // What it has not told the replica yet would be lost with it.
    replicas[0].catch_up_with(master);
    master.kill();
    let killed = Instant::now();
    cluster.await_successor(&replicas);
    println!("{binary}: a successor after {:?}", killed.elapsed());
    scene.prolong(60 * SECOND).await;
    println!("{binary}: extended after {:?}", killed.elapsed());
    println!("{binary}, master dead: {}", scene.hand_over().await);
    // The dead node is none of them.
    scene.end(&cluster.masters()).await;
}

/// To another master and back, key by key. After each move everybody gets on, also who has waited
/// through it and is called by nobody.
// L37
async fn every_kind_follows_its_slot_under_load(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let cluster = backend.as_cluster();
    let (slot, source) = (slot_of(TAG.as_bytes()), cluster.owner(TAG));
    let fill = "for i = 1, 400 do redis.call('SET', KEYS[1] .. i, 'x', 'EX', 3600) end";
    let fill = ["EVAL", fill, "1", &format!("{TAG}filler")];
    source.command(&fill).unwrap();
    let parties = parties(&cluster.url()).await;
    let load = Load::start(&parties, TAG).await;
    let mut scene = Scene::begin(&kinds::on_one(), parties, TAG, Leases::renewed(9 * SECOND)).await;
    for target in [other_master(cluster, source), source] {
        let (began, before) = (Instant::now(), load.rounds());
        tokio::task::block_in_place(|| cluster.migrate(slot, target, 1));
        assert_eq!(cluster.owner(TAG).port(), target.port());
        let (took, rounds) = (began.elapsed(), load.rounds() - before);
        println!("{binary}: moved in {took:?}, {rounds} rounds of work meanwhile");
        load.get_on().await;
    }
    scene.renewed().await;
    println!("{binary}: {}", load.end().await);
    println!("{binary}, moved: {}", scene.hand_over().await);
    scene.end(&cluster.masters()).await;
    source.flushall();
    cluster.await_agreement();
}
