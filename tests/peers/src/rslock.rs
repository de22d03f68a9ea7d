//! The program of rslock: takes its locks by commands on the standard input, as the programs in
//! `libraries` do.

use std::{
    io::stdin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use redis::AsyncCommands as _;
use rslock::{Lock, LockError, LockManager};

use crate::Outcome;

/// Serves until the input ends. `args`: host and port of the server.
pub(crate) async fn serve(args: &[String]) -> Outcome {
    let [host, port] = args else {
        return Err("rslock HOST PORT".into());
    };
    let url = format!("redis://{host}:{port}");
    let mut peer = Peer {
        manager: LockManager::new(vec![url.as_str()]),
        url: url.clone(),
        held: None,
    };
    let mut line = String::new();
    while stdin().read_line(&mut line)? > 0 {
        let words: Vec<_> = line.split_whitespace().collect();
        let answer = peer.execute(&words).await;
        let answer = answer.unwrap_or_else(|error| format!("error {error}"));
        println!("{answer}");
        if words.first() == Some(&"work") {
            return Ok(());
        }
        line.clear();
    }
    Ok(())
}

struct Peer {
    manager: LockManager,
    url: String,
    held: Option<Lock>,
}

impl Peer {
    async fn execute(&mut self, words: &[&str]) -> Outcome<String> {
        match words {
            ["lock", name, lease, wait] => {
                self.held = self
                    .take(name, millis(lease)?, millis(wait)?, DELAY)
                    .await?;
                Ok(if self.held.is_some() { "held" } else { "busy" }.to_owned())
            }
            ["extend", lease] => {
                let held = self.held.as_ref().ok_or("nothing is held")?;
                let extended = self.manager.extend(held, millis(lease)?).await;
                self.held = Some(extended.map_err(|error| error.to_string())?);
                Ok("extended".to_owned())
            }
            ["unlock"] => {
                let held = self.held.take().ok_or("nothing is held")?;
                self.manager.unlock(&held).await;
                Ok("freed".to_owned())
            }
            ["work", name, witness, lease] => self.work(name, witness, millis(lease)?).await,
            other => Err(format!("unknown command {other:?}").into()),
        }
    }

    async fn take(
        &self,
        name: &str,
        lease: Duration,
        wait: Duration,
        delay: Duration,
    ) -> Result<Option<Lock>, String> {
        let mut manager = self.manager.clone();
        // A pause of the library is half of its delay on average.
        let tries = 2 * wait.as_millis() / delay.as_millis() + 1;
        manager.set_retry(u32::try_from(tries).unwrap_or(u32::MAX), delay);
        match manager.lock(name, lease).await {
            Ok(lock) => Ok(Some(lock)),
            Err(LockError::Unavailable) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn work(&self, name: &str, witness: &str, lease: Duration) -> Outcome<String> {
        let ended = input_ended();
        let client = redis::Client::open(self.url.as_str())?;
        let mut server = client.get_multiplexed_async_connection().await?;
        let delay = Duration::from_millis(2);
        while !ended.load(Ordering::Relaxed) {
            let wait = Duration::from_millis(200);
            let Some(held) = self.take(name, lease, wait, delay).await? else {
                continue;
            };
            witnessed(&mut server, witness, "theirs").await?;
            self.manager.unlock(&held).await;
        }
        Ok("done".to_owned())
    }
}

/// The library's default.
const DELAY: Duration = Duration::from_millis(200);

/// Checks that nobody else holds, by a counter that is one then, and counts the round.
pub(crate) async fn witnessed(
    server: &mut redis::aio::MultiplexedConnection,
    witness: &str,
    side: &str,
) -> Outcome {
    let holders: i64 = server.incr(witness, 1).await?;
    if holders != 1 {
        return Err("two holders".into());
    }
    for counter in ["rounds", side] {
        let counter = format!("{witness}:{counter}");
        let _: i64 = server.incr(counter, 1).await?;
    }
    let _: i64 = server.decr(witness, 1).await?;
    Ok(())
}

/// Returns a flag that is set when the standard input ends.
pub(crate) fn input_ended() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    thread::spawn(move || {
        let mut line = String::new();
        while stdin().read_line(&mut line).is_ok_and(|read| read > 0) {}
        flag.store(true, Ordering::Relaxed);
    });
    ended
}

fn millis(text: &str) -> Result<Duration, String> {
    let number = text.parse().map_err(|_| format!("{text} is no number"))?;
    Ok(Duration::from_millis(number))
}
