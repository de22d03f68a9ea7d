//! The findings of `doctor`.

use std::fmt::Write as _;

use crate::app::{exit::Failure, json::Json, out::clean};

/// One thing that was looked at.
#[derive(Debug)]
struct Check {
    check: &'static str,
    mark: &'static str,
    text: String,
    advice: Option<String>,
}

/// All that was found, in order.
#[derive(Debug, Default)]
pub(super) struct Findings {
    checks: Vec<Check>,
    pub(super) code: u8,
}

impl Findings {
    /// Adds what is well.
    pub(super) fn ok(&mut self, check: &'static str, text: impl Into<String>) {
        self.add(check, "ok", text.into(), None);
    }

    /// Adds what is a risk, and what to do.
    pub(super) fn warn(&mut self, check: &'static str, text: impl Into<String>, advice: &str) {
        self.add(check, "WARNING", text.into(), Some(advice));
    }

    /// Adds what keeps locks from working, with the exit code, and what to do.
    pub(super) fn fault(
        &mut self,
        check: &'static str,
        code: u8,
        text: impl Into<String>,
        advice: &str,
    ) {
        if self.code == 0 {
            self.code = code;
        }
        self.add(check, "FAULT", text.into(), Some(advice));
    }

    /// Adds a failure that keeps locks from working, and what to do.
    pub(super) fn failed(&mut self, check: &'static str, failure: Failure, advice: &str) {
        self.fault(check, failure.code, failure.message, advice);
    }

    fn add(&mut self, check: &'static str, mark: &'static str, text: String, advice: Option<&str>) {
        self.checks.push(Check {
            check,
            mark,
            text: clean(&text),
            advice: advice.map(str::to_owned),
        });
    }

    /// Returns the findings for a person.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for found in &self.checks {
            let (mark, check) = (found.mark, found.check);
            let _ = writeln!(text, "{mark:<7}  {check:<11}  {}", found.text);
            if let Some(advice) = &found.advice {
                let _ = writeln!(text, "{:22}do: {advice}", "");
            }
        }
        text
    }

    /// Returns the findings as one line of JSON.
    pub(super) fn json(&self) -> String {
        let check = |found: &Check| {
            Json::default()
                .with("check", found.check)
                .with("state", found.mark.to_lowercase())
                .with("text", &found.text)
                .with_some("advice", found.advice.as_ref())
        };
        let json = Json::new().with("code", self.code);
        json.with_list("checks", self.checks.iter().map(check))
            .line()
    }
}
