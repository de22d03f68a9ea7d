//! The standard output, and questions to a terminal.

use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::retry_on_intr,
};

use super::exit::Failure;

/// Prints lines. If nobody reads any more, as behind `head`, the program ends without a message.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::new(0, ""),
        _ => Failure::own(format!("the output cannot be written: {error}")),
    })
}

/// Resolves when nobody reads the standard output any more. Needs no write for that. Never resolves
/// for a file. Takes a thread to the end of the program, so call it once.
pub(crate) async fn closed() {
    let closed = tokio::task::spawn_blocking(|| {
        let out = io::stdout();
        // No event is asked for, and the end of the reader is told all the same.
        let mut ends = [PollFd::new(&out, PollFlags::empty())];
        retry_on_intr(|| poll(&mut ends, None))
    });
    if !matches!(closed.await, Ok(Ok(_))) {
        std::future::pending().await
    }
}

/// Tells whether the standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Tells whether a question can be answered.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Tells whether somebody reads messages as they come.
pub(crate) fn can_tell() -> bool {
    io::stderr().is_terminal()
}

/// Tells whether keys can be read, and a picture be shown.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Asks for a `y` or `yes`. Anything else is a no.
pub(crate) async fn ask(question: &str) -> Result<bool, Failure> {
    let question = format!("{question} [y/N] ");
    let answer = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        io::stderr().write_all(question.as_bytes())?;
        io::stdin().lock().read_line(&mut line)?;
        Ok::<_, io::Error>(line)
    });
    let failed = |error| Failure::own(format!("the question failed: {error}"));
    let unanswered = |error| Failure::own(format!("no answer from the terminal: {error}"));
    let answer = answer.await.map_err(failed)?.map_err(unanswered)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Returns the text without characters that a terminal would act on.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || DIRECTIONS.contains(&character) {
            cleaned.extend(character.escape_default());
        } else {
            cleaned.push(character);
        }
    }
    cleaned
}

/// The marks that turn the direction of the text behind them.
const DIRECTIONS: [char; 12] = [
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// Writes rows in columns. The last column has no padding.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = head.iter().map(|title| width(title)).collect();
    for row in rows {
        for (most, cell) in widths.iter_mut().zip(row) {
            *most = width(cell).max(*most);
        }
    }
    let mut text = String::new();
    let head = head.iter().map(ToString::to_string).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (cell, most) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', most - width(cell) + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(clean("größe"), "größe");
        assert_eq!(clean("a\u{202e}b\u{2066}"), "a\\u{202e}b\\u{2066}");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["äöü".to_owned(), String::new()],
            vec!["b".to_owned(), "x".to_owned()],
        ];
        assert_eq!(table(&["N", "W"], &rows), "N    W\näöü\nb    x\n");
    }
}
