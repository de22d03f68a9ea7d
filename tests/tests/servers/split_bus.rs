//! A cluster that falls into two parts, the old master alive in the smaller one, and clients that
//! reach both.

use std::time::Instant;

use crate::prelude::*;

redlatch_tests::on_every_server!(master_in_the_minority_is_left_and_durable_holds_exclude);

/// What `Master` promises here is that tokens rise and that the first of two holders is told; what
/// the others do, that there are no two.
async fn master_in_the_minority_is_left_and_durable_holds_exclude(binary: ServerBinary) {
    let cluster = with_two_replicas(&binary);
    let old = &cluster.nodes()[0];
    let replicas = cluster.replicas_of(old);
    let mut names = names_on(&cluster, old, "n");
    let [kept, all, plain, other] = std::array::from_fn(|_| names.next().unwrap());
    let url = cluster.url();
    let connect = || Client::connect(&url);
    let (a, b) = (connect().await.unwrap(), connect().await.unwrap());
    let kept = a.lock(&kept).lock().durability(Durability::Majority);
    let kept = kept.renewed_lease(20 * SECOND).await.unwrap();
    let all = a.lock(&all).lock().durability(Durability::Replicas(2));
    let all = all.renewed_lease(6 * SECOND).await.unwrap();
    let after_kept = waiting(&b, &kept);
    registered(|| old, kept.name()).await;
    let after_all = waiting(&b, &all);
    registered(|| old, all.name()).await;
    for replica in &replicas {
        await_copy(replica, kept.name());
    }
    let told = tokio::spawn({
        let lost = all.lost();
        async move { (lost.await, Instant::now()) }
    });

    cluster.split(&[old]);
    let split = Instant::now();
    let first = a.lock(&plain).lock().renewed_lease(6 * SECOND);
    let first = first.await.unwrap();
    let by_old = split.elapsed();
    // Its replicas have left it. Asked late, it is another that answers, which has one.
    match b.lock(&other).try_lock().durability(DURABLE).await {
        Err(error) => assert_eq!(error.kind(), ErrorKind::NotEnoughReplicas, "{error:?}"),
        Ok(guard) => assert_eq!(guard.expect("it is free").acknowledged(), 1),
    }
    let new = cluster.await_successor(&replicas);
    println!("{binary}: another in charge after {:?}", split.elapsed());
    refuses_writes(old, &plain);
    println!("{binary}: the old one refuses by {:?}", split.elapsed());

    kept.extend(20 * SECOND).await.unwrap();
    assert_eq!(kept.state(), HoldState::Held);
    // Somebody who comes now is told of the old master, too, by itself.
    let late = connect().await.unwrap();
    match late.lock(&plain).try_lock().await.unwrap() {
        None => println!("{binary}: with Master, the new one knew of the grant of {by_old:?}"),
        Some(second) => {
            let (after, state) = (split.elapsed(), first.state());
            println!(
                "{binary}: with Master, granted {by_old:?} after the split by the old one, again after {after:?} by the new one; the first was {state:?}"
            );
            assert!(second.token() > first.token(), "the fence rises");
            let cause = timeout(GENEROUS, first.lost()).await.unwrap();
            let told = split.elapsed();
            println!("{binary}: it was told by {told:?} after the split: {cause}");
            second.release().await.unwrap();
        }
    }
    // All replicas are not to be had any more: that one is told, and then the next gets it.
    let (cause, told) = timeout(GENEROUS, told).await.unwrap().unwrap();
    // Which of the two depends on whether a renewal was under way.
    let expected = [LossCause::Unreachable, LossCause::Expired];
    assert!(expected.contains(&cause), "{cause}");
    let (next, granted) = timeout(GENEROUS, after_all).await.unwrap().unwrap();
    assert!(told <= granted, "two durable holders");
    let later = granted - told;
    println!("{binary}: the next had it {later:?} after the other was told");
    assert!(next.token() > all.token());
    next.release().await.unwrap();
    assert!(!after_kept.is_finished());
    let token = kept.token();
    assert_eq!(kept.release().await.unwrap(), Released::Free);
    let (next, _) = timeout(GENEROUS, after_kept).await.unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    drop((first, all));
    stays_left(&cluster, old, new, [&a, &b, &late], &plain).await;
}

/// Nobody asks the old master, before all hear each other again and after; then it is a replica.
async fn stays_left(cluster: &Cluster, old: &Server, new: &Server, of: [&Client; 3], name: &str) {
    for client in of {
        take_and_free(&client.lock(name), 5).await;
        client.settled().await;
    }
    let before = old.script_calls();
    for client in of {
        take_and_free(&client.lock(name), 5).await;
    }
    assert_eq!(old.script_calls(), before);
    cluster.heal();
    let replaced = || (old.info("replication")["role"] == "slave").then_some(());
    eventually_blocking("the old master to be a replica", GENEROUS, replaced);
    cluster.await_agreement();
    assert_eq!(cluster.owner(&key(name)).port(), new.port());
    for client in of {
        take_and_free(&client.lock(name), 5).await;
        assert_tables_empty(client).await;
    }
    assert_eq!(old.script_calls(), before);
}

/// Three masters, the first with two replicas: when one has taken over, the other confirms.
fn with_two_replicas(binary: &ServerBinary) -> Cluster {
    let options = ClusterOptions {
        replicas: 1,
        node_timeout: 2 * SECOND,
        splittable: true,
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(binary, &options);
    let (first, moved) = (&cluster.nodes()[0], &cluster.nodes()[4]);
    let id = first.command(&["CLUSTER", "MYID"]).unwrap().text();
    moved.command(&["CLUSTER", "REPLICATE", &id]).unwrap();
    let joined = || (cluster.replicas_of(first).len() == 2).then_some(());
    eventually_blocking("a second replica", GENEROUS, joined);
    cluster.await_agreement();
    cluster
}

/// Waits for the name of `guard` in a task of its own, and says when it was had.
fn waiting(client: &Client, guard: &LockGuard) -> JoinHandle<(LockGuard, Instant)> {
    let lock = client.lock(guard.name());
    tokio::spawn(async move {
        let guard = lock.lock().durability(DURABLE).await.unwrap();
        (guard, Instant::now())
    })
}

/// Waits until a master that believes in itself, and sees that it is alone, takes no writes.
fn refuses_writes(old: &Server, name: &str) {
    let role = old.command(&["ROLE"]).array();
    assert_eq!(role[0].clone().text(), "master");
    eventually_blocking("the old master to refuse", GENEROUS, || {
        let reply = old.command(&["DEL", &format!("{}:probe", key(name))]);
        reply
            .error()
            .filter(|error| error.starts_with("CLUSTERDOWN"))
            .map(drop)
    });
}

const DURABLE: Durability = Durability::Replicas(1);
