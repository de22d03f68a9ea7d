//! Looking at a latch from outside.

use std::time::Duration;

use redlatch_core::{
    Client, Error, Token,
    family::{Fate, Internals, Watched},
};

use crate::{
    latch::Latch,
    scripts::{LookScript, Looked},
};

/// A latch as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatchInfo {
    /// The name.
    pub name: String,
    /// What is left to be counted; zero if it is open.
    pub count: u32,
    /// What it was set to.
    pub initial: u32,
    /// The number of this generation: greater for each time it is set, and the server's time in µs as a rule.
    pub generation: Token,
    /// How long ago it was set, by the server's clock. Derived from the generation, and so too short after the server's clock was set back.
    pub age: Duration,
    /// How long the latch lives on; `None` if it was set without a TTL.
    pub remaining: Option<Duration>,
}

impl LatchInfo {
    /// Tells whether it is open.
    pub const fn is_open(&self) -> bool {
        self.count == 0
    }
}

pub(crate) async fn info(client: &Client, latch: &Latch) -> Result<Option<LatchInfo>, Error> {
    let script = LookScript {
        key: latch.key(),
        generations: &[],
    };
    let Looked::Set {
        now,
        generation,
        left,
        initial,
        remaining,
        ..
    } = LookScript::decode(&client.query(&script.call()).await?, &[])?
    else {
        return Ok(None);
    };
    Ok(Some(LatchInfo {
        name: latch.name().to_owned(),
        count: left,
        initial,
        generation: Token::from_u64(generation),
        age: Duration::from_millis(now.saturating_sub(generation / 1000)),
        remaining,
    }))
}

/// The fate of a generation with so much left.
pub(crate) const fn fate_of(left: u32) -> Fate {
    if left == 0 {
        Fate::Over
    } else {
        Fate::UnderWay
    }
}
