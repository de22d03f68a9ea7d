//! `redlatch doctor` without a real server. `tests/servers/doctor.rs` has the faults of servers.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_fit_server_has_no_fault_and_nothing_is_left_held() {
    let world = World::new().await;
    let well = world.ends(0, "doctor").await;
    well.is_silent();
    assert!(!well.stdout.contains("FAULT"), "{}", well.stdout);
    for check in "address,reach,version,round trip,clock,rights,pair".split(',') {
        well.shows(&format!("  {check} "));
    }
    let listed = world.redlatch("ls").await;
    assert_eq!(listed.stdout, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_have_the_code_that_other_verbs_end_with() {
    let world = World::new().await;
    for (url, code, check) in [
        ("redis://app:secret@127.0.0.1:1", 69, "reach"),
        ("localhost:6379", 78, "address"),
        ("redis://127.0.0.1:99999", 78, "address"),
    ] {
        let told = world.ends_at(url, code, "doctor --json").await;
        assert!(!told.stdout.contains("secret"), "{}", told.stdout);
        let report = json(&told.stdout);
        has(&report, json!({"v": 1, "code": code}));
        let last = report["checks"].as_array().unwrap().last().unwrap();
        has(last, json!({"check": check, "state": "fault"}));
        assert!(!last["advice"].as_str().unwrap().is_empty());
        world.ends_at(url, code, "ls").await;
    }
}

/// An unknown parameter may be a secret.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_parameters_are_named_without_their_values_and_once() {
    let world = World::new().await;
    let url = format!("{}?api_token=hush&prefix=shop", world.url());
    let told = world.ends_at(&url, 0, "doctor").await;
    told.is_silent().shows("api_token=***&prefix=shop");
    assert!(!told.stdout.contains("hush"), "{}", told.stdout);
    let count = told.stdout.matches("ignores them").count();
    assert_eq!(count, 1, "{}", told.stdout);
    let secret = world.url().replace("//", "//app:secret@");
    let told = world.redlatch(&["doctor", "--url", &secret]).await;
    let count = told.stderr.matches("visible to other users").count();
    assert_eq!(count, 1, "{told:?}");
}
