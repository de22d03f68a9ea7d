use crate::Source;

/// The scripts of a job that runs once per slot.
#[derive(Clone, Copy, Debug)]
pub struct Once {
    /// Claims a slot.
    pub claim: Source,
    /// Moves the end of a claim.
    pub renew: Source,
    /// Ends a claim and records its outcome.
    pub release: Source,
    /// Shows a job.
    pub look: Source,
    /// Forgets all records.
    pub reset: Source,
}

/// The scripts of a job that runs once per slot.
pub static ONCE: Once = Once {
    claim: source!("once/claim" follows "core/marks", "once/shared", "core/act_before"),
    renew: source!("once/renew" follows "once/shared", "core/act_before"),
    release: source!("once/release" follows "core/marks", "once/shared"),
    look: source!("once/look" follows "once/shared"),
    reset: source!("once/reset" follows "once/shared", "core/act_before"),
};

impl Once {
    pub(crate) const fn all(&'static self) -> [&'static Source; 5] {
        [
            &self.claim,
            &self.renew,
            &self.release,
            &self.look,
            &self.reset,
        ]
    }
}
