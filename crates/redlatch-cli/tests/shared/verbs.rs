//! The tests of verbs whose results can differ by server: they run on the server inside of the
//! test's process and on every real one. The rest of the tests is in `cli`.

use std::time::Duration;

use redlatch::Client;
use serde_json::{Value, json};

use crate::support::{Args, World, event, finished, has, json, read_lines, sh};

/// Leads until the file `stop` is there.
pub(crate) const LEADS: &str = "echo $$ >> started; while [ ! -e stop ]; do sleep 0.05; done";

/// Calls the macro `$make` with the names of all.
macro_rules! all {
    ($make:ident) => {
        $make! {
            several_names_are_all_held_or_none
            other_kinds_are_held_by_their_options
            all_schedules_run_their_present_slot_once
            observers_see_who_leads
            all_kinds_are_listed_by_name_and_a_free_lock_is_not
            json_has_what_the_page_says
            show_lists_the_queue_of_a_fair_lock
            watching_tells_each_change
            waiting_takes_nothing_and_ends_when_the_name_is_free
            a_hold_lasts_without_its_process_until_its_handle_releases_it
            breaking_now_frees_the_name_at_once
            a_name_that_changes_its_kind_is_forgotten_once_it_is_free
        }
    };
}
pub(crate) use all;

pub(crate) async fn several_names_are_all_held_or_none(world: World) {
    let client = world.client().await;
    let held = client.lock("b").lock().await.unwrap();
    world.ends(75, "run -n a b -- true").await;
    assert!(!client.lock("a").is_locked().await.unwrap());
    held.release().await.unwrap();
    let print = "printf %s \"$REDLATCH_NAME\"; exec redlatch_is_not_there 2>/dev/null";
    let ended = world.redlatch(&sh("run -n b a", print)).await;
    assert_eq!(ended.stdout, "b\na");
}

pub(crate) async fn other_kinds_are_held_by_their_options(world: World) {
    let client = world.client().await;
    let reader = client.read_write_lock("rw").read().await.unwrap();
    world.ends(0, "run -n --read rw -- true").await;
    world.ends(75, "run -n --write rw -- true").await;
    reader.release().await.unwrap();
    world.ends(0, "run -n --write rw -- true").await;
    let fair = client.fair_lock("f").lock().await.unwrap();
    world.ends(75, "run -n --fair f -- true").await;
    fair.release().await.unwrap();
    let permits = "run -n --permits 2 s -- true";
    world.ends(64, permits).await;
    world.ends(0, "run -n --permits 2 --of 3 s -- true").await;
    let two = client.semaphore("s").acquire_many(2).await.unwrap();
    world.ends(75, permits).await;
    two.release().await.unwrap();
}

pub(crate) async fn all_schedules_run_their_present_slot_once(world: World) {
    for schedule in [
        &["every", "--every", "365d+1h"][..],
        &["gap", "--gap", "365d"],
        &["cron", "--cron", "0 3 1 1 *", "--tz", "Europe/Berlin"],
    ] {
        let script = sh("", "echo ran >> runs");
        for _ in 0..2 {
            let once = [&["once"], schedule, &script].concat();
            world.ends(0, &once).await;
        }
    }
    assert_eq!(read_lines(&world.file("runs")).len(), 3);
}

pub(crate) async fn observers_see_who_leads(world: World) {
    let (mut child, mut lines) = world.watch(&world.url(), "elect boss --observe");
    let vacant = json!({"v": 1, "name": "boss", "leads": false});
    assert_eq!(event(&mut lines).await, vacant);
    let leader = world.start(&sh("elect boss --value h:9", LEADS));
    let mut seen = event(&mut lines).await;
    while seen["value"].is_null() {
        seen = event(&mut lines).await;
    }
    has(&seen, json!({"leads": true, "value": "h:9"}));
    let is_whole = seen["token"].is_u64() && seen["since_ms"].is_u64();
    assert!(is_whole, "{seen}");
    world.lines("started", 1).await;
    std::fs::write(world.file("stop"), "").unwrap();
    finished(leader).await.ends(0);
    assert_eq!(event(&mut lines).await["leads"], false);
    child.kill().await.unwrap();
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
    let limiter = client.rate_limiter("limit");
    let limiter = limiter.rate(3, Duration::from_secs(3600));
    assert!(limiter.try_acquire(2).await.unwrap().pass().is_some());
    let job = client.once("job").slot("w47");
    let ran = job.run(async |_| Ok::<_, String>(())).await.unwrap();
    assert!(ran.is_done());
    let lock = client.lock("lock").lock().await.unwrap();
    let fair = client.fair_lock("fair").lock().await.unwrap();
    (rw, permits, lock, fair)
}

pub(crate) async fn all_kinds_are_listed_by_name_and_a_free_lock_is_not(world: World) {
    let client = world.client().await;
    let _held = one_of_each(&client).await;
    let freed = client.lock("freed").lock().await.unwrap();
    freed.release().await.unwrap();
    let listed = world.ends(0, "ls").await;
    listed.is_silent();
    let lines: Vec<_> = listed.stdout.lines().collect();
    let own = format!(" other (pid {} on ", std::process::id());
    let all = [
        ("NAME KIND", " "),
        ("fair fair", own.as_str()),
        ("ids permits", " "),
        ("job once", " "),
        ("latch latch", "2 of 2 to go"),
        ("limit limit", "at 3/h"),
        ("lock lock", &own),
        ("pool semaphore", "has 2, 3 of 5 free"),
        ("rw rw", &own),
    ];
    assert_eq!(lines.len(), all.len(), "{listed:?}");
    for (line, (begin, rest)) in lines.iter().zip(all) {
        assert_eq!(line.args()[..2].join(" "), begin, "{listed:?}");
        assert!(line.contains(rest), "{rest}: {listed:?}");
    }

    let some = world.redlatch("ls --kind rw --kind latch").await;
    assert_eq!(some.stdout.lines().count(), 3, "{}", some.stdout);
    let none = world.redlatch("ls nothing*").await;
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
}

pub(crate) async fn json_has_what_the_page_says(world: World) {
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    let _others = one_of_each(&client).await;
    let listed = world.redlatch("ls --json").await;
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
    let permits = json!({"total": 5, "available": 3});
    assert_eq!(of("pool")["permits"], permits);
    assert_eq!(of("latch")["latch"]["count"], 2);
    assert_eq!(of("limit")["limit"]["owed"], 2);
    let last = json!({"slot": "w47", "outcome": "done"});
    has(&of("job")["last"], last);

    let shown = json(&world.redlatch("show a --json").await.stdout);
    assert_eq!(shown["holders"][0]["token"], held.token().as_u64());
    let absent = world.ends(0, "show nix --json").await;
    assert_eq!(json(&absent.stdout)["kind"], Value::Null);
}

pub(crate) async fn show_lists_the_queue_of_a_fair_lock(world: World) {
    let client = world.client().await;
    let lock = client.fair_lock("line");
    let held = lock.lock().await.unwrap();
    let first = world.start("run --fair line -- true");
    world.awaited("line").await;
    let shown = world.redlatch("show line").await;
    let lines: Vec<_> = shown.stdout.lines().collect();
    assert!(lines[3].starts_with("1      true (pid "), "{shown:?}");
    let free = world.redlatch("show nix").await;
    assert_eq!(free.stdout, "nix is not held (prefix redlatch)\n");
    held.release().await.unwrap();
    finished(first).await.ends(0);
}

pub(crate) async fn watching_tells_each_change(world: World) {
    let client = world.client().await;
    let first = client.lock("a").lock().await.unwrap();
    let (mut child, mut lines) = world.watch(&world.url(), "ls --watch --json --every 100ms");
    let seen = event(&mut lines).await;
    has(&seen, json!({"event": "held", "name": "a"}));
    let token = first.token().as_u64();
    assert_eq!(seen["holder"]["token"], token);
    first.release().await.unwrap();
    let seen = event(&mut lines).await;
    has(&seen, json!({"event": "gone"}));
    assert_eq!(seen["holder"]["token"], token);
    let short = Duration::from_secs(5);
    let second = client.lock("a").lock().lease(short).await.unwrap();
    has(&event(&mut lines).await, json!({"event": "held", "v": 1}));
    second.extend(Duration::from_secs(60)).await.unwrap();
    assert_eq!(event(&mut lines).await["event"], "renewed");
    child.kill().await.unwrap();
}

pub(crate) async fn waiting_takes_nothing_and_ends_when_the_name_is_free(world: World) {
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    let busy = world.ends(75, "wait free a -w 1s").await;
    busy.says("busy: a is held by other (pid");
    let child = world.start("wait a");
    held.release().await.unwrap();
    finished(child).await.ends(0).prints("");
    assert!(!client.lock("a").is_locked().await.unwrap());

    let latch = client.count_down_latch("latch");
    latch.try_set_count(1).await.unwrap();
    let closed = world.ends(75, "wait latch -w 0s").await;
    closed.says("latch has 1 of 1 to go");
    let child = world.start("wait latch");
    latch.count_down(1).await.unwrap();
    finished(child).await.ends(0);
    world.ends(0, "wait latch").await;
}

pub(crate) async fn a_hold_lasts_without_its_process_until_its_handle_releases_it(world: World) {
    let client = world.client().await;
    for (option, name) in [(None, "a"), (Some("--fair"), "b@c"), (Some("--write"), "d")] {
        let mut args = vec!["hold", name, "--for", "4h", "--note", "db upgrade"];
        args.extend(option);
        let held = world.ends(0, &args).await;
        held.is_silent();
        let handle = held.stdout.trim_end();
        let object = client.object(name).await.unwrap().unwrap();
        let holder = &object.holders[0];
        assert_eq!(handle, format!("{}@{name}", holder.token.unwrap()));
        let most = Duration::from_secs(4 * 3600 - 600);
        assert!(holder.remaining > most, "{holder:?}");
        let of = holder.metadata.as_ref().unwrap();
        assert!(of.application.starts_with("redlatch hold"), "{of}");
        assert_eq!(holder.note.as_deref(), Some("db upgrade"));
        world.ends(75, &args).await.says("): db upgrade");

        world.ends(0, &["release", handle]).await.is_silent();
        assert_eq!(client.object(name).await.unwrap(), None);
        world.ends(66, &["release", handle]).await;
    }
}

pub(crate) async fn breaking_now_frees_the_name_at_once(world: World) {
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    let token = held.token().to_string();
    let now = ["break", "a", "--now", "--token", &token];
    world.ends(0, &now).await.shows("who may still be at work");
    assert!(!client.lock("a").is_locked().await.unwrap());

    let pool = client.semaphore("pool").permits_if_unset(2);
    let (_one, two) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    two.release().await.unwrap();
    let id = pool.holders().await.unwrap()[0].id.clone();
    let mut args = vec!["break", "pool", "--owner", &id];
    world.ends(64, &args).await.says("add --now");
    assert_eq!(pool.available_permits().await.unwrap(), 1);
    args.push("--now");
    world.ends(0, &args).await;
    assert_eq!(pool.available_permits().await.unwrap(), 2);
}

pub(crate) async fn a_name_that_changes_its_kind_is_forgotten_once_it_is_free(world: World) {
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    let refused = world.ends(75, "forget a").await;
    let told = "redlatch: a: it is held; redlatch show names the holder, redlatch break ends it\n";
    let both = (refused.stdout.as_str(), refused.stderr.as_str());
    assert_eq!(both, ("", told));
    held.release().await.unwrap();
    let fair = ["run", "--fair", "a", "--", "true"];
    let wrong = world.ends(64, &fair).await;
    let told = "belongs to a lock, not to a fair lock";
    wrong.says(told).says("redlatch forget NAME");
    let told = "a is forgotten; it may be of any kind now\n";
    assert_eq!(world.ends(0, "forget a").await.stdout, told);
    world.ends(0, &fair).await;
    let told = "the server knows nothing of b: nothing to forget\n";
    assert_eq!(world.ends(0, "forget b").await.stdout, told);
    let latch = client.count_down_latch("latch");
    latch.try_set_count(1).await.unwrap();
    world.ends(75, "forget latch").await.says("to delete it");
}
