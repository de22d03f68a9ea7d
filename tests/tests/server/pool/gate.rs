//! A resource outside of the library that counts who uses it.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Listens on the loopback device. A connection is a seat for so many permits, from its first word
/// until it is closed, by whomever.
#[derive(Clone)]
pub(super) struct Gate {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// What a holder says: at first, and before each step of its work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub(super) permits: u8,
    pub(super) pid: u32,
    /// When it looked whether it has them still, in µs of the wall clock.
    pub(super) at: u64,
    /// Until when it believed to have them.
    pub(super) until: u64,
}

#[derive(Debug)]
struct Seat {
    since: u64,
    last: Word,
}

#[derive(Debug, Default)]
struct State {
    limit: u64,
    seats: BTreeMap<u64, Seat>,
    next: u64,
    closed: bool,
    stops: Vec<Stop>,
    tally: Tally,
}

/// A process that did not run for a while.
#[derive(Debug)]
struct Stop {
    pid: u32,
    from: u64,
    to: Option<u64>,
}

/// What the gate has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Seats taken.
    pub(super) seats: u64,
    /// Most permits in use at once.
    pub(super) peak: u64,
    /// How often they were more than there are.
    pub(super) too_many: u64,
    /// How often somebody went on after its permits were over.
    pub(super) went_on: u64,
    /// Seats whose holder died.
    pub(super) died: u64,
    /// Seats that were given up after their process had been stopped.
    pub(super) gave_up: u64,
}

impl Gate {
    pub(super) fn open(limit: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gate = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::new(Mutex::new(State {
                limit,
                ..State::default()
            })),
        };
        let doorman = gate.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let gate = doorman.clone();
                std::thread::spawn(move || gate.seat(stream));
            }
        });
        gate
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn tally(&self) -> Tally {
        self.state().tally
    }

    /// Sends home whoever comes from now on.
    pub(super) fn close(&self) {
        self.state().closed = true;
    }

    /// Returns how many seats the process has.
    pub(super) fn seats_of(&self, pid: u32) -> usize {
        let state = self.state();
        let seats = state.seats.values();
        seats.filter(|seat| seat.last.pid == pid).count()
    }

    /// Notes that the process does not run from now on.
    pub(super) fn stopped(&self, pid: u32) {
        let from = wall();
        self.state().stops.push(Stop {
            pid,
            from,
            to: None,
        });
    }

    /// Notes that it will run again.
    pub(super) fn goes_on(&self) {
        let to = wall();
        let mut state = self.state();
        state.stops.last_mut().unwrap().to = Some(to);
    }

    fn seat(&self, mut stream: TcpStream) {
        let Some(word) = Word::read(&mut stream) else {
            return;
        };
        let id = self.state().sits_down(word);
        let answer = if self.state().closed {
            GO_HOME
        } else {
            WELCOME
        };
        let mut told = stream.write_all(&[answer]);
        // Whoever is done says so, and waits until it is noted; whoever dies says nothing.
        let mut done = false;
        while told.is_ok() {
            let Some(word) = Word::read(&mut stream) else {
                break;
            };
            if word.permits == 0 {
                done = true;
                break;
            }
            self.state().works_on(id, word);
            told = Ok(());
        }
        self.state().gets_up(id, done);
        let _ = stream.write_all(&[WELCOME]);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn sits_down(&mut self, word: Word) -> u64 {
        self.next += 1;
        let seat = Seat {
            since: wall(),
            last: word,
        };
        self.seats.insert(self.next, seat);
        self.tally.seats += 1;
        self.judge(word);
        self.next
    }

    fn works_on(&mut self, id: u64, word: Word) {
        let Some(seat) = self.seats.get_mut(&id) else {
            return;
        };
        seat.last = word;
        let since = seat.since;
        let ended = |stop: &Stop| {
            let Some(to) = stop.to else { return false };
            stop.pid == word.pid && since < stop.from && word.at > to
        };
        if self.stops.iter().any(ended) {
            self.tally.went_on += 1;
        }
        self.judge(word);
    }

    fn gets_up(&mut self, id: u64, done: bool) {
        let Some(seat) = self.seats.remove(&id) else {
            return;
        };
        let mut stops = self.stops.iter();
        if stops.any(|stop| stop.pid == seat.last.pid && seat.since < stop.from) {
            self.tally.gave_up += 1;
        } else if !done {
            self.tally.died += 1;
        }
    }

    /// Counts those who are there and whose permits last, as far as they have told.
    fn judge(&mut self, word: Word) {
        let now = wall();
        let lasting = self.seats.values().filter(|seat| seat.last.until > now);
        let out = lasting.map(|seat| u64::from(seat.last.permits)).sum();
        self.tally.peak = self.tally.peak.max(out);
        self.tally.too_many += u64::from(out > self.limit);
        // It looked, and they were over.
        self.tally.went_on += u64::from(word.until <= word.at);
    }
}

impl Word {
    pub(super) fn bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..4].copy_from_slice(GREETING);
        bytes[4] = self.permits;
        bytes[5..9].copy_from_slice(&self.pid.to_be_bytes());
        bytes[9..17].copy_from_slice(&self.at.to_be_bytes());
        bytes[17..].copy_from_slice(&self.until.to_be_bytes());
        bytes
    }

    fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = [0; LENGTH];
        stream.read_exact(&mut bytes).ok()?;
        bytes.starts_with(GREETING).then_some(())?;
        Some(Self {
            permits: bytes[4],
            pid: u32::from_be_bytes(bytes[5..9].try_into().ok()?),
            at: u64::from_be_bytes(bytes[9..17].try_into().ok()?),
            until: u64::from_be_bytes(bytes[17..].try_into().ok()?),
        })
    }
}

/// The wall clock in µs, which all processes share.
pub(super) fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}

/// Returns `span` after `at`.
pub(super) fn after(at: u64, span: Duration) -> u64 {
    at + u64::try_from(span.as_micros()).unwrap()
}

/// How a word begins. Ports are used again: others may still look for a server where the gate is
/// now.
const GREETING: &[u8; 4] = b"gate";

/// How long a word is.
const LENGTH: usize = 25;

/// What the gate answers: come in, or it is closed.
pub(super) const WELCOME: u8 = b'o';
pub(super) const GO_HOME: u8 = b'x';
