//! Addresses, rights, and command lines that are wrong.

use std::fs;

use crate::support::{World, output};

#[tokio::test(flavor = "multi_thread")]
async fn no_address_is_an_error_that_names_the_variables() {
    let world = World::new().await;
    let mut command = world.command(&["run", "a", "--", "true"]);
    let ended = output(command.env_remove("REDLATCH_URL")).await;
    assert_eq!(ended.code, 78);
    assert!(ended.stderr.contains("REDLATCH_URL"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_address_is_told_apart_from_a_silent_server() {
    let world = World::new().await;
    for url in [
        "localhost:6379",
        "http://localhost",
        "redis://localhost:99999",
    ] {
        let ended = output(&mut world.command_at(url, &["run", "a", "--", "true"])).await;
        assert_eq!(ended.code, 78, "{url}: {}", ended.stderr);
    }
    // Nothing listens on the port of a listener that is gone.
    let gone = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("redis://{gone}");
    let ended = output(&mut world.command_at(&url, &["run", "a", "--", "true"])).await;
    assert_eq!(ended.code, 69, "{}", ended.stderr);
    assert!(ended.stderr.contains(&gone.to_string()), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_comes_from_the_first_place_that_has_one() {
    let world = World::new().await;
    fs::write(world.file("url"), format!("{}\n", world.url())).unwrap();
    let wrong = "redis://127.0.0.1:1";
    let from_file = ["run", "--url-file", "url", "a", "--", "true"];
    assert_eq!(
        output(&mut world.command_at(wrong, &from_file)).await.code,
        0
    );
    let url = world.url();
    let from_option = ["run", "--url", &url, "a", "--", "true"];
    assert_eq!(
        output(&mut world.command_at(wrong, &from_option))
            .await
            .code,
        0
    );
    let mut from_redis_url = world.command(&["run", "a", "--", "true"]);
    from_redis_url
        .env_remove("REDLATCH_URL")
        .env("REDIS_URL", &url);
    assert_eq!(output(&mut from_redis_url).await.code, 0);
    let missing = world
        .redlatch(&["run", "--url-file", "none", "a", "--", "true"])
        .await;
    assert_eq!(missing.code, 78);
    assert!(missing.stderr.contains("none"), "{}", missing.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_on_the_command_line_is_warned_of() {
    let world = World::new().await;
    let url = world.url().replace("redis://", "redis://app:secret@");
    let ended = world
        .redlatch(&["run", "--url", &url, "a", "--", "true"])
        .await;
    assert!(
        ended.stderr.contains("visible to other users"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_64() {
    let world = World::new().await;
    for args in [
        &["run", "a"][..],
        &["run", "--", "true"],
        &["run", "-n", "-w", "3s", "a", "--", "true"],
        &["run", "-w", "3", "a", "--", "true"],
        &["run", "--read", "--fair", "a", "--", "true"],
        &["run", "--of", "3", "a", "--", "true"],
        &["run", "--permits", "1", "a", "b", "--", "true"],
        &["run", "--lease", "10ms", "a", "--", "true"],
        &[
            "run",
            "--lease",
            "4s",
            "--kill-after",
            "3s",
            "a",
            "--",
            "true",
        ],
        &["run", "", "--", "true"],
        &["run", "--report", "no/such/folder", "a", "--", "true"],
        &["no-such-verb"],
        &[],
    ] {
        let ended = world.redlatch(args).await;
        assert_eq!(ended.code, 64, "{args:?}: {}", ended.stderr);
        assert!(!ended.stderr.is_empty(), "{args:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_another_kind_is_a_usage_error_that_says_so() {
    let world = World::new().await;
    let client = world.client().await;
    let _held = client.fair_lock("a").lock().await.unwrap();
    let ended = world.redlatch(&["run", "a", "--", "true"]).await;
    assert_eq!(ended.code, 64, "{}", ended.stderr);
    assert!(ended.stderr.contains("fair"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn help_and_version_are_no_errors() {
    let world = World::new().await;
    for args in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let ended = world.redlatch(args).await;
        assert_eq!(ended.code, 0, "{args:?}");
        assert!(
            ended.stdout.contains("redlatch"),
            "{args:?}: {}",
            ended.stdout
        );
        assert!(!ended.stdout.contains("__"), "{args:?}: {}", ended.stdout);
    }
}
