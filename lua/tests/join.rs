//! How the build joins files, and what it refuses.

#![allow(clippy::expect_used, reason = "a fault of a test")]

#[allow(dead_code, reason = "the program itself runs in the build")]
#[path = "../build.rs"]
mod build;

const SCRIPT: &str = "-- Does it.\n-- Reply {now}\n";

/// Returns the names and texts of the scripts that are joined of these files.
fn joined(files: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
    let files = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), build::parse(text)));
    let scripts = build::scripts(&files.collect())?.into_iter();
    Ok(scripts
        .map(|script| (format!("{}/{}", script.kind, script.file), script.text))
        .collect())
}

#[test]
fn parts_stand_once_and_in_front_of_what_uses_them() {
    let script = format!("-- uses a/low, a/high\n{SCRIPT}");
    let files = [
        ("a/high", "-- uses a/low\nhigh\n"),
        ("a/low", "low\n"),
        ("a/script", &script),
    ];
    let text = format!("low\nhigh\n{SCRIPT}");
    assert_eq!(joined(&files), Ok(vec![("a/script".to_owned(), text)]));
}

#[test]
fn kinds_share_scripts() {
    let script = format!("-- uses $kind/shared\n-- uses $like/wait\n{SCRIPT}");
    let files = [
        ("old/shared", "-- waits like old\nold\n"),
        ("old/wait", "wait\n"),
        ("new/shared", "-- waits like old\nnew\n"),
        ("shared/take", &script),
    ];
    let take = |kind: &str| (format!("{kind}/take"), format!("{kind}\nwait\n{SCRIPT}"));
    assert_eq!(joined(&files), Ok(vec![take("new"), take("old")]));
}

#[test]
fn mistakes_are_refused() {
    for (text, refusal) in [
        (
            "-- uses a/prat\n",
            "there is no a/prat: a/script uses a/prat",
        ),
        ("-- uses $kind/a\n", "there is no a/a: a/script uses a/a"),
        (
            "-- uses a/part\n",
            "a/part uses itself: a/script uses a/part uses a/part",
        ),
        ("", "no script uses a/part"),
    ] {
        let script = format!("{text}{SCRIPT}");
        let files = [("a/part", "-- uses a/part\n"), ("a/script", &*script)];
        assert_eq!(joined(&files), Err(refusal.to_owned()));
    }
}
