//! The story of a run: a log line per event, recorded only on request.

/// The lines so far.
#[derive(Debug, Default)]
pub struct Story {
    told: bool,
    lines: Vec<String>,
    names: Vec<(String, String)>,
}

impl Story {
    /// Starts a story. It records nothing unless `told`.
    pub fn new(told: bool) -> Self {
        Self {
            told,
            ..Self::default()
        }
    }

    /// Replaces an identity by a name in all later lines.
    pub fn call_by(&mut self, id: &str, name: &str) {
        if self.told {
            self.names.push((id.to_owned(), name.to_owned()));
        }
    }

    /// Adds a line.
    pub fn say(&mut self, at: u64, text: impl FnOnce() -> String) {
        if !self.told {
            return;
        }
        let mut line = format!("{:>4}.{:06}  {}", at / 1_000_000, at % 1_000_000, text());
        for (id, name) in &self.names {
            line = line.replace(id, name);
        }
        self.lines.push(line);
    }

    /// Takes the lines.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}
