//! What a person reads who makes a mistake that needs no real server to be found out.

use std::error::Error as _;

use redlatch::{Backoff, Client, Error, ErrorKind, WaitStrategy};
use redlatch_behaviours::prelude::*;

/// Checks what every message has in common, and that this one says all of `words`.
#[track_caller]
fn assert_says(error: &Error, kind: ErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.chars().count() <= 300, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(error.source().is_none(), "a chain prints the reason twice");
    // A `main` that returns the error prints this.
    assert_eq!(format!("{error:?}"), format!("{kind:?}: {text}"));
}

#[tokio::test]
async fn wrong_addresses_say_what_is_wrong_and_show_no_secret() {
    let no_scheme = "has no scheme; it is like redis://host:6379/0";
    let encoded = "user and password they are written as %2F, %3F and %23";
    for (url, words) in [
        (
            "redis://:secret@h:99999",
            "the port 99999 of the address is out of range: 1 to 65535",
        ),
        (
            "redis+cluster://:secret@a,b:99999",
            "the port 99999 of the address is out of range",
        ),
        ("redis://h:x", "is not a URL such as redis://host:6379/0"),
        ("redis://app:sec/ret@h:6379", encoded),
        ("redis://app:12345/secret@h", encoded),
        ("localhost:6379", no_scheme),
        ("localhost", no_scheme),
        ("", no_scheme),
        ("redis://localhost?lease=1", "no span of time"),
        ("http://h", "the scheme http:// is unknown; use redis"),
        ("redis://h/x", "\"x\" is no database number"),
        ("redis://a,b", "say redis+cluster://"),
        ("redis+sentinel://a", "redis+sentinel://host/name"),
    ] {
        let error = Client::connect(url).await.unwrap_err();
        assert_says(&error, ErrorKind::InvalidOption, &[words]);
        for secret in ["secret", "sec/", "12345"] {
            assert!(!format!("{error:#?} {error}").contains(secret), "{error:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn name_in_use_by_another_kind_is_named_with_both_kinds() {
    let (_backend, [client]) = embedded().await;
    let name = "orders:42";
    let held = client.fair_lock(name).lock().await.unwrap();
    let semaphore = client.semaphore(name).permits_if_unset(1);
    let job = client.once(name).every(Duration::from_secs(3600));
    let latch = client.count_down_latch(name);
    let rw = client.read_write_lock(name);
    let permits = client.permit_expirable_semaphore(name).permits_if_unset(1);
    let minute = Duration::from_secs(60);
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
        let words = [
            &format!("{kind} \"orders:42\": ") as &str,
            "the name belongs to a fair lock, not to a",
            "choose another name or prefix. If the old object is out of use, remove it: ",
            "redlatch forget NAME, or Client::forget",
        ];
        assert_says(&outcome.unwrap_err(), ErrorKind::WrongKind, &words);
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
        let error = client.fair_lock(&name).lock().await.map(drop).unwrap_err();
        let words = [
            format!("the name belongs to {words}, not to a fair lock: choose"),
            "or Client::forget".to_owned(),
        ];
        let words = words.each_ref().map(String::as_str);
        assert_says(&error, ErrorKind::WrongKind, &words);
    }
    backend.command(&["HSET", &key, "k", "fair:1"]);
    let permits = client.permit_expirable_semaphore(&name);
    let error = permits.acquire().await.map(drop).unwrap_err();
    let words = [
        "not to a semaphore of permits with ids: choose",
        "or Client::forget",
    ];
    assert_says(&error, ErrorKind::WrongKind, &words);
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_programs_and_versions_are_told_apart() {
    let (backend, [client]) = embedded().await;
    backend.command(&["HSET", "redlatch:{v}", "k", "lock:2"]);
    let error = client.lock("v").lock().await.map(drop).unwrap_err();
    let words = ["lock \"v\": ", "lock:2", "lock:1", "one version everywhere"];
    assert_says(&error, ErrorKind::WrongKind, &words);
    backend.command(&["SET", "redlatch:{s}", "mine"]);
    let error = client.lock("s").lock().await.map(drop).unwrap_err();
    let words = ["lock \"s\": ", "a value of another program"];
    assert_says(&error, ErrorKind::WrongKind, &words);
}

#[tokio::test(start_paused = true)]
async fn permits_that_do_not_exist_are_counted() {
    let (_backend, [client]) = embedded().await;
    let semaphore = client.semaphore("pool");
    let error = semaphore.acquire().await.map(drop).unwrap_err();
    let words = ["semaphore \"pool\": ", "nobody has set", "try_set_permits"];
    assert_says(&error, ErrorKind::NotSet, &words);
    semaphore.set_permits(0).await.unwrap();
    let error = semaphore.acquire().await.map(drop).unwrap_err();
    let words = [
        "1 permit is requested, and it has 0 in total",
        "set_permits",
    ];
    assert_says(&error, ErrorKind::OutOfRange, &words);
    let error = semaphore.acquire_many(0).await.map(drop).unwrap_err();
    assert_says(&error, ErrorKind::InvalidOption, &["the least is 1"]);
    let error = client.count_down_latch("start").wait().await.unwrap_err();
    let words = ["latch \"start\": nobody has set it", "try_set_count"];
    assert_says(&error, ErrorKind::NotSet, &words);
}

#[tokio::test(start_paused = true)]
async fn every_other_error_names_its_object_and_is_short() {
    let backend = Backend::embedded();
    let builder = backend.builder().patience(Duration::from_millis(500));
    let client = builder.connect().await.unwrap();
    let long = format!("orders:{}", "x".repeat(500));
    let lock = client.lock(&long);
    let guard = lock.lock().await.unwrap();
    let once = WaitStrategy::Poll(Backoff::constant(Duration::from_millis(5)).max_attempts(1));
    let error = lock.lock().strategy(once).await.map(drop).unwrap_err();
    let words = [
        "lock \"orders:xxxx",
        "…\": another owner held it",
        "try_lock_for",
    ];
    assert_says(&error, ErrorKind::TooManyAttempts, &words);
    let other = backend.client().await.owner();
    let error = lock.lock().owner(&other).await.map(drop).unwrap_err();
    assert_says(&error, ErrorKind::ForeignOwner, &["lock \"orders:"]);
    let error = client.lock("").lock().await.map(drop).unwrap_err();
    assert_says(&error, ErrorKind::InvalidName, &["the name is empty"]);
    let error = client.lock("x".repeat(513)).info().await.unwrap_err();
    assert_says(&error, ErrorKind::InvalidName, &["513 bytes", "1 to 512"]);
    let short = Duration::from_millis(1);
    let error = lock.lock().lease(short).await.map(drop).unwrap_err();
    assert_says(&error, ErrorKind::InvalidLease, &["50ms to 365 days"]);
    let rw = client.read_write_lock("rw");
    let reader = rw.read().await.unwrap();
    let error = rw.write().owner(reader.owner()).await;
    let error = error.map(drop).unwrap_err();
    let words = [
        "write lock \"rw\": ",
        "wait for itself",
        "upgradable_read()",
    ];
    assert_says(&error, ErrorKind::WouldDeadlock, &words);
    drop(reader);
    let server = backend.embedded_server();
    server.stop();
    let error = guard.extend(Duration::from_secs(60)).await.unwrap_err();
    let words = ["lock \"orders:", "did not answer in time"];
    assert_says(&error, ErrorKind::OutcomeUnknown, &words);
    server.resume();
    lock.force_release().await.unwrap();
    let cause = guard.lost().await;
    let error = guard.check().unwrap_err();
    let words = ["lock \"orders:", "the hold was lost"];
    assert_says(&error, ErrorKind::Lost(cause), &words);
    client.close_now().await;
    let error = client.lock("z").lock().await.map(drop).unwrap_err();
    let words = ["lock \"z\": the client is closed"];
    assert_says(&error, ErrorKind::Closed, &words);
}
