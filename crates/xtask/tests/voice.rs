//! Checks that documents use no word that the rules for prose in `CONTRIBUTING.md` refuse.

use crate::tree::{read, tracked};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

const REFUSED: &str = "whoever,nobody,somebody,is no,told,anew,inside of,of its own,goes on,\
     for good,in vain";

#[test]
fn documents_use_no_refused_word() {
    let mut found = Vec::new();
    for file in tracked("md") {
        let words = refused(&file.text).into_iter();
        found.extend(words.map(|word| format!("{}: {word}", file.name)));
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn writers_find_the_refused_words() {
    let rules = read("CONTRIBUTING.md");
    for word in REFUSED.split(',') {
        assert!(rules.contains(&format!("`{word}`")), "{word}");
    }
}

#[test]
fn refused_words_are_found_outside_of_code() {
    let text = "Nobody knows: busy is\nno error, [told](a.md).\n\n| a |\n|---|\n| for *good* |\n";
    assert_eq!(refused(text), ["nobody", "is no", "told", "for good"]);
    let text = "# It goes\n\nOn. It is no longer retold, `told` in, vain.\n\n```text\ntold\n```\n";
    assert_eq!(refused(text), Vec::<&str>::new());
}

/// Returns the refused words that a document uses outside of code.
fn refused(text: &str) -> Vec<&'static str> {
    let (mut prose, mut in_code) = (String::from(" "), false);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Text(text) if !in_code => prose.push_str(&text.to_lowercase()),
            Event::SoftBreak => prose.push(' '),
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::End(TagEnd::Link | TagEnd::Emphasis | TagEnd::Strong) => {}
            // The end of a block. A phrase does not reach across it.
            Event::Code(_) | Event::End(_) => prose.push('.'),
            _ => {}
        }
    }
    let marks = |char: char| !(char.is_alphanumeric() || char.is_whitespace() || char == '-');
    let words = prose.replace(marks, " . ");
    let words: Vec<_> = words.split_whitespace().collect();
    let prose = format!(" {} ", words.join(" ")).replace(" is no longer ", " . ");
    let used = REFUSED.split(',');
    used.filter(|word| prose.contains(&format!(" {word} ")))
        .collect()
}
