//! Laws of the scripts, each from the state that is most likely to break it.

use std::time::Duration;

use redlatch::runtime::Command;
use redlatch_core::family::{Key, Name, Prefix};
use redlatch_embedded::engine::{Condition, Model};

use super::calls::{self, Ask, RETENTION};
use crate::scripts::{
    bed::{self, Bed, CHANNELS, Call},
    costs::counted,
};

const MS: Duration = Duration::from_millis(1);

pub(super) fn ask(bed: &Bed, owner: &str, n: u32, register: bool) -> Ask {
    let channel = CHANNELS[usize::from(owner.starts_with('b'))];
    Ask {
        by: bed.millis() + 5_000,
        owner: owner.to_owned(),
        attempt: format!("{}:{n}", &owner[..1]),
        lease: 60_000,
        register: register.then_some(5_000),
        member: format!("PUBLISH {channel} {n}"),
    }
}

pub(super) fn read(bed: &mut Bed, owner: &str, n: u32) -> Vec<String> {
    let call = ask(bed, owner, n, true).read("r");
    bed.ask(&call)
}

pub(super) fn write(bed: &mut Bed, owner: &str, n: u32) -> Vec<String> {
    let call = ask(bed, owner, n, true).write("");
    bed.ask(&call)
}

/// Returns the request of a writer to which a release may give the lock.
pub(super) fn with_order(bed: &Bed, owner: &str, n: u32) -> Call {
    let mut ask = ask(bed, owner, n, true);
    let own = owner.rsplit(':').next().unwrap();
    let ttl = ask.lease + RETENTION;
    ask.member = format!("{} {own} g{}.{ttl}.{n:016x}", ask.member, ask.lease);
    ask.write("")
}

pub(super) fn release(bed: &mut Bed, owner: &str, n: u32, side: &str, id: &str) -> Vec<String> {
    let attempt = format!("{}:{n}", &owner[..1]);
    let id = id.parse().ok();
    bed.ask(&calls::release(owner, &attempt, None, "", side, id))
}

#[test]
fn an_ended_write_stays_over_by_a_clock_that_is_behind() {
    for forced in [false, true] {
        let mut bed = Bed::new(Model::default());
        let token = write(&mut bed, "a:1", 2)[3].clone();
        let verdict = if forced {
            bed.pass(1_000 * MS);
            let call = calls::force("w", "a:1", token.parse().unwrap(), "now");
            assert_eq!(bed.ask(&call)[1], "done");
            "revoked"
        } else {
            bed.pass(60_001 * MS);
            assert_eq!(release(&mut bed, "a:1", 2, "w", &token)[1], "expired");
            "expired"
        };
        bed.now = bed.now.before(900 * MS);
        assert_eq!(release(&mut bed, "a:1", 2, "w", &token)[1], verdict);
        assert_eq!(read(&mut bed, "b:1", 2)[1], "granted", "forced: {forced}");
    }
}

// L29
#[test]
fn ten_thousand_readers_cost_no_more_than_ten() {
    let mut bed = Bed::new(Model::default());
    let mut first = None;
    for n in 0..10_000_u32 {
        let owner = format!("a:{n}");
        let call = ask(&bed, &owner, 20_000 + n, true).read("r");
        if n % 1_000 != 10 {
            assert_eq!(bed.ask(&call)[1], "granted");
            continue;
        }
        let (verdict, taken) = counted(&mut bed, &call);
        assert_eq!(verdict, "granted");
        let serial = bed.hash(&bed::key("x"))[&format!("r{owner}")][14..30]
            .parse()
            .unwrap();
        let call = calls::renew(bed.millis() + 5_000, &owner, 60_000, "r", serial);
        let renewed = counted(&mut bed, &call).1;
        let attempt = format!("a:{}", 20_000 + n);
        let call = calls::release(&owner, &attempt, None, "", "r", Some(serial));
        let costs = (taken, renewed, counted(&mut bed, &call).1);
        assert_eq!(*first.get_or_insert(costs), costs, "at {n} readers");
    }
    println!("commands of read, renew, release inside of their scripts: {first:?}");
    assert!(first.unwrap() <= (10, 5, 6), "{first:?}");
    // A writer looks at 64 of those that are due and knows enough.
    bed.pass(59_000 * MS);
    for n in 100..=120 {
        let owner = format!("a:{n}");
        let serial = bed.hash(&bed::key("x"))[&format!("r{owner}")][14..30]
            .parse()
            .unwrap();
        let call = calls::renew(bed.millis() + 5_000, &owner, 60_000, "r", serial);
        assert_eq!(bed.ask(&call)[1], "renewed");
    }
    bed.pass(2_000 * MS);
    let mut looks = 0;
    loop {
        let call = ask(&bed, "b:1", 1, true).write("");
        let (verdict, commands) = counted(&mut bed, &call);
        looks += 1;
        assert!(commands <= 64 * 3 + 20, "{commands} commands in one script");
        if verdict == "busy" {
            break;
        }
        assert_eq!(verdict, "more");
    }
    println!("a writer that finds 10,000 dead readers looks {looks} times");
    assert!(looks <= 10_000 / 64 + 2, "{looks}");
}

#[test]
fn entry_of_an_uncontended_lock_costs_at_most_five_commands() {
    let names = ["u", "v", "w", "y", "z"];
    for m in 1..=names.len() {
        let mut bed = Bed::new(Model::default());
        for round in 0..6 {
            let (side, takes, frees) = [("r", 5, 4), ("w", 3, 2)][round % 2];
            let owner = |at: usize| format!("a:{at}");
            let number = |at: usize| u32::try_from(10 * round + at).unwrap();
            let calls: Vec<_> = (0..m)
                .map(|at| ask(&bed, &owner(at), number(at), true).of(side))
                .collect();
            let (verdict, commands) = counted(&mut bed, &calls::list(&calls, &names));
            assert_eq!((&*verdict, commands), ("granted", 1 + takes * m), "{side}");
            let calls: Vec<_> = (0..m)
                .map(|at| {
                    let fields = bed.hash(&bed::key(names[at]));
                    let id = match side {
                        "r" => &fields[&format!("r{}", owner(at))][14..30],
                        _ => &fields["t"],
                    };
                    let attempt = format!("a:{}", number(at));
                    calls::release(&owner(at), &attempt, None, "", side, id.parse().ok())
                })
                .collect();
            let (verdict, commands) = counted(&mut bed, &calls::list(&calls, &names));
            // The lease is longer than the retention.
            assert_eq!(
                (&*verdict, commands),
                ("released", 1 + (frees + 1) * m),
                "{side}"
            );
        }
    }
}

/// A foreign index is found while a plain entry is served, and a foreign K before.
#[test]
fn value_of_another_program_fails_its_own_entry_only() {
    for (side, part) in [("r", ""), ("w", ""), ("r", ":d")] {
        for model in Model::ALL {
            let mut bed = Bed::new(model);
            let foreign = format!("{}{part}", bed::key("v"));
            bed.execute(&Command::new("SET").arg(&foreign).arg("mine"))
                .unwrap();
            let names = ["u", "v", "w"];
            let calls: Vec<_> = (1..=3)
                .map(|n| ask(&bed, &format!("a:{n}"), n, true).of(side))
                .collect();
            let lines = bed.lines(&calls::list(&calls, &names));
            assert!(lines[0].contains(" granted 1 "), "{lines:?}");
            assert!(lines[1].starts_with("-WRONGTYPE "), "{lines:?}");
            assert!(lines[2].contains(" granted 1 "), "{lines:?}");

            if part == ":d" {
                bed.execute(&Command::new("DEL").arg(&foreign)).unwrap();
                bed.ask(&calls::list(&calls[1..2], &["v"]));
                bed.execute(&Command::new("SET").arg(&foreign).arg("mine"))
                    .unwrap();
            }
            let ids = lines.iter().map(|line| line.rsplit(' ').next().unwrap());
            let calls: Vec<_> = (1..=3)
                .zip(ids)
                .map(|(n, id)| {
                    let owner = format!("a:{n}");
                    calls::release(&owner, &owner, None, "", side, id.parse().ok())
                })
                .collect();
            let lines = bed.lines(&calls::list(&calls, &names));
            assert!(lines[0].ends_with(" released 0 1"), "{lines:?}");
            assert!(lines[1].starts_with("-WRONGTYPE "), "{lines:?}");
            assert!(lines[2].ends_with(" released 0 1"), "{lines:?}");
        }
    }
}

/// Each lock has a dead reader, whom a full server would let go of. No entry takes anything.
#[test]
fn full_server_takes_no_entry_of_a_list() {
    for side in ["r", "w"] {
        let mut bed = Bed::new(Model::default());
        let dying = ask(&bed, "a:1", 1, true).lease(50);
        for name in ["u", "v"] {
            bed.ask(&calls::list(&[dying.read("r")], &[name]));
        }
        bed.pass(51 * MS);
        let asks = [("a:2", 2), ("a:3", 3)].map(|(owner, n)| ask(&bed, owner, n, true).of(side));
        let before = bed.dump();
        bed.engine.set_condition(Condition::Full, true);
        let answer = bed.call(&calls::list(&asks, &["u", "v"]));
        assert!(answer.is_err(), "{side}: {answer:?}");
        assert_eq!(bed.dump(), before, "{side}");
    }
}

/// The first entry is not plain, and the second one would be.
#[test]
fn entries_about_one_lock_act_in_their_order() {
    let mut bed = Bed::new(Model::default());
    let reads = [1, 2].map(|n| ask(&bed, &format!("a:{n}"), n, true).read("r"));
    let granted = bed.lines(&calls::list(&reads, &["u", "u"]));
    let id = |n: usize| granted[n].rsplit(' ').next().unwrap().parse().ok();
    let by = bed.millis() + 5_000;
    let ends = [
        calls::release("a:1", "a:1", Some(by), "", "r", id(0)),
        calls::release("a:2", "a:2", None, "", "r", id(1)),
    ];
    let ended = bed.lines(&calls::list(&ends, &["u", "u"]));
    assert!(ended[0].ends_with(" released 0 0"), "{ended:?}");
    assert!(ended[1].ends_with(" released 0 1"), "{ended:?}");
}

#[test]
fn waiting_readers_are_told_on_the_channel_that_clients_derive_from_the_name() {
    for name in [
        "x", "{x}y", "a@b", "a{", "}{x}", "@", "@{x}@", "{}", "ä@{ö}",
    ] {
        let mut bed = Bed::new(Model::default());
        let key = Key::new(&Prefix::parse("p.q").unwrap(), &Name::parse(name).unwrap());
        let channel = key.broadcast_channel().to_string();
        bed.listen(&[&channel]);
        let parts = ["q", "r", "l", "d"].map(|part| key.part(part));
        let keys: Vec<_> = std::iter::once(key.as_str().to_owned())
            .chain(parts)
            .collect();
        let on = |call: Call| Call {
            keys: keys.clone(),
            ..call
        };
        let call = on(ask(&bed, "a:1", 1, true).write(""));
        let token = bed.ask(&call)[3].clone();
        let call = on(ask(&bed, "b:1", 2, true).read("r"));
        assert_eq!(bed.ask(&call)[1], "busy");
        let call = calls::release("a:1", "a:1", None, "", "w", token.parse().ok());
        assert_eq!(bed.ask(&on(call))[1], "released");
        assert_eq!(bed.published(), [(channel, String::new())], "{name}");
    }
}

#[test]
fn lost_index_is_rebuilt() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        for n in 1..=20 {
            assert_eq!(read(&mut bed, &format!("a:{n}"), n)[1], "granted");
        }
        let index = format!("{}:d", bed::key("x"));
        bed.execute(&Command::new("DEL").arg(&index)).unwrap();
        read(&mut bed, "a:21", 21);
        assert_eq!(write(&mut bed, "b:1", 30)[1], "busy");
        assert_eq!(bed.sorted(&index).len(), 21);
        bed.pass(60_001 * MS);
        assert_eq!(write(&mut bed, "b:1", 30)[1], "granted", "all have died");
        assert_eq!(bed.sorted(&index).len(), 0);
    }
}

#[test]
fn dead_readers_are_removed_although_nobody_writes() {
    let mut bed = Bed::new(Model::default());
    for n in 0..2_000 {
        let short = ask(&bed, &format!("a:{n}"), n, true).lease(50);
        assert_eq!(bed.ask(&short.read("r"))[1], "granted");
        bed.pass(10 * MS);
        let left = bed.hash(&bed::key("x")).len();
        assert!(left < 20, "{left} fields after {n} readers");
    }
}
