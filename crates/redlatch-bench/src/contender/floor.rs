//! The lower limit of a hand-off by messages: PUBLISH → message → EVALSHA, from the holder of a
//! name to a waiter.
//!
//! Stations form a ring. Each waits for its message, runs the script of [`raw`](super::raw) as the
//! next holder would, holds, and publishes to the next station. The time of a station lasts from
//! its call of PUBLISH to the reply of the next station's script. All stations but one are
//! subscribed and idle, as waiters are.

use std::time::Duration;

use futures_util::{StreamExt, future::try_join_all};
use redis::{
    Client, IntoConnectionInfo, RedisResult, Script,
    aio::{MultiplexedConnection, PubSub},
    io::tcp::TcpSettings,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout_at};

use super::{ACQUIRE, Failure, LEASE, drive::rest, raw::connection};
use crate::{
    clock,
    job::{Done, Held, Job, Names, TaskDone, Until},
};

/// A member of the ring.
pub(crate) struct Station {
    messages: PubSub,
    commands: MultiplexedConnection,
}

/// The work of a station in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Lap {
    pub(crate) key: String,
    /// The index of the station among `of`. The first one begins.
    pub(crate) at: u32,
    pub(crate) of: u32,
    pub(crate) time: Duration,
    pub(crate) hold: Duration,
}

impl Station {
    /// Connects the stations of a process.
    pub(crate) async fn connect(url: &str, count: usize) -> Result<Vec<Self>, Failure> {
        let client = client(url)?;
        let commands = connection(&client).await?;
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
    pub(crate) async fn run(mut self, lap: Lap) -> Result<(Self, TaskDone), Failure> {
        let task = tokio::spawn(async move {
            let done = self.stand(&lap).await?;
            Ok((self, done))
        });
        task.await?
    }

    async fn stand(&mut self, lap: &Lap) -> Result<TaskDone, Failure> {
        let end = Instant::now() + lap.time;
        let own = lap.channel(lap.at);
        self.messages.subscribe(&own).await?;
        let mut done = TaskDone::default();
        let script = Script::new(ACQUIRE);
        let mut messages = self.messages.on_message();
        if lap.at == 0 {
            pass(&mut self.commands, lap, end).await?;
        }
        while let Ok(Some(message)) = timeout_at(end, messages.next()).await {
            // The message belongs to the previous round.
            if message.get_channel_name() != own {
                continue;
            }
            let mut call = script.key(&lap.key);
            call.arg("0123456789abcdef").arg(LEASE.as_millis() as u64);
            let _: u8 = call.invoke_async(&mut self.commands).await?;
            let got = clock::monotonic();
            rest(lap.hold).await?;
            let left = pass(&mut self.commands, lap, end).await?;
            let task = lap.at;
            done.holds.push(Held { got, left, task });
            done.pairs += 1;
        }
        drop(messages);
        self.messages.unsubscribe(&own).await?;
        Ok(done)
    }
}

impl Lap {
    fn channel(&self, at: u32) -> String {
        format!("{}:{at}", self.key)
    }
}

/// Returns a client whose sockets send at once, as those of redlatch do.
fn client(url: &str) -> RedisResult<Client> {
    let prompt = TcpSettings::default().set_nodelay(true);
    Client::open(url.into_connection_info()?.set_tcp_settings(prompt))
}

/// Runs one round of a ring of these stations.
pub(super) async fn ring(stations: &mut Vec<Station>, job: &Job) -> Result<Done, Failure> {
    let began = Instant::now();
    let laps = laps(job, stations.len())?;
    let running = stations.drain(..).zip(laps);
    let ran = try_join_all(running.map(|(station, lap)| station.run(lap))).await?;
    let wall = began.elapsed();
    let tasks;
    (*stations, tasks) = ran.into_iter().unzip();
    Ok(Done { wall, tasks })
}

/// Returns the work of each station for a ring of this size.
pub(super) fn laps(job: &Job, stations: usize) -> Result<Vec<Lap>, Failure> {
    let (Until::Time(time), Names::One { hold }) = (job.until, job.names) else {
        return Err("the floor is of one name, and measured for some time".into());
    };
    let of = u32::try_from(stations)?;
    let lap = |at| Lap {
        key: job.key.clone(),
        at,
        of,
        time,
        hold,
    };
    Ok((0..of).map(lap).collect())
}

/// Publishes to the next station and returns the time of the call. At the start the next station
/// may not have subscribed yet, and at the end it may be gone.
async fn pass(
    commands: &mut MultiplexedConnection,
    lap: &Lap,
    end: Instant,
) -> Result<u64, Failure> {
    let next = lap.channel((lap.at + 1) % lap.of);
    loop {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(&next).arg("x");
        let left = clock::monotonic();
        let heard: u8 = publish.query_async(commands).await?;
        if heard > 0 || Instant::now() >= end {
            return Ok(left);
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// The commands that it sends itself.
pub(super) const VERBS: &str = "publish,evalsha";
