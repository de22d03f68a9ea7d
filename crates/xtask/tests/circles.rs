//! Checks that the files of a folder import each other in one direction, as
//! `docs/contributing/architecture.md` requires.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{Tracked, code, sources};

/// A hold keeps its client alive, and the client has the table of its holds.
const BOTH_WAYS: [&str; 2] = ["hold", "context"];

/// The folders from top to bottom: each imports only from itself and from those below it.
const FOLDERS: &str = "family api engine net transport base runtime protocol";

#[test]
fn files_of_a_folder_import_in_one_direction() {
    let core = Sources::core();
    for folder in FOLDERS.split(' ') {
        let folder = match folder {
            "transport" => "transport::redis",
            folder => folder,
        };
        let mut edges = core.edges(folder);
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

#[test]
fn folders_of_the_core_import_downwards() {
    let rank = |path: &str| FOLDERS.split(' ').position(|folder| folder == first(path));
    let core = Sources::core();
    let mut seen = 0;
    for (module, code) in &core.files {
        let Some(own) = rank(module) else { continue };
        for path in paths(code) {
            if let Some(path) = path.strip_prefix("crate::") {
                let to = rank(core.followed(path));
                let to = to.unwrap_or_else(|| panic!("{module}: where is {path}?"));
                assert!(to >= own, "{module} imports {path}");
                seen += 1;
            }
        }
    }
    assert!(seen > 500, "only {seen} imports were read");
}

#[test]
fn circle_of_two_files_is_found() {
    let folder = Sources::of(&[
        ("folder", "mod a;\nmod b;\nmod c;\npub(crate) use b::B;\n"),
        ("folder::a", "use super::{B, c::C};\n"),
        ("folder::b", "fn b() -> super::a::A;\n"),
        ("folder::c", "use std::fmt;\n// use super::a::A;\n"),
    ]);
    let circles = in_circles(&folder.edges("folder"));
    let named = |pair: [&str; 2]| pair.map(str::to_owned);
    assert_eq!(circles, [named(["a", "b"]), named(["b", "a"])]);
}

#[test]
fn module_that_declares_and_uses_its_files_is_part_of_a_circle() {
    let folder = Sources::of(&[
        ("folder", "mod a;\nuse self::a::A;\nstruct World(A);\n"),
        ("folder::a", "use super::World;\n"),
    ]);
    assert_eq!(in_circles(&folder.edges("folder")).len(), 2);
}

#[test]
fn circle_through_a_nested_file_is_found() {
    let folder = Sources::of(&[
        ("folder", "mod a;\nmod b;\n"),
        ("folder::a", "mod c;\n"),
        ("folder::a::c", "use super::super::b::B;\nuse super::own;\n"),
        ("folder::b", "use super::a::A;\n"),
    ]);
    assert_eq!(in_circles(&folder.edges("folder")).len(), 2);
}

/// File → the files of the same folder that it imports from.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// The code of a crate by module, without comments and tests.
struct Sources {
    files: BTreeMap<String, String>,
    /// The path of each name that the crate exports.
    exports: BTreeMap<String, String>,
}

impl Sources {
    fn core() -> Self {
        let root = "crates/redlatch-core/src";
        let is_test = |part: &str| ["tests", "tests.rs", "threads.rs"].contains(&part);
        let mut files = Vec::new();
        for Tracked { name, text } in sources(root) {
            let path = &name[root.len() + 1..];
            if !path.split('/').any(is_test) {
                let module = path.trim_end_matches(".rs").replace('/', "::");
                files.push((module, text));
            }
        }
        let files: Vec<_> = files
            .iter()
            .map(|(module, text)| (&**module, &**text))
            .collect();
        Self::of(&files)
    }

    fn of(files: &[(&str, &str)]) -> Self {
        let module = |path: &str| match path.strip_suffix("::mod").unwrap_or(path) {
            "lib" => String::new(),
            module => module.to_owned(),
        };
        let files = files
            .iter()
            .map(|(path, text)| (module(path), code(text).join("\n")));
        let (files, exports) = (files.collect(), BTreeMap::new());
        let mut sources = Self { files, exports };
        sources.exports = sources.exports("");
        sources
    }

    /// Returns the path of each name that a module exports from its files, relative to the module.
    fn exports(&self, module: &str) -> BTreeMap<String, String> {
        let paths = self.files.get(module).map(|code| paths(code));
        let exports = paths.into_iter().flatten().filter_map(|path| {
            let path = path.strip_prefix("self::").unwrap_or(&path);
            let (file, _) = path.split_once("::")?;
            let (_, name) = path.rsplit_once("::")?;
            let known = self.files.contains_key(&join(module, file));
            known.then(|| (name.to_owned(), path.to_owned()))
        });
        exports.collect()
    }

    /// Returns the path to which an export leads, or the path itself.
    fn followed<'a>(&'a self, path: &'a str) -> &'a str {
        self.exports.get(first(path)).map_or(path, |path| path)
    }

    /// Returns a path of a module from the root of the crate; `None` if it leads to another crate.
    fn absolute(&self, module: &str, path: &str) -> Option<String> {
        if let Some(path) = path.strip_prefix("crate::") {
            return Some(path.to_owned());
        }
        if let Some(path) = path.strip_prefix("super::") {
            let above = module.rsplit_once("::").map_or("", |(above, _)| above);
            return self
                .absolute(above, path)
                .or_else(|| Some(join(above, path)));
        }
        let path = path.strip_prefix("self::").unwrap_or(path);
        let known = self.files.contains_key(&join(module, first(path)));
        known.then(|| join(module, path))
    }

    /// Returns the imports between the files of a folder. A file in a folder within it, such as
    /// `hold::loss`, counts as a part of the file that declares it.
    fn edges(&self, folder: &str) -> Edges {
        let within = format!("{folder}::");
        let exports = self.exports(folder);
        // A module that only declares and exports is not part of the check.
        let uses = self.files[folder].lines().any(is_item);
        let mut edges = Edges::new();
        for (module, code) in &self.files {
            let file = match module.strip_prefix(&within) {
                Some(file) => first(file),
                None if module == folder && uses => "mod",
                None => continue,
            };
            let target = |path: &String| {
                let path = self.absolute(module, path)?;
                let name = first(self.followed(&path).strip_prefix(&within)?);
                if self.files.contains_key(&join(folder, name)) {
                    return Some(name.to_owned());
                }
                let exported = exports.get(name).map(|path| first(path));
                let to = exported.or_else(|| (file != "mod").then_some("mod"))?;
                Some(to.to_owned())
            };
            let paths = paths(code);
            let to = paths.iter().filter_map(target).filter(|to| to != file);
            edges.entry(file.to_owned()).or_default().extend(to);
        }
        edges
    }
}

/// Returns the first part of a path.
fn first(path: &str) -> &str {
    path.split("::").next().unwrap_or(path)
}

fn join(module: &str, path: &str) -> String {
    if module.is_empty() {
        return path.to_owned();
    }
    format!("{module}::{path}")
}

fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let line = line
        .strip_prefix("pub(crate) ")
        .or_else(|| line.strip_prefix("pub "))
        .unwrap_or(line);
    let mut starts = "impl ,struct ,enum ,trait ,fn ,async fn ,const ".split(',');
    starts.any(|start| line.starts_with(start))
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
