//! Checks that the files of a folder import each other in one direction, as
//! `docs/contributing/architecture.md` requires.

#![allow(
    clippy::unwrap_used,
    reason = "a source that cannot be read fails the test"
)]

mod tree;

use std::collections::{BTreeMap, BTreeSet};

use tree::{Tracked, read, sources};

/// A hold keeps its client alive, and the client has the table of its holds.
const BOTH_WAYS: [&str; 2] = ["hold", "context"];

#[test]
fn files_of_a_folder_import_in_one_direction() {
    let above = ["family", "api", "engine"];
    let below = ["net", "transport/redis", "base", "runtime", "protocol"];
    for folder in above.into_iter().chain(below) {
        let mut edges = Folder::read(folder).edges();
        assert!(edges.values().any(|to| !to.is_empty()), "{folder} is read");
        if folder == "engine" {
            let [from, to] = BOTH_WAYS;
            let excepted = edges.get_mut(from).is_some_and(|edges| edges.remove(to));
            assert!(
                excepted,
                "{from} no longer imports {to}: drop the exception"
            );
        }
        let circles = in_circles(&edges);
        assert!(circles.is_empty(), "{folder}: {circles:#?}");
    }
}

/// The folders from top to bottom: each imports only from itself and from those below it.
const FOLDERS: [&str; 8] = [
    "family",
    "api",
    "engine",
    "net",
    "transport",
    "base",
    "runtime",
    "protocol",
];

#[test]
fn folders_of_the_core_import_downwards() {
    let exports = exports_of_the_core();
    let mut seen = 0;
    for (rank, folder) in FOLDERS.iter().enumerate() {
        for Tracked { name: file, text } in product(folder) {
            for path in paths(&code(&text)) {
                let Some(path) = path.strip_prefix("crate::") else {
                    continue;
                };
                let first = path.split("::").next().unwrap_or(path);
                let to = exports.get(first).map_or(first, String::as_str);
                let to = to.split("::").next().unwrap_or(to);
                let to = FOLDERS.iter().position(|known| *known == to);
                let to = to.unwrap_or_else(|| panic!("{file}: where is {path}?"));
                assert!(to >= rank, "{file}, in {folder}, imports {path}");
                seen += 1;
            }
        }
    }
    assert!(seen > 500, "only {seen} imports were read");
}

const CORE: &str = "crates/redlatch-core/src";

/// Returns the path of each name that `lib.rs` exports.
fn exports_of_the_core() -> BTreeMap<String, String> {
    let lib = read(&format!("{CORE}/lib.rs"));
    let paths = paths(&code(&lib)).into_iter();
    let exports = paths.map(|path| {
        let name = path.rsplit("::").next().unwrap_or(&path).to_owned();
        (name, path)
    });
    exports.collect()
}

/// Returns the sources of a folder of the core, except those of tests.
fn product(folder: &str) -> Vec<Tracked> {
    let mut files = sources(&format!("{CORE}/{folder}"));
    let is_test = |name: &str| {
        name.split('/')
            .any(|part| ["tests", "tests.rs", "threads.rs"].contains(&part))
    };
    files.retain(|file| !is_test(&file.name));
    files
}

#[test]
fn circle_of_two_files_is_found() {
    let folder = Folder::of(&[
        ("mod", "mod a;\nmod b;\nmod c;\npub(crate) use b::B;\n"),
        ("a", "use super::{B, c::C};\n"),
        ("b", "fn b() -> super::a::A;\n"),
        ("c", "use std::fmt;\n// use super::a::A;\n"),
    ]);
    let circles = in_circles(&folder.edges());
    let named = |pair: [&str; 2]| pair.map(str::to_owned);
    assert_eq!(circles, [named(["a", "b"]), named(["b", "a"])]);
}

#[test]
fn module_that_declares_and_uses_its_files_is_part_of_a_circle() {
    let folder = Folder::of(&[
        ("mod", "mod a;\nuse self::a::A;\nstruct World(A);\n"),
        ("a", "use super::World;\n"),
    ]);
    assert_eq!(in_circles(&folder.edges()).len(), 2);
}

#[test]
fn circle_through_a_nested_file_is_found() {
    let folder = Folder::of(&[
        ("mod", "mod a;\nmod b;\n"),
        ("a", "mod c;\n"),
        ("a::c", "use super::super::b::B;\nuse super::own;\n"),
        ("b", "use super::a::A;\n"),
    ]);
    assert_eq!(in_circles(&folder.edges()).len(), 2);
}

/// File → the files of the same folder that it imports from.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// The code of a folder's files by module, without comments and tests. A file in a folder within
/// it, such as `hold::loss`, counts as a part of the file that declares it.
struct Folder {
    /// The folder as a path within the crate.
    module: String,
    files: BTreeMap<String, String>,
    /// The path of each name that the crate exports.
    exports: BTreeMap<String, String>,
}

impl Folder {
    fn read(folder: &str) -> Self {
        let root = format!("{CORE}/{folder}/");
        let mut files = BTreeMap::new();
        for Tracked { name, text } in product(folder) {
            let path = name
                .strip_prefix(&root)
                .and_then(|path| path.strip_suffix(".rs"));
            let module = path.unwrap().replace('/', "::");
            let module = module.strip_suffix("::mod").unwrap_or(&module);
            files.insert(module.to_owned(), code(&text));
        }
        Self {
            module: folder.replace('/', "::"),
            files,
            exports: exports_of_the_core(),
        }
    }

    fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter();
        Self {
            module: "folder".to_owned(),
            files: files
                .map(|(name, text)| ((*name).to_owned(), code(text)))
                .collect(),
            exports: BTreeMap::new(),
        }
    }

    fn edges(&self) -> Edges {
        let exports = self.exports();
        let mut edges = Edges::new();
        for (module, code) in &self.files {
            let file = module.split("::").next().unwrap_or(module);
            let depth = module.matches("::").count();
            let paths = paths(code).into_iter();
            let outward = paths.filter_map(|path| match path.strip_prefix("super::") {
                // In a nested file, the first `super` leads to the file that declares it.
                Some(_) => {
                    let up = (0..depth).try_fold(&*path, |path, _| path.strip_prefix("super::"));
                    up.map(str::to_owned)
                }
                None => Some(path),
            });
            let to: BTreeSet<_> = outward
                .filter_map(|path| self.target(file, &path, &exports))
                .filter(|target| target != file)
                .collect();
            edges.entry(file.to_owned()).or_default().extend(to);
        }
        edges
    }

    /// Returns the file from which `mod.rs` exports each name.
    fn exports(&self) -> BTreeMap<String, String> {
        let paths = paths(&self.files["mod"]).into_iter();
        let exports = paths.filter_map(|path| {
            let path = path.strip_prefix("self::").unwrap_or(&path).to_owned();
            let (file, _) = path.split_once("::")?;
            let (_, name) = path.rsplit_once("::")?;
            let known = self.files.contains_key(file);
            known.then(|| (name.to_owned(), file.to_owned()))
        });
        exports.collect()
    }

    /// Returns the file of this folder to which `path`, written in `file`, leads.
    fn target(&self, file: &str, path: &str, exports: &BTreeMap<String, String>) -> Option<String> {
        let within = if file == "mod" {
            // A module that only declares and exports is not part of the check.
            let uses = self.files["mod"].lines().any(is_item);
            let path = path.strip_prefix("self::").unwrap_or(path);
            uses.then_some(path)?
        } else {
            let exported = path.strip_prefix("crate::").and_then(|name| {
                let path = self.exports.get(name.split("::").next()?)?;
                path.strip_prefix(&self.module)?.strip_prefix("::")
            });
            let whole = format!("crate::{}::", self.module);
            path.strip_prefix("super::")
                .or_else(|| path.strip_prefix(&whole))
                .or(exported)?
        };
        let first = within.split("::").next()?;
        if first != "mod" && self.files.contains_key(first) {
            return Some(first.to_owned());
        }
        match exports.get(first) {
            Some(file) => Some(file.clone()),
            None => (file != "mod").then(|| "mod".to_owned()),
        }
    }
}

fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let line = line
        .strip_prefix("pub(crate) ")
        .or_else(|| line.strip_prefix("pub "))
        .unwrap_or(line);
    let starts = [
        "impl ",
        "struct ",
        "enum ",
        "trait ",
        "fn ",
        "async fn ",
        "const ",
    ];
    starts.iter().any(|start| line.starts_with(start))
}

/// Returns the text without comments and without its test module, which comes last.
fn code(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let end = lines.iter().rposition(|line| *line == "#[cfg(test)]");
    let end = end.unwrap_or(lines.len());
    let code = lines[..end].iter();
    let code = code.map(|line| line.split_once("//").map_or(*line, |(code, _)| code));
    code.fold(String::new(), |code, line| code + line + "\n")
}

/// Returns the paths of all imports, and the paths in the code with `super` or `crate`.
fn paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut statements = code.split(';');
    for statement in &mut statements {
        let import = statement.rsplit('\n').rev().skip_while(|line| {
            let line = line.trim_start();
            !(line.starts_with("use ") || line.starts_with("pub") && line.contains(" use "))
        });
        let import: String = import.collect();
        if let Some((_, import)) = import.split_once("use ") {
            expand("", import, &mut paths);
        }
    }
    for start in ["super::", "crate::"] {
        for (at, _) in code.match_indices(start) {
            let path = code[at..].chars();
            let path: String = path
                .take_while(|letter| letter.is_alphanumeric() || "_:".contains(*letter))
                .collect();
            paths.push(path.trim_end_matches(':').to_owned());
        }
    }
    paths
}

/// Adds each path of an import tree such as `a::{b, c::{d, e as f}}`.
fn expand(before: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        paths.push(format!("{before}{path}"));
        return;
    };
    let before = format!("{before}{}", head.trim());
    let rest = rest.strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in rest.char_indices().chain([(rest.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !rest[start..at].trim().is_empty() {
                    expand(&before, &rest[start..at], paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Returns the imports that are part of a cycle.
fn in_circles(edges: &Edges) -> Vec<[String; 2]> {
    let leads_back = |from: &String, to: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![to]);
        while let Some(file) = next.pop() {
            if file == from {
                return true;
            }
            if seen.insert(file) {
                next.extend(edges.get(file).into_iter().flatten());
            }
        }
        false
    };
    let all = edges
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let back = all.filter(|(from, to)| leads_back(from, to));
    back.map(|(from, to)| [from.clone(), to.clone()]).collect()
}
