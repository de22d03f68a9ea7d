//! The hash slot of a key, as Redis Cluster defines it.

/// Number of slots in a cluster.
pub const SLOTS: u16 = 16_384;

/// Returns the slot of `key`: CRC-16/XMODEM of its hash tag, or of the whole key without a tag,
/// modulo 16,384.
///
/// Source: the Redis Cluster specification, "Key distribution model" and its appendix A.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

/// Returns the text between the first `{` and the first `}` after it, unless it is missing or
/// empty.
pub fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let tag = &key[open + 1..];
    let close = tag.iter().position(|&byte| byte == b'}')?;
    (close > 0).then(|| &tag[..close])
}

/// Returns a hash tag, without braces, for keys in `slot`: the smallest number that hashes to that
/// slot. About 19,000 tries, 1 ms.
pub(crate) fn tag_in(slot: u16) -> String {
    let tags = (0_u32..).map(|number| number.to_string());
    let mut fitting = tags.filter(|tag| slot_of(tag.as_bytes()) == slot % SLOTS);
    // Numbers of up to six digits cover all slots.
    fitting.next().unwrap_or_default()
}

fn crc16(bytes: &[u8]) -> u16 {
    let half = |crc: u16, bits: u8| (crc << 4) ^ HALVES[usize::from((crc >> 12) as u8 ^ bits)];
    let next = |crc, &byte: &u8| half(half(crc, byte >> 4), byte & 15);
    bytes.iter().fold(0, next)
}

/// The remainders of all halves of a byte, by the polynomial 0x1021.
const HALVES: [u16; 16] = [
    0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
    0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn slots_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"{foo}bar"), slot_of(b"foo"));
        assert_eq!(slot_of(b"a{foo}{bar}"), slot_of(b"foo"));
    }

    #[test]
    fn every_slot_has_a_tag() {
        let mut left: BTreeSet<u16> = (0..SLOTS).collect();
        for number in 0_u32..1_000_000 {
            left.remove(&slot_of(number.to_string().as_bytes()));
        }
        assert_eq!(left, BTreeSet::new());
        for slot in [0, 1, 5061, SLOTS - 1] {
            assert_eq!(slot_of(format!("x{{{}}}", tag_in(slot)).as_bytes()), slot);
        }
    }

    #[test]
    fn an_empty_or_broken_tag_is_none() {
        for key in ["{}x", "a{b", "a}b", "}{", ""] {
            assert_eq!(hash_tag(key.as_bytes()), None, "{key}");
        }
        assert_eq!(hash_tag(b"{{x}}"), Some(b"{x".as_slice()));
    }

    proptest! {
        #[test]
        fn what_stands_around_a_tag_does_not_matter(
            before in "[^{]{0,6}", tag in "[^}]{1,6}", behind in "\\PC{0,6}",
        ) {
            let key = format!("{before}{{{tag}}}{behind}");
            prop_assert_eq!(slot_of(key.as_bytes()), slot_of(format!("{{{tag}}}").as_bytes()));
            prop_assert!(slot_of(key.as_bytes()) < SLOTS);
        }
    }
}
