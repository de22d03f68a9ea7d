//! Checks the documents: relative links must have a target, and the names in the table of
//! invariants in `docs/contributing/architecture.md` must exist.

use std::collections::{BTreeSet, HashMap};

use crate::tree::{Tracked, files, read, root, tracked};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let documents = tracked("md").into_iter();
    let documents = documents.map(|file| (file.name.clone(), Document::read(&file)));
    let documents: HashMap<_, _> = documents.collect();
    let (mut seen, mut broken) = (0, Vec::new());
    for (name, document) in &documents {
        for link in &document.links {
            seen += 1;
            if let Err(reason) = follow(name, link, &documents) {
                broken.push(format!("{name}: {link}: {reason}"));
            }
        }
    }
    broken.sort();
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(seen >= 20, "only {seen} links were found");
}

/// mdBook renders no other page, and a link to one would be broken.
#[test]
fn every_page_of_the_book_is_in_its_summary() {
    let summary = read(&format!("{BOOK}SUMMARY.md"));
    for file in tracked("md") {
        let page = file.name.strip_prefix(BOOK);
        if let Some(page) = page.filter(|page| *page != "SUMMARY.md") {
            assert!(summary.contains(&format!("]({page})")), "{page}");
        }
    }
}

const BOOK: &str = "docs/book/src/";

/// The book links to documents outside of it by their addresses.
#[test]
fn every_link_to_a_file_of_the_repository_leads_to_one() {
    let (mut seen, mut broken) = (0, Vec::new());
    for file in tracked("md") {
        for rest in file.text.split(REPOSITORY).skip(1) {
            let path = rest.split([')', '>', ' ', '\n']).next().unwrap_or_default();
            seen += 1;
            let path = path.split('#').next().unwrap_or_default();
            if !root().join(path).exists() {
                broken.push(format!("{}: {path}", file.name));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(seen >= 10, "only {seen} links were found");
}

#[test]
fn first_page_is_short() {
    let lines = read("README.md").lines().count();
    assert!((50..=200).contains(&lines), "{lines} lines");
}

/// `cargo xtask check archives` runs it.
#[test]
fn readme_begins_with_a_program() {
    let readme = read("README.md");
    let (_, program) = readme.split_once("\n```rust\n").unwrap();
    let (program, _) = program.split_once("\n```").unwrap();
    assert!(program.contains("fn main()"), "{program}");
}

#[test]
fn every_invariant_names_what_exists() {
    let table = rows("docs/contributing/architecture.md", "invariant");
    assert!(table.len() >= 20, "only {} invariants", table.len());
    let sources = Sources::read();
    for row in table {
        let (invariant, keepers) = (&row[0], code_spans(&row[1]));
        assert!(!keepers.is_empty(), "nothing keeps `{invariant}`");
        for keeper in keepers {
            assert!(sources.have(&keeper), "{invariant}: there is no `{keeper}`");
        }
    }
}

#[test]
fn every_kind_of_error_has_a_section_and_no_other_is_described() {
    let source = read("crates/redlatch-core/src/base/error.rs");
    let (_, kinds) = source.split_once("pub enum ErrorKind {\n").unwrap();
    let (kinds, _) = kinds.split_once("\n}\n").unwrap();
    let mut kinds: Vec<_> = kinds
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("//") && !line.starts_with("#["))
        .filter_map(|line| line.trim_end_matches(',').split('(').next())
        .collect();
    let page = read("docs/book/src/reference/errors.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("### "));
    let mut sections: Vec<_> = headings.collect();
    kinds.sort_unstable();
    sections.sort_unstable();
    assert!(kinds.len() >= 20, "{kinds:?}");
    assert_eq!(sections, kinds);
}

#[test]
fn what_does_not_exist_is_found() {
    let text = "# A `b` heading, twice\n[a](#a-b-heading-twice) [b](#no) [c](no.md) [d](b.md#x)\n";
    let document = Document::read(&Tracked {
        name: "docs/a.md".to_owned(),
        text: text.to_owned(),
    });
    assert_eq!(document.headings, ["a-b-heading-twice"]);
    let links = document.links.clone();
    let documents = HashMap::from([("docs/a.md".to_owned(), document)]);
    let leads = |link: &String| follow("docs/a.md", link, &documents).is_ok();
    let ends: Vec<_> = links.iter().map(leads).collect();
    assert_eq!(ends, [true, false, false, false]);
    assert!(follow("docs/a.md", "contributing/design.md", &documents).is_ok());
    assert!(follow("docs/a.md", "../crates", &documents).is_ok());

    let sources = Sources::read();
    // The name is joined here, so that the search does not find it in this file.
    let fault = ["no", "such", "fault"].join("-");
    for missing in ["no_test_has_this_name", "it/no/such/file.rs", &fault] {
        assert!(!sources.have(missing), "{missing}");
    }
    assert!(sources.have("what_does_not_exist_is_found"));
    assert!(sources.have("xtask/tests/documents.rs"));
}

const REPOSITORY: &str = "https://github.com/redlatch/redlatch/blob/main/";

/// The links of a document, and the link targets in it.
struct Document {
    links: Vec<String>,
    headings: Vec<String>,
}

impl Document {
    fn read(file: &Tracked) -> Self {
        let (mut links, mut headings) = (Vec::new(), Vec::new());
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(&file.text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. })
                    if is_relative(&dest_url) =>
                {
                    links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => headings.extend(heading.take().map(anchor)),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        Self { links, headings }
    }
}

/// Tells whether a link leads to a file. Other links lead to the web or to Rust items, which
/// rustdoc checks.
fn is_relative(link: &str) -> bool {
    !link.contains("://") && !link.contains("::") && !link.starts_with("mailto:")
}

/// Returns the anchor of a heading on the pages of a forge.
fn anchor(heading: String) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|char| char.is_alphanumeric() || " -_".contains(*char))
        .map(|char| if char == ' ' { '-' } else { char })
        .collect()
}

/// Checks a link of the document `from`.
fn follow(
    from: &str,
    link: &str,
    documents: &HashMap<String, Document>,
) -> Result<(), &'static str> {
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => from.to_owned(),
        path => join(from, path),
    };
    if !path.is_empty() && !root().join(&target).exists() {
        return Err("there is no such file");
    }
    if fragment.is_empty() {
        return Ok(());
    }
    let document = documents.get(&target);
    let document = document.ok_or("what has no headings cannot be linked into")?;
    let mut headings = document.headings.iter();
    let found = headings.any(|heading| heading == fragment);
    found.then_some(()).ok_or("there is no such heading")
}

/// Resolves a path relative to the folder of a file.
fn join(from: &str, path: &str) -> String {
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the cells of each row of the table whose first column has this title.
fn rows(document: &str, title: &str) -> Vec<Vec<String>> {
    let text = read(document);
    let head = format!("| {title} |");
    let lines = text.lines().skip_while(|line| !line.starts_with(&head));
    lines
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

fn code_spans(text: &str) -> Vec<String> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.map(str::to_owned).collect()
}

/// The sources in which the names of the table must occur.
struct Sources {
    files: BTreeSet<String>,
    texts: Vec<String>,
}

impl Sources {
    fn read() -> Self {
        let rust = tracked("rs");
        Self {
            files: files(),
            texts: rust.into_iter().map(|file| file.text).collect(),
        }
    }

    /// Tells whether a file or folder, a function, a planted fault, or a setting of a tool has this
    /// name.
    fn have(&self, name: &str) -> bool {
        if self.file(name) {
            return true;
        }
        let function = format!("fn {name}(");
        let quoted = format!("\"{name}\"");
        let variant = format!("::{name}");
        self.texts.iter().any(|text| {
            text.contains(&function)
                || (name.contains('-') && text.contains(&quoted))
                || (name.starts_with(char::is_uppercase) && text.contains(&variant))
        }) || read("clippy.toml").contains(&format!("{name} = ["))
    }

    /// Tells whether a file or folder has a path with this end. The suffix `.rs` may be omitted.
    fn file(&self, name: &str) -> bool {
        let name = format!("/{}", name.trim_end_matches('/'));
        self.files.iter().any(|file| {
            let file = format!("/{file}");
            let bare = file.strip_suffix(".rs").unwrap_or(&file);
            file.ends_with(&name) || bare.ends_with(&name) || file.contains(&format!("{name}/"))
        })
    }
}
