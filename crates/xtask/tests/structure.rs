//! Checks the rules of `docs/contributing/architecture.md` that are visible in the sources.

use std::collections::BTreeSet;

use crate::tree::{code, manifests, read, sources};

#[test]
fn protocol_uses_std_only() {
    for (file, line) in lines("crates/redlatch-core/src/protocol") {
        let import = line.trim_start().strip_prefix("use ");
        let alien = import.filter(|path| {
            let root = path.split("::").next().unwrap_or_default();
            !["std", "super", "self"].contains(&root) && !path.starts_with("crate::protocol")
        });
        assert!(alien.is_none(), "{file}: {line}");
        let words = ".await|async |Instant|SystemTime|fastrand|thread::";
        for word in words.split('|') {
            assert!(!line.contains(word), "{file}: {line}");
        }
    }
}

#[test]
fn only_its_transport_names_the_redis_crate() {
    // The benchmarks also measure the client crate by itself. A program of a check uses the crate
    // as applications do.
    let places = [
        "crates/redlatch-core/src/transport/redis",
        "crates/redlatch-bench",
        "crates/xtask/src/check/beside_tls.rs",
    ];
    for (file, line) in lines("crates").into_iter().chain(lines("lua")) {
        let may = places.iter().any(|place| file.starts_with(place))
            || file.split('/').any(|part| part == "tests");
        let mut named = line.match_indices("redis::").filter(|(at, _)| {
            let before = line[..*at].chars().next_back();
            !before.is_some_and(|before| before.is_alphanumeric() || "_:".contains(before))
        });
        assert!(may || named.next().is_none(), "{file}: {line}");
    }
    for (name, manifest) in manifests() {
        let depends = dependencies(&manifest).iter().any(|name| name == "redis");
        let may = ["redlatch-core", "redlatch-bench"].contains(&name.as_str());
        assert_eq!(depends, may, "{name} and redis");
    }
}

#[test]
fn siblings_depend_on_the_core_and_the_scripts_only() {
    let mut siblings = 0;
    let ours = |name: &String| name.starts_with("redlatch");
    for (name, manifest) in manifests() {
        let family: Vec<_> = dependencies(&manifest).into_iter().filter(ours).collect();
        match name.as_str() {
            "redlatch-core" => assert_eq!(family, ["redlatch-lua"], "{name}"),
            "redlatch" | "redlatch-bench" | "redlatch-cli" | "redlatch-sim" | "redlatch-soak"
            | "redlatch-embedded" | "xtask" => {}
            // The layers are users of the facade.
            "redlatch-tower" => assert_eq!(family, ["redlatch"], "{name}"),
            _ => {
                siblings += 1;
                // The pool is shared by semaphore and permits, and is not a primitive.
                let allowed = ["redlatch-core", "redlatch-lua", "redlatch-pool"];
                assert!(
                    family.iter().all(|name| allowed.contains(&name.as_str())),
                    "{name}: {family:?}"
                );
            }
        }
    }
    assert!(siblings >= 2, "only {siblings} siblings were found");
}

#[test]
fn a_siblings_scripts_file_alone_knows_calls_and_replies() {
    let others = ["bench", "cli", "core", "embedded", "sim", "soak", "xtask"];
    let is_scripts = |part: &str| ["scripts.rs", "scripts"].contains(&part);
    for (name, _) in manifests() {
        if others.contains(&name.trim_start_matches("redlatch-")) {
            continue;
        }
        let lines = lines(&format!("crates/{name}/src"));
        for (file, line) in lines
            .iter()
            .filter(|(file, _)| !file.split('/').any(is_scripts))
        {
            for word in ["ScriptCall::", "kept_script", ".as_array()", "Items::new"] {
                assert!(!line.contains(word), "{file}: {line}");
            }
        }
    }
}

#[test]
fn one_loop_acquires_and_two_places_renew() {
    let engine = "crates/redlatch-core/src/engine";
    let core = lines("crates/redlatch-core/src");
    let places = |word: &str| -> Vec<String> {
        let lines = core.iter().filter(|(_, line)| line.contains(word));
        let files: BTreeSet<_> = lines.map(|(file, _)| file.clone()).collect();
        files.into_iter().collect()
    };
    assert_eq!(
        places(".acquire(&AcquireRequest {"),
        [format!("{engine}/acquire.rs")]
    );
    assert_eq!(
        places(".renew(&RenewRequest {"),
        [format!("{engine}/hold/renewing.rs")]
    );
    assert_eq!(
        places("hold.renewal("),
        [
            format!("{engine}/guard.rs"),
            format!("{engine}/watchdog.rs")
        ]
    );
}

#[test]
fn every_public_async_function_says_what_a_dropped_future_leaves() {
    let (mut seen, mut silent) = (0, Vec::new());
    for (name, _) in manifests() {
        if ["redlatch-sim", "redlatch-soak", "xtask"].contains(&name.as_str()) {
            continue;
        }
        for file in sources(&format!("crates/{name}/src")) {
            let lines: Vec<_> = file.text.lines().collect();
            for (at, line) in lines.iter().enumerate() {
                if !line.trim_start().starts_with("pub async fn ") {
                    continue;
                }
                seen += 1;
                let above = lines[..at].iter().rev().map(|line| line.trim_start());
                let doc = above.take_while(|line| line.starts_with("///") || line.starts_with('#'));
                let said = doc.into_iter().any(|line| line == "/// # Cancel safety");
                if !said {
                    silent.push(format!("{}: {}", file.name, line.trim()));
                }
            }
        }
    }
    assert!(silent.is_empty(), "without `# Cancel safety`: {silent:#?}");
    assert!(seen >= 5, "only {seen} were found");
}

#[test]
fn fixed_time_limits_stand_in_one_table() {
    let core = "crates/redlatch-core/src";
    let limited = [
        "/net/",
        "/engine/",
        "/api/check.rs",
        "/api/client.rs",
        "/api/connect.rs",
    ];
    let mut seen = BTreeSet::new();
    for (file, line) in lines(core) {
        let path = &file[core.len()..];
        if !limited.iter().any(|place| path.starts_with(place)) {
            continue;
        }
        let literal = ["from_secs(", "from_millis("].iter().any(|call| {
            let argument = line.split_once(call).map(|(_, argument)| argument);
            argument.is_some_and(|argument| argument.starts_with(|c: char| c.is_ascii_digit()))
        });
        assert!(!literal, "not in timeouts.rs: {file}: {line}");
        seen.insert(file);
    }
    assert!(seen.len() >= 30, "only {} files were read", seen.len());
}

#[test]
fn every_tool_uses_every_constructor_of_the_facade() {
    let client = read("crates/redlatch/src/client.rs");
    let constructors = client.lines().filter_map(|line| {
        let function = line.trim_start().strip_prefix("pub fn ")?;
        let (name, _) = function.split_once("(&self, ")?;
        // Searches, a set of plain locks, a short form of `RedLock::builder`.
        let others = ["locks", "fair_locks", "striped_lock", "red_lock"];
        (!others.contains(&name)).then_some(name)
    });
    let constructors: Vec<_> = constructors.collect();
    assert!(constructors.len() >= 7, "only {constructors:?} were found");
    // These faults concern holds that a caller keeps, which no term, fence or pass is.
    let faults_on_holds = "tests/tests/servers/every_kind/kinds";
    let without_holds = ["election", "fence", "rate_limiter"];
    for tool in [
        "crates/redlatch-soak/src/work",
        "tests/behaviours/src",
        "tests/src/calls",
        faults_on_holds,
    ] {
        let files = sources(tool);
        for name in &constructors {
            if tool == faults_on_holds && without_holds.contains(name) {
                continue;
            }
            let call = format!(".{name}(");
            let used = files.iter().any(|file| file.text.contains(&call));
            assert!(used, "{tool} does without {name}");
        }
    }
}

/// The others need TLS and time zones, of which `cargo run --example quickstart` is free.
#[test]
fn plain_cargo_test_runs_every_library() {
    let workspace = read("Cargo.toml");
    let (_, members) = workspace.split_once("default-members = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    for (name, _) in manifests() {
        let heavy = ["redlatch-bench", "redlatch-cli", "redlatch-soak"].contains(&name.as_str());
        let included = members.contains(&format!("\"crates/{name}\""));
        assert_eq!(included, !heavy, "{name}");
    }
}

#[test]
fn simulator_depends_on_every_sibling() {
    let manifests = manifests();
    let manifest = |of: &str| manifests.iter().find(|(name, _)| name == of).unwrap();
    let simulated = dependencies(&manifest("redlatch-sim").1);
    let offered = dependencies(&manifest("redlatch").1);
    for name in offered.iter().filter(|name| name.starts_with("redlatch-")) {
        // The workload of the semaphore uses the pool below it, to split its holds.
        let simulated = simulated.contains(name) || name == "redlatch-semaphore";
        // The layouts of other libraries are tested beside those libraries, which the simulator
        // cannot run. Their holds have no token, which its rules need.
        let simulated = simulated || name == "redlatch-compat";
        assert!(simulated, "{name} is not simulated");
    }
}

/// Returns the lines of code under a folder, with their files.
fn lines(folder: &str) -> Vec<(String, String)> {
    let files = sources(folder);
    let lines = files.iter().flat_map(|file| {
        let code = code(&file.text).into_iter();
        code.map(|line| (file.name.clone(), line.to_owned()))
    });
    lines.collect()
}

/// Returns the names under `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let (_, lines) = manifest
        .split_once("\n[dependencies]\n")
        .unwrap_or_default();
    let lines = lines.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    let names = names.filter(|name| !name.is_empty() && !name.starts_with('#'));
    names.map(str::to_owned).collect()
}
