//! A distant server: a program between it and its clients that forwards all data later, with the
//! same throughput.
//!
//! It is a separate process (`redlatch-bench relay <server> <µs>`), so that its CPU time counts for
//! no contender. It uses blocking threads, because a thread's sleep can be exact, while a timer of
//! tokio ends up to one ms late.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::contender::Failure;

/// A running relay. Dropping this value ends it.
#[derive(Debug)]
pub(crate) struct Relay {
    child: Child,
    port: u16,
}

impl Relay {
    /// Starts a relay to the server with this port. A request through it and its reply take
    /// `latency` longer in total.
    pub(crate) fn start(server: u16, latency: Duration) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["relay", &server.to_string()])
            .arg(latency.as_micros().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("no standard output")?;
        BufReader::new(output).read_line(&mut line)?;
        let port = line.trim_end().parse();
        let port = port.map_err(|_| format!("a relay says {line:?}"))?;
        Ok(Self { child, port })
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // A relay that has ended by itself needs no kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs as a relay: prints the port on which it listens, and forwards until the standard input
/// ends.
pub(crate) fn run(server: u16, latency: Duration) -> Result<(), Failure> {
    // Threads that are started from here inherit the setting. Without it, the kernel decides how
    // exact sleeps are.
    #[cfg(target_os = "linux")]
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?.port());
    thread::spawn(move || accept(&listener, server, latency / 2));
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(())
}

fn accept(listener: &TcpListener, server: u16, delay: Duration) {
    for client in listener.incoming() {
        // Without a server, the client sees the end of its connection.
        let _ = client.and_then(|client| join(client, server, delay));
    }
}

fn join(client: TcpStream, server: u16, delay: Duration) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let back = (server.try_clone()?, client.try_clone()?);
    forward(client, server, delay);
    forward(back.0, back.1, delay);
    Ok(())
}

/// Forwards one direction, with one thread that reads the available data, and one that writes data
/// when it is due.
fn forward(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (send, receive) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let due = Instant::now() + delay;
            if send.send((due, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in receive {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // The other end may have closed first.
        let _ = to.shutdown(Shutdown::Write);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts an echo server behind a relay, and connects to it.
    fn echo(latency: Duration) -> io::Result<TcpStream> {
        let server = TcpListener::bind(("127.0.0.1", 0))?;
        let behind = server.local_addr()?.port();
        thread::spawn(move || {
            let (mut socket, _) = server.accept()?;
            let mut other = socket.try_clone()?;
            io::copy(&mut socket, &mut other)
        });
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        thread::spawn(move || accept(&listener, behind, latency / 2));
        TcpStream::connect(("127.0.0.1", port))
    }

    #[test]
    fn relayed_bytes_are_complete_in_order_and_delayed() {
        let latency = Duration::from_millis(20);
        let mut socket = echo(latency).unwrap();
        let sent: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
        let mut back = vec![0; sent.len()];
        let began = Instant::now();
        let mut writing = socket.try_clone().unwrap();
        let (text, first) = (sent.clone(), &mut [0]);
        let writer = thread::spawn(move || writing.write_all(&text));
        socket.read_exact(first).unwrap();
        assert!(began.elapsed() >= latency);
        socket.read_exact(&mut back[1..]).unwrap();
        back[0] = first[0];
        assert!(back == sent);
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn the_end_of_a_stream_goes_through() {
        let mut socket = echo(Duration::from_millis(2)).unwrap();
        socket.write_all(b"last").unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut back = String::new();
        socket.read_to_string(&mut back).unwrap();
        assert_eq!(back, "last");
    }
}
