//! `redlatch elect`.

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{prelude::*, verbs::LEADS};

#[tokio::test(flavor = "multi_thread")]
async fn one_candidate_leads_and_the_next_follows_when_its_command_has_ended() {
    let world = World::new().await;
    let args = ["elect", "boss", "--", "sh", "-c", LEADS];
    let (a, b) = (world.start(&args), world.start(&args));
    world.lines("started", 1).await;
    let info = world.client().await.election("boss").info().await.unwrap();
    assert!(info.is_some());
    assert_eq!(read_lines(&world.file("started")).len(), 1);
    world.stop();
    assert_eq!((finished(a).await.code, finished(b).await.code), (0, 0));
    assert_eq!(read_lines(&world.file("started")).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_leads_again_after_a_pause() {
    let world = World::new().await;
    let script = "echo $REDLATCH_TOKEN >> terms; [ $(wc -l < terms) -ge 3 ]";
    let args = ["elect", "boss", "--pause", "10ms", "--", "sh", "-c", script];
    let led = world.ends(0, &args).await;
    led.says("exit code 1; the name is given back");
    let terms = read_lines(&world.file("terms"));
    let tokens: Vec<u64> = terms.iter().map(|token| token.parse().unwrap()).collect();
    let rise = tokens.is_sorted_by(|a, b| a < b);
    assert!(rise && tokens.len() == 3, "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_wait_or_the_command_and_gives_the_name_back() {
    let world = World::new().await;
    let args = ["elect", "boss", "--", "sh", "-c", LEADS];
    let leader = world.start(&args);
    let group = world.lines("started", 1).await.remove(0);
    let candidate = world.start(&args);
    let client = world.client().await;
    world.awaited("boss").await;
    ended_by("TERM", candidate).await.ends(128 + 15);
    ended_by("TERM", leader).await.ends(128 + 15);
    assert!(!is_alive(&group));
    assert_eq!(client.election("boss").leader().await.unwrap(), None);
    assert_eq!(read_lines(&world.file("started")).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_code_after_a_signal_is_that_of_the_command_or_of_the_loss() {
    let world = World::new().await;
    let script = "trap 'exit 5' TERM; echo $$ >> started; while :; do sleep 0.05; done";
    let child = world.start(&sh("elect boss", script));
    world.lines("started", 1).await;
    ended_by("TERM", child).await.ends(5);

    let script = format!("trap 'echo told >> told' TERM; {LEADS}");
    let args = sh("elect boss --lease 12s --kill-after 5s", &script);
    let child = world.start(&args);
    world.lines("started", 2).await;
    signal(pid_of(&child), "TERM");
    world.lines("told", 1).await;
    let token = world.token("boss").await;
    world.ends(0, &["break", "boss", "--token", &token]).await;
    world.lines("told", 2).await;
    world.stop();
    let lost = finished(child).await;
    lost.ends(76).says("the term was lost").says("exit code 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_does_not_end_is_dead_before_the_next_one() {
    let world = World::new().await;
    let stubborn = "trap '' TERM; while :; do echo $$ $(date +%s%N) >> beats; done";
    let args = sh("elect boss --lease 6s --kill-after 1s --fair", stubborn);
    let child = world.start(&args);
    world.lines("beats", 1).await;
    let election = world.client().await.election("boss").fair();
    assert!(election.force_release().after_lease().await.unwrap());
    let next = world.redlatch("elect boss --fair -- date +%s%N");
    let taken: u64 = next.await.stdout.trim().parse().unwrap();
    // The first candidate may lead again by now, with another process.
    let beats = read_lines(&world.file("beats"));
    let beats = beats.iter().map(|beat| beat.split_once(' ').unwrap());
    let beats: Vec<_> = beats.collect();
    let of_first = beats.iter().filter(|(pid, _)| *pid == beats[0].0);
    let last = of_first.map(|(_, at)| at.parse::<u64>().unwrap()).max();
    assert!(last < Some(taken), "alive at {last:?}, after {taken}");
    signal(pid_of(&child), "KILL");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_started_after_a_signal_although_the_term_is_lost() {
    let world = World::new().await;
    let script = format!("trap 'echo told > told' TERM; {LEADS}");
    let args = sh("elect boss --lease 3s --pause 10ms", &script);
    let child = world.start(&args);
    let first = world.lines("started", 1).await.remove(0);
    signal(pid_of(&child), "TERM");
    world.lines("told", 1).await;
    let client = world.client().await;
    assert!(client.election("boss").force_release().await.unwrap());
    finished(child).await.ends(128 + 15);
    assert!(!is_alive(&first));
    assert_eq!(read_lines(&world.file("started")).len(), 1);
}

/// Sends a request, and returns the status and the JSON of the answer.
async fn get(address: &str, path: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// Returns an address that was free just now.
async fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn http_tells_who_leads_and_that_both_are_ready() {
    let world = World::new().await;
    let (one, other) = (free_address().await, free_address().await);
    let leader = world.start(&["elect", "boss", "--http", &one, "--", "sh", "-c", LEADS]);
    world.lines("started", 1).await;
    // This one has no command: it leads until a signal.
    let candidate = world.start(&["elect", "boss", "--http", &other]);
    let client = world.client().await;
    let election = client.election("boss");
    world.awaited("boss").await;
    let token = election.info().await.unwrap().unwrap().token.as_u64();
    let leads = serde_json::json!({"v": 1, "name": "boss", "leads": true, "token": token});
    let follows = serde_json::json!({"v": 1, "name": "boss", "leads": false});
    assert_eq!(get(&one, "/leader").await, (200, leads.clone()));
    assert_eq!(get(&one, "/ready?x=1").await, (200, leads.clone()));
    assert_eq!(get(&one, "/").await, (404, leads));
    assert_eq!(get(&other, "/leader").await, (503, follows.clone()));
    assert_eq!(get(&other, "/ready").await, (200, follows));
    world.stop();
    finished(leader).await.ends(0);
    let now = loop {
        match get(&other, "/leader").await {
            (200, now) => break now,
            (status, _) => assert_eq!(status, 503),
        }
    };
    assert!(now["token"].as_u64().unwrap() > token);
    ended_by("TERM", candidate).await.ends(128 + 15);
    assert_eq!(election.leader().await.unwrap(), None);

    let wrong = world.ends(64, "elect boss --http nowhere").await;
    wrong.says("--http cannot use nowhere");
}
