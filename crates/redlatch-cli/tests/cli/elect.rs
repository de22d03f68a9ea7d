//! `redlatch elect`.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{World, finished, is_alive, pid_of, read_lines, signal};

const LEADS: &str = "echo $$ >> started; while [ ! -e stop ]; do sleep 0.05; done";

#[tokio::test(flavor = "multi_thread")]
async fn one_candidate_leads_and_the_next_follows_when_its_command_has_ended() {
    let world = World::new().await;
    let args = ["elect", "boss", "--", "sh", "-c", LEADS];
    let (a, b) = (world.start(&args), world.start(&args));
    world.lines("started", 1).await;
    let info = world.client().await.election("boss").info().await.unwrap();
    assert!(info.is_some());
    assert_eq!(read_lines(&world.file("started")).len(), 1);
    std::fs::write(world.file("stop"), "").unwrap();
    assert_eq!((finished(a).await.code, finished(b).await.code), (0, 0));
    assert_eq!(read_lines(&world.file("started")).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_leads_again_after_a_pause() {
    let world = World::new().await;
    let script = "echo $REDLATCH_TOKEN >> terms; [ $(wc -l < terms) -ge 3 ]";
    let args = ["elect", "boss", "--pause", "10ms", "--", "sh", "-c", script];
    let led = world.redlatch(&args).await;
    assert_eq!(led.code, 0);
    assert!(
        led.stderr.contains("exit code 1; the name is given back"),
        "{}",
        led.stderr
    );
    let terms = read_lines(&world.file("terms"));
    let tokens: Vec<u64> = terms.iter().map(|token| token.parse().unwrap()).collect();
    assert!(
        tokens.is_sorted_by(|a, b| a < b) && tokens.len() == 3,
        "{tokens:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_wait_or_the_command_and_gives_the_name_back() {
    let world = World::new().await;
    let args = ["elect", "boss", "--", "sh", "-c", LEADS];
    let leader = world.start(&args);
    let group = world.lines("started", 1).await.remove(0);
    let candidate = world.start(&args);
    let client = world.client().await;
    while client
        .election("boss")
        .info()
        .await
        .unwrap()
        .unwrap()
        .waiters
        == 0
    {
        tokio::task::yield_now().await;
    }
    signal(pid_of(&candidate), "TERM");
    assert_eq!(finished(candidate).await.code, 128 + 15);
    signal(pid_of(&leader), "TERM");
    assert_eq!(finished(leader).await.code, 128 + 15);
    assert!(!is_alive(&group));
    assert_eq!(client.election("boss").leader().await.unwrap(), None);
    assert_eq!(read_lines(&world.file("started")).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_term_that_is_ended_by_force_ends_the_command() {
    let world = World::new().await;
    let args = [
        "elect", "boss", "--lease", "1s", "--pause", "10ms", "--", "sh", "-c", LEADS,
    ];
    let child = world.start(&args);
    let first = world.lines("started", 1).await.remove(0);
    let client = world.client().await;
    assert!(client.election("boss").force_release().await.unwrap());
    // It leads again, and the first command is dead by then.
    world.lines("started", 2).await;
    assert!(!is_alive(&first));
    std::fs::write(world.file("stop"), "").unwrap();
    assert_eq!(finished(child).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_started_after_a_signal_although_the_term_is_lost() {
    let world = World::new().await;
    let script = format!("trap 'echo told > told' TERM; {LEADS}");
    let args = [
        "elect", "boss", "--lease", "3s", "--pause", "10ms", "--", "sh", "-c", &script,
    ];
    let child = world.start(&args);
    let first = world.lines("started", 1).await.remove(0);
    signal(pid_of(&child), "TERM");
    world.lines("told", 1).await;
    let client = world.client().await;
    assert!(client.election("boss").force_release().await.unwrap());
    let ended = finished(child).await;
    assert_eq!(ended.code, 128 + 15, "{}", ended.stderr);
    assert!(!is_alive(&first));
    assert_eq!(read_lines(&world.file("started")).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn observers_see_who_leads() {
    let world = World::new().await;
    let mut child = world.start(&["elect", "boss", "--observe"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || -> Value {
        serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap()
    };
    assert_eq!(
        next().await,
        serde_json::json!({"v": 1, "name": "boss", "leads": false})
    );
    let leader = world.start(&["elect", "boss", "--value", "h:9", "--", "sh", "-c", LEADS]);
    let mut seen = next().await;
    while seen["value"].is_null() {
        seen = next().await;
    }
    assert_eq!(
        (&seen["leads"], &seen["value"]),
        (&true.into(), &"h:9".into())
    );
    assert!(
        seen["token"].is_u64() && seen["since_ms"].is_u64(),
        "{seen}"
    );
    world.lines("started", 1).await;
    std::fs::write(world.file("stop"), "").unwrap();
    assert_eq!(finished(leader).await.code, 0);
    assert_eq!(next().await["leads"], false);
    child.kill().await.unwrap();
    for wrong in [
        &["elect", "boss"][..],
        &["elect", "boss", "--observe", "--", "true"],
    ] {
        assert_eq!(world.redlatch(wrong).await.code, 64, "{wrong:?}");
    }
}
