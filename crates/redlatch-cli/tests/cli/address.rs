//! Addresses, rights, and command lines that are wrong.

use crate::{prelude::*, support::all_end_with};

#[tokio::test(flavor = "multi_thread")]
async fn no_address_is_an_error_that_names_the_variables() {
    let world = World::new().await;
    let mut command = world.command("run a -- true");
    let ended = output(command.env_remove("REDLATCH_URL")).await;
    ended.ends(78).says("REDLATCH_URL");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_address_is_a_code_of_its_own() {
    let world = World::new().await;
    let wrong = "localhost:6379 http://localhost redis://localhost:99999";
    for url in wrong.split(' ') {
        let ended = world.ends_at(url, 78, "run a -- true").await;
        let is_missing = ended.stderr.contains("redis:// is missing");
        assert_eq!(is_missing, !url.contains("://"), "{}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_verbs_end_with_69_without_a_server() {
    let world = World::new().await;
    // Nothing listens on the port of a listener that is gone.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = gone.local_addr().unwrap().to_string();
    let all = all_end_with(69, &world, &format!("redis://{gone}")).await;
    all[0].says(&gone);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_comes_from_the_first_place_that_has_one() {
    let world = World::new().await;
    fs::write(world.file("url"), format!("{}\n", world.url())).unwrap();
    let wrong = "redis://127.0.0.1:1";
    let from_file = ["run", "--url-file", "url", "a", "--", "true"];
    world.ends_at(wrong, 0, &from_file).await;
    let url = world.url();
    let from_option = ["run", "--url", &url, "a", "--", "true"];
    world.ends_at(wrong, 0, &from_option).await;
    let mut from_redis_url = world.command("run a -- true");
    from_redis_url.env_remove("REDLATCH_URL");
    output(from_redis_url.env("REDIS_URL", &url)).await.ends(0);
    let missing = "run --url-file none a -- true";
    world.ends(78, missing).await.says("none");
}

/// The options of the client, by their doors: the address, and above it the command line.
#[tokio::test(flavor = "multi_thread")]
async fn the_address_counts_unless_an_option_is_given() {
    let world = World::new().await;
    let options = "prefix=shop&lease=100s&application=till&odd=x";
    let url = format!("{}?{options}", world.url());
    let client = Client::connect(&url).await.unwrap();
    let script = "echo up >> up; while [ ! -e stop ]; do sleep 0.05; done";
    for (number, (verb, lease)) in [
        ("run a", 100),
        ("elect b", 100),
        ("once c --slot 1", 100),
        ("run d --lease 50s", 50),
    ]
    .into_iter()
    .enumerate()
    {
        let child = world.start_at(&url, &sh(verb, script));
        world.lines("up", number + 1).await;
        let held = client.object(verb.args()[1]).await.unwrap().unwrap();
        let holder = &held.holders[0];
        assert_eq!(holder.metadata.as_ref().unwrap().application, "till");
        let remaining = holder.remaining.as_secs();
        let is_right = (lease / 2..=lease).contains(&remaining);
        assert!(is_right, "{verb}: {remaining}");
        let seen = world.ends_at(&url, 0, "ls").await;
        seen.says("of the address, and ignores them: odd");
        seen.shows(verb.args()[1]);
        world.stop();
        let ended = finished(child).await;
        ended.ends(0);
        assert_eq!(ended.stderr.matches('\n').count(), 1, "{ended:?}");
        fs::remove_file(world.file("stop")).unwrap();
    }
    let _held = client.lock("order").lock().await.unwrap();
    let other = ["run", "-n", "order", "--prefix", "bank", "--", "true"];
    world.ends_at(&url, 0, &other).await;
    let wrong = format!("{}?lease=10s", world.url());
    let run = "run --kill-after 6s a -- true";
    world.ends_at(&wrong, 64, run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_on_the_command_line_is_warned_of() {
    let world = World::new().await;
    let url = world.url().replace("redis://", "redis://app:secret@");
    let run = format!("run --url {url} a -- true");
    let ended = world.redlatch(&run).await;
    ended.says("visible to other users");
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_64() {
    let world = World::new().await;
    for line in [
        "",
        "no-such-verb",
        "run a",
        "run -- true",
        "run -n -w 3s a -- true",
        "run -w 3 a -- true",
        "run --read --fair a -- true",
        "run --of 3 a -- true",
        "run --permits 1 a b -- true",
        "run --lease 10ms a -- true",
        "run --lease 4s --kill-after 3s a -- true",
        "run --report no/such/folder a -- true",
        "ls --kind lok",
        "ls --every 1ms",
        "show",
        "wait",
        "wait a -w 30",
        "elect boss",
        "elect boss --observe -- true",
    ] {
        let ended = world.ends(64, line).await;
        assert_ne!(ended.stderr, "", "{line}");
    }
    let unnamed = world.ends(64, &["run", "", "--", "true"]).await;
    assert_ne!(unnamed.stderr, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn help_and_version_are_no_errors() {
    let world = World::new().await;
    for args in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let ended = world.ends(0, args).await;
        ended.shows("redlatch");
        assert!(!ended.stdout.contains("__"), "{args:?}: {}", ended.stdout);
    }
}
