//! The lower limit of a hand-off by messages: PUBLISH → message → EVALSHA, from the holder of a
//! name to a waiter.
//!
//! Stations form a ring. Each waits for its message, runs the script of [`raw`](super::raw) as the
//! next holder would, holds, and publishes to the next station. The time of a station lasts from
//! its call of PUBLISH to the reply of the next station's script. All stations but one are
//! subscribed and idle, as waiters are.

use std::time::Duration;

use futures_util::{StreamExt, future::try_join_all};
use redis::{Client, IntoConnectionInfo, aio::PubSub, io::tcp::TcpSettings};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    ACQUIRE, Failure, LEASE,
    drive::rest,
    scripted::{Scripted, connection},
};
use crate::{
    clock::{monotonic, nanos},
    job::{Done, Job, Names, TaskDone},
    worker::Ask,
};

/// A member of the ring.
pub(crate) struct Station {
    messages: PubSub,
    /// The stations of a process share a connection for commands.
    commands: Scripted,
}

/// The work of a station in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Lap {
    job: Job,
    /// The index of the station among `of`. The first one begins.
    at: usize,
    of: usize,
}

impl Station {
    /// Connects the stations of a process.
    async fn connect(url: &str, count: usize) -> Result<Vec<Self>, Failure> {
        // Sockets send at once, as those of redlatch do.
        let prompt = TcpSettings::default().set_nodelay(true);
        let client = Client::open(url.into_connection_info()?.set_tcp_settings(prompt))?;
        let commands = Scripted::new(connection(&client).await?, &[ACQUIRE]);
        let mut stations = Vec::new();
        for _ in 0..count {
            stations.push(Self {
                messages: client.get_async_pubsub().await?,
                commands: commands.clone(),
            });
        }
        Ok(stations)
    }

    /// Runs one round in its own task. A worker thread of the runtime wakes a task sooner than it
    /// wakes the runtime's caller.
    async fn run(mut self, lap: Lap) -> Result<(Self, TaskDone), Failure> {
        let task = tokio::spawn(async move {
            let done = self.stand(&lap).await?;
            Ok((self, done))
        });
        task.await?
    }

    async fn stand(&mut self, lap: &Lap) -> Result<TaskDone, Failure> {
        let end = Instant::now() + Duration::from_nanos(lap.job.time);
        let own = lap.channel(lap.at);
        self.messages.subscribe(&own).await?;
        let mut done = TaskDone::default();
        let mut messages = self.messages.on_message();
        if lap.at == 0 {
            pass(&mut self.commands, lap, end).await?;
        }
        while let Ok(Some(message)) = timeout_at(end, messages.next()).await {
            // The message belongs to the previous round.
            if message.get_channel_name() != own {
                continue;
            }
            let arguments = ("0123456789abcdef", LEASE.as_millis() as u64);
            let _: u8 = self.commands.call(0, &lap.job.key, arguments).await?;
            let got = monotonic();
            rest(Duration::from_nanos(lap.job.hold)).await?;
            let left = pass(&mut self.commands, lap, end).await?;
            done.holds.push((got, left));
            done.pairs += 1;
        }
        drop(messages);
        self.messages.unsubscribe(&own).await?;
        Ok(done)
    }
}

impl Lap {
    fn channel(&self, at: usize) -> String {
        format!("{}:{at}", self.job.key)
    }
}

/// Runs one round of stations of this process, which stay connected.
pub(crate) async fn ring(
    stations: &mut Vec<Station>,
    url: &str,
    laps: Vec<Lap>,
) -> Result<Done, Failure> {
    if stations.is_empty() {
        *stations = Station::connect(url, laps.len()).await?;
    }
    let began = Instant::now();
    let running = stations.drain(..).zip(laps);
    let ran = try_join_all(running.map(|(station, lap)| station.run(lap))).await?;
    let wall = nanos(began.elapsed());
    let tasks;
    (*stations, tasks) = ran.into_iter().unzip();
    Ok(Done { wall, tasks })
}

/// Asks each process to run its stations of one ring. A process alone has two, others have one.
pub(super) fn laps(job: &Job, processes: usize) -> Result<Vec<Ask>, Failure> {
    if job.names != Names::One || job.time == 0 {
        return Err("the floor is of one name, and measured for some time".into());
    }
    let of = processes.max(2);
    let lap = |at| Lap {
        job: job.clone(),
        at,
        of,
    };
    let laps: Vec<_> = (0..of).map(lap).collect();
    let each = laps.chunks(of / processes);
    Ok(each.map(|laps| Ask::Ring(laps.to_vec())).collect())
}

/// Publishes to the next station and returns the time of the call. At the start the next station
/// may not have subscribed yet, and at the end it may be gone.
async fn pass(commands: &mut Scripted, lap: &Lap, end: Instant) -> Result<u64, Failure> {
    let next = lap.channel((lap.at + 1) % lap.of);
    loop {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(&next).arg("x");
        let left = monotonic();
        let heard: u8 = publish.query_async(&mut commands.connection).await?;
        if heard > 0 || Instant::now() >= end {
            return Ok(left);
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// The commands that it sends itself.
pub(super) const VERBS: &str = "publish,evalsha";
