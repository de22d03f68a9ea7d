//! `redlatch man` and `redlatch completions`.

use std::process::Command;

use crate::prelude::*;

const VERBS: [&str; 13] = [
    "run", "once", "elect", "limit", "ls", "show", "top", "wait", "hold", "release", "break",
    "doctor", "timeline",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_manual_names_all_verbs_and_each_has_a_page() {
    let world = World::new().await;
    let page = world.redlatch("man").await;
    assert!(page.stdout.starts_with(".ie"), "{}", page.stdout);
    for verb in VERBS {
        page.shows(&format!("redlatch\\-{verb}(1)"));
        let own = world.redlatch(&["man", verb]).await;
        own.shows(&format!(".TH redlatch-{verb} 1"))
            .shows(".SH OPTIONS");
    }
    assert!(!page.stdout.contains("__guardian"));
    for wrong in ["nix", "__guardian"] {
        world.ends(64, &["man", wrong]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_completes_verbs_and_options() {
    let world = World::new().await;
    let script = world.redlatch("completions bash").await;
    fs::write(world.file("completions"), script.stdout).unwrap();
    let ask = |words: &str| {
        // A shell passes the command, the word to complete, and the word before it.
        let line = format!(
            ". ./completions; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _redlatch redlatch \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; \
             echo ${{COMPREPLY[@]}}"
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &line])
            .current_dir(world.file(""));
        String::from_utf8(bash.output().unwrap().stdout).unwrap()
    };
    for (words, completed) in [("br", "break"), ("ls --wa", "--watch"), ("__", "")] {
        let told = ask(&format!("redlatch {words}"));
        assert_eq!(told.trim(), completed, "{words}");
    }
    for shell in ["zsh", "fish"] {
        let script = world.redlatch(&["completions", shell]).await.stdout;
        assert!(VERBS.iter().all(|verb| script.contains(verb)), "{shell}");
    }
}
