//! Sentinels that replace the master, by order and because it died.

use super::prelude::*;
use crate::support::have_left;

redlatch_tests::on_every_server!(
    every_kind_outlives_a_failover_by_order,
    every_kind_outlives_the_crash_of_the_master,
);

async fn every_kind_outlives_a_failover_by_order(binary: ServerBinary) {
    let group = group(&binary);
    let parties = parties(&group.url()).await;
    let clients = parties.clone().map(|party| party.client);
    let mut scene =
        Scene::begin(&kinds::on_one(), parties, TAG, Leases::renewed(30 * SECOND)).await;
    let before = group.master();
    // Sentinels do not ask the old master first.
    other(&group, before).catch_up_with(before);
    group.fail_over();
    // It serves until it is told.
    have_left(before, clients.each_ref()).await;
    before.reset_stats();
    scene.prolong(60 * SECOND).await;
    println!("{binary}, failed over: {}", scene.hand_over().await);
    assert_eq!(before.script_calls(), 0, "the old master is asked no more");
    scene.end(&[group.master()]).await;
}

async fn every_kind_outlives_the_crash_of_the_master(binary: ServerBinary) {
    let group = group(&binary);
    let parties = parties(&group.url()).await;
    let mut scene =
        Scene::begin(&kinds::on_one(), parties, TAG, Leases::renewed(30 * SECOND)).await;
    let deposed = group.master();
    other(&group, deposed).catch_up_with(deposed);
    deposed.kill();
    let killed = Instant::now();
    group.await_other_than(deposed.port());
    println!("{binary}: another master after {:?}", killed.elapsed());
    scene.prolong(60 * SECOND).await;
    println!("{binary}: extended after {:?}", killed.elapsed());
    // It comes back as it was started, as a master, until the sentinels see it.
    deposed.restart();
    println!("{binary}, master dead: {}", scene.hand_over().await);
    scene.end(&[group.master()]).await;
}
