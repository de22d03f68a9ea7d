use crate::Source;

/// The scripts of a name in the layout of Redisson's `RLock`.
#[derive(Clone, Copy, Debug)]
pub struct Redisson {
    /// Takes the name, or enters it again.
    pub acquire: Source,
    /// Makes a hold last longer.
    pub renew: Source,
    /// Ends everything that an attempt has.
    pub release: Source,
    /// Ends a hold by force.
    pub force: Source,
    /// Shows the holder.
    pub look: Source,
}

/// The scripts of a name in the layout of Redisson's `RLock`.
pub static REDISSON: Redisson = Redisson {
    acquire: source!("redisson/acquire" follows "core/marks", "redisson/shared", "core/act_before"),
    renew: source!("redisson/renew" follows "redisson/shared", "core/act_before"),
    release: source!(
        "redisson/release" follows
        "core/marks", "core/publish", "redisson/tell", "redisson/shared"
    ),
    force: source!(
        "redisson/force" follows
        "core/remember", "core/publish", "redisson/tell", "redisson/shared", "core/act_before"
    ),
    look: source!("redisson/look" follows "redisson/shared"),
};

impl Redisson {
    pub(crate) const fn all(&'static self) -> [&'static Source; 5] {
        [
            &self.acquire,
            &self.renew,
            &self.release,
            &self.force,
            &self.look,
        ]
    }
}
