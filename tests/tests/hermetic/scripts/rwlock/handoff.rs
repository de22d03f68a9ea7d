//! Who is told when somebody goes, where it is not plain who may come: beside the dead, the forced,
//! and upgrades. Each was found by the simulator or by the random interleavings.

use std::time::Duration;

use redlatch::runtime::{Command, Value};
use redlatch_embedded::engine::Model;

use super::{
    calls::{self, BROADCAST},
    laws::{ask, read, release, with_order, write},
};
use crate::scripts::{
    bed::{self, Bed, CHANNELS},
    costs::counted,
};

const MS: Duration = Duration::from_millis(1);

/// A call to waiter `n` of the clients whose owners begin with `b`.
fn called(n: u32) -> (String, String) {
    (CHANNELS[1].to_owned(), format!("{} {n}", bed::key("x")))
}

#[test]
fn upgrade_whose_hold_expired_queues_like_a_writer() {
    let mut bed = Bed::new(Model::default());
    let reader = read(&mut bed, "a:1", 1);
    let short = ask(&bed, "b:1", 2, true).lease(400).upgradable();
    bed.ask(&short.read("u"));
    // Not by its guard, but as anybody: it goes on when its hold is over.
    let waits = write(&mut bed, "b:1", 3);
    assert_eq!(waits[1..3], ["busy", "400"], "it looks then");
    bed.pass(401 * MS);
    let waits = write(&mut bed, "b:1", 3);
    assert_eq!([&waits[1], &waits[5]], ["busy", "1"], "it has a place");
    bed.listen(&[BROADCAST]);
    release(&mut bed, "a:1", 1, "r", &reader[6]);
    assert_eq!(bed.published(), [called(3)]);
}

#[test]
fn forced_release_after_a_lost_index_leaves_an_index_with_a_ttl() {
    let mut bed = Bed::new(Model::default());
    let serial: u64 = read(&mut bed, "a:1", 1)[6].parse().unwrap();
    read(&mut bed, "a:2", 2);
    let index = format!("{}:d", bed::key("x"));
    bed.execute(&Command::new("DEL").arg(&index)).unwrap();
    assert_eq!(bed.ask(&calls::force("r", "a:1", serial, "now"))[1], "done");
    assert_eq!(bed.sorted(&index).len(), 2, "made anew");
    let left = bed.execute(&Command::new("PTTL").arg(&index)).unwrap();
    assert!(matches!(left, Value::Int(1..)), "{left:?}");
}

/// The last living reader gives the lock to a writer with an order, unless dead readers are counted
/// still. It calls every other writer.
#[test]
fn writer_is_granted_by_a_release_only_if_no_reader_is_counted() {
    for (ordered, dead, living, granted, messages) in [
        (true, 0, 1, true, 1),
        (true, 7, 1, true, 1),
        (true, 8, 1, true, 1),
        (true, 8, 2, false, 0),
        (true, 20, 1, false, 1),
        (false, 1, 1, false, 1),
        (false, 8, 1, false, 1),
        (false, 20, 1, false, 1),
    ] {
        let mut bed = Bed::new(Model::default());
        let serials: Vec<_> = (1..=living)
            .map(|n| read(&mut bed, &format!("a:{n}"), n)[6].clone())
            .collect();
        for n in 10..10 + dead {
            let short = ask(&bed, &format!("a:{n}"), n, true).lease(50);
            bed.ask(&short.read("r"));
        }
        let call = match ordered {
            true => with_order(&bed, "b:1", 5),
            false => ask(&bed, "b:1", 5, true).write(""),
        };
        assert_eq!(bed.ask(&call)[1], "busy");
        bed.pass(51 * MS);
        bed.listen(&[BROADCAST]);
        let answer = release(&mut bed, "a:1", 1, "r", &serials[0]);
        let (given, told) = (answer.len() > 4, bed.published());
        assert_eq!(given, granted, "{dead} dead, {living} living: {answer:?}");
        assert_eq!(told.len(), messages, "{told:?}");
        let grants = told.iter().filter(|(_, message)| message.contains(" g"));
        assert_eq!(grants.count(), usize::from(granted), "{told:?}");
        if ordered {
            continue;
        }
        assert_eq!(told, [called(5)], "{dead} dead readers");
        loop {
            match write(&mut bed, "b:1", 5)[1].as_str() {
                "more" => {}
                verdict => break assert_eq!(verdict, "granted"),
            }
        }
    }
}

#[test]
fn granting_release_costs_the_same_however_many_wait() {
    let mut costs = Vec::new();
    for waiters in [10, 10_000] {
        let mut bed = Bed::new(Model::default());
        let token = write(&mut bed, "a:1", 1)[3].clone();
        for n in 2..waiters {
            let call = with_order(&bed, "b:1", n);
            assert_eq!(bed.ask(&call)[1], "busy");
        }
        let call = calls::release("a:1", "a:1", None, "", "w", token.parse().ok());
        costs.push(counted(&mut bed, &call).1);
        assert_eq!(bed.hash(&bed::key("x"))["h"], " b:2 ");
    }
    assert_eq!(costs, [11, 11]);
}

#[test]
fn queue_outlasts_its_waiters_beside_an_upgrade_that_may_wait_longer() {
    let mut bed = Bed::new(Model::default());
    let look = ask(&bed, "a:1", 1, true).upgradable().read("u");
    let serial = bed.ask(&look)[6].clone();
    read(&mut bed, "a:2", 2);
    assert_eq!(write(&mut bed, "b:1", 3)[1], "busy");
    let mut patient = ask(&bed, "a:1", 4, true);
    patient.register = Some(20_000);
    assert_eq!(bed.ask(&patient.write(&serial))[1], "busy");
    let key = bed::key("x");
    for _ in 0..4 {
        bed.pass(2_000 * MS);
        assert_eq!(write(&mut bed, "b:1", 3)[5], "0", "it keeps its place");
        for part in ["q", "l"] {
            let ttl = bed.ttl(&format!("{key}:{part}"));
            assert!(ttl >= Some(5_000), "{part} lasts for {ttl:?}");
        }
    }
}

#[test]
fn lock_is_plain_again_once_nobody_can_wait_any_more() {
    let mut bed = Bed::new(Model::default());
    let token = write(&mut bed, "a:1", 1)[3].clone();
    assert_eq!(write(&mut bed, "b:1", 2)[1], "busy");
    assert_eq!(release(&mut bed, "a:1", 1, "w", &token)[1], "released");
    let token = write(&mut bed, "b:1", 2)[3].clone();
    assert_eq!(release(&mut bed, "b:1", 2, "w", &token)[1], "released");
    bed.pass(5_101 * MS);
    for (side, cost, n) in [("w", 4, 3), ("r", 6, 4)] {
        let call = ask(&bed, "a:1", n, true).lease(1_000).of(side);
        let (verdict, commands) = counted(&mut bed, &call);
        assert_eq!((verdict.as_str(), commands), ("granted", cost));
        let fields = bed.hash(&bed::key("x"));
        let id = match side {
            "w" => &fields["t"],
            _ => &fields["c"][..16],
        };
        let (attempt, id) = (format!("a:{n}"), id.parse().unwrap());
        let call = calls::renew(bed.millis() + 5_000, "a:1", 1_000, side, id);
        assert!(counted(&mut bed, &call).1 <= 5, "{side}");
        let call = calls::release("a:1", &attempt, None, "", side, Some(id));
        let (verdict, commands) = counted(&mut bed, &call);
        // After a lease that is shorter than the retention, the TTL stays as it is.
        assert_eq!((verdict.as_str(), commands), ("released", cost - 1));
        bed.pass(MS);
    }
}

#[test]
fn look_of_an_upgradable_waiter_tells_the_client_of_an_unheard_grant() {
    for (kind, told) in [("r", ""), ("u", "2")] {
        let mut bed = Bed::new(Model::default());
        let token = write(&mut bed, "a:1", 1)[3].clone();
        let next = with_order(&bed, "b:1", 2);
        bed.ask(&next);
        let looks = ask(&bed, "b:2", 3, true);
        let looks = if kind == "u" {
            looks.upgradable()
        } else {
            looks
        };
        release(&mut bed, "a:1", 1, "w", &token);
        assert_eq!(bed.ask(&looks.read(kind))[5], "1", "it has just come");
        assert_eq!(bed.ask(&looks.read(kind))[4], told, "{kind}");
    }
}
