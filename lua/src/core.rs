use crate::Source;

/// The scripts of the core itself.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// Finds missing rights.
    pub probe: Source,
}

/// The scripts of the core itself.
pub static CORE: Core = Core {
    probe: Source {
        name: "core/probe",
        text: include_str!("../core/probe.lua"),
    },
};

impl Core {
    pub(crate) const fn all(&'static self) -> [&'static Source; 1] {
        [&self.probe]
    }
}
