//! This program as a contender in its own process: it runs rounds for another process. The protocol
//! is that of [`contender::External`](crate::contender).

use std::io::{self, BufRead, Write};

use tokio::{sync::mpsc, time::Instant};

use crate::{
    contender::{self, Failure, Lap, Station},
    hold::Holder,
    job::Done,
};

/// Answers requests until the standard input ends.
pub(crate) async fn run(name: &str, url: &str) -> Result<(), Failure> {
    let session = contender::connect(name, url).await?;
    say(&format!("ready {}\n", session.verbs))?;
    let (mut holder, mut station) = (Holder::default(), None);
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        let answer = if let Some(job) = contender::read_request(&line) {
            let done = contender::drive(&session, &job).await;
            done.map(|done| contender::answer(&done))
        } else if let Ok(lap) = serde_json::from_str(&line) {
            ring(&mut station, url, lap).await
        } else {
            match serde_json::from_str(&line) {
                Ok(ask) => holder.answer(url, ask).await,
                Err(_) => Err(format!("unknown request {line:?}").into()),
            }
        };
        say(&answer.unwrap_or_else(|error| format!("failed {error}\n")))?;
    }
    Ok(())
}

/// Runs one round of a station of the floor, which stays connected.
async fn ring(kept: &mut Option<Station>, url: &str, lap: Lap) -> Result<String, Failure> {
    if kept.is_none() {
        *kept = Station::connect(url, 1).await?.pop();
    }
    let station = kept.take().ok_or("no station is connected")?;
    let began = Instant::now();
    let (station, done) = station.run(lap).await?;
    *kept = Some(station);
    let (wall, tasks) = (began.elapsed(), vec![done]);
    Ok(contender::answer(&Done { wall, tasks }))
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

fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
