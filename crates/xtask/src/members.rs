//! The members of the workspace, as cargo describes them.

use std::process::Command;

use serde_json::Value;

use crate::command::{cargo, output};

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
    let text = output(&mut cargo(["metadata", "--no-deps", "--format-version=1"]));
    let text = text.ok_or("cargo does not describe the workspace")?;
    let workspace: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let packages = workspace["packages"].as_array().into_iter().flatten();
    Ok(packages.map(Member::read).collect())
}

/// Returns the command by which cargo packs all published crates together, from the working copy,
/// committed or not.
pub(crate) fn packing(members: &[Member], task: &[&str]) -> Command {
    let mut command = cargo(task);
    command.args(["--workspace", "--no-verify", "--allow-dirty"]);
    for member in members.iter().filter(|member| !member.published) {
        command.args(["--exclude", &member.name]);
    }
    command
}

impl Member {
    fn read(package: &Value) -> Self {
        let features = package["features"].as_object().into_iter().flatten();
        let features = features.map(|(feature, _)| feature.clone());
        let mut targets = package["targets"].as_array().into_iter().flatten();
        Self {
            name: package["name"].as_str().unwrap_or_default().to_owned(),
            // An empty list of registries.
            published: package["publish"].is_null(),
            features: features.filter(|feature| feature != "default").collect(),
            program: targets.any(|target| target["kind"][0] == "bin"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_read() {
        let members = all().expect("our own manifests");
        let find = |name: &str| members.iter().find(|member| member.name == name);
        let programs = members.iter().filter(|m| m.published && m.program);
        let programs: Vec<_> = programs.map(|m| m.name.as_str()).collect();
        assert_eq!(programs, ["redlatch-cli"]);
        for (name, published) in [
            ("redlatch", true),
            ("redlatch-lua", true),
            ("xtask", false),
            ("redlatch-tests", false),
        ] {
            let member = find(name).expect(name);
            assert_eq!(member.published, published, "{name}");
        }
        let features = &find("redlatch").expect("the facade").features;
        assert!(
            features.iter().any(|feature| feature == "embedded"),
            "{features:?}"
        );
    }
}
