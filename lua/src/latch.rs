use crate::Source;

/// The scripts of the countdown latch.
#[derive(Clone, Copy, Debug)]
pub struct Latch {
    /// Sets the count.
    pub set: Source,
    /// Counts down.
    pub count_down: Source,
    /// Removes the latch.
    pub delete: Source,
    /// Shows the latch.
    pub look: Source,
}

/// The scripts of the countdown latch.
pub static LATCH: Latch = Latch {
    set: source!("latch/set" follows "core/remember", "latch/shared", "core/act_before"),
    count_down: source!(
        "latch/count_down" follows "core/publish", "core/remember", "latch/shared", "core/act_before"
    ),
    delete: source!(
        "latch/delete" follows "core/publish", "core/remember", "latch/shared", "core/act_before"
    ),
    look: source!("latch/look"),
};

impl Latch {
    pub(crate) const fn all(&'static self) -> [&'static Source; 4] {
        [&self.set, &self.count_down, &self.delete, &self.look]
    }
}
