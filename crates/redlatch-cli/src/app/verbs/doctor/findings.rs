//! The findings of `doctor`.

use std::fmt::Write as _;

use serde::Serialize;

use crate::app::{
    exit::Failure,
    out::clean,
    view::{VERSION, line},
};

#[derive(Serialize)]
struct Report<'a> {
    v: u32,
    code: u8,
    checks: &'a [Check],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    Warning,
    Fault,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    check: &'static str,
    state: State,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
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
        self.add(check, State::Ok, text.into(), None);
    }

    /// Adds what is a risk, and what to do.
    pub(super) fn warn(&mut self, check: &'static str, text: impl Into<String>, advice: &str) {
        self.add(check, State::Warning, text.into(), Some(advice.to_owned()));
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
        self.add(check, State::Fault, text.into(), Some(advice.to_owned()));
    }

    /// Adds a failure that keeps locks from working, and what to do.
    pub(super) fn failed(&mut self, check: &'static str, failure: Failure, advice: &str) {
        self.fault(check, failure.code, failure.message, advice);
    }

    fn add(&mut self, check: &'static str, state: State, text: String, advice: Option<String>) {
        let text = clean(&text);
        self.checks.push(Check {
            check,
            state,
            text,
            advice,
        });
    }

    /// Returns the findings for a person.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for found in &self.checks {
            let mark = match found.state {
                State::Ok => "ok     ",
                State::Warning => "WARNING",
                State::Fault => "FAULT  ",
            };
            let _ = writeln!(text, "{mark}  {:<11}  {}", found.check, found.text);
            if let Some(advice) = &found.advice {
                let _ = writeln!(text, "{:22}do: {advice}", "");
            }
        }
        text
    }

    /// Returns the findings as one line of JSON.
    pub(super) fn json(&self) -> String {
        line(&Report {
            v: VERSION,
            code: self.code,
            checks: &self.checks,
        })
    }
}
