//! A job whose processes have wrong clocks, and are killed, suspended, cut off and failed over.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use redlatch::{
    Client,
    once::{JobOutcome, JobRecord},
};
use redlatch_tests::{
    fixture::MS,
    server::{ClientType, Replicated, ServerBinary, ServerOptions},
};
use tokio::{task::JoinHandle, time::sleep};

use super::{
    by_length,
    crew::Crew,
    line::Line,
    process::{LEASE, PERIOD, job},
};

redlatch_tests::on_servers_with!(
    "clocks of their own for processes", ServerBinary::has_settable_clock;
    each_slot_of_processes_with_wrong_clocks_has_one_success,
);

async fn each_slot_of_processes_with_wrong_clocks_has_one_success(binary: ServerBinary) {
    let replicated = Replicated::start(&binary, 1, &ServerOptions::new());
    let observer = Client::connect(&replicated.url()).await.unwrap();
    let (records, watch) = watch(&observer);
    let mut crew = Crew::start(&replicated.url(), &crew_of(by_length(4, 20)));
    let slots = by_length(7, 200);
    let (mut seen, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let mut faults = Faults::default();
    while ended.len() < slots {
        let line = crew.next().await;
        if line.what == "ends" {
            ended.insert(line.slot);
        }
        if line.what == "begins" && seen.insert(line.slot) {
            faults.next(&mut crew, &replicated, line.by).await;
        } else if line.what == "effects" && std::mem::take(&mut faults.kill_after_effect) {
            faults.kills += 1;
            crew.kill(line.by);
        }
    }
    watch.abort();
    let history = crew.end();
    let records = records.lock().unwrap().clone();
    let summary = check(&history, &records).unwrap_or_else(|broken| panic!("{binary}: {broken}"));
    println!("{binary}: {summary}; {faults}");
    assert!(summary.farthest > 300, "no clock was wrong: {summary}");
    assert!(faults.all(), "not all faults have happened: {faults}");
    observer.close(LEASE).await;
}

/// Processes that serve the job or call it, with clocks that are up to ten minutes wrong.
fn crew_of(count: i64) -> Vec<(&'static str, i64)> {
    let role = |at| if at % 2 == 0 { "server" } else { "caller" };
    let ahead = |at| at * 1_200 / (count - 1) - 600;
    (0..count).map(|at| (role(at), ahead(at))).collect()
}

/// Looks at the job's last record all the time, and keeps the successes: the tokens by slot.
fn watch(client: &Client) -> (Arc<Mutex<Records>>, JoinHandle<()>) {
    let records = Arc::<Mutex<Records>>::default();
    let (kept, job) = (Arc::clone(&records), job(client));
    let watch = tokio::spawn(async move {
        loop {
            if let Ok(Some(record)) = job.last().await {
                keep(&mut kept.lock().unwrap(), &record);
            }
            sleep(20 * MS).await;
        }
    });
    (records, watch)
}

fn keep(records: &mut Records, record: &JobRecord) {
    if record.outcome == JobOutcome::Done {
        let slot = record.slot.instant().unwrap();
        let slot = slot.duration_since(std::time::UNIX_EPOCH).unwrap();
        let slot = u64::try_from(slot.as_millis()).unwrap();
        records
            .entry(slot)
            .or_default()
            .insert(record.token.as_u64());
    }
}

/// The tokens of recorded successes by slot.
type Records = BTreeMap<u64, BTreeSet<u64>>;

/// The faults that have happened.
#[derive(Debug, Default)]
struct Faults {
    slots: u32,
    /// Whether the next process that makes its effect is killed then.
    kill_after_effect: bool,
    kills: u32,
    suspensions: u32,
    cuts: u32,
    stops: u32,
    failovers: u32,
}

impl Faults {
    /// Lets something happen while process `by` is at work.
    async fn next(&mut self, crew: &mut Crew, replicated: &Replicated, by: usize) {
        self.slots += 1;
        match self.slots % 6 {
            1 => self.kill_after_effect = true,
            2 => {
                self.kills += 1;
                crew.kill(by);
            }
            3 => {
                self.suspensions += 1;
                crew.suspend(by, LEASE + 300 * MS).await;
            }
            4 => {
                self.cuts += 1;
                replicated.master().client_kill(ClientType::Normal);
            }
            5 if self.slots % 36 == 5 => {
                self.failovers += 1;
                fail_over(replicated);
            }
            0 => {
                self.stops += 1;
                let master = replicated.master();
                master.stop();
                sleep(300 * MS).await;
                master.cont();
            }
            _ => {}
        }
    }

    fn all(&self) -> bool {
        ![
            self.kills,
            self.suspensions,
            self.cuts,
            self.stops,
            self.failovers,
        ]
        .contains(&0)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills, {} suspensions, {} cuts of all connections, {} stops of the server, {} \
             failovers",
            self.kills, self.suspensions, self.cuts, self.stops, self.failovers
        )
    }
}

/// Makes the replica the master, without a loss of writes: the guarantees have it so.
fn fail_over(replicated: &Replicated) {
    let master = replicated.master();
    master
        .command(&["CLIENT", "PAUSE", "5000", "WRITE"])
        .unwrap();
    let port = master.port();
    let other = replicated
        .servers()
        .iter()
        .position(|server| server.port() != port);
    let other = other.unwrap();
    replicated.servers()[other].catch_up_with(master);
    replicated.promote(other);
    master.command(&["CLIENT", "UNPAUSE"]).unwrap();
}

/// What a history that keeps the promises has in it.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    slots: usize,
    runs: usize,
    failures: usize,
    /// Runs that made their effect and died before that was on record.
    repeated: usize,
    /// The most seconds by which the clock of a process was wrong.
    farthest: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} slots, each with one success, {} runs, {} failures retried, {} effects without a \
             record, clocks wrong by up to {} s",
            self.slots, self.runs, self.failures, self.repeated, self.farthest
        )
    }
}

/// Checks that no slot is missed, that no two runs overlap, that each failed run is followed by the
/// next attempt, and that a slot has one recorded success, after which it does not run again.
fn check(history: &[Line], records: &Records) -> Result<Summary, String> {
    let mut runs = BTreeMap::<u64, Vec<&Line>>::new();
    for line in history {
        runs.entry(line.token).or_default().push(line);
    }
    let runs: Vec<Run<'_>> = runs.into_values().map(Run::new).collect();
    let mut summary = Summary {
        slots: 1,
        runs: runs.len(),
        failures: 0,
        repeated: 0,
        farthest: history.iter().map(Line::wrong_by).max().unwrap_or(0),
    };
    for two in runs.windows(2) {
        let (one, next) = (&two[0], &two[1]);
        if next.begin <= one.end {
            return Err(format!("two runs overlap: {one:?}, {next:?}"));
        }
        summary.failures += usize::from(one.has("fails"));
        let Some(distance) = next.slot.checked_sub(one.slot) else {
            return Err(format!("an earlier slot runs again: {one:?}, {next:?}"));
        };
        match (distance, one.has("ends")) {
            (0, true) if one.is_recorded(records) => {
                return Err(format!("a slot runs after its success: {one:?}, {next:?}"));
            }
            (0, _) => {
                summary.repeated += usize::from(one.has("effects"));
                if next.attempt <= one.attempt {
                    return Err(format!("an attempt does not count: {one:?}, {next:?}"));
                }
            }
            (distance, true) if Duration::from_millis(distance) == PERIOD => summary.slots += 1,
            (_, true) => return Err(format!("a slot was missed: {one:?}, {next:?}")),
            (_, false) => return Err(format!("a slot was not retried: {one:?}, {next:?}")),
        }
    }
    for (slot, tokens) in records {
        let of_slot: Vec<_> = runs.iter().filter(|run| run.slot == *slot).collect();
        let told = of_slot.iter().filter(|run| run.has("recorded"));
        let all: BTreeSet<_> = told
            .map(|run| run.token)
            .chain(tokens.iter().copied())
            .collect();
        if all.len() > 1 {
            return Err(format!("slot {slot} has successes with the tokens {all:?}"));
        }
    }
    Ok(summary)
}

/// The lines of one run.
#[derive(Debug)]
struct Run<'a> {
    slot: u64,
    attempt: u32,
    token: u64,
    /// The first and the last moment of the work; never, if it has none that counts.
    begin: u64,
    end: u64,
    lines: Vec<&'a Line>,
}

impl<'a> Run<'a> {
    fn new(lines: Vec<&'a Line>) -> Self {
        let at_work = lines.iter().filter(|line| line.what != "recorded");
        // A process that is suspended within a poll goes on with it.
        let prompt = at_work.filter(|line| line.is_prompt());
        let times: Vec<_> = prompt.map(|line| line.at).collect();
        let first = lines[0];
        Self {
            slot: first.slot,
            attempt: first.attempt,
            token: first.token,
            begin: times.iter().copied().min().unwrap_or(u64::MAX),
            end: times.iter().copied().max().unwrap_or(0),
            lines,
        }
    }

    /// Tells whether somebody has seen the success on record.
    fn is_recorded(&self, records: &Records) -> bool {
        let tokens = records.get(&self.slot);
        self.has("recorded") || tokens.is_some_and(|tokens| tokens.contains(&self.token))
    }

    fn has(&self, what: &str) -> bool {
        self.lines.iter().any(|line| line.what == what)
    }
}

/// Writes a history: what, slot in periods, attempt, token, in the order of time.
fn written(lines: &[(&str, u64, u32, u64)]) -> Vec<Line> {
    let line = |(at, &(what, slot, attempt, token)): (usize, &(&str, u64, u32, u64))| Line {
        at: at as u64,
        poll: 0,
        ..Line::now(what, slot * PERIOD.as_millis() as u64, attempt, token)
    };
    lines.iter().enumerate().map(line).collect()
}

#[test]
fn broken_histories_are_noticed() {
    let none = Records::new();
    let good = [
        ("begins", 1, 1, 1),
        ("fails", 1, 1, 1),
        ("begins", 1, 2, 2),
        ("ends", 1, 2, 2),
        ("recorded", 1, 2, 2),
        ("begins", 2, 1, 3),
        ("ends", 2, 1, 3),
    ];
    let summary = check(&written(&good), &none).unwrap();
    assert_eq!((summary.slots, summary.runs, summary.failures), (2, 3, 1));
    let broken: [(&str, &[_]); 6] = [
        ("earlier slot", &[("ends", 2, 1, 1), ("begins", 1, 1, 2)]),
        (
            "overlap",
            &[("begins", 1, 1, 1), ("begins", 1, 2, 2), ("works", 1, 1, 1)],
        ),
        (
            "after its success",
            &[good[3], good[4], ("begins", 1, 3, 9)],
        ),
        (
            "does not count",
            &[("begins", 1, 1, 1), ("begins", 1, 1, 2)],
        ),
        ("missed", &[good[3], ("begins", 3, 1, 3)]),
        ("not retried", &[good[0], good[1], ("begins", 2, 1, 2)]),
    ];
    for (what, lines) in broken {
        let error = check(&written(lines), &none).unwrap_err();
        assert!(error.contains(what), "{error}");
    }
    let period = PERIOD.as_millis() as u64;
    let records = Records::from([(period, BTreeSet::from([8]))]);
    let error = check(&written(&good), &records).unwrap_err();
    assert!(error.contains("successes with the tokens"), "{error}");
}
