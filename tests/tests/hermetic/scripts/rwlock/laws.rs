//! Laws of the scripts, each from the state that is most likely to break it.

use redlatch_core::family::{Key, Name, Prefix};

use crate::scripts::prelude::*;

const MS: Duration = Duration::from_millis(1);

/// An attempt that waits.
pub(super) fn attempt(bed: &Bed, of: Of, owner: &str, n: u64) -> Ask {
    Ask::new(of, bed, owner, n).waiting()
}

pub(super) fn read(bed: &mut Bed, owner: &str, n: u64) -> Vec<String> {
    let ask = attempt(bed, Of::Read, owner, n);
    bed.ask(&ask.call())
}

pub(super) fn write(bed: &mut Bed, owner: &str, n: u64) -> Vec<String> {
    let ask = attempt(bed, Of::Write, owner, n);
    bed.ask(&ask.call())
}

pub(super) fn release(bed: &mut Bed, of: Of, owner: &str, n: u64, id: &str) -> Vec<String> {
    let ask = Ask::new(of, bed, owner, n);
    bed.ask(&ask.release(&[id.parse().unwrap()], None, ""))
}

/// Attempts of owners of the client `a` at these names, one each.
fn attempts(bed: &Bed, of: Of, names: &[&'static str], from: u64) -> Vec<Ask> {
    let each = (from..).zip(names);
    each.map(|(n, &name)| attempt(bed, of, &format!("a:{n}"), n).names(&[name]))
        .collect()
}

/// One call of the acquisitions of these attempts.
fn takes(asks: &[Ask]) -> Call {
    list(&asks.iter().map(Ask::call).collect::<Vec<_>>())
}

// L29
#[test]
fn ten_thousand_readers_cost_no_more_than_ten() {
    let mut bed = Bed::new(Model::default());
    let mut first = None;
    for n in 0..10_000 {
        let ask = attempt(&bed, Of::Read, &format!("a:{n}"), 20_000 + n);
        if n % 1_000 != 10 {
            ask.gets(&mut bed, "granted");
            continue;
        }
        let taken = at_most(&mut bed, &ask.call(), ("granted", 10));
        let ids = ask.ids(&mut bed);
        let renewed = at_most(&mut bed, &ask.renew(ask.by, 60_000, &ids), ("renewed", 5));
        let ended = at_most(&mut bed, &ask.release(&ids, None, ""), ("released", 6));
        let costs = (taken, renewed, ended);
        assert_eq!(*first.get_or_insert(costs), costs, "at {n} readers");
    }
    println!("commands of read, renew, release inside of their scripts: {first:?}");
    // A writer looks at 64 of those that are due and knows enough.
    bed.pass(59_000 * MS);
    for n in 100..=120 {
        let ask = Ask::new(Of::Read, &bed, &format!("a:{n}"), 0);
        let ids = ask.ids(&mut bed);
        let call = ask.renew(bed.millis() + 5_000, 60_000, &ids);
        bed.gets(&call, "renewed");
    }
    bed.pass(2_000 * MS);
    let call = attempt(&bed, Of::Write, "b:1", 1).call();
    let looks = exhaust(&mut bed, &call, ("busy", 64 * 3 + 20));
    println!("a writer that finds 10,000 dead readers looks {looks} times");
    assert!(looks <= 10_000 / 64 + 2, "{looks}");
}

/// A foreign index is found while a plain entry is served, and a foreign K before.
#[test]
fn value_of_another_program_fails_its_own_entry_only() {
    for (of, part) in [(Of::Read, ""), (Of::Write, ""), (Of::Read, ":d")] {
        for model in Model::ALL {
            let mut bed = Bed::new(model);
            let foreign = format!("{}{part}", key("v"));
            let set = Command::new("SET").arg(&foreign).arg("mine");
            bed.execute(&set).unwrap();
            let asks = attempts(&bed, of, &["u", "v", "w"], 1);
            let lines = bed.lines(&takes(&asks));
            assert!(lines[0].contains(" granted 1 "), "{lines:?}");
            assert!(lines[1].starts_with("-WRONGTYPE "), "{lines:?}");
            assert!(lines[2].contains(" granted 1 "), "{lines:?}");

            if part == ":d" {
                bed.execute(&Command::new("DEL").arg(&foreign)).unwrap();
                bed.ask(&asks[1].call());
                bed.execute(&set).unwrap();
            }
            let ids = lines.iter().map(|line| line.rsplit(' ').next().unwrap());
            let ends: Vec<_> = asks
                .iter()
                .zip(ids)
                .map(|(ask, id)| ask.release(&[id.parse().unwrap_or(0)], None, ""))
                .collect();
            let lines = bed.lines(&list(&ends));
            assert!(lines[0].ends_with(" released 0 1"), "{lines:?}");
            assert!(lines[1].starts_with("-WRONGTYPE "), "{lines:?}");
            assert!(lines[2].ends_with(" released 0 1"), "{lines:?}");
        }
    }
}

/// Each lock has a dead reader, whom a full server would let go of. No entry takes anything.
#[test]
fn full_server_takes_no_entry_of_a_list() {
    for of in [Of::Read, Of::Write] {
        let mut bed = Bed::new(Model::default());
        for name in ["u", "v"] {
            let dying = attempt(&bed, Of::Read, "a:1", 1).lease(50);
            dying.names(&[name]).gets(&mut bed, "granted");
        }
        bed.pass(51 * MS);
        let asks = attempts(&bed, of, &["u", "v"], 2);
        let before = bed.dump();
        bed.engine.set_condition(Condition::Full, true);
        let answer = bed.call(&takes(&asks));
        assert!(answer.is_err(), "{of:?}: {answer:?}");
        assert_eq!(bed.dump(), before, "{of:?}");
    }
}

/// The first entry is not plain, and the second one would be.
#[test]
fn entries_about_one_lock_act_in_their_order() {
    let mut bed = Bed::new(Model::default());
    let asks = attempts(&bed, Of::Read, &["u", "u"], 1);
    bed.lines(&takes(&asks));
    let by = bed.millis() + 5_000;
    let ends = [(&asks[0], Some(by)), (&asks[1], None)];
    let ends = ends.map(|(ask, void)| ask.release(&ask.ids(&mut bed), void, ""));
    let ended = bed.lines(&list(&ends));
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
        let writer = attempt(&bed, Of::Write, "a:1", 1);
        let token = bed.gets(&on(writer.call()), "granted")[3].parse().unwrap();
        let reader = attempt(&bed, Of::Read, "b:1", 2);
        bed.gets(&on(reader.call()), "busy");
        bed.gets(&on(writer.release(&[token], None, "")), "released");
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
        let index = part("x", "d");
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
        let short = attempt(&bed, Of::Read, &format!("a:{n}"), n).lease(50);
        short.gets(&mut bed, "granted");
        bed.pass(10 * MS);
        let left = bed.hash(&key("x")).len();
        assert!(left < 20, "{left} fields after {n} readers");
    }
}
