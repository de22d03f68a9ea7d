use crate::Source;

/// The scripts of the core itself.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Finds missing rights.
    pub probe: Source,
}

/// The scripts of the core itself.
pub static CORE: Core = Core {
    probe: source!("core/probe"),
};

impl Core {
    pub(crate) const fn all(&'static self) -> [&'static Source; 1] {
        [&self.probe]
    }
}
