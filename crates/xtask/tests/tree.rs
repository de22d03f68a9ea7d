//! The files of the workspace under version control, and new files that are not ignored.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A file and its text.
pub(crate) struct Tracked {
    /// Relative to the workspace's root.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Returns the code of a Rust file, without comments and without its test module, which comes last.
pub(crate) fn code(text: &str) -> Vec<&str> {
    let lines: Vec<_> = text.lines().collect();
    let end = lines.iter().rposition(|line| *line == "#[cfg(test)]");
    let code = lines[..end.unwrap_or(lines.len())].iter();
    code.map(|line| line.split_once("//").map_or(*line, |(code, _)| code))
        .collect()
}

/// Reads the Rust files under a folder, in order.
pub(crate) fn sources(folder: &str) -> Vec<Tracked> {
    let folder = format!("{folder}/");
    let mut found = tracked("rs");
    found.retain(|file| file.name.starts_with(&folder));
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

/// Returns the workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a file.
pub(crate) fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Lists all files, as paths relative to the workspace's root.
pub(crate) fn files() -> BTreeSet<String> {
    let git = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(git.status.success(), "git cannot list the files");
    let list = String::from_utf8(git.stdout).unwrap();
    let exist = list.lines().filter(|file| root().join(file).is_file());
    let files: BTreeSet<_> = exist.map(str::to_owned).collect();
    assert!(files.len() > 100, "only {} files", files.len());
    files
}

/// Returns the name and the manifest of each crate.
pub(crate) fn manifests() -> Vec<(String, String)> {
    let names = files().into_iter().filter_map(|file| {
        let name = file.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        (!name.contains('/')).then(|| name.to_owned())
    });
    let manifest = |name: &String| read(&format!("crates/{name}/Cargo.toml"));
    names.map(|name| (name.clone(), manifest(&name))).collect()
}

/// Reads all files with an ending.
pub(crate) fn tracked(ending: &str) -> Vec<Tracked> {
    let ending = format!(".{ending}");
    let names = files().into_iter().filter(|name| name.ends_with(&ending));
    let file = |name: String| Tracked {
        text: read(&name),
        name,
    };
    names.map(file).collect()
}
