//! Checks what a reader of the documentation relies on who knows only the crate `redlatch`: pages
//! that cannot fall behind the code, and examples to paste.

use crate::tree::{manifests, read, tracked};

#[test]
fn page_of_the_builder_has_every_option() {
    let source = read("crates/redlatch-core/src/api/config.rs");
    let options: Vec<_> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub "))
        .filter_map(|line| line.trim_start_matches("const ").strip_prefix("fn "))
        .filter_map(|line| {
            let by_value = line.split_once("(mut self");
            let by_value = by_value.or_else(|| line.split_once("(self, "));
            by_value.map(|(name, _)| name)
        })
        .filter_map(|name| name.split('<').next())
        .filter(|&name| name != "rules")
        .collect();
    assert!(options.len() >= 18, "{options:?}");
    let facade = read("crates/redlatch/src/client.rs");
    let (page, _) = facade.split_once("pub type ClientBuilder").unwrap();
    for option in options {
        let row = page
            .lines()
            .find(|line| line.starts_with("/// |") && line.contains(&format!("`{option}`")));
        assert!(row.is_some(), "`{option}` is missing");
    }
}

#[test]
fn examples_need_no_crate_but_the_facade() {
    let shown = "redlatch core reentrant fair rwlock semaphore permits pool latch multi once \
         election fence";
    let (mut seen, mut wrong) = (0, Vec::new());
    let all = tracked("rs").into_iter().chain(tracked("md"));
    for file in all {
        let path = file.name.strip_prefix("crates/").unwrap_or_default();
        let (name, _) = path.split_once('/').unwrap_or_default();
        let short = name.trim_start_matches("redlatch-");
        if !shown.split(' ').any(|one| one == short) {
            continue;
        }
        for line in example_lines(&file.name, &file.text) {
            seen += 1;
            // A hidden line of `core` may name it, as the facade.
            let is_hidden = name == "redlatch-core" && line.starts_with("# ");
            if line.contains("redlatch_") && !is_hidden {
                wrong.push(format!("{}: {line}", file.name));
            }
        }
    }
    assert!(seen > 200, "only {seen} lines of examples");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn published_pages_have_all_features() {
    let mut published = 0;
    let lua = ("redlatch-lua".to_owned(), read("lua/Cargo.toml"));
    for (name, manifest) in manifests().into_iter().chain([lua]) {
        if manifest.contains("publish = false") {
            continue;
        }
        published += 1;
        let all = "[package.metadata.docs.rs]\nall-features = true\n";
        assert!(manifest.contains(all), "{name}");
    }
    assert!(published >= 15, "only {published} crates");
}

/// Returns the lines of the examples in a file's documentation.
fn example_lines<'a>(name: &str, text: &'a str) -> Vec<&'a str> {
    let is_page = name.ends_with(".md");
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        let comment = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        let line = match comment {
            Some(text) => text.strip_prefix(' ').unwrap_or(text),
            None if is_page => line,
            None => {
                inside = false;
                continue;
            }
        };
        if line.starts_with("```") {
            inside = !inside;
        } else if inside {
            lines.push(line);
        }
    }
    lines
}
