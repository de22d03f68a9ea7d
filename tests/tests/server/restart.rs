//! A server that is killed and comes back on its port.

use std::{fs, path::PathBuf};

use crate::prelude::*;

redlatch_tests::on_every_server!(holder_learns_of_a_power_loss_that_forgot_its_hold,);

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
    let causes = [LossCause::Taken, LossCause::Forgotten];
    assert!(causes.contains(&cause), "{cause}");
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
