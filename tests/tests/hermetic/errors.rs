//! What a person reads who makes a mistake that needs no real server to be found out.

use std::error::Error as _;

use redlatch::ErrorKind::{self, *};

use crate::prelude::*;

/// Checks what every message has in common, and that this one says all of `words`, between bars.
/// Returns the error.
#[track_caller]
fn says<T>(outcome: Result<T, Error>, kind: ErrorKind, words: &str) -> Error {
    let error = outcome.map(drop).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.chars().count() <= 300, "{text}");
    for word in words.split('|') {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(error.source().is_none(), "a chain prints the reason twice");
    // A `main` that returns the error prints this.
    assert_eq!(format!("{error:?}"), format!("{kind:?}: {text}"));
    error
}

/// An address, and what is wrong with it.
const ADDRESSES: &str = r#"
redis://:secret@h:99999 | the port 99999 of the address is out of range: 1 to 65535
redis+cluster://:secret@a,b:99999 | the port 99999 of the address is out of range
redis://h:x | is not a URL such as redis://host:6379/0
redis://app:sec/ret@h:6379 | user and password they are written as %2F, %3F and %23
redis://app:12345/secret@h | user and password they are written as %2F, %3F and %23
localhost:6379 | has no scheme; it is like redis://host:6379/0
localhost | has no scheme; it is like redis://host:6379/0
 | has no scheme; it is like redis://host:6379/0
redis://localhost?lease=1 | no span of time
http://h | the scheme http:// is unknown; use redis
redis://h/x | "x" is no database number
redis://a,b | say redis+cluster://
redis+sentinel://a | redis+sentinel://host/name
"#;

#[tokio::test]
async fn wrong_addresses_say_what_is_wrong_and_show_no_secret() {
    for row in ADDRESSES.trim_matches('\n').lines() {
        let (url, words) = row.split_once(" | ").unwrap();
        let error = says(Client::connect(url).await, InvalidOption, words);
        for secret in ["secret", "sec/", "12345"] {
            assert!(!format!("{error:#?} {error}").contains(secret), "{error:?}");
        }
    }
}

/// Waiters of the other kind in this process do not keep the error from the caller.
#[tokio::test(start_paused = true)]
async fn waiter_for_a_name_in_use_by_another_kind_stands_behind_no_waiter_of_that_kind() {
    let (backend, [client, other]) = embedded().await;
    let held = other.fair_lock("x").lock().await.unwrap();
    let waits = tokio::spawn(client.fair_lock("x").lock().into_future());
    backend.pass(10 * MS).await;
    let wrong = client.lock("x").try_lock_for(SECOND).await;
    let error = wrong.map(|guard| guard.is_some()).unwrap_err();
    assert_eq!(error.kind(), WrongKind, "{error:?}");
    held.release().await.unwrap();
    drop(within(SECOND, "fair", waits).await.unwrap().unwrap());
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn name_in_use_by_another_kind_is_named_with_both_kinds() {
    let (_backend, [client]) = embedded().await;
    let name = "orders:42";
    let held = client.fair_lock(name).lock().await.unwrap();
    let semaphore = client.semaphore(name).permits_if_unset(1);
    let job = client.once(name).every(3600 * SECOND);
    let latch = client.count_down_latch(name);
    let rw = client.read_write_lock(name);
    let permits = client.permit_expirable_semaphore(name).permits_if_unset(1);
    let minute = 60 * SECOND;
    let errors = [
        ("lock", client.lock(name).lock().await.map(drop)),
        ("lock", client.lock(name).info().await.map(drop)),
        ("lock", client.lock(name).try_lock().await.map(drop)),
        ("write lock", rw.write().await.map(drop)),
        ("read write lock", rw.info().await.map(drop)),
        ("semaphore", semaphore.acquire().await.map(drop)),
        ("semaphore", semaphore.available_permits().await.map(drop)),
        ("semaphore", semaphore.set_permits(1).await.map(drop)),
        ("permits", permits.acquire().lease(minute).await.map(drop)),
        ("latch", latch.wait().await.map(drop)),
        ("latch", latch.try_set_count(1).await.map(drop)),
        ("latch", latch.info().await.map(drop)),
        ("job", job.last().await.map(drop)),
        ("election", client.election(name).leader().await.map(drop)),
    ];
    for (kind, outcome) in errors {
        let words = "the name belongs to a fair lock, not to a|choose another name or prefix. \
                     If the old object is out of use, remove it: |redlatch forget NAME, or \
                     Client::forget";
        let words = format!("{kind} \"orders:42\": |{words}");
        says(outcome, WrongKind, &words);
    }
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn kinds_are_told_in_words_and_fit_beside_the_longest_name() {
    let (backend, [client]) = embedded().await;
    let name = "x".repeat(512);
    let key = format!("redlatch:{{{name}}}");
    for (stored, words) in [
        ("lock:1", "a lock"),
        ("rw:1", "a read-write lock"),
        ("semaphore:1", "a semaphore"),
        ("permits:1", "a semaphore of permits with ids"),
        ("latch:1", "a latch"),
        ("once:1", "a job"),
        ("election:1", "an election"),
        ("fair_election:1", "an election in order"),
        ("other:7", "an object of kind other:7"),
    ] {
        backend.command(&["HSET", &key, "k", stored]);
        let refused = client.fair_lock(&name).lock().await;
        let words = format!("the name belongs to {words}, not to a fair lock: choose");
        says(refused, WrongKind, &(words + "|or Client::forget"));
    }
    backend.command(&["HSET", &key, "k", "fair:1"]);
    let refused = client.permit_expirable_semaphore(&name).acquire().await;
    let words = "not to a semaphore of permits with ids: choose|or Client::forget";
    says(refused, WrongKind, words);
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_programs_and_versions_are_told_apart() {
    let (backend, [client]) = embedded().await;
    backend.command(&["HSET", "redlatch:{v}", "k", "lock:2"]);
    let words = "lock \"v\": |lock:2|lock:1|one version everywhere";
    says(client.lock("v").lock().await, WrongKind, words);
    backend.command(&["SET", "redlatch:{s}", "mine"]);
    let words = "lock \"s\": |a value of another program|another prefix";
    says(client.lock("s").lock().await, WrongKind, words);
    let words = "object \"s\": |a value of another program";
    says(client.forget("s").await, WrongKind, words);
    backend.command(&["HSET", "redlatch:{h}", "mine", "1"]);
    let words = "object \"h\": |a hash of another program";
    says(client.forget("h").await, WrongKind, words);
}

#[tokio::test(start_paused = true)]
async fn permits_that_do_not_exist_are_counted() {
    let (_backend, [client]) = embedded().await;
    let semaphore = client.semaphore("pool");
    let words = "semaphore \"pool\": |nobody has set|try_set_permits";
    says(semaphore.acquire().await, NotSet, words);
    semaphore.set_permits(0).await.unwrap();
    let words = "1 permit is requested, and it has 0 in total|set_permits";
    says(semaphore.acquire().await, OutOfRange, words);
    let none = semaphore.acquire_many(0).await;
    says(none, InvalidOption, "the least is 1");
    let latch = client.count_down_latch("start");
    let words = "latch \"start\": nobody has set it|try_set_count";
    says(latch.wait().await, NotSet, words);
}

#[tokio::test(start_paused = true)]
async fn every_other_error_names_its_object_and_is_short() {
    let backend = Backend::embedded();
    let builder = backend.builder().patience(500 * MS);
    let client = builder.connect().await.unwrap();
    let lock = client.lock(format!("orders:{}", "x".repeat(500)));
    let guard = lock.lock().await.unwrap();
    let once = WaitStrategy::Poll(Backoff::constant(5 * MS).max_attempts(1));
    let words = "lock \"orders:xxxx|…\": another owner held it|try_lock_for";
    says(lock.lock().strategy(once).await, TooManyAttempts, words);
    let other = backend.client().await.owner();
    let foreign = lock.lock().owner(&other).await;
    says(foreign, ForeignOwner, "lock \"orders:");
    let none = client.lock("").lock().await;
    says(none, InvalidName, "the name is empty");
    let long = client.lock("x".repeat(513)).info().await;
    says(long, InvalidName, "513 bytes|1 to 512");
    let short = lock.lock().lease(MS).await;
    says(short, InvalidLease, "50ms to 365 days");
    let rw = client.read_write_lock("rw");
    let reader = rw.read().await.unwrap();
    let words = "write lock \"rw\": |wait for itself|upgradable_read()";
    let write = rw.write().owner(reader.owner()).await;
    says(write, WouldDeadlock, words);
    drop(reader);
    let server = backend.embedded_server();
    server.stop();
    let words = "lock \"orders:|did not answer in time";
    says(guard.extend(60 * SECOND).await, OutcomeUnknown, words);
    server.resume();
    lock.force_release().await.unwrap();
    let lost = Lost(guard.lost().await);
    says(guard.check(), lost, "lock \"orders:|the hold was lost");
    client.close_now().await;
    let closed = client.lock("z").lock().await;
    says(closed, Closed, "lock \"z\": the client is closed");
}
