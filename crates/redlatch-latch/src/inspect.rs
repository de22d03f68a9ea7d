//! The state of a latch, as an observer sees it.

use std::time::Duration;

use redlatch_core::{
    Client, Error, Token,
    family::{About, Internals, PhaseState, Watched},
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
    /// The remaining count; zero if the latch is open.
    pub count: u32,
    /// The count at the setting.
    pub initial: u32,
    /// The number of this generation. Each setting has a greater one, as a rule the server's time
    /// in µs.
    pub generation: Token,
    /// The time since it was set, by the server's clock. It is derived from the generation, and too
    /// short after the server's clock was set back.
    pub age: Duration,
    /// The remaining TTL; `None` if it was set without one.
    pub remaining: Option<Duration>,
}

impl LatchInfo {
    /// Returns true if the latch is open.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let schema = client.count_down_latch("schema:v42");
    /// schema.try_set_count(1).await?;
    /// schema.count_down(1).await?;
    /// let info = schema.info().await?.expect("the latch is set");
    /// assert!(info.is_open());
    /// # Ok(())
    /// # }
    /// ```
    pub const fn is_open(&self) -> bool {
        self.count == 0
    }
}

pub(crate) async fn info(client: &Client, latch: &Latch) -> Result<Option<LatchInfo>, Error> {
    let script = LookScript {
        key: latch.key(),
        generations: &[],
    };
    let reply = client.query(&script.call()).await;
    let looked = reply.and_then(|reply| LookScript::decode(&reply, &[]));
    let Looked::Set {
        now,
        generation,
        left,
        initial,
        remaining,
        ..
    } = looked.about(latch.kind(), latch.name())?
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

/// The state of a generation with this remaining count.
pub(crate) const fn state_of(left: u32) -> PhaseState {
    if left == 0 {
        PhaseState::Over
    } else {
        PhaseState::UnderWay
    }
}
