//! The pages of the book whose examples are tests: `cargo test -p redlatch-book`.
//!
//! Each page has a line here. A test compares the lines with the table of contents.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "pages of a book, not of a crate"
)]

macro_rules! pages {
    ($($name:ident $path:literal)*) => {
        $(
            #[doc = include_str!(concat!("src/", $path))]
            pub mod $name {}
        )*

        #[cfg(test)]
        const PAGES: &[&str] = &[$($path),*];
    };
}

pages! {
    introduction "introduction.md"
    first_lock "tutorial/first-lock.md"
    first_server "tutorial/first-server.md"
    choose "how-to/choose.md"
    connect "how-to/connect.md"
    where_it_runs "how-to/where.md"
    rights "how-to/rights.md"
    limit "how-to/limit.md"
    http "how-to/http.md"
    cancel_and_retry "how-to/cancel-and-retry.md"
    shutdown "how-to/shutdown.md"
    test_your_service "how-to/test-your-service.md"
    moving "how-to/move.md"
    runbook "operate/runbook.md"
    command "operate/command.md"
    recipes "operate/recipes.md"
    observability "operate/observability.md"
    capacity "operate/capacity.md"
    guarantees "reference/guarantees.md"
    errors "reference/errors.md"
    features "reference/features.md"
    glossary "reference/glossary.md"
    explanation "explanation/index.md"
    fencing "explanation/fencing.md"
    red_lock "explanation/red-lock.md"
    performance "explanation/performance.md"
}

/// The page of the repository.
#[doc = include_str!("../../README.md")]
pub mod readme {}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn every_chapter_is_a_page_here() {
        let summary = include_str!("src/SUMMARY.md");
        let links = summary.split("](").skip(1);
        let chapters: Vec<_> = links.filter_map(|rest| rest.split(')').next()).collect();
        assert_eq!(chapters, super::PAGES);
    }

    #[test]
    fn every_file_is_a_chapter() {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder of the book") {
                let path = entry.expect("a file of the book").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let page = path.extension().is_some_and(|ending| ending == "md");
                if page && !path.ends_with("SUMMARY.md") {
                    files += 1;
                    let listed = super::PAGES.iter().any(|page| path.ends_with(page));
                    assert!(listed, "{} is no chapter", path.display());
                }
            }
        }
        assert_eq!(files, super::PAGES.len());
    }
}
