//! Redis's glob patterns.

/// Tells whether `text` matches `pattern`. The syntax is that of Redis: `*`, `?`, `[a-z]`, `[^x]`
/// and `\`.
pub(crate) fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // The position to retry from when a guess about the length of a star was wrong. Only the last
    // star needs a retry.
    let mut retry = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            retry = Some((rest, text));
            pattern = rest;
            continue;
        }
        let Some((&byte, tail)) = text.split_first() else {
            return pattern.is_empty();
        };
        (pattern, text) = match (one(pattern, byte), retry) {
            (Some(rest), _) => (rest, tail),
            (None, Some((star, [_, from @ ..]))) => {
                retry = Some((star, from));
                (star, from)
            }
            (None, _) => return false,
        };
    }
}

/// Matches one byte. Returns the rest of the pattern.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'[', rest @ ..] => {
            let (hit, rest) = class(rest, byte);
            hit.then_some(rest)
        }
        [b'?', rest @ ..] => Some(rest),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte).then_some(rest),
    }
}

/// Reads a class after its `[`. Returns whether `byte` is in it, and the pattern after its `]`.
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

    #[test]
    fn many_stars_end_in_time() {
        assert!(!matches(&b"*a".repeat(50), &b"a".repeat(49)));
        assert!(matches(&b"*a".repeat(50), &b"a".repeat(50)));
    }
}
