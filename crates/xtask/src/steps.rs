//! The steps of a task, with their results and durations.

use std::{
    fmt, thread,
    time::{Duration, Instant},
};

use crate::command::script;

/// The completed steps, in order. A failed step does not stop later ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    done: Vec<Step>,
    begun: Instant,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            done: Vec::new(),
            begun: Instant::now(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    name: String,
    took: Duration,
    failure: Option<String>,
}

impl Steps {
    /// Runs the steps of both beside each other.
    pub(crate) fn beside(
        &mut self,
        others: impl FnOnce(&mut Self) + Send,
        own: impl FnOnce(&mut Self),
    ) {
        let mut beside = Self::default();
        thread::scope(|scope| {
            scope.spawn(|| others(&mut beside));
            own(self);
        });
        self.done.extend(beside.done);
    }

    /// Runs the steps in these lines, each with its name and the words of a case of `tools.sh`,
    /// such as `the book: book`. A word that is the first of a pair stands for the second.
    ///
    /// Others need a step with `!`: after its failure, only those with `!` directly behind it run.
    pub(crate) fn follow<'a>(
        &mut self,
        lines: impl IntoIterator<Item = &'a str>,
        words: &[(&str, &str)],
    ) {
        let mut is_ready = true;
        for line in lines {
            let (name, case) = line.trim().split_once(": ").unwrap_or_default();
            let needed = name.strip_prefix('!');
            if needed.is_none() && !is_ready {
                return;
            }
            let meant = |word: &'a str| {
                let known = words.iter().find(|(known, _)| *known == word);
                known.map_or(word, |(_, value)| *value)
            };
            let words = case.split(' ').map(meant);
            let ran = self.run(needed.unwrap_or(name), || script(words));
            is_ready &= ran.is_some() || needed.is_none();
        }
    }

    /// Runs a step, measures it, and returns its value if it succeeds.
    pub(crate) fn run<T>(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Option<T> {
        println!("\n== {name}");
        let begun = Instant::now();
        let outcome = work();
        let took = begun.elapsed();
        let (value, failure) = match outcome {
            Ok(value) => (Some(value), None),
            Err(message) => (None, Some(message)),
        };
        self.done.push(Step {
            name: name.to_owned(),
            took,
            failure,
        });
        value
    }

    /// Fails with the names of the failed steps, if there are some. No step at all is a failure.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        let failed = self.done.iter().filter(|step| step.failure.is_some());
        let failed: Vec<_> = failed.map(|step| step.name.as_str()).collect();
        match (&failed[..], self.done.is_empty()) {
            ([], true) => Err("no step ran".to_owned()),
            ([], false) => Ok(()),
            _ => Err(format!("failed: {}", failed.join(", "))),
        }
    }
}

/// Formats a table of one line per step, and the time of all. Steps may have run beside others.
impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.done.iter().map(|step| step.name.chars().count());
        let width = names.max().unwrap_or_default().max("total".len());
        for step in &self.done {
            let took = minutes(step.took);
            write!(f, "{:width$}  {took:>12}  ", step.name)?;
            match &step.failure {
                None => writeln!(f, "ok")?,
                Some(message) => writeln!(f, "FAILED: {message}")?,
            }
        }
        let total = minutes(self.begun.elapsed());
        write!(f, "{:width$}  {total:>12}", "total")
    }
}

/// Writes `12 min 05.3 s`.
pub(crate) fn minutes(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    let (minutes, rest) = (tenths / 600, tenths % 600);
    if minutes == 0 {
        format!("{}.{} s", rest / 10, rest % 10)
    } else {
        format!("{minutes} min {:02}.{} s", rest / 10, rest % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_step_fails_the_task_and_later_steps_run() {
        let mut steps = Steps::default();
        assert!(steps.verdict().is_err(), "nothing has run");
        assert_eq!(steps.run("build", || Ok(7)), Some(7));
        assert_eq!(steps.verdict(), Ok(()));
        assert_eq!(steps.run::<()>("tests", || Err("2 of 9".to_owned())), None);
        assert_eq!(steps.run("lints", || Ok(())), Some(()));
        assert_eq!(steps.verdict(), Err("failed: tests".to_owned()));
    }

    #[test]
    fn table_shows_each_time_and_each_failure() {
        let step = |name: &str, millis, failure: Option<&str>| Step {
            name: name.to_owned(),
            took: Duration::from_millis(millis),
            failure: failure.map(str::to_owned),
        };
        let steps = Steps {
            done: vec![
                step("test programs", 725_340, None),
                step("tests", 59_960, Some("2 tests failed")),
            ],
            ..Steps::default()
        };
        let table = "\
test programs  12 min 05.3 s  ok
tests          1 min 00.0 s  FAILED: 2 tests failed
total                 0.0 s";
        assert_eq!(steps.to_string(), table);
        assert_eq!(minutes(Duration::from_millis(59_940)), "59.9 s");
    }
}
