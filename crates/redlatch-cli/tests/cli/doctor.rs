//! `redlatch doctor` without a real server. `tests/servers/doctor.rs` has the faults of servers.

use serde_json::Value;

use crate::support::{World, output};

#[tokio::test(flavor = "multi_thread")]
async fn a_fit_server_has_no_fault_and_nothing_is_left_held() {
    let world = World::new().await;
    let well = world.ends(0, "doctor").await;
    well.is_silent();
    assert!(!well.stdout.contains("FAULT"), "{}", well.stdout);
    for check in [
        "address",
        "reach",
        "version",
        "round trip",
        "clock",
        "rights",
        "pair",
    ] {
        assert!(
            well.stdout.contains(&format!("  {check} ")),
            "{check}: {}",
            well.stdout
        );
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
        let mut command = world.command_at(url, "doctor --json");
        let told = output(&mut command).await;
        assert_eq!(told.code, code, "{url}: {}", told.stdout);
        assert!(!told.stdout.contains("secret"), "{}", told.stdout);
        let report: Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!((&report["v"], &report["code"]), (&1.into(), &code.into()));
        let last = report["checks"].as_array().unwrap().last().unwrap();
        assert_eq!(
            (&last["check"], &last["state"]),
            (&check.into(), &"fault".into())
        );
        assert!(!last["advice"].as_str().unwrap().is_empty());
        let mut command = world.command_at(url, "ls");
        assert_eq!(output(&mut command).await.code, code, "{url}");
    }
}

/// An unknown parameter may be a secret.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_parameters_are_named_without_their_values_and_once() {
    let world = World::new().await;
    let url = format!("{}?api_token=hush&prefix=shop", world.url());
    let told = output(&mut world.command_at(&url, "doctor")).await;
    told.ends(0).is_silent().shows("api_token=***&prefix=shop");
    assert!(!told.stdout.contains("hush"), "{}", told.stdout);
    assert_eq!(
        told.stdout.matches("ignores them").count(),
        1,
        "{}",
        told.stdout
    );
    let secret = world.url().replace("//", "//app:secret@");
    let told = world.redlatch(&["doctor", "--url", &secret]).await;
    assert_eq!(
        told.stderr.matches("visible to other users").count(),
        1,
        "{told:?}"
    );
}
