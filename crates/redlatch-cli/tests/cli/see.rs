//! `redlatch ls`, `show` and `wait`.

use std::{process::Stdio, time::Duration};

use redlatch::Client;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};

use crate::support::{Wire, World, finished, output};

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// One object of each kind, held by one client. The guards release when they are dropped.
async fn one_of_each(client: &Client) -> impl Sized + use<> {
    let rw = client.read_write_lock("rw").write().await.unwrap();
    let pool = client.semaphore("pool").permits_if_unset(5);
    let permits = pool.acquire_many(2).await.unwrap();
    let ids = client.permit_expirable_semaphore("ids").permits_if_unset(3);
    ids.acquire().await.unwrap();
    let latch = client.count_down_latch("latch");
    latch.try_set_count(2).await.unwrap();
    let job = client.once("job").slot("w47");
    let ran = job.run(async |_| Ok::<_, String>(())).await.unwrap();
    assert!(ran.is_done());
    let lock = client.lock("lock").lock().await.unwrap();
    let fair = client.fair_lock("fair").lock().await.unwrap();
    (rw, permits, lock, fair)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_kinds_are_listed_by_name_and_a_free_lock_is_not() {
    let world = World::new().await;
    let client = world.client().await;
    let _held = one_of_each(&client).await;
    client
        .lock("freed")
        .lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let listed = world.redlatch(&["ls"]).await;
    assert_eq!((listed.code, listed.stderr.as_str()), (0, ""));
    let lines: Vec<_> = listed.stdout.lines().collect();
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(lines[0])[..2], ["NAME", "KIND"]);
    let found: Vec<_> = lines[1..]
        .iter()
        .map(|line| words(line)[..2].join(" "))
        .collect();
    let all = [
        "fair fair",
        "ids permits",
        "job once",
        "latch latch",
        "lock lock",
        "pool semaphore",
        "rw rw",
    ];
    assert_eq!(found, all);
    let pid = std::process::id();
    assert!(
        lines[5].contains(&format!("other (pid {pid} on ")),
        "{}",
        lines[5]
    );
    assert!(lines[6].ends_with("has 2, 3 of 5 free"), "{}", lines[6]);
    assert!(lines[4].ends_with("2 of 2 to go"), "{}", lines[4]);

    let some = world
        .redlatch(&["ls", "--kind", "rw", "--kind", "latch"])
        .await;
    assert_eq!(some.stdout.lines().count(), 3, "{}", some.stdout);
    let none = world.redlatch(&["ls", "nothing*"]).await;
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_what_the_page_says() {
    let world = World::new().await;
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    let _others = one_of_each(&client).await;
    let listed = world.redlatch(&["ls", "--json"]).await;
    let all: Vec<Value> = listed.stdout.lines().map(json).collect();
    let of = |name: &str| all.iter().find(|object| object["name"] == name).unwrap();
    assert!(all.iter().all(|object| object["v"] == 1));
    let holder = &of("a")["holders"][0];
    assert_eq!(holder["token"], held.token().as_u64());
    assert_eq!(holder["owner"], held.owner().to_string());
    assert_eq!(holder["application"], "other");
    assert_eq!(holder["pid"], std::process::id());
    assert!(holder["remaining_ms"].as_u64().unwrap() > 1000);
    assert_eq!(of("rw")["holders"][0]["access"], "write");
    assert_eq!(
        of("pool")["permits"],
        serde_json::json!({"total": 5, "available": 3})
    );
    assert_eq!(of("latch")["latch"]["count"], 2);
    assert_eq!(of("job")["last"]["slot"], "w47");
    assert_eq!(of("job")["last"]["outcome"], "done");

    let shown = world.redlatch(&["show", "a", "--json"]).await;
    assert_eq!(
        json(&shown.stdout)["holders"][0]["token"],
        held.token().as_u64()
    );
    let absent = world.redlatch(&["show", "nix", "--json"]).await;
    assert_eq!(
        (absent.code, &json(&absent.stdout)["kind"]),
        (0, &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn show_lists_the_queue_of_a_fair_lock() {
    let world = World::new().await;
    let client = world.client().await;
    let lock = client.fair_lock("line");
    let held = lock.lock().await.unwrap();
    let first = world.start(&["run", "--fair", "line", "--", "true"]);
    while lock.info().await.unwrap().unwrap().waiters < 1 {
        tokio::task::yield_now().await;
    }
    let shown = world.redlatch(&["show", "line"]).await;
    let lines: Vec<_> = shown.stdout.lines().collect();
    assert!(
        lines[3].starts_with("1      true (pid "),
        "{}",
        shown.stdout
    );
    let free = world.redlatch(&["show", "nix"]).await;
    assert_eq!(free.stdout, "nobody holds nix (prefix redlatch)\n");
    held.release().await.unwrap();
    assert_eq!(finished(first).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_applications_cannot_steer_the_terminal() {
    let world = World::new().await;
    let client = Client::builder(&world.url())
        .application("bad\x1b[2J")
        .connect();
    let client = client.await.unwrap();
    let _held = client.lock("x\x1b]0;title\x07").lock().await.unwrap();
    for args in [&["ls", "--long"][..], &["show", "x\x1b]0;title\x07"]] {
        let shown = world.redlatch(args).await.stdout;
        assert!(shown.contains("x\\u{1b}]0;title\\u{7}"), "{shown:?}");
        assert!(!shown.contains('\x1b'), "{shown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_is_no_failure() {
    let world = World::new().await;
    let client = world.client().await;
    let _held = client.lock("a").lock().await.unwrap();
    let mut child = world.command(&["ls", "--json"]);
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = finished(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

async fn event(lines: &mut Lines<BufReader<tokio::process::ChildStdout>>) -> Value {
    json(&lines.next_line().await.unwrap().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_tells_each_change() {
    let world = World::new().await;
    let client = world.client().await;
    let first = client.lock("a").lock().await.unwrap();
    let args = ["ls", "--watch", "--json", "--every", "100ms"];
    let mut child = world.start(&args);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let seen = event(&mut lines).await;
    assert_eq!(
        (&seen["event"], &seen["name"]),
        (&"held".into(), &"a".into())
    );
    assert_eq!(seen["holder"]["token"], first.token().as_u64());
    let token = first.token().as_u64();
    first.release().await.unwrap();
    let seen = event(&mut lines).await;
    assert_eq!(
        (&seen["event"], &seen["holder"]["token"]),
        (&"gone".into(), &token.into())
    );
    let short = Duration::from_secs(5);
    let second = client.lock("a").lock().lease(short).await.unwrap();
    let seen = event(&mut lines).await;
    assert_eq!((&seen["event"], &seen["v"]), (&"held".into(), &1.into()));
    second.extend(Duration::from_secs(60)).await.unwrap();
    assert_eq!(event(&mut lines).await["event"], "renewed");
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_goes_on_when_the_server_was_away() {
    let world = World::new().await;
    let client = world.client().await;
    let wire = Wire::to(&world).await;
    let _first = client.lock("a").lock().await.unwrap();
    let args = ["ls", "--watch", "--json", "--every", "100ms"];
    let mut child = world.command_at(&wire.url, &args).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(event(&mut lines).await["event"], "held");
    wire.cut();
    let silent = event(&mut lines).await;
    assert_eq!(
        (&silent["v"], &silent["event"]),
        (&1.into(), &"unanswered".into())
    );
    assert!(
        silent["error"].is_string() && silent["at_ms"].is_u64(),
        "{silent}"
    );
    let told = errors.next_line().await.unwrap().unwrap();
    assert!(
        told.contains("no answer") && told.contains("looking again in"),
        "{told}"
    );
    let _second = client.lock("b").lock().await.unwrap();
    wire.mend();
    let mut seen = event(&mut lines).await;
    while seen["event"] == "unanswered" {
        seen = event(&mut lines).await;
    }
    assert_eq!(seen["event"], "answered");
    while seen["name"] != "b" {
        assert_ne!(seen["event"], "gone", "nothing is known to be over");
        seen = event(&mut lines).await;
    }
    assert_eq!(seen["event"], "held");
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_takes_nothing_and_ends_when_the_name_is_free() {
    let world = World::new().await;
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    let busy = world.redlatch(&["wait", "free", "a", "-w", "50ms"]).await;
    assert_eq!(busy.code, 75);
    assert!(
        busy.stderr.contains("busy: a is held by other (pid"),
        "{}",
        busy.stderr
    );
    let child = world.start(&["wait", "a"]);
    held.release().await.unwrap();
    let ended = finished(child).await;
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (0, "", "")
    );
    assert!(!client.lock("a").is_locked().await.unwrap());

    let latch = client.count_down_latch("latch");
    latch.try_set_count(1).await.unwrap();
    let busy = world.redlatch(&["wait", "latch", "-w", "0s"]).await;
    assert_eq!(busy.code, 75);
    assert!(
        busy.stderr.contains("latch has 1 of 1 to go"),
        "{}",
        busy.stderr
    );
    let child = world.start(&["wait", "latch"]);
    latch.count_down(1).await.unwrap();
    assert_eq!(finished(child).await.code, 0);
    assert_eq!(world.redlatch(&["wait", "latch"]).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_has_the_same_exit_codes_as_running() {
    let world = World::new().await;
    for verb in [&["ls"][..], &["show", "a"], &["wait", "a"]] {
        let mut command = world.command_at("redis://127.0.0.1:1", verb);
        let refused = output(&mut command).await;
        assert_eq!(refused.code, 69, "{verb:?}: {}", refused.stderr);
    }
    for wrong in [
        &["ls", "--kind", "lok"][..],
        &["ls", "--every", "1ms"],
        &["show"],
        &["wait"],
        &["wait", "a", "-w", "30"],
    ] {
        assert_eq!(world.redlatch(wrong).await.code, 64, "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_becomes_a_page_with_the_tokens_of_its_holds() {
    let world = World::new().await;
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    let mut child = world.start(&["ls", "--watch", "--json", "--every", "100ms"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let recorded = lines.next_line().await.unwrap().unwrap();
    child.kill().await.unwrap();
    std::fs::write(world.file("holds.jsonl"), format!("{recorded}\n")).unwrap();
    let args = ["timeline", "holds.jsonl", "-o", "page.html"];
    let drawn = world.redlatch(&args).await;
    assert_eq!((drawn.code, drawn.stderr.as_str()), (0, ""));
    let page = std::fs::read_to_string(world.file("page.html")).unwrap();
    assert!(page.contains(&format!("\"token\":\"{}\"", held.token())));
    let foreign = ["src=", "href=", "url(", "fetch(", "import "];
    assert!(
        !foreign.iter().any(|word| page.contains(word)),
        "it needs nothing else"
    );

    std::fs::write(world.file("holds.jsonl"), "no line\n").unwrap();
    let wrong = world.redlatch(&["timeline", "holds.jsonl"]).await;
    assert_eq!(wrong.code, 64);
    assert!(
        wrong.stderr.contains("line 1 is no line of"),
        "{}",
        wrong.stderr
    );
    assert_eq!(world.redlatch(&["timeline", "missing"]).await.code, 64);
}
