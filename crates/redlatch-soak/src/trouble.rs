//! Faults on the way between clients and servers, and of client processes.

use std::{collections::BTreeMap, env, io, process::Stdio, sync::Arc, time::Duration};

use crate::record::{Hold, Record};
use fastrand::Rng;
use redlatch_tests::proxy::{Direction, Flow, Pick, Proxy, Then};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

use crate::{
    history::History,
    victim::PANICKED,
    work::{Bench, millis},
};

/// Injects faults on the way until the run ends. Afterwards all is as before.
pub(crate) async fn on_the_way(proxies: Vec<Proxy>, bench: Bench, mut random: Rng) {
    while bench.goes_on() {
        tokio::time::sleep(millis(&mut random, 50..600)).await;
        let proxy = &proxies[random.usize(..proxies.len())];
        let what = strike(proxy, &mut random).await;
        bench.history.count(&format!("fault on the way: {what}"));
    }
    for proxy in proxies {
        proxy.withdraw_orders();
        proxy.pass();
    }
}

/// Injects one fault. Returns its name.
async fn strike(proxy: &Proxy, random: &mut Rng) -> &'static str {
    match random.u8(..10) {
        0 => {
            proxy.cut();
            "reset"
        }
        1 => {
            proxy.close();
            "close"
        }
        2 => {
            drop(proxy.drop_reply(scripts(), Then::Cut));
            "reply lost"
        }
        3 => {
            drop(proxy.drop_reply(scripts(), Then::Stall));
            "reply stalled"
        }
        4 => {
            proxy.cut_after(Direction::ToClient, random.usize(1..60));
            "cut within a reply"
        }
        5 => {
            proxy.cut_after(Direction::ToServer, random.usize(1..200));
            "cut within a request"
        }
        6 => {
            late_copy(proxy, random).await;
            "late copy"
        }
        7 => hinder(proxy, Flow::Stall, "stall", random).await,
        8 => hinder(proxy, Flow::BlackHole, "black hole", random).await,
        _ => {
            let delay = Flow::Delay(millis(random, 5..200));
            hinder(proxy, delay, "delay", random).await
        }
    }
}

fn scripts() -> Pick {
    Pick::matching(|request| request.command().starts_with("EVAL"))
}

/// Lets bytes flow in another way for a while, in one direction or in both. Returns `what`.
async fn hinder(proxy: &Proxy, flow: Flow, what: &'static str, random: &mut Rng) -> &'static str {
    let ways = [
        &[Direction::ToServer][..],
        &[Direction::ToClient],
        &[Direction::ToServer, Direction::ToClient],
    ];
    for &way in ways[random.usize(..3)] {
        proxy.set_flow(way, flow);
    }
    tokio::time::sleep(millis(random, 20..1_500)).await;
    proxy.pass();
    what
}

/// Delivers a copy of a script call some time later.
async fn late_copy(proxy: &Proxy, random: &mut Rng) {
    let seen = proxy.observe(scripts());
    // The kill of a server closes the connection.
    let seen = timeout(Duration::from_millis(500), seen.answered_or_gone()).await;
    let pause = millis(random, 0..3_000);
    if let Ok(Some(exchange)) = seen {
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            // The server may be down. The copy is then lost, which is harmless.
            let _ = exchange.copy().deliver().await;
        });
    }
}

/// Starts client processes, stops them beyond their leases and kills them, until the run ends.
pub(crate) async fn victims(url: String, bench: Bench, mut random: Rng) -> io::Result<()> {
    let history = &bench.history;
    while bench.goes_on() {
        let mut child = Command::new(env::current_exe()?)
            .args(["victim", &url, &random.u32(..).to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().map(BufReader::new);
        let heard = tokio::spawn({
            let history = Arc::clone(history);
            async move {
                let mut lines = stdout.map(AsyncBufReadExt::lines);
                // Its workers write in turn. The upper half of an id identifies the worker.
                let mut last: BTreeMap<u64, Hold> = BTreeMap::new();
                while let Some(lines) = &mut lines
                    && let Ok(Some(line)) = lines.next_line().await
                {
                    // A line that was cut short by the kill is not a record.
                    let Ok(Record::Hold(hold)) = Record::read(&line) else {
                        continue;
                    };
                    let id = hold.id;
                    if let Some(before) = last.insert(id >> 32, hold)
                        && before.id != id
                    {
                        enter(&history, before);
                    }
                }
                for hold in last.into_values() {
                    enter(&history, hold);
                }
            }
        });
        tokio::time::sleep(millis(&mut random, 500..4_000)).await;
        if random.bool()
            && let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed()))
        {
            kill_process(pid, Signal::STOP)?;
            tokio::time::sleep(millis(&mut random, 100..4_000)).await;
            kill_process(pid, Signal::CONT)?;
            history.count("fault victim stopped");
            tokio::time::sleep(millis(&mut random, 10..1_000)).await;
        }
        child.start_kill()?;
        if child.wait().await?.code() == Some(PANICKED) {
            history.violated("a client process panicked".to_owned());
        }
        history.count("fault victim killed");
        // The task ends with the pipe.
        heard.await?;
    }
    Ok(())
}

fn enter(history: &History, hold: Hold) {
    let id = history.id();
    history.add(Record::Hold(Hold {
        id,
        owner: id,
        ..hold
    }));
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use redlatch_tests::wait::{GENEROUS, eventually};
    use tokio::{
        io::AsyncWriteExt,
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// A regression test: this once ended the faults of a whole run early.
    #[tokio::test]
    async fn a_connection_that_goes_before_the_answer_ends_no_trouble() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap());
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let going = async {
            // The order to copy the request is in place by now.
            client.write_all(b"*1\r\n$4\r\nEVAL\r\n").await.unwrap();
            let forwarded = || ready(proxy.requests() > 0);
            eventually("a request to be under way", GENEROUS, forwarded).await;
            proxy.cut();
        };
        let mut random = Rng::with_seed(1);
        tokio::join!(late_copy(&proxy, &mut random), going);
    }
}
