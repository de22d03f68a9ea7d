//! `cargo xtask check archives`: packs all published crates as a release does, and builds and runs
//! programs outside of the workspace from nothing but the archives.
//!
//! The gate builds each crate from its archive alone. Here the README's program is the one of a new
//! user, and another package uses every library with all features.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
};

use crate::{
    command::{self, cargo, root},
    members::{self, Member},
    steps::Steps,
};

/// Runs the check.
pub(super) fn run(steps: &mut Steps) -> Result<(), String> {
    let members = members::all()?;
    let folder = env::temp_dir().join(format!("redlatch-archives-{}", process::id()));
    let archives = Archives { folder, members };
    steps.run("publish, as a dry run", || archives.publish());
    let unpacked = steps.run("archives", || archives.unpack());
    if unpacked.is_some() {
        steps.run("the README's program", || archives.readme());
        steps.run("all libraries, all features", || archives.everything());
        steps.run("the command", || archives.command_line());
        steps.run("other libraries with TLS", || archives.beside_tls());
    }
    let _ = fs::remove_dir_all(&archives.folder);
    Ok(())
}

/// The features of redlatch beside other libraries, and the steps of the program in several orders,
/// with their outcomes.
///
/// With `tls`, the program has one provider, aws-lc-rs. With two providers the crate `redis` panics
/// until a default is installed, so the step `install` precedes it.
const BESIDE_TLS: [(&str, [&str; 4]); 2] = [
    (
        "tls",
        [
            "redlatch: InvalidOption, redis: Io, reqwest: ok, redlatch: Unavailable",
            "reqwest: ok, redis: Io, redlatch: Unavailable",
            "install: ok, redlatch: Unavailable, redis: Io, reqwest: ok",
            "redlatch: InvalidOption, install: ok, redlatch: Unavailable, redis: Io",
        ],
    ),
    (
        "tls-ring",
        [
            "redlatch: Unavailable, reqwest: ok",
            "reqwest: ok, redlatch: Unavailable",
            "redlatch: Unavailable, install: ok, redis: Io, reqwest: ok",
            "install: ok, redlatch: Unavailable, reqwest: ok, redis: Io",
        ],
    ),
];

/// The dependencies of the program, apart from redlatch.
const BESIDE: &str = r#"
redis = { version = "1.8", features = ["tls-rustls"] }
reqwest = { version = "0.13", default-features = false, features = ["rustls"] }
rustls = { version = "0.23", default-features = false, features = ["aws_lc_rs"] }
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
"#;

/// The archives, unpacked outside of the workspace.
struct Archives {
    folder: PathBuf,
    members: Vec<Member>,
}

impl Archives {
    fn published(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.published)
    }

    /// Does all of a release but the upload. The programs below compile the archives, so this does
    /// not.
    fn publish(&self) -> Result<(), String> {
        command::run(&mut self.packing(&["publish", "--dry-run"]))
    }

    /// Packs all crates, and unpacks them into one folder each.
    fn unpack(&self) -> Result<(), String> {
        command::run(&mut self.packing(&["package"]))?;
        for member in self.published() {
            let archive = self
                .folder
                .join(format!("packed/package/{}.crate", full_name(member)));
            let into = self.folder.join("crates");
            fs::create_dir_all(&into).map_err(|error| format!("{}: {error}", into.display()))?;
            let mut tar = Command::new("tar");
            command::run(tar.arg("xzf").arg(archive).arg("-C").arg(into))?;
        }
        Ok(())
    }

    fn packing(&self, task: &[&str]) -> Command {
        let mut command = members::packing(&self.members, task);
        command.env("CARGO_TARGET_DIR", self.folder.join("packed"));
        command
    }

    /// Builds and runs the first program of the README with the dependencies that it names.
    fn readme(&self) -> Result<(), String> {
        let readme = read(&root().join("README.md"))?;
        let program = first_block(&readme, "rust").ok_or("the README has no program")?;
        let dependencies = "redlatch = { version = \"*\", features = [\"embedded\"] }\n\
            tokio = { version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }\n";
        let package = self.package("reader", dependencies, program)?;
        self.says(&package, &["run", "--quiet"], |said| {
            said.starts_with("ship with token ")
        })
    }

    /// Runs a program, and checks what it says.
    fn says(
        &self,
        package: &Path,
        args: &[&str],
        is_right: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        let said = command::output(&mut self.cargo_in(package, args)).unwrap_or_default();
        println!("{said}");
        if is_right(&said) {
            return Ok(());
        }
        // Once more, to show why.
        command::run(&mut self.cargo_in(package, args))?;
        Err(format!("the program said {said:?}"))
    }

    /// Compiles a package that depends on each library with all its features.
    fn everything(&self) -> Result<(), String> {
        let (mut dependencies, mut program) = (String::new(), String::new());
        for member in self.published().filter(|member| !member.program) {
            let (name, features) = (&member.name, &member.features);
            dependencies += &format!("{name} = {{ version = \"*\", features = {features:?} }}\n");
            program += &format!("use {} as _;\n", member.name.replace('-', "_"));
        }
        let package = self.package("everything", &dependencies, &(program + "fn main() {}\n"))?;
        command::run(&mut self.cargo_in(&package, &["check"]))
    }

    /// Compiles the programs that are published, and asks each for its version.
    fn command_line(&self) -> Result<(), String> {
        for member in self.published().filter(|member| member.program) {
            let package = self.folder.join("crates").join(full_name(member));
            let version = ["run", "--quiet", "--", "--version"];
            self.says(&package, &version, |said| said.contains(VERSION))?;
        }
        Ok(())
    }

    /// Runs a program with other libraries that use TLS. Each library finds a provider, whatever
    /// the order.
    fn beside_tls(&self) -> Result<(), String> {
        for (feature, orders) in BESIDE_TLS {
            let dependencies =
                format!("redlatch = {{ version = \"*\", features = [\"{feature}\"] }}\n{BESIDE}");
            let program = include_str!("beside_tls.rs");
            let package = self.package(&format!("beside-{feature}"), &dependencies, program)?;
            for expected in orders {
                let steps = expected
                    .split(", ")
                    .filter_map(|step| step.split(':').next());
                let args: Vec<_> = ["run", "--quiet", "--"].into_iter().chain(steps).collect();
                self.says(&package, &args, |said| {
                    said.trim().replace('\n', ", ") == expected
                })?;
            }
        }
        Ok(())
    }

    /// Writes a package whose only file is `main.rs`.
    fn package(&self, name: &str, dependencies: &str, main: &str) -> Result<PathBuf, String> {
        let package = self.folder.join(name);
        let manifest = format!(
            "[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}"
        );
        let write = || {
            fs::create_dir_all(package.join("src"))?;
            fs::write(package.join("Cargo.toml"), manifest)?;
            fs::write(package.join("src/main.rs"), main)
        };
        write().map_err(|error| format!("{}: {error}", package.display()))?;
        Ok(package)
    }

    /// Returns a cargo command in a package outside, which takes our crates from the archives and
    /// everything else from the registry.
    fn cargo_in(&self, package: &Path, args: &[&str]) -> Command {
        let mut command = cargo(&args[..1]);
        for member in self.published() {
            let path = self.folder.join("crates").join(full_name(member));
            let patch = format!(
                "patch.crates-io.{}.path={:?}",
                member.name,
                path.display().to_string()
            );
            command.args(["--config", &patch]);
        }
        command.args(&args[1..]).current_dir(package);
        command.env("CARGO_TARGET_DIR", self.folder.join("built"));
        command
    }
}

/// Returns the name of a crate's folder in its archive.
fn full_name(member: &Member) -> String {
    format!("{}-{VERSION}", member.name)
}

/// The version of all members.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the first code block in `language`.
fn first_block<'a>(markdown: &'a str, language: &str) -> Option<&'a str> {
    let (_, rest) = markdown.split_once(&format!("\n```{language}\n"))?;
    rest.split_once("\n```").map(|(block, _)| block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_program_of_a_page_is_found() {
        let page = "# A\n\n```text\nx\n```\n\n```rust\nfn main() {}\n```\n\n```rust\ny\n```\n";
        assert_eq!(first_block(page, "rust"), Some("fn main() {}"));
        assert_eq!(first_block(page, "sh"), None);
    }

    #[test]
    fn readme_begins_with_a_program() {
        let readme = read(&root().join("README.md")).expect("the README");
        let program = first_block(&readme, "rust").expect("a program");
        assert!(program.contains("fn main()"), "{program}");
    }
}
