//! What the workers say of their holds, and the check of it.

use std::collections::HashMap;

/// One hold, by the monotonic clock that all processes of a machine share. Times are ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) worker: String,
    pub(crate) token: u64,
    /// How long the holder means to hold, in ms.
    pub(crate) planned: u64,
    pub(crate) granted: u64,
    /// When the holder last believed in the hold, or when its process was killed.
    pub(crate) believed: u64,
    /// When the holder began to release; `None` if it was lost or killed.
    pub(crate) released: Option<u64>,
}

/// All holds, as far as the workers have said.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) holds: Vec<Hold>,
    open: HashMap<String, usize>,
    pub(crate) lost: u64,
}

impl History {
    /// Takes one line of a worker: `granted <token> <time> <planned ms>`, `released <time>`,
    /// or `lost <time>`, where the time is that of the last belief.
    pub(crate) fn take(&mut self, worker: &str, line: &str) -> Result<(), String> {
        let words: Vec<_> = line.split(' ').collect();
        let number = |at: usize| -> Result<u64, String> {
            let word = words.get(at).and_then(|word| word.parse().ok());
            word.ok_or_else(|| format!("{worker} says {line:?}"))
        };
        match words[0] {
            "granted" => {
                let (token, granted, planned) = (number(1)?, number(2)?, number(3)?);
                self.open.insert(worker.to_owned(), self.holds.len());
                self.holds.push(Hold {
                    worker: worker.to_owned(),
                    token,
                    planned,
                    granted,
                    believed: granted,
                    released: None,
                });
            }
            "released" | "lost" => {
                let at = number(1)?;
                let open = self.open.remove(worker);
                let open = open.ok_or_else(|| format!("{worker} ends what it never had"))?;
                self.holds[open].believed = at;
                if words[0] == "released" {
                    self.holds[open].released = Some(at);
                } else {
                    self.lost += 1;
                }
            }
            _ => return Err(format!("{worker} says {line:?}")),
        }
        Ok(())
    }

    /// Ends the hold of a worker that was killed at `at`, if it had one.
    pub(crate) fn killed(&mut self, worker: &str, at: u64) {
        if let Some(open) = self.open.remove(worker) {
            self.holds[open].believed = at;
        }
    }

    /// Checks that no two holders believed at the same time, and that tokens rise.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.holds.sort_by_key(|hold| hold.granted);
        for pair in self.holds.windows(2) {
            let [one, next] = pair else { continue };
            if next.granted <= one.believed {
                return Err(format!("two holders at once: {one:?} and {next:?}"));
            }
            if next.token <= one.token {
                return Err(format!("the token does not rise: {one:?} and {next:?}"));
            }
        }
        Ok(())
    }

    /// Returns how often a worker of `from` released and one of `to` was next, and the shortest
    /// time of that in ns. The names of workers begin with their language.
    pub(crate) fn hand_overs(&self, from: &str, to: &str) -> (usize, u64) {
        let pairs = self.holds.windows(2).filter_map(|pair| match pair {
            [one, next] if one.worker.starts_with(from) && next.worker.starts_with(to) => {
                one.released.map(|released| next.granted - released)
            }
            _ => None,
        });
        pairs.fold((0, u64::MAX), |(count, least), took| {
            (count + 1, least.min(took))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(lines: &[(&str, &str)]) -> History {
        let mut history = History::default();
        for (worker, line) in lines {
            history.take(worker, line).expect("a correct line");
        }
        history
    }

    #[test]
    fn holds_one_after_the_other_pass() {
        let mut good = history(&[
            ("rust0", "granted 5 100 3"),
            ("rust0", "released 200"),
            ("python0", "granted 6 210 3"),
            ("python0", "lost 300"),
        ]);
        assert_eq!(good.check(), Ok(()));
        assert_eq!(good.hand_overs("rust", "python"), (1, 10));
        assert_eq!(good.hand_overs("python", "rust").0, 0);
        assert_eq!(good.lost, 1);
    }

    #[test]
    fn overlap_and_falling_token_are_found() {
        let mut both = history(&[
            ("rust0", "granted 5 100 3"),
            ("python0", "granted 6 150 3"),
            ("rust0", "released 200"),
        ]);
        let said = both.check().unwrap_err();
        assert!(said.contains("two holders"));
        let mut falling = history(&[
            ("rust0", "granted 5 100 3"),
            ("rust0", "released 110"),
            ("python0", "granted 5 150 3"),
        ]);
        assert!(falling.check().is_err_and(|error| error.contains("token")));
        let mut killed = history(&[("rust0", "granted 5 100 3"), ("python0", "granted 6 150 3")]);
        killed.killed("rust0", 160);
        assert!(killed.check().is_err());
        assert!(history(&[]).take("rust0", "released 7").is_err());
        assert!(history(&[]).take("rust0", "granted").is_err());
    }
}
