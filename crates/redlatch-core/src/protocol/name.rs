//! Names of objects, and their keys on a server.
//!
//! * A name without a hash tag gets its own tag: `p:{<name, with % { } escaped>}`, and its parts
//!   `p:{…}:<part>`.
//! * A name with a well-formed tag keeps that tag: `p:@<name>`, and its parts `p:<part>@<name>`.
//!
//! A prefix contains neither braces nor `@`, and a part consists of letters. So no two names and no
//! two parts share a key (L50).

use std::{borrow::Cow, error, fmt, sync::Arc};

use super::slot::{hash_tag, slot_of};

/// A validated name: 1 to 512 bytes of UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Longest name in bytes.
    pub const MAX_LEN: usize = 512;

    /// Validates a name.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        match name.len() {
            0 => Err(NameError::Empty),
            1..=Self::MAX_LEN => Ok(Self(name.into())),
            len => Err(NameError::TooLong { len }),
        }
    }

    /// Returns the name as the caller gave it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A validated prefix of all keys and channels of a client: 1 to 64 bytes, without braces, `@`,
/// white space and glob characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(Arc<str>);

impl Prefix {
    /// Validates a prefix.
    pub fn parse(prefix: &str) -> Result<Self, NameError> {
        let allowed = |c: char| !c.is_whitespace() && !c.is_control() && !"{}@*?[]\\".contains(c);
        if prefix.is_empty() || prefix.len() > 64 || !prefix.chars().all(allowed) {
            return Err(NameError::Prefix);
        }
        Ok(Self(prefix.into()))
    }

    /// Returns the prefix as the caller gave it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the beginning of the wake channel of each client. The client's id follows.
    pub(crate) fn wake_channels(&self) -> String {
        format!("{}:w:", self.0)
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self("redlatch".into())
    }
}

/// The key of one object's main hash, together with the object's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The first field in the order. Keys have a common beginning, and most comparisons end here.
    slot: u16,
    /// The key, followed by the name if the key does not contain the name unchanged.
    text: Arc<str>,
    /// Length of the key in bytes.
    len: u16,
    /// Position of the name in `text`, and its length in bytes.
    name_at: u16,
    name_len: u16,
}

/// The command that publishes on a [broadcast channel](Key::broadcast_channel).
pub const PUBLISH: &str = "PUBLISH";

impl Key {
    /// Returns the key of `name` under `prefix`.
    pub fn new(prefix: &Prefix, name: &Name) -> Self {
        let (prefix, name) = (prefix.as_str(), name.as_str());
        let mut text = String::with_capacity(prefix.len() + name.len() + 3);
        text.extend([prefix, ":"]);
        let mut name_at = prefix.len() + 2;
        let len;
        if hash_tag(name.as_bytes()).is_some() {
            text.extend(["@", name]);
            len = text.len();
        } else {
            let escaped = escape(name);
            text.extend(["{", &escaped, "}"]);
            len = text.len();
            if let Cow::Owned(_) = escaped {
                name_at = len;
                text.push_str(name);
            }
        }
        Self {
            slot: slot_of(&text.as_bytes()[..len]),
            text: text.into(),
            len: short(len),
            name_at: short(name_at),
            name_len: short(name.len()),
        }
    }

    /// Returns the key of an object in another program's layout: the name itself, without a prefix.
    /// It has no parts and no broadcast channel.
    ///
    /// Fails if the braces of the name are no hash tag, since [`beside`](Self::beside) could not
    /// share its slot then. Fails if the name may be a key of an object under `prefix`.
    pub fn foreign(prefix: &Prefix, name: &Name) -> Result<Self, NameError> {
        let name = name.as_str();
        if name.contains(['{', '}']) && !has_one_tag(name) {
            return Err(NameError::Braces);
        }
        let rest = name.strip_prefix(prefix.as_str());
        if rest.is_some_and(|rest| rest.starts_with(':') && rest.contains('{')) {
            return Err(NameError::Reserved);
        }
        Ok(Self {
            slot: slot_of(name.as_bytes()),
            text: name.into(),
            len: short(name.len()),
            name_at: 0,
            name_len: short(name.len()),
        })
    }

    /// Returns a key under `prefix` in the slot of this key, which is
    /// [`foreign`](Self::foreign). `kind` consists of ASCII letters.
    ///
    /// It is the key of no object and of no part, whatever their prefix: a prefix contains no `?`.
    /// It is no foreign key either, since those have at most one pair of braces.
    pub fn beside(&self, prefix: &Prefix, kind: &str) -> String {
        let (prefix, key) = (prefix.as_str(), self.as_str());
        if hash_tag(key.as_bytes()).is_some() {
            format!("{prefix}:{kind}?@{key}{{}}")
        } else {
            format!("{prefix}:{kind}?{{{key}}}{{}}")
        }
    }

    /// Returns the key as it is on the server.
    pub fn as_str(&self) -> &str {
        &self.text[..usize::from(self.len)]
    }

    /// Returns the name of the object as the caller gave it.
    pub fn name(&self) -> &str {
        let at = usize::from(self.name_at);
        &self.text[at..at + usize::from(self.name_len)]
    }

    /// Returns the slot of the key and of all its parts.
    pub const fn slot(&self) -> u16 {
        self.slot
    }

    /// Returns the broadcast channel of the object, in the same slot. All clients that wait for the
    /// object subscribe to it. [`PUBLISH`] sends a message.
    pub fn broadcast_channel(&self) -> Arc<str> {
        self.part("b").into()
    }

    /// Returns the key of the index called `part`, in the same slot. A part consists of ASCII
    /// letters.
    pub fn part(&self, part: &str) -> String {
        self.shown_part(part).to_string()
    }

    /// Returns the text of [`part`](Self::part) for a buffer of the caller.
    pub fn shown_part<'a>(&'a self, part: &'a str) -> impl fmt::Display + use<'a> {
        debug_assert!(
            part.bytes().all(|byte| byte.is_ascii_lowercase()),
            "a part is letters"
        );
        KeyPart { key: self, part }
    }

    /// Returns the name that has this `key` under `prefix`. Returns `None` for a part, and for a
    /// key of another origin.
    pub fn decode(prefix: &Prefix, key: &str) -> Option<Name> {
        Some(Self::parse(prefix, key)?.1)
    }

    /// Returns the key that is written so, if it is the key of an object under `prefix`.
    pub(crate) fn read(prefix: &Prefix, key: &str) -> Option<Self> {
        Some(Self::parse(prefix, key)?.0)
    }

    fn parse(prefix: &Prefix, key: &str) -> Option<(Self, Name)> {
        let rest = key.strip_prefix(prefix.as_str())?.strip_prefix(':')?;
        let name = match rest.strip_prefix('@') {
            Some(tagged) => tagged.to_owned(),
            None => unescape(rest.strip_prefix('{')?.strip_suffix('}')?),
        };
        // A part, and a key of another origin, may look like the key of a name.
        let name = Name::parse(&name).ok()?;
        let whole = Self::new(prefix, &name);
        (whole.as_str() == key).then_some((whole, name))
    }
}

/// The key of an index of an object; see [`Key::shown_part`].
struct KeyPart<'a> {
    key: &'a Key,
    part: &'a str,
}

impl fmt::Display for KeyPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.key.as_str();
        // A prefix contains neither, so the first of them begins what the prefix ends.
        let at = whole.find(['@', '{']).unwrap_or(whole.len());
        let pieces = match whole.split_at(at) {
            (prefix, tagged) if tagged.starts_with('@') => [prefix, self.part, tagged],
            _ => [whole, ":", self.part],
        };
        pieces.iter().try_for_each(|piece| f.write_str(piece))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a name or prefix was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name has no characters.
    Empty,
    /// The name is too long.
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The prefix is empty, is too long, or contains a forbidden character.
    Prefix,
    /// The name of an object in another program's layout has braces that are no hash tag.
    Braces,
    /// The name of an object in another program's layout may be a key of this client's own objects.
    Reserved,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the name is empty; a name has 1 to {} bytes", Name::MAX_LEN),
            Self::TooLong { len } => {
                write!(f, "the name has {len} bytes; a name has 1 to {}", Name::MAX_LEN)
            }
            Self::Prefix => f.write_str(
                "a prefix has 1 to 64 bytes, without white space, control characters and any of {}@*?[]\\",
            ),
            Self::Braces => f.write_str(
                "the braces of the name are no hash tag; a name without prefix has no braces, or one {tag} that is not empty",
            ),
            Self::Reserved => f.write_str(
                "the name looks like a key of this client's own objects; connect with another prefix to use it",
            ),
        }
    }
}

impl error::Error for NameError {}

/// Converts a length to `u16`. Names and prefixes are validated, so that neither a key nor a part
/// of it exceeds 2,115 bytes.
fn short(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// Tells whether `name` has one opening brace, and one closing brace behind it with text between.
fn has_one_tag(name: &str) -> bool {
    let once = |brace: char| name.matches(brace).count() == 1;
    once('{') && once('}') && hash_tag(name.as_bytes()).is_some()
}

fn escape(name: &str) -> Cow<'_, str> {
    if !name.contains(['%', '{', '}']) {
        return Cow::Borrowed(name);
    }
    let name = name.replace('%', "%25");
    Cow::Owned(name.replace('{', "%7B").replace('}', "%7D"))
}

/// Reverses [`escape`]. Text that it does not write becomes any text.
fn unescape(text: &str) -> String {
    let name = text.replace("%7B", "{").replace("%7D", "}");
    name.replace("%25", "%")
}

/// Returns the key of `name` under the default prefix.
#[cfg(test)]
pub(crate) fn key(name: &str) -> Key {
    Key::new(&Prefix::default(), &Name::parse(name).unwrap())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn foreign(name: &str) -> Result<Key, NameError> {
        Key::foreign(&Prefix::default(), &Name::parse(name).unwrap())
    }

    // L50
    #[test]
    fn keys_of_awkward_names() {
        for (name, expected, part) in [
            (
                "orders:42",
                "redlatch:{orders:42}",
                "redlatch:{orders:42}:q",
            ),
            ("a{b", "redlatch:{a%7Bb}", "redlatch:{a%7Bb}:q"),
            ("a}b", "redlatch:{a%7Db}", "redlatch:{a%7Db}:q"),
            ("{}", "redlatch:{%7B%7D}", "redlatch:{%7B%7D}:q"),
            ("}{", "redlatch:{%7D%7B}", "redlatch:{%7D%7B}:q"),
            ("{t}x", "redlatch:@{t}x", "redlatch:q@{t}x"),
            ("a@{t}", "redlatch:@a@{t}", "redlatch:q@a@{t}"),
            ("a@b", "redlatch:{a@b}", "redlatch:{a@b}:q"),
            ("50%", "redlatch:{50%25}", "redlatch:{50%25}:q"),
            ("🔒", "redlatch:{🔒}", "redlatch:{🔒}:q"),
        ] {
            let key = key(name);
            assert_eq!((key.as_str(), key.name()), (expected, name));
            assert_eq!(key.to_string(), expected);
            assert_eq!(key.part("q"), part);
            assert_eq!(slot_of(part.as_bytes()), key.slot());
            assert_eq!(
                Key::decode(&Prefix::default(), expected).unwrap().as_str(),
                name
            );
            assert_eq!(Key::decode(&Prefix::default(), part), None, "{part}");
        }
    }

    #[test]
    fn foreign_key_is_the_name_and_shares_its_slot() {
        let prefix = Prefix::default();
        for (name, beside) in [
            ("orders:42", "redlatch:compat?{orders:42}{}"),
            ("50%", "redlatch:compat?{50%}{}"),
            ("{t}x", "redlatch:compat?@{t}x{}"),
            ("a{t}b", "redlatch:compat?@a{t}b{}"),
            ("redlatch:x", "redlatch:compat?{redlatch:x}{}"),
        ] {
            let key = foreign(name).unwrap();
            assert_eq!((key.as_str(), key.name()), (name, name));
            assert_eq!(key.beside(&prefix, "compat"), beside);
            assert_eq!(slot_of(beside.as_bytes()), key.slot());
            assert_eq!(Key::decode(&prefix, beside), None);
        }
        for name in ["a{b", "a}b", "{}", "}{", "a{}b", "}a{b}", "{a}{b}", "{{a}"] {
            assert_eq!(foreign(name), Err(NameError::Braces), "{name}");
        }
        for name in [
            "redlatch:{x}",
            "redlatch:@{t}x",
            "redlatch:q@{t}x",
            "redlatch:{x}:q",
        ] {
            assert_eq!(foreign(name), Err(NameError::Reserved), "{name}");
        }
    }

    #[test]
    fn names_out_of_bounds_are_refused() {
        assert_eq!(Name::parse(""), Err(NameError::Empty));
        assert_eq!(
            Name::parse(&"x".repeat(513)),
            Err(NameError::TooLong { len: 513 })
        );
        assert!(Name::parse(&"x".repeat(512)).is_ok());
        for prefix in ["", "a{b", "a b", "a@b", "a*"] {
            assert_eq!(Prefix::parse(prefix), Err(NameError::Prefix), "{prefix:?}");
        }
    }

    proptest! {
        // L17
        #[test]
        fn no_two_names_share_a_key_and_all_parts_share_a_slot(
            a in "[ab{}%@:q]{1,8}", b in "[ab{}%@:q]{1,8}",
        ) {
            let (ka, kb) = (key(&a), key(&b));
            let keys_a = [ka.as_str().to_owned(), ka.part("q"), ka.part("m")];
            let keys_b = [kb.as_str().to_owned(), kb.part("q"), kb.part("m")];
            for key in &keys_a {
                prop_assert_eq!(slot_of(key.as_bytes()), ka.slot());
                prop_assert_eq!(keys_b.contains(key), a == b);
            }
            let decoded = Key::decode(&Prefix::default(), ka.as_str()).unwrap();
            prop_assert_eq!(decoded.as_str(), a.as_str());
        }

        #[test]
        fn key_beside_a_name_is_the_key_of_nothing_else(
            name in "[ax{}@:?]{1,8}", other in "[acx{}@:?]{1,20}",
            prefix in "[ac:]{1,4}", prefix_of_other in "[ac:]{1,8}",
        ) {
            let parse = |name: &str| Name::parse(name).unwrap();
            let (prefix, its) = (
                Prefix::parse(&prefix).unwrap(),
                Prefix::parse(&prefix_of_other).unwrap(),
            );
            let Ok(key) = Key::foreign(&prefix, &parse(&name)) else { return Ok(()) };
            let beside = key.beside(&prefix, "c");
            prop_assert_eq!(slot_of(beside.as_bytes()), key.slot());
            prop_assert_eq!(Key::foreign(&its, &parse(&beside)), Err(NameError::Braces));
            prop_assert_eq!(Key::decode(&its, &beside), None);
            let object = Key::new(&its, &parse(&other));
            for key in [object.as_str().to_owned(), object.part("c"), object.part("q")] {
                prop_assert_ne!(&key, &beside);
            }
            if let Ok(other) = Key::foreign(&its, &parse(&other)) {
                let same = other == key && its == prefix;
                prop_assert_eq!(other.beside(&its, "c") == beside, same);
            }
        }

        #[test]
        fn any_name_is_had_back_from_its_key(name in "\\PC{1,40}", prefix in "[a-z:.-]{1,8}") {
            let prefix = Prefix::parse(&prefix).unwrap();
            let key = Key::new(&prefix, &Name::parse(&name).unwrap());
            prop_assert_eq!(key.name(), name.as_str());
            let decoded = Key::decode(&prefix, key.as_str()).unwrap();
            prop_assert_eq!(decoded.as_str(), name.as_str());
            for part in ["q", "b"] {
                prop_assert_eq!(Key::decode(&prefix, &key.part(part)), None);
            }
        }
    }
}
