//! Trouble for servers, one after the other, on a thread of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use fastrand::Rng;
use redlatch_core::protocol::slot::slot_of;
use redlatch_tests::server::{ClientType, Cluster, Server};

use crate::{
    clock::now,
    history::History,
    names,
    place::{DOWN_AFTER, Place, key},
    record::{Fault, Record},
};

/// Makes trouble until it is told to stop. When it returns all servers are well.
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
        masters: ports(place),
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
    /// Since when nothing was done, and who was in charge then.
    calm_since: u64,
    masters: Vec<u16>,
}

impl Nemesis<'_> {
    fn strike(&mut self, fault: &str, random: &mut Rng) {
        self.look_for_unasked();
        let masters = self.place.masters();
        let master = masters[random.usize(..masters.len())];
        let names = self.names_of(master);
        let from = now();
        self.history.began(fault);
        let forgets = self.act(fault, master, random);
        let (from, until) = match forgets {
            None => return self.history.began("calm"),
            Some(_) => {
                self.place.await_peace();
                self.place.keep_roles();
                (from, now())
            }
        };
        let changed = !ports(self.place).contains(&master.port());
        let forgets =
            forgets == Some(Memory::Loses) || (forgets == Some(Memory::MayLose) && changed);
        self.history.add(Record::Fault(Fault {
            kind: fault.to_owned(),
            from,
            until,
            names,
            forgets,
        }));
        self.history.began("calm");
        (self.calm_since, self.masters) = (now(), ports(self.place));
    }

    /// Does it, and says what became of the memory of who was in charge; `None` if it was not possible.
    fn act(&self, fault: &str, master: &Server, random: &mut Rng) -> Option<Memory> {
        let replicas = self.place.replicas_of(master);
        match fault {
            "kill" => {
                master.kill();
                pause(random, 10..900);
                master.restart();
                Some(Memory::MayLose)
            }
            "stop" => {
                master.stop();
                // Half of them too short for anybody to take over.
                let short = random.bool();
                let span = if short { 100..900 } else { 2_500..5_000 };
                pause(random, span);
                master.cont();
                // A takeover that began while it stood still may end only now.
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
                let replica = random.choice(&replicas)?;
                replica.kill();
                pause(random, 100..2_000);
                replica.restart();
                Some(Memory::Keeps)
            }
            "failover" => {
                self.place.fail_over(master);
                Some(if self.place.orders_forget() {
                    Memory::Loses
                } else {
                    Memory::Keeps
                })
            }
            "crash" => {
                self.replace(master, &replicas, random);
                Some(Memory::Loses)
            }
            "lossy" => {
                for replica in &replicas {
                    replica.stop();
                }
                // What lies in the buffers of a connection goes with it, or the replicas would get it later.
                master.client_kill(ClientType::Replica);
                pause(random, 100..800);
                master.kill();
                for replica in &replicas {
                    replica.cont();
                }
                self.replace(master, &replicas, random);
                Some(Memory::Loses)
            }
            "migrate" => {
                let Place::Cluster(cluster) = self.place else {
                    return None;
                };
                migrate(cluster, random);
                Some(Memory::Keeps)
            }
            other => panic!("{other} is no fault of servers"),
        }
    }

    /// Kills `master`, lets a replica take over, and brings it back as a replica.
    fn replace(&self, master: &Server, replicas: &[&Server], random: &mut Rng) {
        master.kill();
        self.place.take_over(master, replicas);
        pause(random, 10..1_000);
        master.restart();
        self.place.demote(master);
    }

    /// A takeover that nobody ordered, on a machine too loaded to answer in time, forgets like any other.
    fn look_for_unasked(&mut self) {
        self.place.await_peace();
        let masters = ports(self.place);
        if masters != self.masters {
            self.history.add(Record::Fault(Fault {
                kind: "unasked".to_owned(),
                from: self.calm_since,
                until: now(),
                names: Vec::new(),
                forgets: true,
            }));
            self.masters = masters;
        }
    }

    fn names_of(&self, master: &Server) -> Vec<String> {
        let all = names::all();
        all.into_iter()
            .filter(|name| self.place.owner(name) == master.port())
            .collect()
    }
}

/// What a fault does to what a master has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Keeps,
    /// If somebody else is in charge afterwards.
    MayLose,
    Loses,
}

fn migrate(cluster: &Cluster, random: &mut Rng) {
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
}

fn ports(place: &Place) -> Vec<u16> {
    let mut ports: Vec<_> = place.masters().iter().map(|master| master.port()).collect();
    ports.sort_unstable();
    ports
}

fn pause(random: &mut Rng, millis: std::ops::Range<u64>) {
    thread::sleep(Duration::from_millis(random.u64(millis)));
}
