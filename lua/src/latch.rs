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
    set: Source {
        name: "latch/set",
        text: include_str!("../latch/set.lua"),
    },
    count_down: Source {
        name: "latch/count_down",
        text: concat!(
            include_str!("../core/publish.lua"),
            include_str!("../latch/count_down.lua")
        ),
    },
    delete: Source {
        name: "latch/delete",
        text: concat!(
            include_str!("../core/publish.lua"),
            include_str!("../latch/delete.lua")
        ),
    },
    look: Source {
        name: "latch/look",
        text: include_str!("../latch/look.lua"),
    },
};

impl Latch {
    pub(crate) const fn all(&'static self) -> [&'static Source; 4] {
        [&self.set, &self.count_down, &self.delete, &self.look]
    }
}
