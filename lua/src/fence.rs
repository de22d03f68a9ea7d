use crate::Source;

/// The scripts of the fence.
#[derive(Clone, Copy, Debug)]
pub struct Fence {
    /// Sets the data to a string.
    pub set: Source,
    /// Sets fields of the data.
    pub hset: Source,
    /// Deletes the data.
    pub delete: Source,
    /// Advances the mark only.
    pub raise: Source,
    /// Runs a body of the user: the sample `return redis.call('GET', KEYS[1])`. See
    /// [`eval`](Self::eval).
    pub sample: Source,
    /// Removes the mark.
    pub reset: Source,
    /// Shows the mark.
    pub look: Source,
}

/// The scripts of the fence.
pub static FENCE: Fence = Fence {
    set: source!("fence/set" follows "core/remember", "core/act_before", "fence/shared"),
    hset: source!("fence/hset" follows "core/remember", "core/act_before", "fence/shared"),
    delete: source!("fence/delete" follows "core/remember", "core/act_before", "fence/shared"),
    raise: source!("fence/raise" follows "core/remember", "core/act_before", "fence/shared"),
    sample: Source {
        name: "fence/eval",
        text: concat!(
            include_str!("../core/remember.lua"),
            "local function body(KEYS, ARGV)\n",
            "  return redis.call('GET', KEYS[1])",
            "\nend\n",
            include_str!("../core/act_before.lua"),
            include_str!("../fence/shared.lua"),
            include_str!("../fence/eval.lua")
        ),
    },
    reset: source!("fence/reset" follows "core/remember", "core/act_before"),
    look: source!("fence/look"),
};

impl Fence {
    /// Returns the script that runs `body`, a Lua function's text with `KEYS` and `ARGV` of its
    /// own, behind the check of the token.
    pub fn eval(&self, body: &str) -> String {
        let parts = [
            include_str!("../core/remember.lua"),
            "local function body(KEYS, ARGV)\n",
            body,
            "\nend\n",
            include_str!("../core/act_before.lua"),
            include_str!("../fence/shared.lua"),
            include_str!("../fence/eval.lua"),
        ];
        parts.concat()
    }

    pub(crate) const fn all(&'static self) -> [&'static Source; 7] {
        [
            &self.set,
            &self.hset,
            &self.delete,
            &self.raise,
            &self.sample,
            &self.reset,
            &self.look,
        ]
    }
}
