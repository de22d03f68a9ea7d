//! Patterns for names, with the rules of the server's `KEYS` and `SCAN`.

/// Returns whether `text` matches `pattern`: `*`, `?`, `[abc]`, `[^a-z]`, and `\` before a literal
/// character.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let [pattern, text] = [pattern, text].map(|text| text.chars().collect::<Vec<_>>());
    is_match(&pattern, &text)
}

/// Returns whether `text` matches `pattern`, in characters or in bytes. Servers match bytes.
pub fn is_match<T: Copy + Ord + From<u8>>(pattern: &[T], text: &[T]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to continue after a mismatch behind the last star. Only the last star needs another
    // try.
    let mut retry = None;
    while t < text.len() {
        if pattern.get(p) == Some(&T::from(b'*')) {
            p += 1;
            retry = Some((p, t));
        } else if let Some(next) = one(pattern, p, text[t]) {
            (p, t) = (next, t + 1);
        } else if let Some((star, from)) = retry {
            (p, t) = (star, from + 1);
            retry = Some((star, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == T::from(b'*'))
}

/// Matches one character at `p`. Returns the position behind the matched part of the pattern.
fn one<T: Copy + Ord + From<u8>>(pattern: &[T], p: usize, c: T) -> Option<usize> {
    let first = *pattern.get(p)?;
    if first == T::from(b'?') {
        Some(p + 1)
    } else if first == T::from(b'[') {
        set(pattern, p + 1, c)
    } else if first == T::from(b'\\') && p + 1 < pattern.len() {
        (pattern[p + 1] == c).then_some(p + 2)
    } else {
        (first == c).then_some(p + 1)
    }
}

/// Matches a set whose content starts at `p`. Returns the position behind the set.
fn set<T: Copy + Ord + From<u8>>(pattern: &[T], mut p: usize, c: T) -> Option<usize> {
    let negated = pattern.get(p) == Some(&T::from(b'^'));
    p += usize::from(negated);
    let mut found = false;
    while p < pattern.len() && pattern[p] != T::from(b']') {
        if pattern[p] == T::from(b'\\') && p + 1 < pattern.len() {
            p += 1;
            found |= pattern[p] == c;
        } else if p + 2 < pattern.len() && pattern[p + 1] == T::from(b'-') {
            let (one, other) = (pattern[p], pattern[p + 2]);
            found |= (one.min(other)..=one.max(other)).contains(&c);
            p += 2;
        } else {
            found |= pattern[p] == c;
        }
        p += 1;
    }
    (found != negated).then_some((p + 1).min(pattern.len()))
}

#[cfg(test)]
mod tests {
    use super::{is_match, matches};

    #[test]
    fn patterns_match_as_on_the_server() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "orders:42", true),
            ("orders:*", "orders:42", true),
            ("orders:?", "orders:42", false),
            ("*4*2", "orders:4x2", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("?", "", false),
            ("a[b-d]e", "ace", true),
            ("a[^b-d]e", "ace", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("h[ae]llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("", "", true),
            ("", "x", false),
            ("[", "[", false),
            ("[a", "a", true),
            ("x[a", "xa", true),
            ("[^a", "b", true),
            ("**a**", "bab", true),
            // As servers answer: a range may end in the bracket that seems to close the set.
            ("[*-]-", "*", true),
            ("?[a-]", "x-", false),
            ("[b^-]", "]", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} ~ {text}");
            let bytes = is_match(pattern.as_bytes(), text.as_bytes());
            assert_eq!(bytes, expected, "{pattern} ~ {text}");
        }
    }

    #[test]
    fn many_stars_end_in_time() {
        assert!(!matches(&"*a".repeat(50), &"a".repeat(49)));
        assert!(!is_match(&b"*a".repeat(50), &b"a".repeat(49)));
        assert!(is_match(&b"*a".repeat(50), &b"a".repeat(50)));
    }
}
