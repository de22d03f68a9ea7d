//! Faults of servers, one after the other, on a separate thread.

use std::{
    collections::BTreeMap,
    mem,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::record::{Fault, Record, Takeover};
use fastrand::Rng;
use redlatch_core::family::slot_of;
use redlatch_tests::server::{ClientType, Reply, Server};

use crate::{
    clock::now,
    history::History,
    names,
    place::{DOWN_AFTER, Place, key},
    work::Bench,
};

/// Injects faults until the run ends. When it returns, all servers are healthy.
pub(crate) fn torment(place: &Place, bench: &Bench, faults: &[String], mut random: Rng) {
    let mut nemesis = Nemesis {
        place,
        history: &bench.history,
        calm_since: now(),
        owners: owners(place),
    };
    while bench.goes_on() {
        pause(&mut random, 300..2_500);
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
        let mut takeover = deed.takeover;
        takeover.ended = ended;
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
        let moved = |name: &String| self.owners[name] != before[name] && !may_move(name);
        let names: Vec<_> = before.keys().filter(|name| moved(name)).cloned().collect();
        if !names.is_empty() {
            let until = now();
            self.history.add(Record::Fault(Fault {
                kind: "unasked".to_owned(),
                from,
                until,
                names,
                takeover: Some(Takeover {
                    began: from,
                    ended: until,
                    ..Takeover::default()
                }),
            }));
        }
    }

    /// Injects the fault and returns its effect; `None` if it was not possible.
    fn act(&self, fault: &str, master: &Server, random: &mut Rng) -> Option<Deed> {
        let mut deed = Deed::default();
        deed.takeover.began = now();
        match fault {
            "kill" => {
                master.kill();
                deed.memory = Memory::MayLose;
                deed.takeover.died = now();
                pause(random, 10..900);
                deed.restart(master);
            }
            "stop" | "hole" => {
                let millis = match (fault, random.bool()) {
                    ("hole", _) => 60_000..120_000,
                    // Too short for a takeover.
                    (_, true) => 100..900,
                    (_, false) => 2_500..5_000,
                };
                self.stop(master, millis, random);
                deed.memory = Memory::MayLose;
            }
            "crash" => self.replace(&mut deed, master, &self.place.replicas_of(master), random),
            "lossy" => self.lose(&mut deed, master, random),
            "migrate" => deed.moved = Some(self.migrate(random)?),
            "failover" => {
                self.place.fail_over(master);
                deed.consent = true;
                if self.place.orders_forget() {
                    deed.memory = Memory::Loses;
                }
            }
            "flush" => {
                master.script_flush();
            }
            "clients" => {
                let all = [ClientType::Normal, ClientType::PubSub];
                master.client_kill(all[random.usize(..2)]);
            }
            "full" => {
                master.config_set("maxmemory", "1");
                pause(random, 50..1_500);
                master.config_set("maxmemory", "0");
            }
            "pause" => {
                let millis = random.u32(50..1_200).to_string();
                let pause = ["CLIENT", "PAUSE", &millis, "WRITE"];
                master.command(&pause).unwrap();
            }
            "replica" => {
                let replicas = self.place.replicas_of(master);
                let replica = random.choice(&replicas)?;
                replica.kill();
                pause(random, 100..2_000);
                replica.restart();
            }
            other => panic!("{other} is no fault of servers"),
        }
        Some(deed)
    }

    /// Stops `master` for a while.
    fn stop(&self, master: &Server, millis: Range<u64>, random: &mut Rng) {
        master.stop();
        let short = millis.end < 1_000;
        pause(random, millis);
        master.cont();
        // A takeover that began during the stop may end only now.
        if !short && self.place.replicas() > 0 {
            thread::sleep(DOWN_AFTER);
        }
    }

    /// Kills `master` after a period without replication.
    fn lose(&self, deed: &mut Deed, master: &Server, random: &mut Rng) {
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
        self.replace(deed, master, &replicas, random);
        deed.takeover.began = began;
    }

    /// Moves the slot of a name in a cluster. Returns the slot.
    fn migrate(&self, random: &mut Rng) -> Option<u16> {
        let Place::Cluster(cluster) = self.place else {
            return None;
        };
        let names = names::all();
        let key = key(random.choice(&names).expect("there are names"));
        let source = cluster.owner(&key).port();
        let mut others = cluster.masters();
        others.retain(|other| other.port() != source);
        let target = random.choice(&others).expect("there are others");
        let slot = slot_of(key.as_bytes());
        cluster.migrate(slot, target, random.usize(1..5));
        Some(slot)
    }

    /// Kills `master` if it is alive, lets a replica take over, and restarts it as a replica.
    fn replace(&self, deed: &mut Deed, master: &Server, replicas: &[&Server], random: &mut Rng) {
        deed.takeover.began = now();
        master.kill();
        deed.memory = Memory::Loses;
        deed.takeover.died = now();
        self.place.take_over(master, replicas);
        pause(random, 10..1_000);
        deed.restart(master);
        self.place.demote(master);
    }
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, Default)]
struct Deed {
    memory: Memory,
    /// The times of a takeover, if the fault leads to one.
    takeover: Takeover,
    /// Whether the active server gave the names away itself.
    consent: bool,
    /// The slot that was moved.
    moved: Option<u16>,
}

impl Deed {
    /// Restarts `server`, which was killed.
    fn restart(&mut self, server: &Server) {
        self.takeover.back = now();
        server.restart();
    }
}

/// The effect of a fault on data that a master has acknowledged.
#[derive(Clone, Copy, Debug, Default)]
enum Memory {
    #[default]
    Keeps,
    /// They may be lost if another server is active afterwards.
    MayLose,
    Loses,
}

fn owners(place: &Place) -> Owners {
    let owner = |name: String| (name.clone(), place.owner(&name));
    names::all().into_iter().map(owner).collect()
}

/// Tells whether `server` reports itself as a replica. Sentinels close all connections to a server
/// that they make a replica.
fn is_replica(server: &Server) -> bool {
    let connection = server.connect();
    let role = connection.and_then(|mut connection| connection.command(&["ROLE"]));
    matches!(role, Ok(Reply::Array(role)) if role[0].clone().text() == "slave")
}

fn pause(random: &mut Rng, millis: Range<u64>) {
    thread::sleep(Duration::from_millis(random.u64(millis)));
}
