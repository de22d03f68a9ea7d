//! A server that demands passwords, in front of the embedded one, which demands none.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::{Either, pending, select};
use redlatch::runtime::{
    Command, Conn, Dial, DialError, DialErrorKind, Dialed, Outcome, Protocol, Purpose, Push,
    Pushes, ServerError, Transport, Value,
};
use redlatch_embedded::EmbeddedTransport;
use tokio::sync::watch;

/// A transport to a server with passwords. Clones share its state.
#[derive(Clone, Debug)]
pub struct Gate {
    inner: EmbeddedTransport,
    protocol: Protocol,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    accepted: Vec<String>,
    lines: Vec<Line>,
    /// How many replies to `AUTH` are still to be lost.
    lost: usize,
    logins: usize,
}

/// One connection, and the password that it has logged in with. Cut once that is absent.
#[derive(Clone, Debug)]
struct Line {
    password: Arc<watch::Sender<Option<String>>>,
    purpose: Purpose,
}

impl Gate {
    /// Creates a gate that accepts `password`. With RESP3, connections for messages log in again.
    pub fn new(inner: EmbeddedTransport, protocol: Protocol, password: &str) -> Self {
        let gate = Self {
            inner,
            protocol,
            state: Arc::default(),
        };
        gate.accept(&[password]);
        gate
    }

    /// Accepts these passwords only. Connections stay open.
    pub fn accept(&self, passwords: &[&str]) {
        let accepted = passwords.iter().map(ToString::to_string).collect();
        self.state.lock().unwrap().accepted = accepted;
    }

    /// Cuts connections whose password is not accepted any more, and returns their number.
    pub fn cut_expired(&self) -> usize {
        let state = self.state.lock().unwrap();
        let mut cut = 0;
        for line in &state.lines {
            cut += usize::from(line.password.send_if_modified(|password| {
                let accepts = |password: &mut String| state.accepted.contains(password);
                password.take_if(|password| !accepts(password)).is_some()
            }));
        }
        cut
    }

    /// Loses the replies to the next `count` logins on existing connections.
    pub fn lose_logins(&self, count: usize) {
        self.state.lock().unwrap().lost = count;
    }

    /// Returns the number of `AUTH` commands on existing connections.
    pub fn logins(&self) -> usize {
        self.state.lock().unwrap().logins
    }

    /// Returns the number of open connections of `purpose` that have logged in with `password`.
    pub fn open(&self, purpose: Purpose, password: &str) -> usize {
        let state = self.state.lock().unwrap();
        let open = state.lines.iter().filter(|line| {
            line.purpose == purpose && line.password.borrow().as_deref() == Some(password)
        });
        open.count()
    }

    fn accepts(&self, password: Option<&str>) -> bool {
        let state = self.state.lock().unwrap();
        password.is_some_and(|password| state.accepted.iter().any(|accepted| accepted == password))
    }

    /// Answers `AUTH`. `None` if the reply is lost.
    fn log_in(&self, line: &Line, command: &Command) -> Option<Outcome> {
        let password = str::from_utf8(command.args().last().unwrap()).unwrap();
        let accepted = self.accepts(Some(password));
        let mut state = self.state.lock().unwrap();
        state.logins += 1;
        if state.lost > 0 {
            state.lost -= 1;
            return None;
        }
        drop(state);
        Some(Outcome::Replied(if accepted {
            line.password.send_replace(Some(password.to_owned()));
            Ok(Value::Status("OK".to_owned()))
        } else {
            Err(ServerError::parse(WRONG))
        }))
    }
}

#[async_trait]
impl Transport for Gate {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        if !self.accepts(dial.login.password.as_deref()) {
            let (kind, message) = (DialErrorKind::Auth, WRONG.to_owned());
            return Err(DialError { kind, message });
        }
        let dialed = self.inner.dial(dial).await?;
        let line = Line {
            password: Arc::new(watch::Sender::new(dial.login.password.clone())),
            purpose: dial.purpose,
        };
        self.state.lock().unwrap().lines.push(line.clone());
        let pushes = Box::new(GatePushes(dialed.pushes, line.clone()));
        let (inner, gate) = (dialed.conn, self.clone());
        Ok(Dialed {
            conn: Arc::new(GateConn { inner, gate, line }),
            pushes,
            protocol: self.protocol,
        })
    }
}

impl Line {
    async fn cut(&self) {
        let mut password = self.password.subscribe();
        drop(password.wait_for(Option::is_none).await);
    }
}

#[derive(Debug)]
struct GateConn {
    inner: Arc<dyn Conn>,
    gate: Gate,
    line: Line,
}

impl Drop for GateConn {
    fn drop(&mut self) {
        self.line.password.send_replace(None);
    }
}

#[async_trait]
impl Conn for GateConn {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        let commands = batch.len();
        if self.line.password.borrow().is_none() {
            return vec![Outcome::NotSent("cut".to_owned()); commands];
        }
        let answer = async {
            if batch[0].args().next() != Some(b"AUTH") {
                return self.inner.send(batch).await;
            }
            match self.gate.log_in(&self.line, &batch[0]) {
                Some(outcome) => vec![outcome],
                None => pending().await,
            }
        };
        match select(Box::pin(answer), Box::pin(self.line.cut())).await {
            Either::Left((outcomes, _)) => outcomes,
            Either::Right(_) => vec![Outcome::Unknown("cut".to_owned()); commands],
        }
    }
}

const WRONG: &str = "WRONGPASS invalid username-password pair";

#[derive(Debug)]
struct GatePushes(Box<dyn Pushes>, Line);

#[async_trait]
impl Pushes for GatePushes {
    async fn next(&mut self) -> Option<Push> {
        match select(self.0.next(), Box::pin(self.1.cut())).await {
            Either::Left((push, _)) => push,
            Either::Right(_) => None,
        }
    }
}
