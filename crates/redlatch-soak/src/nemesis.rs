//! Faults of servers, one after the other, on a separate thread.

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::record::{Fault, Record, Takeover};
use fastrand::Rng;
use redlatch_core::family::slot_of;
use redlatch_tests::server::{ClientType, Cluster, Reply, Server};

use crate::{
    clock::now,
    history::History,
    names,
    place::{DOWN_AFTER, Place, key},
};

/// Injects faults until it is told to stop. When it returns, all servers are healthy.
pub(crate) fn torment(
    place: &Place,
    history: &History,
    faults: &[String],
    stop: &Arc<AtomicBool>,
    mut random: Rng,
) {
    let mut nemesis = Nemesis {
        place,
        history,
        calm_since: now(),
        owners: owners(place),
    };
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(random.u64(300..2_500)));
        if let Some(fault) = random.choice(faults) {
            nemesis.strike(fault, &mut random);
        }
    }
}

struct Nemesis<'a> {
    place: &'a Place,
    history: &'a History,
    /// The end of the last fault. `owners` are the active servers at that time.
    calm_since: u64,
    owners: Owners,
}

/// The port of the active server of each name.
type Owners = BTreeMap<String, u16>;

impl Nemesis<'_> {
    fn strike(&mut self, fault: &str, random: &mut Rng) {
        self.place.await_peace();
        self.note_unasked(self.calm_since, |_| false);
        let master = self.place.victim(random);
        let from = now();
        self.history.began(fault);
        if let Some(deed) = self.act(fault, master, random) {
            let ended = self.await_peace(master);
            self.place.keep_roles();
            self.note(fault, master, from, ended, &deed);
        }
        self.history.began("calm");
        self.calm_since = now();
    }

    /// Adds a fault to the history, and also its side effects.
    fn note(&mut self, fault: &str, master: &Server, from: u64, ended: u64, deed: &Deed) {
        let port = master.port();
        let hit = |name: &String| match deed.moved {
            Some(slot) => slot_of(key(name).as_bytes()) == slot,
            None => self.place.works_on(name, port, self.owners[name]),
        };
        let names: Vec<_> = names::all().into_iter().filter(hit).collect();
        let now_in_charge = owners(self.place);
        // A red-lock is on several servers, and none of them is its active server.
        let lost = |name: &String| self.owners[name] == port && now_in_charge[name] != port;
        let changed = names.iter().any(lost);
        let forgets = match deed.memory {
            Memory::Keeps => false,
            Memory::MayLose => changed,
            Memory::Loses => true,
        };
        let (died, back) = deed.dead;
        let takeover = Takeover {
            began: deed.began,
            died,
            back,
            ended,
        };
        self.history.add(Record::Fault(Fault {
            kind: fault.to_owned(),
            from,
            until: now(),
            names: names.clone(),
            takeover: forgets.then_some(takeover),
        }));
        let moves = deed.consent || deed.moved.is_some() || forgets;
        let may_move = |name: &str| moves && names.iter().any(|of| of == name);
        self.note_unasked(from, may_move);
    }

    /// Waits for peace. Returns when `old` was last active: its role is asked from the moment at
    /// which it is back.
    fn await_peace(&self, old: &Server) -> u64 {
        let peace = AtomicBool::new(false);
        thread::scope(|scope| {
            let watching = scope.spawn(|| {
                while !is_replica(old) && !peace.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(10));
                }
                now()
            });
            self.place.await_peace();
            peace.store(true, Ordering::Relaxed);
            watching.join().expect("it only asks")
        })
    }

    /// Records a takeover that was not ordered, on a machine too loaded to answer in time. It may
    /// lose data like any other.
    fn note_unasked(&mut self, from: u64, may_move: impl Fn(&str) -> bool) {
        let before = mem::replace(&mut self.owners, owners(self.place));
        let moved = before
            .iter()
            .filter(|(name, port)| self.owners[*name] != **port && !may_move(name));
        let names: Vec<_> = moved.map(|(name, _)| name.clone()).collect();
        if !names.is_empty() {
            let until = now();
            self.history.add(Record::Fault(Fault {
                kind: "unasked".to_owned(),
                from,
                until,
                names,
                takeover: Some(Takeover {
                    began: from,
                    died: 0,
                    back: 0,
                    ended: until,
                }),
            }));
        }
    }

    /// Injects the fault and returns its effect; `None` if it was not possible.
    fn act(&self, fault: &str, master: &Server, random: &mut Rng) -> Option<Deed> {
        let began = now();
        Some(match fault {
            "kill" => {
                master.kill();
                let died = now();
                pause(random, 10..900);
                Deed::of(Memory::MayLose, began).by_death(died, master)
            }
            "crash" => self.replace(master, &self.place.replicas_of(master), random),
            "lossy" => self.lose(master, random),
            "migrate" => self.migrate(random)?,
            "failover" => {
                self.place.fail_over(master);
                let memory = if self.place.orders_forget() {
                    Memory::Loses
                } else {
                    Memory::Keeps
                };
                Deed {
                    consent: true,
                    ..Deed::of(memory, began)
                }
            }
            fault => Deed::of(self.trouble(fault, master, random)?, began),
        })
    }

    fn trouble(&self, fault: &str, master: &Server, random: &mut Rng) -> Option<Memory> {
        match fault {
            "stop" => {
                master.stop();
                // Half of the stops are too short for a takeover.
                let short = random.bool();
                let span = if short { 100..900 } else { 2_500..5_000 };
                pause(random, span);
                master.cont();
                // A takeover that began during the stop may end only now.
                if !short && self.place.replicas() > 0 {
                    thread::sleep(DOWN_AFTER);
                }
                Some(Memory::MayLose)
            }
            "flush" => {
                master.script_flush();
                Some(Memory::Keeps)
            }
            "clients" => {
                let all = [ClientType::Normal, ClientType::PubSub];
                master.client_kill(all[random.usize(..2)]);
                Some(Memory::Keeps)
            }
            "full" => {
                master.config_set("maxmemory", "1");
                pause(random, 50..1_500);
                master.config_set("maxmemory", "0");
                Some(Memory::Keeps)
            }
            "pause" => {
                let millis = random.u32(50..1_200).to_string();
                master
                    .command(&["CLIENT", "PAUSE", &millis, "WRITE"])
                    .unwrap();
                Some(Memory::Keeps)
            }
            "replica" => {
                let replicas = self.place.replicas_of(master);
                let replica = random.choice(&replicas)?;
                replica.kill();
                pause(random, 100..2_000);
                replica.restart();
                Some(Memory::Keeps)
            }
            other => panic!("{other} is no fault of servers"),
        }
    }

    /// Kills `master` after a period without replication.
    fn lose(&self, master: &Server, random: &mut Rng) -> Deed {
        let replicas = self.place.replicas_of(master);
        for replica in &replicas {
            replica.stop();
        }
        // The close discards the data in the buffers of a connection. Otherwise the replicas would
        // receive it later.
        master.client_kill(ClientType::Replica);
        pause(random, 100..800);
        let began = now();
        master.kill();
        for replica in &replicas {
            replica.cont();
        }
        Deed {
            began,
            ..self.replace(master, &replicas, random)
        }
    }

    fn migrate(&self, random: &mut Rng) -> Option<Deed> {
        let Place::Cluster(cluster) = self.place else {
            return None;
        };
        let began = now();
        let slot = migrate(cluster, random);
        Some(Deed {
            moved: Some(slot),
            ..Deed::of(Memory::Keeps, began)
        })
    }

    /// Kills `master` if it is alive, lets a replica take over, and restarts it as a replica.
    fn replace(&self, master: &Server, replicas: &[&Server], random: &mut Rng) -> Deed {
        let began = now();
        master.kill();
        let died = now();
        self.place.take_over(master, replicas);
        pause(random, 10..1_000);
        let deed = Deed::of(Memory::Loses, began).by_death(died, master);
        self.place.demote(master);
        deed
    }
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deed {
    memory: Memory,
    /// The time up to which no other server can have been active.
    began: u64,
    /// When the server was killed, and the time right before its restart.
    dead: (u64, u64),
    /// Whether the active server gave the names away itself.
    consent: bool,
    /// The slot that was moved.
    moved: Option<u16>,
}

impl Deed {
    const fn of(memory: Memory, began: u64) -> Self {
        Self {
            memory,
            began,
            dead: (0, 0),
            consent: false,
            moved: None,
        }
    }

    /// Restarts `server`, which was killed before `died`.
    fn by_death(self, died: u64, server: &Server) -> Self {
        let back = now();
        server.restart();
        Self {
            dead: (died, back),
            ..self
        }
    }
}

/// The effect of a fault on data that a master has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Keeps,
    /// They may be lost if another server is active afterwards.
    MayLose,
    Loses,
}

fn migrate(cluster: &Cluster, random: &mut Rng) -> u16 {
    let names = names::all();
    let name = random.choice(&names).expect("there are names");
    let source = cluster.owner(&key(name)).port();
    let masters = cluster.masters();
    let others: Vec<_> = masters
        .iter()
        .filter(|other| other.port() != source)
        .collect();
    let target = random.choice(&others).expect("there are others");
    let slot = slot_of(key(name).as_bytes());
    cluster.migrate(slot, target, random.usize(1..5));
    slot
}

fn owners(place: &Place) -> Owners {
    let names = names::all().into_iter();
    names
        .map(|name| (name.clone(), place.owner(&name)))
        .collect()
}

/// Tells whether `server` reports itself as a replica. Sentinels close all connections to a server
/// that they make a replica.
fn is_replica(server: &Server) -> bool {
    let role = server
        .connect()
        .and_then(|mut connection| connection.command(&["ROLE"]));
    matches!(role, Ok(Reply::Array(role)) if role[0].clone().text() == "slave")
}

fn pause(random: &mut Rng, millis: std::ops::Range<u64>) {
    thread::sleep(Duration::from_millis(random.u64(millis)));
}
