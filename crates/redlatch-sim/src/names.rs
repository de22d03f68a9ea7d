//! The names of the objects in a run.

/// The names. A key of an object contains its name.
pub const NAMES: [&str; 8] = [
    "apple", "berry", "cedar", "daisy", "elder", "fennel", "ginger", "hazel",
];

/// Returns the number of a name from its text or from a key made of it.
pub fn name_of(text: &str) -> Option<usize> {
    NAMES.iter().position(|name| text.contains(name))
}

/// Returns the texts of names.
pub fn told(names: impl IntoIterator<Item = usize>) -> String {
    let names: Vec<_> = names.into_iter().map(label).collect();
    names.join(", ")
}

/// Returns a name's text.
pub fn label(name: usize) -> &'static str {
    NAMES.get(name).copied().unwrap_or("?")
}
