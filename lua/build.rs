//! Joins the scripts, and writes them as the structs that `src/lib.rs` includes.
//!
//! A file stands behind the parts that its first lines name, as in `-- uses core/queue, fair/wait`.
//! A file that no other file names and that declares a reply is a script.
//!
//! The scripts of a folder such as `exclusive` belong to each kind that has a file of this name,
//! such as `fair/exclusive.lua`. `$kind` in their parts stands for the kind. `$like` stands for the
//! kind that the file names by `-- waits like fair`.
//!
//! A script that serves several entries in one call says how many and of which form, as in
//! `-- entries 32 of 1 key, 2 arguments, behind 4`.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    error::Error,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use sha1_smol::Sha1;

/// The files by their names, such as `fair/wait`.
pub(crate) type Files = BTreeMap<String, File>;

/// One file, without its first lines.
#[derive(Default)]
pub(crate) struct File {
    uses: Vec<String>,
    like: Option<String>,
    /// `most`, `keys`, `own` and `shared` of a script that serves several entries. Without `keys`
    /// they are the PARTS of its kind.
    list: Vec<usize>,
    text: String,
}

/// One script of one kind.
pub(crate) struct Script {
    pub(crate) kind: String,
    /// The folder and the file that it is in.
    folder: String,
    pub(crate) file: String,
    pub(crate) text: String,
    list: Option<[usize; 4]>,
    doc: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let code = rust(&scripts(&read()?)?);
    let folder = env::var_os("OUT_DIR").ok_or("cargo names no folder")?;
    fs::write(Path::new(&folder).join("scripts.rs"), code)?;
    Ok(())
}

/// Reads each file in a folder below this one.
fn read() -> io::Result<Files> {
    let mut files = Files::new();
    for folder in paths(Path::new("."))?.iter().filter(|path| path.is_dir()) {
        for path in paths(folder)? {
            if path.extension() == Some(OsStr::new("lua")) {
                let name = path.with_extension("");
                let words: Vec<_> = name.iter().skip(1).map(OsStr::to_string_lossy).collect();
                files.insert(words.join("/"), parse(&fs::read_to_string(&path)?));
            }
        }
    }
    Ok(files)
}

fn paths(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

pub(crate) fn parse(mut text: &str) -> File {
    let mut file = File::default();
    while let Some((line, rest)) = text.split_once('\n') {
        if let Some(parts) = line.strip_prefix("-- uses ") {
            file.uses.extend(parts.split(", ").map(str::to_owned));
        } else if let Some(kind) = line.strip_prefix("-- waits like ") {
            file.like = Some(kind.to_owned());
        } else if let Some(form) = line.strip_prefix("-- entries ") {
            let words = form.split([' ', ',']);
            file.list = words.filter_map(|word| word.parse().ok()).collect();
        } else {
            break;
        }
        text = rest;
    }
    text.clone_into(&mut file.text);
    file
}

/// Joins every script with its parts.
pub(crate) fn scripts(files: &Files) -> Result<Vec<Script>, String> {
    let used: BTreeSet<_> = files.values().flat_map(|file| &file.uses).collect();
    let mut idle: BTreeSet<_> = files.keys().collect();
    let mut scripts = Vec::new();
    for (name, file) in files {
        if used.contains(name) || !file.text.contains("\n-- Reply ") {
            continue;
        }
        let (folder, own) = name.split_once('/').unwrap_or_default();
        for (kind, like) in kinds(files, folder) {
            let mut parts = Vec::new();
            let resolve = |part: &str| part.replace("$kind", kind).replace("$like", like);
            join(files, name, &resolve, &[], &mut parts)?;
            idle.retain(|name| !parts.contains(name));
            scripts.push(Script {
                kind: kind.to_owned(),
                folder: folder.to_owned(),
                file: own.to_owned(),
                text: parts.iter().map(|part| &*files[part].text).collect(),
                list: entries(files, file, &format!("{kind}/{folder}")),
                doc: first_sentence(&file.text),
            });
        }
    }
    match idle.first() {
        Some(name) => Err(format!("no script uses {name}")),
        None => Ok(scripts),
    }
}

/// Returns each kind with the scripts of a folder, and the kind that it waits like.
fn kinds<'a>(files: &'a Files, folder: &'a str) -> Vec<(&'a str, &'a str)> {
    let of = |(name, file): (&'a String, &'a File)| {
        let kind = name.strip_suffix(folder)?.strip_suffix('/')?;
        Some((kind, file.like.as_deref().unwrap_or(kind)))
    };
    let mut kinds: Vec<_> = files.iter().filter_map(of).collect();
    if kinds.is_empty() {
        kinds.push((folder, folder));
    }
    kinds
}

/// Adds a file to the parts, behind those that it uses. `above` is the way to it, from the script.
fn join(
    files: &Files,
    name: &str,
    resolve: &dyn Fn(&str) -> String,
    above: &[&str],
    parts: &mut Vec<String>,
) -> Result<(), String> {
    let above = [above, &[name]].concat();
    let way = || above.join(" uses ");
    let file = files
        .get(name)
        .ok_or_else(|| format!("there is no {name}: {}", way()))?;
    if above.iter().filter(|user| **user == name).count() > 1 {
        return Err(format!("{name} uses itself: {}", way()));
    }
    for part in file.uses.iter().map(|part| resolve(part)) {
        if !parts.contains(&part) {
            join(files, &part, resolve, &above, parts)?;
        }
    }
    parts.push(name.to_owned());
    Ok(())
}

/// Returns `most`, `keys`, `own` and `shared` of a script that serves several entries. `kind` is
/// the file that says how many PARTS a name of its kind has.
fn entries(files: &Files, file: &File, kind: &str) -> Option<[usize; 4]> {
    if let [most, own, shared] = file.list[..] {
        let parts = files.get(kind)?.text.split_once("local PARTS = ")?.1;
        return Some([most, parts.lines().next()?.parse().ok()?, own, shared]);
    }
    file.list.clone().try_into().ok()
}

/// Returns the first sentence of a comment.
fn first_sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("-- "));
    let words = lines.collect::<Vec<_>>().join(" ");
    let end = words.find(". ").map_or(words.len(), |end| end + 1);
    words[..end].to_owned()
}

/// Writes a struct for each folder, a static for each kind, and the list of all scripts. A kind
/// without scripts of its own has the type of the folder that it shares.
fn rust(scripts: &[Script]) -> String {
    let folders: BTreeSet<_> = scripts.iter().map(|script| &*script.folder).collect();
    let (mut fields, mut values) = (Texts::new(), Texts::new());
    let mut all = String::new();
    for script in scripts {
        let (kind, folder, file) = (&*script.kind, &*script.folder, &script.file);
        let field = format!("/// {}\npub {file}: Source,\n", script.doc);
        fields.entry(folder).or_default().insert(file, field);
        let text = &script.text;
        let list = script.list.map(|[most, keys, own, shared]| {
            format!("Some(List {{ most: {most}, keys: {keys}, own: {own}, shared: {shared} }})")
        });
        let list = list.as_deref().unwrap_or("None");
        let digest = Sha1::from(text).digest();
        let value = format!(
            "{file}: Source {{ name: \"{kind}/{file}\", text: {text:?}, digest: \"{digest}\", \
             list: {list} }},\n"
        );
        *values.entry(kind).or_default().entry(folder).or_default() += &value;
        let mut owner = kind.to_uppercase();
        if folder != kind && folders.contains(kind) {
            owner = format!("{owner}.{folder}");
            let named = named(folder);
            let field = format!("/// Those in `lua/{folder}`.\npub {folder}: {named},\n");
            fields.entry(kind).or_default().insert(folder, field);
        }
        all += &format!("&{owner}.{file},\n");
    }
    let all = format!(
        "/// Lists every script of the family.
        pub fn all() -> impl Iterator<Item = &'static Source> {{ [{all}].into_iter() }}\n"
    );
    structs(fields) + &statics(values) + &all
}

/// Texts by two names.
type Texts<'a> = BTreeMap<&'a str, BTreeMap<&'a str, String>>;

fn structs(fields: Texts<'_>) -> String {
    let of = |(folder, fields): (&str, BTreeMap<_, String>)| {
        let (named, fields) = (named(folder), String::from_iter(fields.into_values()));
        format!(
            "/// The scripts in `lua/{folder}`.
            #[derive(Clone, Copy, Debug)]
            pub struct {named} {{ {fields} }}\n"
        )
    };
    fields.into_iter().map(of).collect()
}

fn statics(values: Texts<'_>) -> String {
    let of = |(kind, mut values): (&str, BTreeMap<&str, String>)| {
        let value = |folder: &str, fields: &str| format!("{} {{ {fields} }}", named(folder));
        let own = values.remove(kind);
        let shared = values
            .iter()
            .map(|(folder, fields)| (folder, value(folder, fields)));
        let value = match own {
            None => shared.map(|(_, value)| value).collect(),
            Some(own) => {
                let shared = shared.map(|(folder, value)| format!("{folder}: {value}, "));
                value(kind, &(own + &shared.collect::<String>()))
            }
        };
        let named = value.split(' ').next().unwrap_or_default();
        let name = kind.to_uppercase();
        format!("/// The scripts of `{kind}`.\npub static {name}: {named} = {value};\n")
    };
    values.into_iter().map(of).collect()
}

/// Returns the type of a folder's scripts.
fn named(folder: &str) -> String {
    folder[..1].to_uppercase() + &folder[1..]
}
