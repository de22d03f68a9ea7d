//! `cargo xtask evidence FILE…`: adds what other commands have printed to
//! `docs/contributing/evidence.jsonl`, and writes the page `evidence.md` from that file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::Command,
};

use serde_json::{Value, json};

use crate::command::{output, root};

/// Reads the outputs, and writes data and page.
pub(crate) fn run(files: &[String]) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut data = fs::read_to_string(place("jsonl")).map_err(failed)?;
    let head = output(Command::new("git").args(["log", "-1", "--format=%h %cs"]));
    let head = head.ok_or("git does not name the commit")?;
    let (commit, date) = head.trim().split_once(' ').ok_or("git names no date")?;
    for file in files {
        let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let found = read(&text);
        if found.is_empty() {
            let why = "no output of a simulator, a soak or a judge";
            return Err(format!("{file}: {why}"));
        }
        for mut line in found {
            (line["commit"], line["date"]) = (commit.into(), date.into());
            data.push_str(&format!("{line}\n"));
        }
    }
    let page = page(&data)?;
    fs::write(place("jsonl"), data).map_err(failed)?;
    fs::write(place("md"), page).map_err(failed)
}

fn place(ending: &str) -> PathBuf {
    root()
        .join("docs/contributing/evidence")
        .with_extension(ending)
}

/// Returns the lines of data in the output of simulator, soak or judge.
fn read(text: &str) -> Vec<Value> {
    let (mut lines, mut planted) = (Vec::new(), BTreeMap::<_, BTreeMap<_, _>>::new());
    let mut soak: Option<Value> = None;
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let Ok(totals @ Value::Object(_)) = serde_json::from_str(line) {
            lines.push(totals);
        } else if let [kind, name, "found", rest @ ..] = &*words {
            let by = rest.iter().skip_while(|&&word| word != "by").nth(1);
            let found = planted.entry((*kind).to_owned()).or_default();
            found.extend(by.map(|by| ((*name).to_owned(), (*by).to_owned())));
        } else if let Some((title, _)) = line.split_once(" s, faults ") {
            let place = title.split_once(" on ").map_or(title, |(place, _)| place);
            let seconds = title.rsplit(' ').next().and_then(|word| word.parse().ok());
            let seconds = seconds.unwrap_or(0);
            soak = Some(json!({"record": "soak", "place": place, "seconds": seconds, "costs": {}}));
        } else if let (Some(report), [fault, rest @ ..]) = (&mut soak, &*words)
            && rest.ends_with(&["holds", "lost"])
        {
            // Times, ms without a grant, the most of them, lost holds and all holds.
            let numbers = rest.iter().filter_map(|word| word.parse::<u64>().ok());
            report["costs"][fault.trim_end_matches(':')] = numbers.collect();
        } else if let (Some(report), [what, count, ..]) = (&mut soak, &*words)
            && let Ok(count) = count.trim_end_matches(':').parse::<u64>()
        {
            report[what.trim_end_matches(':')] = count.into();
            // A report ends with them.
            if *what == "violations:" {
                lines.extend(soak.take());
            }
        }
    }
    if !planted.is_empty() {
        lines.push(json!({"record": "planted", "found": planted}));
    }
    lines
}

/// By name, the sums of a kind, a world or a place: runs, µs, faults, grants and violations.
type Sums = BTreeMap<String, [u64; 5]>;

/// All data, in the order of the page.
#[derive(Default)]
struct Evidence {
    kinds: Sums,
    worlds: Sums,
    places: Sums,
    /// By fault and place, the numbers of the last soak.
    costs: BTreeMap<String, BTreeMap<String, Value>>,
    /// By name, what found a planted fault last: in the simulator, and as the judge.
    planted: BTreeMap<(bool, String), String>,
    found: Vec<String>,
}

impl Evidence {
    fn add(&mut self, line: &Value) -> Result<(), String> {
        let text = |what: &str| line[what].as_str().unwrap_or_default();
        let all = |value: &Value| value.as_object().cloned().unwrap_or_default();
        match text("record") {
            "seeds" => {
                let world = line["scenario"].as_str().unwrap_or("drawn faults");
                for (kind, part) in all(&line["kinds"]) {
                    let own = ["seeds", "micros", "faults", "grants", "broken"];
                    let own = own.map(|what| part[what].as_u64().unwrap_or(0));
                    add(&mut self.kinds, &kind, own);
                    add(&mut self.worlds, world, own);
                }
            }
            "soak" => {
                let own = ["seconds", "faults", "grants", "violations"];
                let own = own.map(|what| line[what].as_u64().unwrap_or(0));
                let [seconds, faults, grants, broken] = own;
                let own = [1, seconds * 1_000_000, faults, grants, broken];
                add(&mut self.places, text("place"), own);
                for (fault, cost) in all(&line["costs"]) {
                    let costs = self.costs.entry(fault).or_default();
                    costs.insert(text("place").to_owned(), cost);
                }
            }
            "planted" => {
                for names in all(&line["found"]).values() {
                    for (name, by) in all(names) {
                        let by = by.as_str().unwrap_or_default().to_owned();
                        self.planted.insert((by == "judge", name), by);
                    }
                }
            }
            "found" => {
                let [kind, by, what] = ["kind", "by", "what"].map(text);
                let row = format!("| {kind} | {by} | {what} |\n");
                self.found.push(row);
            }
            other => return Err(format!("an unknown record {other:?}")),
        }
        Ok(())
    }
}

fn add(sums: &mut Sums, name: &str, own: [u64; 5]) {
    let sums = sums.entry(name.to_owned()).or_default();
    for (sum, own) in sums.iter_mut().zip(own) {
        *sum += own;
    }
}

/// Returns the page of these data.
fn page(data: &str) -> Result<String, String> {
    let mut evidence = Evidence::default();
    for line in data.lines() {
        let line = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        evidence.add(&line)?;
    }
    let mut page = HEAD.to_owned();
    for (heading, column, sums) in [
        ("Simulated seeds by kind", "kind", &evidence.kinds),
        ("Simulated seeds by world", "world", &evidence.worlds),
        ("Soaks on real servers", "servers", &evidence.places),
    ] {
        let rows = sums.iter().map(|(name, sums)| {
            let [runs, micros, faults, grants, broken] = sums;
            let hours = *micros as f64 / 3.6e9;
            format!("| {name} | {runs} | {hours:.1} | {faults} | {grants} | {broken} |\n")
        });
        let columns = format!("{column} | runs | hours | faults | grants | violations");
        page += &table(heading, &columns, rows);
    }
    let rows = evidence.costs.iter().map(|(fault, costs)| {
        let places = evidence.places.keys();
        let cells = places.map(|place| costs.get(place).map_or_else(String::new, cell));
        let cells: Vec<_> = cells.collect();
        format!("| {fault} | {} |\n", cells.join(" | "))
    });
    let places: Vec<_> = evidence.places.keys().map(String::as_str).collect();
    let columns = format!("fault | {}", places.join(" | "));
    page += &table("Cost of faults in the last soak", &columns, rows);
    let mut planted: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for ((_, name), by) in &evidence.planted {
        let names = planted.entry(by).or_default();
        names.insert(format!("`{name}`"));
    }
    let names: BTreeSet<_> = evidence.planted.keys().map(|(_, name)| name).collect();
    let rows = planted.into_iter().map(|(by, names)| {
        let names: Vec<_> = names.into_iter().collect();
        format!("| {by} | {} |\n", names.join(", "))
    });
    let heading = format!("{} planted faults", names.len());
    page += &table(&heading, "found by | planted faults", rows);
    let heading = format!("{} faults found in the library", evidence.found.len());
    let columns = "kind | found by | fault";
    page += &table(&heading, columns, evidence.found.into_iter());
    Ok(page)
}

/// Returns the cell of a fault: times, ms without a grant, the most of them, lost and all holds.
fn cell(cost: &Value) -> String {
    let known = |at: usize| {
        cost.get(at)
            .map_or_else(|| "?".to_owned(), Value::to_string)
    };
    let [times, half, most, lost, holds] = [0, 1, 2, 3, 4].map(known);
    format!("{times}× {half}, {most}, {lost}/{holds}")
}

fn table(heading: &str, columns: &str, rows: impl Iterator<Item = String>) -> String {
    let rule = "---|".repeat(columns.matches('|').count() + 1);
    let rows: String = rows.collect();
    format!("\n## {heading}\n\n| {columns} |\n|{rule}\n{rows}")
}

const HEAD: &str = "\
# Evidence

`cargo xtask evidence FILE…` adds the output of other commands to
[`evidence.jsonl`](evidence.jsonl), with commit and date at the end of the run, and writes this
page. `cargo test -p xtask` compares both.

```text
cargo xtask sim --seeds 20000 > sim.txt            seeds, also with --scenarios
cargo xtask sim --mutants > planted.txt            planted faults
cargo xtask check histories > judge.txt            planted faults that the judge refuses
cargo xtask soak --minutes 60 > soak.txt           a soak
cargo xtask evidence sim.txt planted.txt judge.txt soak.txt
```

[Testing](testing.md) explains the commands, P1 to P13, and the other checkers. `judge` is the judge
of histories. The simulator's hours are virtual. Violations stay in the sums after they are mended,
and some were false alarms of a checker. Write found faults by hand, with the commit that mends
them. Remove planted faults by hand if they are gone, or if a later hunt missed them. The name of a
planted fault begins with the kind, except for the plain lock.

A cost such as `13× 4273, 4875, 3/18` means 13 faults, and counts the names whose server was hit.
For half of the busy names, the longest time between two grants was 4,273 ms in the median of the
faults, and 4,875 ms at most. Of 18 holds that were to last through the faults, 3 were lost. `calm`
is the time between faults, for comparison. Client processes are killed, and connections cut, all
the while. `hole` is from an older soak, with the time between grants of any name, and all holds at
the beginning.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_shows_the_data() {
        let [data, shown] =
            ["jsonl", "md"].map(|ending| fs::read_to_string(place(ending)).unwrap());
        let page = page(&data).unwrap();
        assert_eq!(shown, page, "run `cargo xtask evidence`");
    }

    #[test]
    fn outputs_are_read_and_summed() {
        let seeds = r#"{"record":"seeds","scenario":null,"kinds":{"lock":{"seeds":2,"micros":3600000000,"faults":5,"grants":7,"broken":0}}}"#;
        let text = format!(
            "1000 seeds in 1 s\n{seeds}\n\
             lock      early-grant   found at seed   3 by P1   c0 and c1\n\
             lock early-grant found by judge\n\
             cluster on Redis 7, seed 7, 7200 s, faults kill\ngrants: 11: 11 lock\n\
             \x20 kill: 3 times, 70 ms without a grant, 90 ms at most, 5 of 6 holds lost\nviolations: 0\n"
        );
        let found = read(&text);
        let lines: String = found.iter().map(|line| format!("{line}\n")).collect();
        let page = page(&format!("{lines}{lines}")).unwrap();
        for row in [
            "| lock | 4 | 2.0 | 10 | 14 | 0 |",
            "| drawn faults | 4 | 2.0 | 10 | 14 | 0 |",
            "| cluster | 2 | 4.0 | 0 | 22 | 0 |",
            "| kill | 3× 70, 90, 5/6 |",
            "## 1 planted faults",
            "| judge | `early-grant` |",
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
    }
}
