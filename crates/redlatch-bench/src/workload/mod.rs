//! What is measured: each workload is a file that ends in a [`Report`].

mod cluster;
mod handoff;
mod holds;
mod kinds;
mod limit;
mod pairs;
mod processes;
mod readers;

use std::env;

use redlatch_tests::server::ServerBinary;

use crate::{
    cli::Plan,
    contender::{Contender, External, Failure, InProcess, KNOWN},
    report::Report,
    rig::Rig,
};

/// Name and title of each workload.
pub(crate) const ALL: [(&str, &str); 9] = [
    ("W1", "uncontended pairs of one task"),
    (
        "W2",
        "uncontended pairs of many tasks, each with its own name",
    ),
    ("W3", "hand-off of one name in one process"),
    ("W4", "hand-off of one name between processes"),
    ("W5", "a semaphore of 8 permits, 64 waiters"),
    ("W6", "many holds, kept by the watchdog"),
    ("W7", "a fair lock and the length of its queue"),
    ("W8", "many readers of one name"),
    ("W9", "a cluster of three masters"),
];

/// Returns the workload's name as it is written here.
pub(crate) fn named(name: &str) -> Result<&'static str, String> {
    let found = ALL.iter().find(|one| one.0.eq_ignore_ascii_case(name));
    found
        .map(|one| one.0)
        .ok_or_else(|| format!("unknown workload or option {name:?}"))
}

/// Measures what the plan says, and prints and writes what came out.
pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    let binary = ServerBinary::any();
    println!("server: {binary}");
    for &workload in &plan.workloads {
        let report = measure(workload, plan, &binary).await?;
        println!("\n{}", report.write(&plan.folder)?);
    }
    println!("written to {}", plan.folder.display());
    Ok(())
}

async fn measure(
    name: &'static str,
    plan: &Plan,
    binary: &ServerBinary,
) -> Result<Report, Failure> {
    let title = ALL.iter().find(|one| one.0 == name).map_or("", |one| one.1);
    let report = Report::new(name, title);
    match name {
        "W1" => pairs::one_task(report, plan, &Rig::one(binary)).await,
        "W2" => pairs::many_tasks(report, plan, &Rig::one(binary)).await,
        "W3" => handoff::in_one_process(report, plan, &Rig::one(binary)).await,
        "W4" => processes::between(report, plan, &Rig::one(binary)).await,
        "W5" => kinds::semaphore(report, plan, &Rig::one(binary)).await,
        "W6" => holds::kept(report, plan, &Rig::one(binary)).await,
        "W7" => kinds::fair(report, plan, &Rig::one(binary)).await,
        "W8" => readers::crowd(report, plan, &Rig::one(binary)).await,
        _ => cluster::spread(report, plan, binary).await,
    }
}

/// Connects all contenders of the plan.
async fn contenders(plan: &Plan, rig: &Rig) -> Result<Vec<Box<dyn Contender>>, Failure> {
    let mut all: Vec<Box<dyn Contender>> = Vec::new();
    for name in wanted(plan) {
        all.push(Box::new(InProcess::connect(name, &rig.url()).await?));
    }
    for (name, words) in &plan.with {
        all.push(Box::new(External::start(name, words, &rig.url()).await?));
    }
    Ok(all)
}

/// Returns those of the contenders that are built in which the plan wants.
fn wanted(plan: &Plan) -> Vec<&'static str> {
    let wants = |name: &&str| plan.only.is_empty() || plan.only.iter().any(|one| one == name);
    KNOWN.into_iter().filter(wants).collect()
}

/// Returns the command that runs this program as a contender.
fn own_worker(contender: &str) -> Result<Vec<String>, Failure> {
    let program = env::current_exe()?;
    let program = program.to_str().ok_or("a path that is no text")?;
    Ok([program, "worker", contender].map(str::to_owned).to_vec())
}
