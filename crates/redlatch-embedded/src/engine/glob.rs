//! Redis's glob patterns.

/// Tells whether `text` matches `pattern`: `*`, `?`, `[a-z]`, `[^x]` and `\` as Redis reads them.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skip| matches(rest, &text[skip..])),
        [b'[', rest @ ..] => match text {
            [] => false,
            [first, tail @ ..] => {
                let (hit, rest) = class(rest, *first);
                hit && matches(rest, tail)
            }
        },
        [b'?', rest @ ..] => !text.is_empty() && matches(rest, &text[1..]),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => {
            text.first() == Some(literal) && matches(rest, &text[1..])
        }
    }
}

/// Reads a class after its `[`; returns whether `byte` is in it and what follows its `]`.
fn class(mut pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let negated = pattern.first() == Some(&b'^');
    if negated {
        pattern = &pattern[1..];
    }
    let mut hit = false;
    loop {
        match pattern {
            [] => return (hit != negated, pattern),
            [b']', rest @ ..] => return (hit != negated, rest),
            [b'\\', literal, rest @ ..] => {
                hit |= *literal == byte;
                pattern = rest;
            }
            [low, b'-', high, rest @ ..] => {
                let (low, high) = (low.min(high), low.max(high));
                hit |= (*low..=*high).contains(&byte);
                pattern = rest;
            }
            [literal, rest @ ..] => {
                hit |= *literal == byte;
                pattern = rest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_on_the_server() {
        let check = |pattern: &str, text: &str, expected| {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        };
        check("*", "", true);
        check("a*c", "abbc", true);
        check("a*c", "abb", false);
        check("?", "", false);
        check("h[ae]llo", "hallo", true);
        check("h[^e]llo", "hello", false);
        check("h[a-c]llo", "hbllo", true);
        check("a\\*", "a*", true);
        check("a\\*", "ab", false);
        check("x[a", "xa", true);
    }
}
