//! Checks that prose ends at 100 columns: in documents, and in the comments of Rust and Lua files.
//!
//! Text that cannot be wrapped may be longer: tables, code, and the targets of links.

use crate::tree::tracked;

const WIDTH: usize = 100;

/// The marker of comments in the files with each ending. Markdown has none.
const MARKERS: [(&str, &str); 3] = [("md", ""), ("rs", "//"), ("lua", "--")];

#[test]
fn prose_ends_at_100_columns() {
    let mut found = Vec::new();
    for (ending, marker) in MARKERS {
        let files = tracked(ending);
        assert!(files.len() > 10, "only {} *.{ending}", files.len());
        for file in files {
            let lines = long(&file.text, marker).into_iter();
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
    for (text, lines) in prose {
        assert_eq!(long(&text, "").len(), lines, "{text}");
        let comment = format!("/// {}", text.replace('\n', "\n/// "));
        assert_eq!(long(&comment, "//").len(), lines, "{text}");
    }
    for (code, marker, lines) in [
        (format!("    // {words}"), "//", 1),
        (format!("let a = 1; // {words}"), "//", 1),
        (format!("let a = \"// {words}\";"), "//", 0),
        (format!("-- {words}"), "--", 1),
        (format!("local a = 1 -- {words}"), "--", 1),
        (format!("local a = '{words}'"), "--", 0),
    ] {
        assert_eq!(long(&code, marker).len(), lines, "{code}");
    }
}

/// Returns the numbers of the lines whose prose is too long: of Markdown, or of comments.
fn long(text: &str, marker: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some((before, prose)) = comment(line, marker) else {
            in_code = false;
            continue;
        };
        // The comments of Lua contain no Markdown.
        let start = if marker == "--" {
            ""
        } else {
            prose.trim_start()
        };
        if start.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && !start.starts_with('|') && is_long(prose, before) {
            found.push(at + 1);
        }
    }
    found
}

/// Returns the columns before the text of a comment, and the text. A marker inside of a string does
/// not begin a comment.
fn comment<'a>(line: &'a str, marker: &str) -> Option<(usize, &'a str)> {
    let (at, _) = line.match_indices(marker).find(|(at, _)| {
        let before = &line[..*at];
        let quotes = |quote: char| before.matches(quote).count().is_multiple_of(2);
        quotes('"') && (marker != "--" || quotes('\'')) && !before.ends_with(':')
    })?;
    let text = &line[at + marker.len()..];
    // A comment may be documentation.
    let text = match marker {
        "//" => text.trim_start_matches(['/', '!']),
        _ => text,
    };
    let before = &line[..line.len() - text.len()];
    Some((before.chars().count(), text))
}

/// Tells whether prose is too long after `before` columns, without the parts that cannot be
/// wrapped.
fn is_long(prose: &str, before: usize) -> bool {
    let mut rest = prose;
    let mut width = before;
    while let Some(at) = rest.find("](").or_else(|| rest.find("http")) {
        width += rest[..at].chars().count();
        let is_link = rest[at..].starts_with("](");
        let end = if is_link { ')' } else { ' ' };
        let behind = rest[at..].find(end).unwrap_or(rest.len() - at);
        rest = &rest[at + behind..];
    }
    width += rest.chars().count();
    width > WIDTH && prose.trim().contains(' ')
}
