//! `cargo xtask check book`: renders the book with mdBook, and follows its links.
//!
//! The gate compiles and runs the examples of the book: they are doctests of `redlatch-book`.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use crate::{
    command::{self, cargo, root},
    steps::Steps,
    suite::Verdict,
};

/// Runs the check.
pub(crate) fn run(args: &[String]) -> Result<Verdict, String> {
    if let Some(argument) = args.first() {
        return Err(format!("check book takes no arguments: {argument:?}"));
    }
    let mut steps = Steps::default();
    if let Some(program) = steps.run("mdbook", program) {
        let rendered = steps.run("rendering", || {
            let mut render = Command::new(&program);
            render.current_dir(root()).args(["build", "docs/book"]);
            command::run(&mut render)
        });
        if rendered.is_some() {
            steps.run("links", || links(&root().join(RENDERED)));
        }
    }
    println!("\n{steps}");
    Ok(steps.verdict())
}

/// Returns an mdBook: that of the `PATH`, or the one that this workspace has built, now or before.
fn program() -> Result<PathBuf, String> {
    let own = root().join("target/tools/bin/mdbook");
    for program in [PathBuf::from("mdbook"), own.clone()] {
        if command::output(Command::new(&program).arg("--version")).is_some() {
            return Ok(program);
        }
    }
    let mut install = cargo(&["install", "mdbook", "--locked", "--version", VERSION]);
    install.args(["--no-default-features", "--features", "search"]);
    command::run(install.args(["--root", "target/tools"]))?;
    Ok(own)
}

/// Follows all links between the rendered pages, and checks that each chapter is among them.
fn links(folder: &Path) -> Result<(), String> {
    let text = |path: &Path| {
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let summary = text(&root().join("docs/book/src/SUMMARY.md"))?;
    let chapters = chapters(&summary);
    if chapters.is_empty() {
        return Err("the book has no chapters".to_owned());
    }
    let (mut seen, mut broken) = (0, Vec::new());
    for chapter in &chapters {
        let page = Path::new(chapter).with_extension("html");
        let html = text(&folder.join(&page))?;
        let content = html.split("<main>").nth(1).unwrap_or_default();
        let content = content.split("</main>").next().unwrap_or_default();
        if content.trim().is_empty() {
            return Err(format!("{chapter} was rendered without content"));
        }
        for link in hrefs(content) {
            seen += 1;
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = join(&page, path);
            let there = text(&folder.join(&target));
            let found = there.is_ok_and(|html| {
                fragment.is_empty() || html.contains(&format!("id=\"{fragment}\""))
            });
            if !found {
                broken.push(format!("{chapter}: {link}"));
            }
        }
    }
    println!("{} chapters, {seen} links between them", chapters.len());
    if seen == 0 || !broken.is_empty() {
        return Err(format!("broken links: {broken:#?}"));
    }
    Ok(())
}

/// Returns the files of all chapters.
fn chapters(summary: &str) -> Vec<&str> {
    let links = summary.split("](").skip(1);
    let links = links.filter_map(|rest| rest.split(')').next());
    links.filter(|link| link.ends_with(".md")).collect()
}

/// Returns the targets of the links that stay inside the book.
fn hrefs(html: &str) -> Vec<&str> {
    let links = html.split("<a ").skip(1);
    let links = links.filter_map(|rest| rest.split('>').next()?.split("href=\"").nth(1));
    let links = links.filter_map(|rest| rest.split('"').next());
    links.filter(|link| !link.contains("://")).collect()
}

/// Resolves a link of a page.
fn join(page: &Path, link: &str) -> PathBuf {
    if link.is_empty() {
        return page.to_owned();
    }
    let mut target = page.parent().unwrap_or(page).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                target.pop();
            }
            Component::Normal(name) => target.push(name),
            _ => {}
        }
    }
    target
}

/// The version that is installed if there is none.
const VERSION: &str = "0.5.4";

/// Where `book.toml` lets mdBook write.
const RENDERED: &str = "target/book";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chapters_are_the_files_of_the_summary() {
        let summary = "# S\n\n[Start](start.md)\n\n- [A](a/b.md)\n  - [Web](https://x.y/z)\n";
        assert_eq!(chapters(summary), ["start.md", "a/b.md"]);
    }

    #[test]
    fn links_are_resolved_from_the_folder_of_their_page() {
        let page = Path::new("how-to/tls.html");
        assert_eq!(join(page, "rights.html"), Path::new("how-to/rights.html"));
        assert_eq!(join(page, "../start.html"), Path::new("start.html"));
        assert_eq!(join(page, ""), page);
        let html = "<a class=\"header\" href=\"#x\">a</a> <a href=\"https://b\">b</a>";
        assert_eq!(hrefs(html), ["#x"]);
    }

    #[test]
    fn book_writes_into_the_target_folder() {
        let manifest = fs::read_to_string(root().join("docs/book/book.toml")).expect("book.toml");
        assert!(manifest.contains(&format!("build-dir = \"../../{RENDERED}\"")));
    }
}
