//! The state of a latch, as an observer sees it.

use std::time::Duration;

use redlatch_core::{
    Error, Token,
    family::{Handle, PhaseState},
};

use crate::scripts;

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

pub(crate) async fn info(latch: &Handle) -> Result<Option<LatchInfo>, Error> {
    let key = latch.key()?;
    let call = scripts::look(key, &[]);
    let looked = latch.ask(call, |reply| scripts::looked(reply, &[])).await?;
    Ok(looked.present.map(|found| LatchInfo {
        name: key.name().to_owned(),
        count: found.left,
        initial: found.initial,
        generation: Token::from_u64(found.generation),
        age: Duration::from_millis(found.now.saturating_sub(found.generation / 1000)),
        remaining: found.remaining,
    }))
}

pub(crate) const fn state_of(left: u32) -> PhaseState {
    if left == 0 {
        PhaseState::Over
    } else {
        PhaseState::UnderWay
    }
}
