//! Reads the manifests of the workspace members.

use std::{fs, path::Path};

use crate::command::root;

/// A member of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) published: bool,
    pub(crate) features: Vec<String>,
    /// Whether the package is a program and no library.
    pub(crate) program: bool,
}

/// Reads all members.
pub(crate) fn all() -> Result<Vec<Member>, String> {
    let root = root();
    let workspace = read(&root.join("Cargo.toml"))?;
    let mut manifests = Vec::new();
    for pattern in member_patterns(&workspace) {
        match pattern.strip_suffix("/*") {
            None => manifests.push(root.join(pattern).join("Cargo.toml")),
            Some(folder) => {
                let folder = root.join(folder);
                let entries = fs::read_dir(&folder)
                    .map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
                let found = entries
                    .filter_map(Result::ok)
                    .map(|entry| entry.path().join("Cargo.toml"));
                manifests.extend(found.filter(|manifest| manifest.is_file()));
            }
        }
    }
    manifests.sort();
    manifests
        .iter()
        .map(|path| parse(&read(path)?).ok_or_else(|| format!("{} has no name", path.display())))
        .collect()
}

/// Returns the version that all members have.
pub(crate) fn version() -> Result<String, String> {
    let workspace = read(&root().join("Cargo.toml"))?;
    let mut lines = workspace.lines();
    let version = lines.find_map(|line| line.strip_prefix("version = "));
    let version = version.ok_or("the workspace has no version")?;
    Ok(version.trim_matches('"').to_owned())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Returns the member patterns. The root manifest of this workspace has them on one line.
fn member_patterns(workspace: &str) -> Vec<&str> {
    let line = workspace
        .lines()
        .find_map(|line| line.strip_prefix("members"));
    line.unwrap_or_default()
        .split('"')
        .skip(1)
        .step_by(2)
        .collect()
}

/// Reads the subset of TOML that the manifests of this workspace use.
fn parse(manifest: &str) -> Option<Member> {
    let (mut name, mut published, mut features) = (None, true, Vec::new());
    let mut program = false;
    let mut section = "";
    for line in manifest
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
    {
        if line.starts_with('[') {
            section = line;
            program |= section == "[[bin]]";
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        match (section, key.trim(), value.trim()) {
            ("[package]", "name", value) => name = Some(value.trim_matches('"').to_owned()),
            ("[package]", "publish", "false") => published = false,
            ("[features]", key, _) if key != "default" => features.push(key.to_owned()),
            _ => {}
        }
    }
    Some(Member {
        name: name?,
        published,
        features,
        program,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read() {
        let manifest = "[package]\nname = \"a\"\n\n[features]\n# Why.\ntls = [\"dep:x\"]\ndefault = []\n\
                        metrics = []\n\n[dependencies]\nname = \"1\"\n";
        let features = vec!["tls".to_owned(), "metrics".to_owned()];
        let expected = Member {
            name: "a".to_owned(),
            published: true,
            features,
            program: false,
        };
        assert_eq!(parse(manifest), Some(expected));
        let unpublished = parse("[package]\nname = \"a\"\npublish = false\n");
        assert_eq!(unpublished.map(|member| member.published), Some(false));
        assert_eq!(parse("[dependencies]\nname = \"a\"\n"), None);
    }

    #[test]
    fn this_workspace_is_read() {
        let members = all().expect("our own manifests");
        let published = |name| {
            members
                .iter()
                .find(|member| member.name == name)
                .map(|m| m.published)
        };
        let programs = members.iter().filter(|m| m.published && m.program);
        let programs: Vec<_> = programs.map(|m| m.name.as_str()).collect();
        assert_eq!(programs, ["redlatch-cli"]);
        let version = version().expect("our own manifest");
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        assert_eq!(published("redlatch"), Some(true));
        assert_eq!(published("redlatch-lua"), Some(true));
        assert_eq!(published("xtask"), Some(false));
        assert_eq!(published("redlatch-tests"), Some(false));
    }
}
