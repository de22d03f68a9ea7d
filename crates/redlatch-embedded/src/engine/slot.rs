//! The cluster slot of a key.

/// Returns the slot of `key`, from its hash tag if it has one.
pub(super) fn of(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % 16384
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|byte| *byte == b'}')?;
    (close > 0).then(|| &rest[..close])
}

/// Computes CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn slots_of_known_keys_are_right() {
        assert_eq!(of(b"123456789"), 12739);
        assert_eq!(of(b"a"), 15495);
        assert_eq!(of(b"x{a}y"), 15495);
        assert_eq!(of(b"{}a"), of(b"{}a"));
        assert_ne!(of(b"{}a"), of(b"a"));
    }
}
