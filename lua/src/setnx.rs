use crate::Source;

/// The scripts of a name in the layout that several libraries share: a string, set if it is absent.
#[derive(Clone, Copy, Debug)]
pub struct SetNx {
    /// Takes the name.
    pub acquire: Source,
    /// Makes a hold last longer.
    pub renew: Source,
    /// Ends everything that an attempt has.
    pub release: Source,
    /// Shows the value.
    pub look: Source,
}

/// The scripts of a name in the layout that several libraries share: a string, set if it is absent.
pub static SETNX: SetNx = SetNx {
    acquire: source!("setnx/acquire" follows "core/marks", "setnx/shared", "core/act_before"),
    renew: source!("setnx/renew" follows "setnx/shared", "core/act_before"),
    release: source!("setnx/release" follows "core/marks", "core/publish", "setnx/shared"),
    look: source!("setnx/look"),
};

impl SetNx {
    pub(crate) const fn all(&'static self) -> [&'static Source; 4] {
        [&self.acquire, &self.renew, &self.release, &self.look]
    }
}
