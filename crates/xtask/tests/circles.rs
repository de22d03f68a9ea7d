//! Checks that the files of a folder import each other in one direction, as
//! `docs/contributing/architecture.md` requires.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use crate::tree::{code, sources};

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
        assert!(!edges.is_empty(), "{folder} is read");
        if folder == "engine" {
            let excepted = edges.remove(&BOTH_WAYS.map(str::to_owned));
            assert!(excepted, "drop the exception, which exists no longer");
        }
        let circles = in_circles(edges);
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
    let folder = Sources::of([
        ("folder", "mod a;\nmod b;\nmod c;\npub(crate) use b::B;\n"),
        ("folder::a", "use super::{B, c::C};\n"),
        ("folder::b", "fn b() -> super::a::A;\n"),
        ("folder::c", "use std::fmt;\n// use super::a::A;\n"),
    ]);
    let both = [["a", "b"], ["b", "a"]].map(|edge| edge.map(str::to_owned));
    assert_eq!(in_circles(folder.edges("folder")), Edges::from(both));
}

#[test]
fn module_that_declares_and_uses_its_files_is_part_of_a_circle() {
    let folder = Sources::of([
        ("folder", "mod a;\nuse self::a::A;\nstruct World(A);\n"),
        ("folder::a", "use super::World;\n"),
    ]);
    assert_eq!(in_circles(folder.edges("folder")).len(), 2);
}

#[test]
fn circle_through_a_nested_file_is_found() {
    let folder = Sources::of([
        ("folder", "mod a;\nmod b;\n"),
        ("folder::a", "mod c;\n"),
        ("folder::a::c", "use super::super::b::B;\nuse super::own;\n"),
        ("folder::b", "use super::a::A;\n"),
    ]);
    assert_eq!(in_circles(folder.edges("folder")).len(), 2);
}

#[test]
fn paths_of_all_kinds_are_found() {
    let code = "pub(crate) use a::{\n    b::{self, C as D},\n    *,\n};\n\
        fn e(_: &crate::f::G) { super::h(1, \"use i\"); }\nuse j;\n";
    let found = "a::b::self a::b::C a:: crate::f::G super::h j";
    assert_eq!(paths(code).join(" "), found);
}

/// The imports between the files of a folder: the file that imports, and the other.
type Edges = BTreeSet<[String; 2]>;

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
        let files = sources(root).into_iter().filter_map(|file| {
            let path = &file.name[root.len() + 1..];
            let module = path.trim_end_matches(".rs").replace('/', "::");
            (!path.split('/').any(is_test)).then_some((module, file.text))
        });
        Self::of(files)
    }

    fn of<T: AsRef<str>>(files: impl IntoIterator<Item = (T, T)>) -> Self {
        let files = files.into_iter().map(|(path, text)| {
            let path = path.as_ref();
            let module = path.strip_suffix("::mod").unwrap_or(path);
            let module = if module == "lib" { "" } else { module };
            (module.to_owned(), code(text.as_ref()).join("\n"))
        });
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
            edges.extend(to.map(|to| [file.to_owned(), to]));
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
    let line = line.trim_start().trim_start_matches("pub(crate) ");
    let line = line.trim_start_matches("pub ");
    let mut starts = "impl ,struct ,enum ,trait ,fn ,async fn ,const ".split(',');
    starts.any(|start| line.starts_with(start))
}

/// Returns the paths of all imports, and the paths in the code with `super` or `crate`.
fn paths(code: &str) -> Vec<String> {
    let (mut paths, mut path) = (Vec::new(), String::new());
    // In an import such as `use a::{b, c::{d, e as f}};`, what stands before each open brace.
    let mut before: Vec<String> = Vec::new();
    let is_end = |letter: char| !(letter.is_alphanumeric() || "_:".contains(letter));
    for line in code.lines() {
        let mut line = line.trim_start();
        if let Some((visibility, import)) = line.split_once("use ")
            && (visibility.is_empty() || visibility.starts_with("pub") && visibility.ends_with(' '))
        {
            (line, before) = (import, vec![String::new()]);
        }
        for piece in line.split_inclusive(is_end) {
            let part = piece.trim_end_matches(is_end);
            let Some(start) = before.last() else {
                if part.starts_with("super::") || part.starts_with("crate::") {
                    paths.push(part.trim_end_matches(':').to_owned());
                }
                continue;
            };
            // Behind the path, there may be another name for it.
            if path.is_empty() && (!part.is_empty() || piece == "*") {
                path = format!("{start}{part}");
            }
            match &piece[part.len()..] {
                "{" => before.push(mem::take(&mut path)),
                end @ ("," | "}" | ";") => {
                    paths.extend(Some(mem::take(&mut path)).filter(|path| !path.is_empty()));
                    match end {
                        "}" => drop(before.pop()),
                        ";" => before.clear(),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }
    paths
}

/// Returns the imports that lead from one circle to another, or are part of one.
fn in_circles(mut edges: Edges) -> Edges {
    loop {
        let is_between = |[from, to]: &&[String; 2]| {
            let leads_on = edges.iter().any(|[next, _]| next == to);
            leads_on && edges.iter().any(|[_, last]| last == from)
        };
        let left: Edges = edges.iter().filter(is_between).cloned().collect();
        if left.len() == edges.len() {
            return left;
        }
        edges = left;
    }
}
