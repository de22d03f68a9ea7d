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
    contender::{Contender, External, Failure, KNOWN},
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
        let mut report = measure(workload, plan, &binary).await?;
        let (kind, version) = (&binary.kind, &binary.version);
        report.note(&format!(
            "{kind:?} {version}; load average of the machine before: {load}."
        ));
        println!("\n{}", report.write(&plan.folder)?);
    }
    println!("written to {}", plan.folder.display());
    Ok(())
}

/// The report that a workload has filled.
type Reported = Result<Report, Failure>;

async fn measure(name: &'static str, plan: &Plan, binary: &ServerBinary) -> Reported {
    let title = ALL.iter().find(|one| one.0 == name).map_or("", |one| one.1);
    let report = Report::new(name, title, plan.latency);
    if name == CLUSTER {
        return cluster::spread(report, plan, binary).await;
    }
    if name == CAPACITY {
        return holds::model(report, plan, binary).await;
    }
    let rig = Rig::one(binary, plan.latency)?;
    match name {
        "W1" => pairs::one_task(report, plan, &rig).await,
        "W2" => pairs::many_tasks(report, plan, &rig).await,
        "W3" => handoff::in_one_process(report, plan, &rig).await,
        "W4" => handoff::between(report, plan, &rig).await,
        "W5" => kinds::semaphore(report, plan, &rig).await,
        "W6" => holds::kept(report, plan, &rig).await,
        "W7" => kinds::fair(report, plan, &rig).await,
        "W10" => pairs::every_kind(report, plan, &rig).await,
        "W13" => pairs::beside(report, plan, &rig).await,
        "W14" => kinds::checks(report, plan, &rig).await,
        "W11" => pairs::mixed(report, plan, &rig).await,
        _ => kinds::readers(report, plan, &rig).await,
    }
}

/// Connects all contenders of the plan.
async fn contenders(plan: &Plan, rig: &Rig) -> Result<Vec<Contender>, Failure> {
    let mut all = owns(wanted(plan), rig).await?;
    all.append(&mut others(plan, rig).await?);
    Ok(all)
}

/// Starts the programs that the plan adds.
async fn others(plan: &Plan, rig: &Rig) -> Result<Vec<Contender>, Failure> {
    let mut all = Vec::new();
    for (name, words) in &plan.with {
        all.push(Contender::start(name, words, 1, &rig.url()).await?);
    }
    Ok(all)
}

/// Returns the built-in contenders of the plan.
fn wanted(plan: &Plan) -> Vec<&'static str> {
    KNOWN.into_iter().filter(|name| wants(plan, name)).collect()
}

fn wants(plan: &Plan, name: &str) -> bool {
    plan.only.is_empty() || plan.only.iter().any(|one| one == name)
}

/// Starts built-in contenders, each in its own process, so that the heap and the runtime of others
/// do not affect it.
async fn owns(
    names: impl IntoIterator<Item = &'static str>,
    rig: &Rig,
) -> Result<Vec<Contender>, Failure> {
    let mut all = Vec::new();
    for name in names {
        all.push(Contender::start(name, &own_worker(name)?, 1, &rig.url()).await?);
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
