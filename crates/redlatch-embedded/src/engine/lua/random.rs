//! The generator behind `math.random`. It gives the same numbers in every run, as on servers.

use crate::engine::core::ScriptRun;

/// Draws a number in 0..1.
pub(super) fn draw(script: &mut ScriptRun) -> f64 {
    // This is the recurrence of lrand48, with the two constants of POSIX.
    let state = script.random.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
    script.random = state;
    let drawn = u32::try_from(state >> 17).unwrap_or(0) % MAX;
    f64::from(drawn) / f64::from(MAX)
}

/// Seeds the generator.
pub(super) fn seed(script: &mut ScriptRun, seed: i32) {
    let bits = u64::from(u32::from_ne_bytes(seed.to_ne_bytes()));
    script.random = (bits << 16) | 0x330E;
}

const MAX: u32 = 0x7FFF_FFFF;
