//! A server that is killed and comes back on its port.

use std::{fs, path::PathBuf, time::Instant};

use redlatch::{HoldState, LossCause, Released};
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, SECOND, assert_nothing_left, registered, waiting},
    server::{Server, ServerBinary, ServerOptions},
};

redlatch_tests::on_every_server!(
    holder_learns_of_lost_data_and_the_waiter_is_served,
    restart_with_data_loses_no_hold,
    absent_server_is_reported_as_loss_in_time,
    holder_learns_of_a_power_loss_that_forgot_its_hold,
);

// L12, L40
async fn holder_learns_of_lost_data_and_the_waiter_is_served(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().renewed_lease(3 * SECOND).await.unwrap();
    let token = guard.token();
    let waiter = waiting(b.lock("x"));
    registered(&backend, "x").await;
    let lost = guard.lost();
    backend.server().kill();
    backend.pass(300 * MS).await;
    backend.server().restart();
    let back = Instant::now();
    let next = waiter.await.unwrap();
    let served_after = back.elapsed();
    assert!(next.token() > token, "the fence rises without any data");
    // A second between two tries to connect, 2.4 s until a waiter looks again.
    assert!(served_after < 4 * SECOND + GRACE, "{served_after:?}");
    let cause = lost.await;
    assert!(back.elapsed() < 3 * SECOND + GRACE);
    assert!(
        [LossCause::Taken, LossCause::Forgotten].contains(&cause),
        "{cause}"
    );
    println!(
        "{binary}: waiters served {served_after:?} after the restart, loss ({cause}) told after {:?}",
        back.elapsed()
    );
    drop((next, guard));
    assert_nothing_left(&backend, &[&a, &b]).await;
}

// L13
async fn restart_with_data_loses_no_hold(binary: ServerBinary) {
    // With `everysec` a busy disk keeps writes back for two seconds, and they are lost with the
    // process.
    let options = ServerOptions::new()
        .append_only()
        .config("appendfsync always");
    let backend = Backend::Real(Server::start(&binary, options));
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().renewed_lease(4 * SECOND).await.unwrap();
    let waiter = waiting(b.lock("x"));
    registered(&backend, "x").await;
    backend.server().kill();
    backend.pass(500 * MS).await;
    backend.server().restart();
    let back = Instant::now();
    // One lease after the restart it still holds, so it has been renewed since.
    while back.elapsed() < 5 * SECOND {
        guard.check().unwrap();
        assert!(!waiter.is_finished(), "the hold survived");
        backend.pass(20 * MS).await;
    }
    assert_eq!(guard.state(), HoldState::Held);
    let token = guard.token();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    let released = Instant::now();
    let next = waiter.await.unwrap();
    assert!(released.elapsed() < SECOND + GRACE, "the waiter was woken");
    assert!(next.token() > token);
    drop(next);
    assert_nothing_left(&backend, &[&a, &b]).await;
}

// L12
async fn absent_server_is_reported_as_loss_in_time(binary: ServerBinary) {
    let options = ServerOptions::new().append_only();
    let backend = Backend::Real(Server::start(&binary, options));
    let client = backend.client().await;
    let before = Instant::now();
    let guard = client.lock("x").lock().renewed_lease(SECOND).await.unwrap();
    let token = guard.token();
    backend.server().kill();
    let cause = guard.lost().await;
    assert!(before.elapsed() < 2 * SECOND + GRACE);
    assert!(
        [LossCause::Expired, LossCause::Unreachable].contains(&cause),
        "{cause}"
    );
    drop(guard);
    backend.server().restart();
    let back = Instant::now();
    let next = client.lock("x").lock().await.unwrap();
    println!(
        "{binary}: reconnected and served {:?} after the restart",
        back.elapsed()
    );
    assert!(back.elapsed() < 4 * SECOND + GRACE);
    assert!(next.token() > token);
    drop(next);
    assert_nothing_left(&backend, &[&client]).await;
}

/// For a machine that is busy with something else.
const GRACE: std::time::Duration = std::time::Duration::from_secs(10);

/// What lay in the machine's memory goes with its power: the append-only file ends where it was
/// last synced.
// L12
async fn holder_learns_of_a_power_loss_that_forgot_its_hold(binary: ServerBinary) {
    let options = ServerOptions::new()
        .append_only()
        .config("appendfsync always");
    let backend = Backend::Real(Server::start(&binary, options));
    let (a, b) = (backend.client().await, backend.client().await);
    let synced = a.lock("synced").lock().lease(60 * SECOND).await.unwrap();
    let file = append_only_file(backend.server());
    let length = fs::metadata(&file).unwrap().len();
    let tail = a.lock("tail").lock().renewed_lease(3 * SECOND).await;
    let tail = tail.unwrap();
    assert!(fs::metadata(&file).unwrap().len() > length);
    backend.server().kill();
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.set_len(length).unwrap();
    backend.server().restart();
    let next = b.lock("tail").lock().await.unwrap();
    assert!(next.token() > tail.token(), "the fence rises all the same");
    let cause = tail.lost().await;
    assert!(
        [LossCause::Taken, LossCause::Forgotten].contains(&cause),
        "{cause}"
    );
    assert!(b.lock("synced").try_lock().await.unwrap().is_none());
    assert_eq!(synced.release().await.unwrap(), Released::Free);
    drop((tail, next));
    assert_nothing_left(&backend, &[&a, &b]).await;
}

/// The file that commands are appended to: since 7.0 one of several, in a folder.
fn append_only_file(server: &Server) -> PathBuf {
    let old = server.dir().join("appendonly.aof");
    let Ok(files) = fs::read_dir(server.dir().join("appendonlydir")) else {
        return old;
    };
    let mut files = files.map(|file| file.unwrap().path());
    let incremental = |file: &PathBuf| file.to_string_lossy().ends_with(".incr.aof");
    files.find(incremental).expect("there is one")
}
