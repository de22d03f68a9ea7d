//! The workloads. Each is a file that produces a [`Report`].

mod cluster;
mod handoff;
mod holds;
mod kinds;
mod pairs;

use std::env;

use redlatch_tests::server::ServerBinary;

use crate::{
    cli::Plan,
    clock,
    contender::{Contender, External, Failure, KINDS, KNOWN, SCRIPTS},
    report::Report,
    rig::Rig,
};

/// The name and title of each workload.
pub(crate) const ALL: [(&str, &str); 14] = [
    ("W1", "uncontended pairs of one task"),
    (
        "W2",
        "uncontended pairs of many tasks, each with its own name",
    ),
    ("W3", "hand-off of one name in one process"),
    ("W4", "hand-off of one name between processes"),
    ("W5", "a semaphore of 8 permits, 64 tasks and more"),
    ("W6", "many holds, kept by the watchdog"),
    ("W7", "a fair lock and the length of its queue"),
    ("W8", "many readers of one name"),
    (CLUSTER, "a cluster of three masters"),
    ("W10", "uncontended pairs of every kind, 64 tasks"),
    (
        "W11",
        "512 tasks and 200 names, one in ten of them contended",
    ),
    (CAPACITY, "the cost of a client, a hold and a waiter"),
    ("W13", "one task now and then, beside many busy ones"),
    ("W14", "checks of a rate, beside the bare script"),
];

/// The workload with more than one server.
pub(crate) const CLUSTER: &str = "W9";

/// The workload that needs more connections than a server has by default.
pub(crate) const CAPACITY: &str = "W12";

/// Lists the workloads, one per line.
pub(crate) fn list() -> String {
    let lines = ALL.map(|(name, title)| format!("\n  {name:3} {title}"));
    format!("Workloads:{}", lines.concat())
}

/// Returns the canonical name of the workload.
pub(crate) fn named(name: &str) -> Result<&'static str, String> {
    let mut names = ALL.iter().map(|one| one.0);
    let found = names.find(|known| known.eq_ignore_ascii_case(name));
    found.ok_or_else(|| format!("unknown workload {name:?}"))
}

/// Runs the measurements of the plan, and prints and writes the results.
pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    let binary = ServerBinary::any();
    println!("server: {binary}");
    for &workload in &plan.workloads {
        let load = clock::load();
        let title = ALL.iter().find(|one| one.0 == workload);
        let title = title.map_or("", |one| one.1);
        let mut report = Report::new(workload, title, plan.latency);
        measure(&mut report, plan, &binary).await?;
        let (kind, version) = (&binary.kind, &binary.version);
        report.note(&format!(
            "{kind:?} {version}; load average of the machine before: {load}."
        ));
        println!("\n{}", report.write(&plan.folder)?);
    }
    println!("written to {}", plan.folder.display());
    Ok(())
}

type Outcome = Result<(), Failure>;

async fn measure(report: &mut Report, plan: &Plan, binary: &ServerBinary) -> Outcome {
    if report.workload == CLUSTER {
        return cluster::spread(report, plan, binary).await;
    }
    if report.workload == CAPACITY {
        return holds::model(report, plan, binary).await;
    }
    let rig = &Rig::one(binary, plan.latency)?;
    match report.workload {
        "W1" => pairs::one_task(report, plan, rig).await,
        "W2" => pairs::many_tasks(report, plan, rig).await,
        "W3" => handoff::in_one_process(report, plan, rig).await,
        "W4" => handoff::between(report, plan, rig).await,
        "W5" => kinds::semaphore(report, plan, rig).await,
        "W6" => holds::kept(report, plan, rig).await,
        "W7" => kinds::fair(report, plan, rig).await,
        "W10" => pairs::every_kind(report, plan, rig).await,
        "W11" => pairs::mixed(report, plan, rig).await,
        "W13" => pairs::beside(report, plan, rig).await,
        "W14" => kinds::checks(report, plan, rig).await,
        _ => kinds::readers(report, plan, rig).await,
    }
}

/// Starts those of these contenders that the plan does not leave out, and the programs that it
/// adds.
async fn contenders<'a>(
    plan: &Plan,
    rig: &'a Rig,
    names: impl IntoIterator<Item = &'static str>,
    size: usize,
) -> Result<Vec<Contender<'a>>, Failure> {
    let is_chosen = |name: &&str| {
        let may_be_left_out = KNOWN.contains(name) || KINDS.contains(name) || *name == SCRIPTS;
        let mut only = plan.only.iter();
        plan.only.is_empty() || !may_be_left_out || only.any(|one| one == name)
    };
    let mut all = owns(names.into_iter().filter(is_chosen), rig, size).await?;
    for (name, words) in &plan.with {
        all.push(Contender::start(name, words, size, rig).await?);
    }
    Ok(all)
}

/// Starts built-in contenders, each in its own processes, so that the heap and the runtime of
/// others do not affect it.
async fn owns<'a>(
    names: impl IntoIterator<Item = &'static str>,
    rig: &'a Rig,
    size: usize,
) -> Result<Vec<Contender<'a>>, Failure> {
    let mut all = Vec::new();
    for name in names {
        all.push(Contender::start(name, &own_worker(name)?, size, rig).await?);
    }
    Ok(all)
}

async fn worker(name: &str, rig: &Rig) -> Result<External, Failure> {
    External::start(name, &own_worker(name)?, &rig.url()).await
}

/// Returns the command that runs this program as a contender.
fn own_worker(contender: &str) -> Result<Vec<String>, Failure> {
    let program = env::current_exe()?;
    let program = program.to_str().ok_or("a path that is no text")?;
    Ok([program, "worker", contender].map(str::to_owned).to_vec())
}

fn label(tasks: usize) -> String {
    match tasks {
        1 => "1 task".to_owned(),
        tasks => format!("{tasks} tasks"),
    }
}
