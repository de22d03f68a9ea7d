//! One run: servers, clients, load and faults, then peace, then the remaining data.

use std::{
    fs, io, panic,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use fastrand::Rng;
use redlatch::{Client, Error, Tables, record::Recorder};
use redlatch_tests::{
    proxy::Proxy,
    server::{Server, ServerBinary},
};
use tokio::{
    task::{JoinHandle, JoinSet, spawn_blocking},
    time::{Instant, sleep, timeout},
};
use tracing_subscriber::{
    filter::Targets,
    layer::{Layer, SubscriberExt},
    util::SubscriberInitExt,
};

use crate::{
    history::{Finished, History},
    names, nemesis,
    options::Options,
    place::Place,
    report::Report,
    trouble,
    work::{self, Bench},
};

/// Runs, and returns the report. An error is one of the harness, not of the library.
pub(crate) async fn run(options: &Options) -> io::Result<Report> {
    let dir = folder(options)?;
    let on = match options.url {
        Some(_) => "servers of the user".to_owned(),
        None => ServerBinary::any().to_string(),
    };
    println!("{} on {on}, seed {}", options.place(), options.seed);
    println!("the history is kept in {}", dir.display());
    if options.record {
        record(&dir.join("holds.jsonl"))?;
    }
    let mut random = Rng::with_seed(options.seed);
    let (topology, url) = (options.topology, options.url.clone());
    let place = spawn_blocking(move || Place::start(topology, url)).await?;
    let place = Arc::new(place);
    let history = Arc::new(History::begin(&dir.join("history.jsonl"))?);
    let (bench, proxies) = connect(&place, &history).await.map_err(io::Error::other)?;
    let began = Instant::now();
    tell_of_panics(&history);
    let mut workers = work::start(&bench, &mut random);
    let mut troubles = troubles(&place, &proxies, &bench, options, &mut random);
    let torment = spawn_blocking({
        let (place, bench) = (Arc::clone(&place), bench.clone());
        let (faults, random) = (on_servers(options), random.fork());
        move || nemesis::torment(&place, &bench, &faults, random)
    });
    let (length, load) = (options.length, &mut workers);
    watch(&history, length, began, load, &mut troubles, &torment).await;
    bench.stop.store(true, Ordering::Relaxed);
    println!("healing");
    heal(torment, troubles, &history).await;
    finish(&mut workers, &history).await;
    peace(&place, &bench).await;
    leaks(&place, &bench).await;
    drop(bench);
    let seconds = began.elapsed().as_secs_f64();
    let finished = Arc::into_inner(history).map(History::finish);
    let finished: Finished =
        finished.unwrap_or_else(|| Err(io::Error::other("somebody still writes history")))?;
    let finished = judged(finished, &dir.join("history.jsonl"))?;
    let (place, seed, faults) = (options.place(), options.seed, options.faults.join(","));
    let title = format!("{place} on {on}, seed {seed}, {seconds:.0} s, faults {faults}");
    let report = Report::of(title, finished, options.url.is_some());
    fs::write(dir.join("report.txt"), report.to_string())?;
    Ok(report)
}

/// Waits for the end of all faults.
async fn heal(torment: JoinHandle<()>, mut troubles: JoinSet<()>, history: &History) {
    if let Err(error) = torment.await {
        history.violated(format!(
            "the harness failed, and what follows may be its doing: {error}"
        ));
    }
    while let Some(ended) = troubles.join_next().await {
        if let Err(error) = ended {
            history.violated(format!("the harness failed: {error}"));
        }
    }
}

/// Connects the clients. Each has its own proxy to every server.
async fn connect(place: &Place, history: &Arc<History>) -> Result<(Bench, Vec<Proxy>), Error> {
    let (mut clients, mut nodes, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let addresses = place.servers().iter().map(Server::address);
        let proxies: Vec<_> = addresses.map(Proxy::start).collect();
        let client = place.through(&proxies).connect().await?;
        if let Place::Standalone(_) = place {
            let mut of_each = vec![client.clone()];
            for proxy in &proxies[1..] {
                of_each.push(Client::connect(&proxy.url()).await?);
            }
            nodes.push(of_each);
        }
        clients.push(client);
        all.extend(proxies);
    }
    let bench = Bench {
        clients: Arc::new(clients),
        nodes: Arc::new(nodes),
        replicas: place.replicas(),
        history: Arc::clone(history),
        stop: Arc::default(),
        worker: 0,
    };
    Ok((bench, all))
}

fn troubles(
    place: &Place,
    proxies: &[Proxy],
    bench: &Bench,
    options: &Options,
    random: &mut Rng,
) -> JoinSet<()> {
    let mut troubles = JoinSet::new();
    let wanted = |fault: &str| options.faults.iter().any(|wanted| wanted == fault);
    if wanted("proxy") {
        let (proxies, bench) = (proxies.to_vec(), bench.clone());
        troubles.spawn(trouble::on_the_way(proxies, bench, random.fork()));
    }
    if wanted("victims") {
        for _ in 0..2 {
            let bench = bench.clone();
            let victims = trouble::victims(place.url(), bench.clone(), random.fork());
            troubles.spawn(async move {
                if let Err(error) = victims.await {
                    bench
                        .history
                        .violated(format!("the harness failed: {error}"));
                }
            });
        }
    }
    troubles
}

/// Returns the faults that the thread injects.
fn on_servers(options: &Options) -> Vec<String> {
    let faults = options.faults.iter();
    let on_servers = faults.filter(|fault| !["proxy", "victims"].contains(&fault.as_str()));
    on_servers.cloned().collect()
}

/// Prints the status until the time is over, or until an activity ends early. A run without its
/// load, or without its faults, is invalid.
async fn watch(
    history: &History,
    length: Duration,
    began: Instant,
    workers: &mut JoinSet<()>,
    troubles: &mut JoinSet<()>,
    torment: &JoinHandle<()>,
) {
    while began.elapsed() < length {
        let tick = sleep(TICK.min(length.saturating_sub(began.elapsed())));
        tokio::select! {
            () = tick => {}
            Some(ended) = workers.join_next() => {
                return history.violated(format!("a worker ended: {ended:?}"));
            }
            Some(ended) = troubles.join_next() => {
                return history.violated(format!("the harness failed: trouble ended early: {ended:?}"));
            }
        }
        if torment.is_finished() {
            return history
                .violated("the harness failed: trouble of servers ended early".to_owned());
        }
        println!("{:>4} s: {}", began.elapsed().as_secs(), history.line());
    }
}

/// Reports panics. No code joins the library's own tasks, nor those of proxies.
fn tell_of_panics(history: &Arc<History>) {
    let history = Arc::downgrade(history);
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        told(info);
        if let Some(history) = history.upgrade() {
            history.violated(format!("panicked: {info}"));
        }
    }));
}

/// Checks P7 and P11: once all is healthy, every call that was begun ends.
async fn finish(workers: &mut JoinSet<()>, history: &History) {
    let ended = timeout(3 * work::PATIENCE, async {
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended {
                history.violated(format!("a worker failed: {error}"));
            }
        }
    });
    if ended.await.is_err() {
        history.violated(format!("{} workers have not ended", workers.len()));
        workers.shutdown().await;
    }
}

/// Checks P7: once all is healthy, every client acquires every name.
async fn peace(place: &Arc<Place>, bench: &Bench) {
    let (history, clients) = (&bench.history, &bench.clients);
    let calm = Arc::clone(place);
    // A blocking wait would delay the work of this runtime.
    if spawn_blocking(move || calm.await_peace()).await.is_err() {
        history.violated("the harness failed: there is no peace".to_owned());
    }
    for (at, name) in names::all().iter().enumerate() {
        let client = &clients[at % clients.len()];
        let got = timeout(work::PATIENCE, work::visit(client, name)).await;
        match got {
            Ok(Ok(())) => {}
            Ok(Err(error)) => history.violated(format!("{name} was not to be had: {error:?}")),
            Err(_) => history.violated(format!("{name} was not to be had in 20 s")),
        }
    }
}

/// Checks P6: nothing is left in the clients, and no key without an expiry on the servers.
async fn leaks(place: &Arc<Place>, bench: &Bench) {
    let history = &bench.history;
    let nodes = || bench.nodes.iter().flat_map(|nodes| &nodes[1..]);
    let clients = || bench.clients.iter().chain(nodes());
    for client in clients() {
        let empty = async {
            while client.tables() != Tables::default() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(work::PATIENCE, empty).await.is_err() {
            history.violated(format!("left in a client: {:?}", client.tables()));
        }
    }
    // Semaphores stay until they are deleted.
    for name in names::all() {
        if let Err(error) = work::delete(&bench.clients[0], &name).await {
            history.violated(format!("{name} could not be deleted: {error:?}"));
        }
    }
    for client in clients() {
        client.close(Duration::from_secs(1)).await;
    }
    let place = Arc::clone(place);
    let left = spawn_blocking(move || {
        // This is longer than the longest lease of a dead client.
        thread::sleep(Duration::from_secs(4));
        place.left()
    });
    match left.await {
        Ok(left) => {
            for what in left.leaks {
                history.violated(format!("left on a server: {what}"));
            }
            for _ in 0..left.counters {
                history.count("keys left with an end, no hold in them");
            }
        }
        Err(error) => history.violated(format!("the harness failed: {error}")),
    }
}

/// Records the holds of this process. Those of victims are not in it.
fn record(file: &Path) -> io::Result<()> {
    let only = Targets::new().with_target("redlatch", tracing::Level::TRACE);
    let recorder = Recorder::new(fs::File::create(file)?).with_filter(only);
    let registry = tracing_subscriber::registry().with(recorder);
    registry.try_init().map_err(io::Error::other)?;
    println!(
        "the holds are recorded: redlatch timeline {} -o holds.html",
        file.display()
    );
    Ok(())
}

/// Adds the verdict of the judge, which prints its reasons, on the history in `file`.
pub(crate) fn judged(mut run: Finished, file: &Path) -> io::Result<Finished> {
    let judge = target().join("histories/judge");
    let ended = Command::new(&judge).arg(file).status();
    let ended = ended.map_err(|error| {
        io::Error::other(format!(
            "{}: {error}; `cargo xtask soak` builds it",
            judge.display()
        ))
    })?;
    if !ended.success() {
        let what = "the judge refuses the history, or cannot read it";
        run.violations.push(what.to_owned());
    }
    Ok(run)
}

fn target() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join("target")
}

fn folder(options: &Options) -> io::Result<PathBuf> {
    let name = format!("{}-{}", options.place(), options.seed);
    let dir = target().join("soak").join(name);
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// The number of clients in this process.
const CLIENTS: usize = 6;

const TICK: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// Watches for a long time, beside one task each for a worker, for faults on the way and for
    /// faults of servers. Returns the messages.
    async fn told(
        worker: impl Future<Output = ()> + Send + 'static,
        trouble: impl Future<Output = ()> + Send + 'static,
        torment: impl Future<Output = ()> + Send + 'static,
    ) -> Vec<String> {
        let history = History::in_memory();
        let (mut workers, mut troubles) = (JoinSet::new(), JoinSet::new());
        workers.spawn(worker);
        troubles.spawn(trouble);
        let (length, began) = (100 * TICK, Instant::now());
        let torment = tokio::spawn(torment);
        watch(
            &history,
            length,
            began,
            &mut workers,
            &mut troubles,
            &torment,
        )
        .await;
        history.finish().unwrap().violations
    }

    #[tokio::test(start_paused = true)]
    async fn task_that_ends_early_is_reported() {
        let panics = || async { panic!("as it should") };
        assert_eq!(told(pending(), pending(), pending()).await, [""; 0]);
        for ended in [
            told(async {}, pending(), pending()).await,
            told(panics(), pending(), pending()).await,
            told(pending(), async {}, pending()).await,
            told(pending(), panics(), pending()).await,
            told(pending(), pending(), async {}).await,
            told(pending(), pending(), panics()).await,
        ] {
            assert_eq!(ended.len(), 1, "{ended:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn workers_that_hang_or_fail_are_reported() {
        let history = History::in_memory();
        let mut workers = JoinSet::new();
        workers.spawn(async {});
        finish(&mut workers, &history).await;
        workers.spawn(pending());
        finish(&mut workers, &history).await;
        workers.spawn(async { panic!("as it should") });
        finish(&mut workers, &history).await;
        assert_eq!(history.finish().unwrap().violations.len(), 2);
    }
}
