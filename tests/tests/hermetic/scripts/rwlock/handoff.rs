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

fn look(bed: &mut Bed, owner: &str, n: u32) -> Vec<String> {
    let call = ask(bed, owner, n, true).upgradable().read("u");
    bed.ask(&call)
}

fn upgrade(bed: &mut Bed, owner: &str, n: u32, serial: &str) -> Vec<String> {
    let call = ask(bed, owner, n, true).write(serial);
    bed.ask(&call)
}

/// A call to waiter `n` of the clients whose owners begin with `b`.
fn called(n: u32) -> (String, String) {
    (CHANNELS[1].to_owned(), format!("{} {n}", bed::key("x")))
}

#[test]
fn last_living_reader_notifies_the_writer_although_dead_readers_are_counted() {
    for dead in [1, 8, 20] {
        let mut bed = Bed::new(Model::default());
        let living = read(&mut bed, "a:1", 1)[6].clone();
        for n in 0..dead {
            let short = ask(&bed, &format!("a:{}", 10 + n), 10 + n, true).lease(50);
            bed.ask(&short.read("r"));
        }
        assert_eq!(write(&mut bed, "b:1", 2)[1], "busy");
        bed.pass(51 * MS);
        bed.listen(&[BROADCAST]);
        release(&mut bed, "a:1", 1, "r", &living);
        assert_eq!(bed.published(), [called(2)], "{dead} dead readers");
        loop {
            match write(&mut bed, "b:1", 2)[1].as_str() {
                "more" => {}
                verdict => break assert_eq!(verdict, "granted"),
            }
        }
    }
}

#[test]
fn renewed_reader_is_not_taken_for_dead() {
    let mut bed = Bed::new(Model::default());
    let mut serials = Vec::new();
    for n in 1..=2 {
        let short = ask(&bed, &format!("a:{n}"), n, true).lease(1_000);
        serials.push(bed.ask(&short.read("r"))[6].parse::<u64>().unwrap());
    }
    assert_eq!(write(&mut bed, "b:1", 3)[1], "busy");
    // The index knows nothing of this.
    let call = calls::renew(bed.millis() + 5_000, "a:2", 9_000, "r", serials[1]);
    assert_eq!(bed.ask(&call)[1], "renewed");
    bed.pass(1_001 * MS);
    bed.listen(&[BROADCAST]);
    let call = calls::release("a:1", "a:1", None, "", "r", Some(serials[0]));
    assert_eq!(bed.ask(&call)[1], "expired");
    assert_eq!(bed.published(), []);
    assert_eq!(write(&mut bed, "b:1", 3)[1], "busy");
}

#[test]
fn recheck_notifies_the_upgradable_reader_whose_turn_it_is() {
    for looks_to_write in [true, false] {
        let mut bed = Bed::new(Model::default());
        let token = write(&mut bed, "a:1", 1)[3].clone();
        assert_eq!(look(&mut bed, "a:2", 2)[1], "busy");
        bed.pass(4_000 * MS);
        assert_eq!(look(&mut bed, "b:1", 3)[1], "busy");
        assert_eq!(write(&mut bed, "b:2", 4)[1], "busy");
        // The first in the queue dies, and is called when the writer goes.
        bed.pass(500 * MS);
        release(&mut bed, "a:1", 1, "w", &token);
        bed.pass(501 * MS);
        bed.listen(&[BROADCAST]);
        let verdict = if looks_to_write {
            write(&mut bed, "b:2", 4)
        } else {
            look(&mut bed, "b:3", 5)
        };
        assert_eq!(verdict[1], "busy", "another is first");
        assert_eq!(bed.published(), [called(3)]);
        assert_eq!(look(&mut bed, "b:1", 3)[1], "granted");
    }
}

#[test]
fn waiting_readers_go_before_an_upgrade_after_a_write() {
    let mut bed = Bed::new(Model::default());
    let serial = look(&mut bed, "b:1", 1)[6].clone();
    let first = upgrade(&mut bed, "b:1", 2, &serial)[3].clone();
    assert_eq!(read(&mut bed, "a:1", 3)[1], "busy");
    bed.listen(&[BROADCAST]);
    release(&mut bed, "b:1", 2, "w", &first);
    assert_eq!(bed.published(), [(BROADCAST.to_owned(), String::new())]);
    // A loop of upgrades would else be faster than any reader.
    let again = upgrade(&mut bed, "b:1", 4, &serial);
    assert_eq!(again[1], "busy");
    // Its client may not know that it waits.
    let by_itself = (CHANNELS[0].to_owned(), format!("{} 3", bed::key("x")));
    assert_eq!(bed.published(), [by_itself]);
    assert_eq!(
        read(&mut bed, "a:2", 5)[1],
        "busy",
        "it comes after the upgrade"
    );
    let reader = read(&mut bed, "a:1", 3);
    assert_eq!(reader[1], "granted");
    assert_eq!(bed.published(), []);
    release(&mut bed, "a:1", 3, "r", &reader[6]);
    assert_eq!(bed.published(), [called(4)]);
    assert_eq!(upgrade(&mut bed, "b:1", 4, &serial)[1], "granted");
}

#[test]
fn upgrade_waits_five_seconds_for_notified_readers() {
    let mut bed = Bed::new(Model::default());
    let serial = look(&mut bed, "b:1", 1)[6].clone();
    let first = upgrade(&mut bed, "b:1", 2, &serial)[3].clone();
    assert_eq!(read(&mut bed, "a:1", 3)[1], "busy");
    release(&mut bed, "b:1", 2, "w", &first);
    let again = upgrade(&mut bed, "b:1", 4, &serial);
    assert_eq!((again[1].as_str(), again[2].as_str()), ("busy", "5000"));
    bed.pass(3_000 * MS);
    // Its client is alive, and its future is not polled.
    assert_eq!(read(&mut bed, "a:2", 5)[1], "busy");
    bed.pass(2_001 * MS);
    assert_eq!(upgrade(&mut bed, "b:1", 4, &serial)[1], "granted");
}

#[test]
fn upgrade_whose_hold_expired_queues_like_a_writer() {
    let mut bed = Bed::new(Model::default());
    let reader = read(&mut bed, "a:1", 1);
    let short = ask(&bed, "b:1", 2, true).lease(400).upgradable();
    bed.ask(&short.read("u"));
    // Not by its guard, but as anybody: it goes on when its hold is over.
    let waits = write(&mut bed, "b:1", 3);
    assert_eq!(
        (waits[1].as_str(), waits[2].as_str()),
        ("busy", "400"),
        "it looks then"
    );
    bed.pass(401 * MS);
    let waits = write(&mut bed, "b:1", 3);
    assert_eq!(
        (waits[1].as_str(), waits[5].as_str()),
        ("busy", "1"),
        "it is in the queue"
    );
    bed.listen(&[BROADCAST]);
    release(&mut bed, "a:1", 1, "r", &reader[6]);
    assert_eq!(bed.published(), [called(3)]);
}

#[test]
fn upgrade_whose_hold_is_released_by_force_is_notified() {
    let mut bed = Bed::new(Model::default());
    assert_eq!(read(&mut bed, "a:1", 1)[1], "granted");
    let serial = look(&mut bed, "b:1", 2)[6].clone();
    assert_eq!(upgrade(&mut bed, "b:1", 3, &serial)[1], "busy");
    bed.listen(&[BROADCAST]);
    let forced = bed.ask(&calls::force("r", "b:1", serial.parse().unwrap(), "now"));
    assert_eq!(forced[1..], ["done", "0"], "another reads on");
    assert_eq!(bed.published(), [called(3)]);
    assert_eq!(upgrade(&mut bed, "b:1", 3, &serial)[1], "lost");
}

#[test]
fn forced_release_is_on_record_until_the_lease_would_have_ended() {
    let mut bed = Bed::new(Model::default());
    let short = ask(&bed, "b:1", 1, true).lease(1_000);
    let serial = bed.ask(&short.read("r"))[6].parse().unwrap();
    let renew = |bed: &mut Bed| {
        let call = calls::renew(bed.millis() + 5_000, "b:1", 9_000, "r", serial);
        bed.ask(&call)[1].clone()
    };
    // The index knows nothing of this.
    assert_eq!(renew(&mut bed), "renewed");
    assert_eq!(
        bed.ask(&calls::force("r", "b:1", serial, "now"))[1..],
        ["done", "1"]
    );
    bed.pass(1_001 * MS);
    // A writer, and readers after it, clear away what is due.
    let token = write(&mut bed, "a:1", 2)[3].clone();
    release(&mut bed, "a:1", 2, "w", &token);
    for n in 3..6 {
        assert_eq!(read(&mut bed, &format!("a:{n}"), n)[1], "granted");
    }
    assert_eq!(renew(&mut bed), "revoked");
}

#[test]
fn a_downgrade_stops_late_copies_of_the_write_that_it_ends() {
    let mut bed = Bed::new(Model::default());
    let copy = ask(&bed, "a:1", 1, true).write("");
    let token: u64 = bed.ask(&copy)[3].parse().unwrap();
    let other = ask(&bed, "a:1", 2, true).write("");
    assert_eq!(bed.ask(&other)[2], "2", "the owner writes on");
    let by = bed.millis() + 5_000;
    let call = ask(&bed, "a:1", 3, false).downgrade("a:1", token, Some(by));
    assert_eq!(bed.ask(&call)[1], "granted");
    assert_eq!(bed.ask(&copy)[1], "void");
    assert_eq!(bed.hash(&bed::key("x"))["h"], " a:2 ");
}

#[test]
fn removal_of_a_dead_upgradable_hold_keeps_the_next_one() {
    let mut bed = Bed::new(Model::default());
    // A reader beside them, so that the dead one is taken out by the grant of the next.
    read(&mut bed, "a:1", 1);
    let short = ask(&bed, "a:2", 2, true).lease(50).upgradable();
    assert_eq!(bed.ask(&short.read("u"))[1], "granted");
    bed.pass(51 * MS);
    assert_eq!(look(&mut bed, "b:1", 3)[1], "granted");
    assert_eq!(
        look(&mut bed, "b:2", 4)[1],
        "busy",
        "there is one at a time"
    );
}

#[test]
fn notified_reader_that_does_not_come_loses_its_place() {
    let mut bed = Bed::new(Model::default());
    let first = write(&mut bed, "a:1", 1)[3].clone();
    assert_eq!(read(&mut bed, "b:1", 2)[1], "busy");
    assert_eq!(write(&mut bed, "b:2", 3)[1], "busy");
    release(&mut bed, "a:1", 1, "w", &first);
    assert_eq!(write(&mut bed, "b:2", 3)[1], "busy", "the reader may come");
    bed.pass(3_000 * MS);
    // Its client lives, and speaks for all of its waiters; and another reader comes.
    assert_eq!(write(&mut bed, "b:2", 3)[1], "busy");
    assert_eq!(read(&mut bed, "a:2", 5)[1], "busy");
    bed.pass(2_001 * MS);
    let second = write(&mut bed, "b:2", 3);
    assert_eq!(second[1], "granted", "it was waited for");
    assert_eq!(write(&mut bed, "b:3", 4)[1], "busy");
    release(&mut bed, "b:2", 3, "w", &second[3]);
    let other = read(&mut bed, "a:2", 5);
    assert_eq!(other[1], "granted");
    release(&mut bed, "a:2", 5, "r", &other[6]);
    assert_eq!(write(&mut bed, "b:3", 4)[1], "granted", "once");
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

#[test]
fn writer_is_granted_by_a_release_only_if_no_reader_is_counted() {
    for (dead, living, granted, messages) in [
        (0, 1, true, 1),
        (7, 1, true, 1),
        (8, 1, true, 1),
        (8, 2, false, 0),
        (20, 1, false, 1),
    ] {
        let mut bed = Bed::new(Model::default());
        let serials: Vec<_> = (1..=living)
            .map(|n| read(&mut bed, &format!("a:{n}"), n)[6].clone())
            .collect();
        for n in 10..10 + dead {
            let short = ask(&bed, &format!("a:{n}"), n, true).lease(50);
            bed.ask(&short.read("r"));
        }
        let call = with_order(&bed, "b:1", 5);
        assert_eq!(bed.ask(&call)[1], "busy");
        bed.pass(51 * MS);
        bed.listen(&[BROADCAST]);
        let answer = release(&mut bed, "a:1", 1, "r", &serials[0]);
        let (given, told) = (answer.len() > 4, bed.published());
        assert_eq!(given, granted, "{dead} dead, {living} living: {answer:?}");
        assert_eq!(told.len(), messages, "{told:?}");
        let grants = told.iter().filter(|(_, message)| message.contains(" g"));
        assert_eq!(grants.count(), usize::from(granted), "{told:?}");
    }
}

#[test]
fn place_that_leaves_gives_nothing_before_the_readers_behind_a_dead_writer() {
    let mut bed = Bed::new(Model::default());
    let short = ask(&bed, "a:1", 1, true).lease(50);
    assert_eq!(bed.ask(&short.write(""))[1], "granted");
    assert_eq!(read(&mut bed, "a:2", 2)[1], "busy");
    assert_eq!(write(&mut bed, "a:3", 3)[1], "busy");
    let next = with_order(&bed, "b:1", 4);
    assert_eq!(bed.ask(&next)[1], "busy");
    bed.pass(51 * MS);
    bed.listen(&[BROADCAST]);
    let address = ask(&bed, "a:3", 3, true).member;
    let leaves = calls::release("a:3", "a:3", None, &address, "w", None);
    assert_eq!(bed.ask(&leaves).len(), 4, "nothing is given");
    assert_eq!(bed.published(), [called(4)]);
    assert_eq!(bed.ask(&next)[1], "busy", "the reader goes before it");
    assert_eq!(bed.published()[0], (BROADCAST.to_owned(), String::new()));
    assert_eq!(read(&mut bed, "a:2", 2)[1], "granted");
}

#[test]
fn place_that_leaves_gives_the_lock_to_the_next_writer_if_it_is_free() {
    let mut bed = Bed::new(Model::default());
    let token = write(&mut bed, "a:1", 1)[3].clone();
    assert_eq!(write(&mut bed, "a:3", 3)[1], "busy");
    let next = with_order(&bed, "b:1", 4);
    assert_eq!(bed.ask(&next)[1], "busy");
    // The first one is called, has no order, and leaves.
    release(&mut bed, "a:1", 1, "w", &token);
    let address = ask(&bed, "a:3", 3, true).member;
    let leaves = calls::release("a:3", "a:3", None, &address, "w", None);
    assert_eq!(bed.ask(&leaves)[3..6], ["0", "granted", "b:4"]);
    let hash = bed.hash(&bed::key("x"));
    assert_eq!((hash["z"].as_str(), hash["o"].as_str()), (&*token, "b:1"));
    // A copy of the release finds the token of its hold.
    assert_eq!(release(&mut bed, "a:1", 1, "w", &token)[1], "already");
}

#[test]
fn forced_end_gives_the_lock_to_the_next_writer_and_says_that_nobody_released_it() {
    let mut bed = Bed::new(Model::default());
    let token = write(&mut bed, "a:1", 1)[3].clone();
    let next = with_order(&bed, "b:1", 4);
    assert_eq!(bed.ask(&next)[1], "busy");
    let answer = bed.ask(&calls::force("w", "a:1", token.parse().unwrap(), "now"));
    assert_eq!(answer[1..5], ["done", "0", "granted", "b:4"]);
    assert!(answer[5].ends_with(".1"), "{answer:?}");
    // A copy of the request is answered alike.
    assert_eq!(bed.ask(&next)[4], "1");
    assert_eq!(release(&mut bed, "a:1", 1, "w", &token)[1], "revoked");
}

/// The reply tells a waiter of the client that releases, and no message does. A copy of the release
/// names the attempt that holds.
#[test]
fn release_tells_its_own_client_by_the_reply() {
    for (waiter, messages) in [("a:2", 0), ("b:2", 1)] {
        let mut bed = Bed::new(Model::default());
        let token = write(&mut bed, "a:1", 1)[3].clone();
        let call = with_order(&bed, waiter, 2);
        assert_eq!(bed.ask(&call)[1], "busy");
        let call = calls::release("a:1", "a:1", None, "", "w", token.parse().ok());
        assert_eq!(bed.ask(&call)[4..6], ["granted", waiter]);
        assert_eq!(bed.published().len(), messages, "{waiter}");
        let again = bed.ask(&call);
        assert_eq!(again[1], "already");
        let reminder = ["holds", waiter];
        assert_eq!(again[4..], reminder[..2 - 2 * messages], "{waiter}");
        // Once it is confirmed, it needs no reminder.
        assert_eq!(bed.ask(&with_order(&bed, waiter, 2))[1], "granted");
        assert_eq!(bed.ask(&call).len(), 4);
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
    let serial = look(&mut bed, "a:1", 1)[6].clone();
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
        let attempt = format!("a:{n}");
        let call = calls::release("a:1", &attempt, None, "", side, id.parse().ok());
        let (verdict, commands) = counted(&mut bed, &call);
        // After a lease that is shorter than the retention, the TTL stays as it is.
        assert_eq!((verdict.as_str(), commands), ("released", cost - 1));
        bed.pass(MS);
    }
}

#[test]
fn undo_of_an_unheard_grant_passes_the_abandonment_on_also_when_its_time_is_over() {
    for ends in ["lapses", "is forced", "is undone in time"] {
        let mut bed = Bed::new(Model::default());
        let token = write(&mut bed, "a:1", 1)[3].clone();
        let next = with_order(&bed, "b:1", 2);
        bed.ask(&next);
        let forced = bed.ask(&calls::force("w", "a:1", token.parse().unwrap(), "now"));
        assert_eq!(forced[3], "granted");
        let granted = bed.hash(&bed::key("x"))["t"].parse().unwrap();
        match ends {
            "lapses" => bed.pass(5_001 * MS),
            "is forced" => drop(bed.ask(&calls::force("w", "b:1", granted, "now"))),
            _ => {}
        }
        let undo = calls::release("b:1", "b:2", None, "", "w", None);
        bed.ask(&undo);
        assert_eq!(write(&mut bed, "a:2", 3)[4], "1", "it {ends}");
    }
}

#[test]
fn release_after_a_withdrawal_of_its_hold_is_no_loss() {
    let mut bed = Bed::new(Model::default());
    let token = write(&mut bed, "a:1", 1)[3].clone();
    let next = with_order(&bed, "b:1", 2);
    bed.ask(&next);
    bed.ask(&calls::force("w", "a:1", token.parse().unwrap(), "now"));
    let granted = bed.hash(&bed::key("x"))["t"].clone();
    bed.ask(&calls::release("b:1", "b:2", None, "", "w", None));
    let release = release(&mut bed, "b:1", 2, "w", &granted);
    assert_eq!(release[1], "already");
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
