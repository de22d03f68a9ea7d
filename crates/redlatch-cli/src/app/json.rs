//! Objects of JSON, as the verbs print them. `docs/book/src/operate/command.md` describes them.

use std::fmt::Write as _;

use serde::Serialize;

/// The version of the JSON. It changes if a field changes its meaning or goes.
pub(crate) const VERSION: u32 = 1;

/// An object whose fields are in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Json(String);

impl Json {
    /// Creates an object that begins with the version.
    pub(crate) fn new() -> Self {
        Self::default().with("v", VERSION)
    }

    /// Adds a field.
    pub(crate) fn with(self, name: &str, value: impl Serialize) -> Self {
        // These values have no maps with odd keys, so they can be written.
        self.add(name, &serde_json::to_string(&value).unwrap_or_default())
    }

    /// Adds a field if there is a value.
    pub(crate) fn with_some(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a field that is an object.
    pub(crate) fn with_object(self, name: &str, object: &Self) -> Self {
        self.add(name, &object.text())
    }

    /// Adds a field that is a list of objects.
    pub(crate) fn with_list(self, name: &str, objects: impl Iterator<Item = Self>) -> Self {
        let objects: Vec<_> = objects.map(|object| object.text()).collect();
        self.add(name, &format!("[{}]", objects.join(",")))
    }

    /// Returns the object as one line.
    pub(crate) fn line(&self) -> String {
        self.text() + "\n"
    }

    fn text(&self) -> String {
        format!("{{{}}}", self.0)
    }

    fn add(mut self, name: &str, text: &str) -> Self {
        let comma = if self.0.is_empty() { "" } else { "," };
        // Writing to a `String` does not fail.
        let _ = write!(self.0, "{comma}\"{name}\":{text}");
        self
    }
}
