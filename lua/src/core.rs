use crate::Source;

/// The scripts of the core itself.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Removes the record of a name that nobody uses.
    pub forget: Source,
    /// Finds missing rights.
    pub probe: Source,
}

/// The scripts of the core itself.
pub static CORE: Core = Core {
    forget: source!("core/forget" follows "core/act_before"),
    probe: source!("core/probe"),
};

impl Core {
    pub(crate) const fn all(&'static self) -> [&'static Source; 2] {
        [&self.forget, &self.probe]
    }
}
