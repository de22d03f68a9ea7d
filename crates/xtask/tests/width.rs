//! Checks that prose ends at 100 columns: in documents, and in the comments of Rust and Lua files.
//!
//! Text that cannot be wrapped may be longer: tables, code, and the targets of links.

#![allow(
    clippy::unwrap_used,
    reason = "a file that cannot be read fails the test"
)]

mod tree;

use tree::tracked;

const WIDTH: usize = 100;

#[test]
fn prose_ends_at_100_columns() {
    let mut found = Vec::new();
    for (ending, long) in [
        ("md", long_prose as fn(&str) -> Vec<usize>),
        ("rs", long_rust),
        ("lua", long_lua),
    ] {
        let files = tracked(ending);
        assert!(files.len() > 10, "only {} *.{ending}", files.len());
        for file in files {
            let lines = long(&file.text).into_iter();
            found.extend(lines.map(|line| format!("{}:{line}", file.name)));
        }
    }
    assert!(found.is_empty(), "longer than {WIDTH} columns: {found:#?}");
}

#[test]
fn long_lines_are_found_where_they_can_be_wrapped() {
    let words = "word ".repeat(30);
    let link = format!("[text]({})", "x".repeat(120));
    let prose = [
        (words.clone(), 1),
        (format!("* {words}"), 1),
        (format!("| {words} |"), 0),
        (format!("```text\n{words}\n```\n"), 0),
        (format!("```text\n```\n{words}"), 1),
        (link, 0),
        (format!("see <https://{}>", "x".repeat(120)), 0),
        ("x".repeat(120), 0),
    ];
    for (text, long) in prose {
        assert_eq!(long_prose(&text).len(), long, "{text}");
        let comment = text.replace('\n', "\n/// ");
        assert_eq!(long_rust(&format!("/// {comment}")).len(), long, "{text}");
    }
    for (code, long) in [
        (format!("    // {words}"), 1),
        (format!("let a = 1; // {words}"), 1),
        (format!("let a = \"// {words}\";"), 0),
    ] {
        assert_eq!(long_rust(&code).len(), long, "{code}");
    }
    for (code, long) in [
        (format!("-- {words}"), 1),
        (format!("local a = 1 -- {words}"), 1),
        (format!("local a = '{words}'"), 0),
    ] {
        assert_eq!(long_lua(&code).len(), long, "{code}");
    }
}

/// Returns the numbers of the lines of Markdown that are too long.
fn long_prose(text: &str) -> Vec<usize> {
    let mut block = Block::default();
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| block.is_prose(line) && is_long(line, 0))
        .map(|(at, _)| at + 1)
        .collect()
}

/// Returns the numbers of the lines of Rust whose comments are too long.
fn long_rust(text: &str) -> Vec<usize> {
    let mut block = Block::default();
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| match comment(line, "//") {
            None => {
                block = Block::default();
                false
            }
            Some((before, comment)) => {
                let comment = comment.trim_start_matches(['/', '!']);
                block.is_prose(comment) && is_long(comment, before + line_marker(line))
            }
        })
        .map(|(at, _)| at + 1)
        .collect()
}

/// Returns the numbers of the lines of Lua whose comments are too long.
fn long_lua(text: &str) -> Vec<usize> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| {
            comment(line, "--").is_some_and(|(before, comment)| is_long(comment, before + 2))
        })
        .map(|(at, _)| at + 1)
        .collect()
}

/// The current block of Markdown.
#[derive(Default)]
struct Block {
    in_code: bool,
}

impl Block {
    /// Reads a line, and tells whether it is prose.
    fn is_prose(&mut self, line: &str) -> bool {
        let line = line.trim_start();
        if line.starts_with("```") {
            self.in_code = !self.in_code;
            return false;
        }
        !self.in_code && !line.starts_with('|')
    }
}

/// Returns the columns before a comment, and the text after its marker. A marker inside of a string
/// does not begin a comment.
fn comment<'a>(line: &'a str, marker: &str) -> Option<(usize, &'a str)> {
    let (at, _) = line.match_indices(marker).find(|(at, _)| {
        let before = &line[..*at];
        let quotes = |quote: char| before.matches(quote).count().is_multiple_of(2);
        quotes('"') && (marker == "//" || quotes('\'')) && !before.ends_with(':')
    })?;
    let before = &line[..at];
    Some((before.chars().count(), &line[at + marker.len()..]))
}

/// Returns the width of the marker of a Rust comment.
fn line_marker(line: &str) -> usize {
    let line = line.trim_start();
    2 + usize::from(line.starts_with("///") || line.starts_with("//!"))
}

/// Tells whether prose is too long after `before` columns, without the parts that cannot be
/// wrapped.
fn is_long(prose: &str, before: usize) -> bool {
    let mut rest = prose;
    let mut width = before;
    while let Some(at) = rest.find("](").or_else(|| rest.find("http")) {
        width += rest[..at].chars().count();
        let end = if rest[at..].starts_with("](") {
            ')'
        } else {
            ' '
        };
        let behind = rest[at..].find(end).unwrap_or(rest.len() - at);
        rest = &rest[at + behind..];
    }
    width += rest.chars().count();
    width > WIDTH && prose.trim().contains(' ')
}
