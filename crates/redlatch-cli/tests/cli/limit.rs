//! `redlatch limit`.

use std::time::Instant;

use crate::{prelude::*, world::calls};

const HOUR: Duration = Duration::from_secs(3600);

/// Waits until the limiter `name` owes so many tokens.
async fn owes(world: &World, name: &str, tokens: u64) {
    let limiter = world.client().await.rate_limiter(name);
    while limiter.info().await.unwrap().owed != tokens {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_runs_while_the_rate_lets_it_through() {
    let world = World::new().await;
    let line = "limit -n a --rate 1/h --burst 2";
    let print = sh(line, "echo $REDLATCH_NAME");
    world.ends(0, &print).await.prints("a\n");
    world.ends(7, &sh(line, "exit 7")).await;
    let busy = world.ends(75, &print).await;
    busy.says("busy: the rate of a is used up; the command may pass in 59m");
    assert_eq!(busy.stdout, "");
    let quiet = [&["-q"], &print[..]].concat();
    world.ends(75, &quiet).await.prints("");
    let named = ["limit", "--rate", "1/h", "--", "-x", "--", "true"];
    world.ends(0, &named).await;
    owes(&world, "-x", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_the_pass_counts_or_at_once_if_it_is_too_short() {
    let world = World::new().await;
    let limiter = world.client().await.rate_limiter("a");
    let limiter = limiter.rate(10, Duration::from_secs(1)).burst(1);
    let began = Instant::now();
    for _ in 0..5 {
        limiter.reserve(1).await.unwrap();
    }
    world.ends(0, "limit a --rate 10/s --burst 1 -- true").await;
    assert!(began.elapsed() >= Duration::from_millis(500));
    let slow = "limit b --rate 1/h -w 30m -- true";
    world.ends(0, slow).await;
    let began = Instant::now();
    world.ends(75, slow).await.says("may pass in 59m");
    assert!(began.elapsed() < HOUR / 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_counts_too_late_is_given_back_however_long_the_answer_takes() {
    let world = World::new().await;
    let (way, client) = (world.way(), world.client().await);
    // The look is answered at once. The client repeats the request for the tokens, with pauses that
    // add up to half a second at least.
    let (takes, loading) = (|| calls("a", 5..), "-LOADING wait");
    let refused: Vec<_> = (0..8).map(|_| way.answer(takes(), loading)).collect();
    way.always_answer(takes(), loading);
    let mut refused = refused.into_iter();
    let line = "limit a --rate 10/s --burst 301 --cost 301 -w 30s -- touch ran";
    let child = world.start_at(&way.url(), line);
    refused.next().unwrap().answered().await;
    // They count a tenth of a second after the caller's time from now on.
    let limiter = client.rate_limiter("a");
    let others = limiter.clone().rate(10, Duration::from_secs(1)).burst(301);
    others.reserve(301).await.unwrap();
    refused.next_back().unwrap().answered().await;
    way.withdraw_orders();
    let late = finished(child).await;
    late.ends(75).says("the rate of a is used up");
    assert!(limiter.info().await.unwrap().owed <= 301);
    assert!(!world.file("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_wait_and_gives_the_tokens_back() {
    let world = World::new().await;
    let call = "limit a --rate 6/h --burst 3 --cost 3 -- touch ran";
    let before = "limit a --rate 6/h --burst 3 --cost 2 -- true";
    world.ends(0, before).await;
    owes(&world, "a", 2).await;
    let child = world.start(call);
    owes(&world, "a", 5).await;
    ended_by("TERM", child).await.ends(128 + 15);
    owes(&world, "a", 2).await;
    assert!(!world.file("ran").exists());
}

/// Options, and what is said of them.
const WRONG: &str = r#"
 | --rate <N/SPAN>
--rate 10 | "10" is no rate; write it as 10/s, 100/m or 1/90s
--rate 0/s | is no rate
--rate 1/x | is no rate
--rate 1/s --burst 0 | --burst <N>
--rate 1/s --cost 0 | --cost <N>
--rate 2/s --cost 3 | the burst is 2; say --burst 3 or more
--rate 9/s --burst 1 --cost 2 | the burst is 1; say --burst 2
--rate 1/d --burst 400 | its burst of 400 is out of bounds
--rate 1/s -n -w 1s | cannot be used with
"#;

#[tokio::test(flavor = "multi_thread")]
async fn wrong_input_is_refused_with_what_to_write() {
    let world = World::new().await;
    for row in WRONG.trim_matches('\n').lines() {
        let (options, says) = row.split_once(" | ").unwrap();
        let line = format!("limit a {options} -- touch ran");
        world.ends(64, &line).await.says(says);
    }
    let _held = world.client().await.lock("lock").lock().await.unwrap();
    let wrong = world.ends(64, "limit lock --rate 1/s -- touch ran").await;
    wrong.says("belongs to a lock, not to a rate limiter");
    let missing = "limit a --rate 1/s -- no-such-command";
    world.ends(127, missing).await;
    assert!(!world.file("ran").exists());
    assert_eq!(world.client().await.object("a").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_is_shown_until_its_debt_is_paid_and_is_forgotten_then() {
    let world = World::new().await;
    world.ends(0, "limit a --rate 4/h --cost 3 -- true").await;
    let shown = world.ends(0, "show a").await;
    shown.shows("owes 3 for 44m").shows("at 4/h");
    let listed = json(&world.ends(0, "ls --kind limit --json").await.stdout);
    has(&listed["limit"], json!({"owed": 3, "rate": "4/h"}));
    let most = 45 * 60_000;
    assert!((most - 600_000..=most).contains(&listed["limit"]["reset_ms"].as_u64().unwrap()));
    let broken = world.ends(64, "break a --owner x").await;
    broken.says("a: a rate limiter has no holder");
    let early = world.ends(75, "forget a").await;
    early.says("a: it was used a moment ago; try again in 45m0");
}
