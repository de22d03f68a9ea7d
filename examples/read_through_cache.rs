//! A cache that many read and one refreshes: readers keep a copy each and know by one look whether
//! it is still the newest.
//!
//! The price list is a file that cannot be replaced in one step: the refresher writes it in two
//! halves. Readers hold the read lock while they look, so that nobody sees half a list. The token
//! of a read guard is that of the last write: a copy that was stamped with the same token is fresh,
//! and the file need not be read. (That needs a server that forgets nothing: after a failover that
//! loses a write, an older copy passes for fresh until the next write.) The refresher downgrades
//! before it checks what it wrote, so that readers come in at once and nobody can change the file
//! under it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use redlatch::{Client, ReadWriteLock, Token};
use redlatch_examples::{Result, Scratch, Server, run};
use tokio::{task::JoinSet, time::sleep};

const SERVICES: usize = 3;
const READERS: usize = 8;
const REFRESHES: u64 = 12;
const EVERY: Duration = Duration::from_millis(200);
/// While the hold of a dead reader lasts, the refresher waits, and all new readers behind it.
const READ_LEASE: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> ExitCode {
    run(cache()).await
}

async fn cache() -> Result {
    let server = Server::from_env_or_start().await?;
    let scratch = Scratch::new()?;
    let list = scratch.path().join("prices");
    let name = format!("prices:{}", std::process::id());

    // The first list, before anybody reads.
    let client = Client::builder(server.url())
        .application("refresher")
        .connect()
        .await?;
    let prices = client.read_write_lock(&name).class("prices");
    let mut refresher = Figures::default();
    refresh(&prices, &list, 0, &mut refresher).await?;

    println!("{SERVICES} services with {READERS} readers each, and one refresher every {EVERY:?}.");
    let end = Instant::now() + EVERY * u32::try_from(REFRESHES)?;
    let mut readers = JoinSet::new();
    for service in 0..SERVICES {
        let client = Client::builder(server.url())
            .application(format!("service {service}"))
            .connect()
            .await?;
        for _ in 0..READERS {
            let lock = client.read_write_lock(&name).class("prices");
            readers.spawn(read(lock, list.clone(), end));
        }
    }
    for version in 1..=REFRESHES {
        sleep(EVERY).await;
        refresh(&prices, &list, version, &mut refresher).await?;
    }
    let mut all = Figures::default();
    while let Some(figures) = readers.join_next().await {
        all.add(&figures??);
    }

    let lookups = all.hits + all.misses;
    println!(
        "readers    {lookups} look-ups: {} from the copy, {} from the file ({:.1} % hits)",
        all.hits,
        all.misses,
        100.0 * all.hits as f64 / lookups as f64
    );
    println!(
        "           waited {:.2} ms on average, {:.1} ms at most",
        millis(all.waited) / lookups as f64,
        millis(all.longest)
    );
    let refreshes = REFRESHES + 1;
    println!(
        "refresher  {refreshes} refreshes, waited {:.2} ms on average, {:.1} ms at most",
        millis(refresher.waited) / refreshes as f64,
        millis(refresher.longest)
    );
    println!("           no look-up saw half a list, or an old one");
    client.close(Duration::from_secs(1)).await;
    Ok(())
}

/// Rewrites the list, and checks as a reader what it wrote.
async fn refresh(lock: &ReadWriteLock, list: &Path, version: u64, figures: &mut Figures) -> Result {
    let asked = Instant::now();
    let writer = lock.write().await?;
    figures.wait(asked);
    let half = format!("{} {version}\n", writer.token());
    fs::write(list, &half)?;
    sleep(Duration::from_millis(2)).await;
    // Before a step that must not happen without the lock.
    writer.check()?;
    fs::write(list, half.repeat(2))?;

    let token = writer.token();
    let reader = writer.downgrade().await?;
    if load(list, reader.token())? != version || reader.token() != token {
        return Err("somebody has written beside the refresher".into());
    }
    reader.release().await?;
    Ok(())
}

/// Looks up a price again and again, from its own copy where that is fresh.
async fn read(lock: ReadWriteLock, list: PathBuf, end: Instant) -> Result<Figures> {
    let mut figures = Figures::default();
    let mut copy: Option<(Token, u64)> = None;
    while Instant::now() < end {
        let asked = Instant::now();
        let guard = lock.read().renewed_lease(READ_LEASE).await?;
        figures.wait(asked);
        let token = guard.token();
        let version = match copy {
            Some((stamp, version)) if stamp == token => {
                figures.hits += 1;
                version
            }
            _ => {
                figures.misses += 1;
                load(&list, token)?
            }
        };
        if copy.is_some_and(|(_, older)| older > version) {
            return Err("the list went back in time".into());
        }
        copy = Some((token, version));
        guard.release().await?;
        sleep(Duration::from_millis(5)).await;
    }
    Ok(figures)
}

/// Reads the list's version; both halves must be there, and be those of the last write.
fn load(list: &Path, token: Token) -> Result<u64> {
    let text = fs::read_to_string(list)?;
    let halves: Vec<_> = text.lines().collect();
    let (Some(first), true) = (halves.first(), halves.len() == 2 && halves[0] == halves[1]) else {
        return Err(format!("half a list: {text:?}").into());
    };
    let (stamp, version) = first.split_once(' ').ok_or("no list")?;
    if stamp != token.to_string() {
        return Err(format!("the list is stamped {stamp}, the last write was {token}").into());
    }
    Ok(version.parse()?)
}

#[derive(Default)]
struct Figures {
    hits: u64,
    misses: u64,
    waited: Duration,
    longest: Duration,
}

impl Figures {
    fn wait(&mut self, since: Instant) {
        let waited = since.elapsed();
        self.waited += waited;
        self.longest = self.longest.max(waited);
    }

    fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.waited += other.waited;
        self.longest = self.longest.max(other.longest);
    }
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}
