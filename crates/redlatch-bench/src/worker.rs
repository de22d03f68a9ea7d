//! This program as a contender in its own process: it runs rounds for another process, and keeps
//! holds, waiters and clients for W6 and W12. The protocol is that of
//! [`External`](crate::contender::External).

use std::{
    io::{self, BufRead},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::{
    contender::{self, Failure, Lap, Session, Station},
    hold::Holder,
    job::Job,
};

/// A request, as a line of JSON. The reply is a line of JSON, too.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// Runs a round. The reply is [`Done`](crate::job::Done).
    Run(Job),
    /// Runs a round of these stations. The reply is [`Done`](crate::job::Done).
    Ring(Vec<Lap>),
    /// Acquires `n` names with a renewed lease. The reply are the bytes by which the memory of the
    /// process has grown.
    Hold {
        n: usize,
        lease: Duration,
        key: String,
    },
    /// Lets `n` tasks wait for so many fair locks, which it holds. The reply is that of `Hold`.
    Queue { n: usize, names: usize, key: String },
    /// Connects `n` clients that do nothing. The reply is that of `Hold`.
    Connect { n: usize },
    /// Watches what there is for this time. The reply is [`Watched`](crate::hold::Watched).
    Watch { time: Duration },
    /// Ends all of it.
    Part,
}

/// Answers requests until the standard input ends.
pub(crate) async fn run(name: &str, url: &str) -> Result<(), Failure> {
    let session = contender::connect(name, url).await?;
    println!("ready {}", session.verbs);
    let (mut holder, mut stations) = (Holder::default(), Vec::new());
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        let answer = answer(&line, url, &session, &mut holder, &mut stations);
        match answer.await {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("failed {error}"),
        }
    }
    Ok(())
}

async fn answer(
    line: &str,
    url: &str,
    session: &Session,
    holder: &mut Holder,
    stations: &mut Vec<Station>,
) -> Result<String, Failure> {
    match serde_json::from_str(line)? {
        Ask::Run(job) => text(contender::drive(session, &job).await?),
        Ask::Ring(laps) => text(contender::ring(stations, url, laps).await?),
        Ask::Hold { n, lease, key } => text(holder.hold(url, n, lease, &key).await?),
        Ask::Queue { n, names, key } => text(holder.queue(url, n, names, &key).await?),
        Ask::Connect { n } => text(holder.connect(url, n).await?),
        Ask::Watch { time } => text(holder.watch(time).await),
        Ask::Part => {
            holder.part().await;
            text(0)
        }
    }
}

fn text(answer: impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string(&answer)?)
}

/// Reads lines on a separate thread: the runtime's standard input would keep the process from
/// ending.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    told
}
