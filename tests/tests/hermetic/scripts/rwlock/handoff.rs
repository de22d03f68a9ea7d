//! Who is told when somebody goes, where it is not plain who may come: beside the dead, the forced,
//! and upgrades. Each was found by the simulator or by the random interleavings.

use redlatch::runtime::Value;

use super::{
    laws::{attempt, read, release, write},
    told::BROADCAST,
};
use crate::scripts::{bed::CHANNELS, prelude::*};

const MS: Duration = Duration::from_millis(1);

/// A call to waiter `n` of the clients whose owners begin with `b`.
fn called(n: u32) -> (String, String) {
    (CHANNELS[1].to_owned(), format!("{} {n}", key("x")))
}

#[test]
fn upgrade_whose_hold_expired_queues_like_a_writer() {
    let mut bed = Bed::new(Model::default());
    let reader = read(&mut bed, "a:1", 1);
    let short = Ask::new(Of::Upgradable, &bed, "b:1", 2).lease(400);
    short.gets(&mut bed, "granted");
    // Not by its guard, but as anybody: it goes on when its hold is over.
    let waits = write(&mut bed, "b:1", 3);
    assert_eq!(waits[1..3], ["busy", "400"], "it looks then");
    bed.pass(401 * MS);
    let waits = write(&mut bed, "b:1", 3);
    assert_eq!([&waits[1], &waits[5]], ["busy", "1"], "it has a place");
    bed.listen(&[BROADCAST]);
    release(&mut bed, Of::Read, "a:1", 1, &reader[6]);
    assert_eq!(bed.published(), [called(3)]);
}

#[test]
fn forced_release_after_a_lost_index_leaves_an_index_with_a_ttl() {
    let mut bed = Bed::new(Model::default());
    let ask = Ask::new(Of::Read, &bed, "a:1", 1);
    ask.gets(&mut bed, "granted");
    read(&mut bed, "a:2", 2);
    let index = part("x", "d");
    bed.execute(&Command::new("DEL").arg(&index)).unwrap();
    let serial = ask.ids(&mut bed)[0];
    bed.gets(&ask.force(serial, "now"), "done");
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
            let short = Ask::new(Of::Read, &bed, &format!("a:{n}"), n).lease(50);
            short.gets(&mut bed, "granted");
        }
        let next = attempt(&bed, Of::Write, "b:1", 5);
        let next = if ordered { next.ordered() } else { next };
        next.gets(&mut bed, "busy");
        bed.pass(51 * MS);
        bed.listen(&[BROADCAST]);
        let answer = release(&mut bed, Of::Read, "a:1", 1, &serials[0]);
        let (given, told) = (answer.len() > 4, bed.published());
        assert_eq!(given, granted, "{dead} dead, {living} living: {answer:?}");
        assert_eq!(told.len(), messages, "{told:?}");
        let grants = told.iter().filter(|(_, message)| message.contains(" g"));
        assert_eq!(grants.count(), usize::from(granted), "{told:?}");
        if ordered {
            continue;
        }
        assert_eq!(told, [called(5)], "{dead} dead readers");
        let call = attempt(&bed, Of::Write, "b:1", 5).call();
        exhaust(&mut bed, &call, ("granted", usize::MAX));
    }
}

#[test]
fn granting_release_costs_the_same_however_many_wait() {
    for waiters in [10, 10_000] {
        let mut bed = Bed::new(Model::default());
        let ask = attempt(&bed, Of::Write, "a:1", 1);
        ask.gets(&mut bed, "granted");
        for n in 2..waiters {
            let next = attempt(&bed, Of::Write, "b:1", n).ordered();
            next.gets(&mut bed, "busy");
        }
        let ids = ask.ids(&mut bed);
        costs(&mut bed, &ask.release(&ids, None, ""), ("released", 11));
        assert_eq!(bed.hash(&key("x"))["h"], " b:2 ");
    }
}

#[test]
fn queue_outlasts_its_waiters_beside_an_upgrade_that_may_wait_longer() {
    let mut bed = Bed::new(Model::default());
    let look = attempt(&bed, Of::Upgradable, "a:1", 1);
    let serial = look.gets(&mut bed, "granted")[6].parse().unwrap();
    read(&mut bed, "a:2", 2);
    assert_eq!(write(&mut bed, "b:1", 3)[1], "busy");
    let mut patient = attempt(&bed, Of::Upgrade(serial), "a:1", 4);
    patient.register = Some(20_000);
    patient.gets(&mut bed, "busy");
    for _ in 0..4 {
        bed.pass(2_000 * MS);
        assert_eq!(write(&mut bed, "b:1", 3)[5], "0", "it keeps its place");
        for of in ["q", "l"] {
            let ttl = bed.ttl(&part("x", of));
            assert!(ttl >= Some(5_000), "{of} lasts for {ttl:?}");
        }
    }
}

#[test]
fn lock_is_plain_again_once_nobody_can_wait_any_more() {
    let mut bed = Bed::new(Model::default());
    let token = write(&mut bed, "a:1", 1)[3].clone();
    assert_eq!(write(&mut bed, "b:1", 2)[1], "busy");
    let ended = release(&mut bed, Of::Write, "a:1", 1, &token);
    assert_eq!(ended[1], "released");
    let token = write(&mut bed, "b:1", 2)[3].clone();
    let ended = release(&mut bed, Of::Write, "b:1", 2, &token);
    assert_eq!(ended[1], "released");
    bed.pass(5_101 * MS);
    for (of, cost, n) in [(Of::Write, 4, 3), (Of::Read, 6, 4)] {
        let ask = attempt(&bed, of, "a:1", n).lease(1_000);
        costs(&mut bed, &ask.call(), ("granted", cost));
        let ids = ask.ids(&mut bed);
        at_most(&mut bed, &ask.renew(ask.by, 1_000, &ids), ("renewed", 5));
        // After a lease that is shorter than the retention, the TTL stays as it is.
        let call = ask.release(&ids, None, "");
        costs(&mut bed, &call, ("released", cost - 1));
        bed.pass(MS);
    }
}

#[test]
fn look_of_an_upgradable_waiter_tells_the_client_of_an_unheard_grant() {
    for (of, told) in [(Of::Read, ""), (Of::Upgradable, "2")] {
        let mut bed = Bed::new(Model::default());
        let token = write(&mut bed, "a:1", 1)[3].clone();
        let next = attempt(&bed, Of::Write, "b:1", 2).ordered();
        next.gets(&mut bed, "busy");
        let looks = attempt(&bed, of, "b:2", 3).call();
        release(&mut bed, Of::Write, "a:1", 1, &token);
        assert_eq!(bed.ask(&looks)[5], "1", "it has just come");
        assert_eq!(bed.ask(&looks)[4], told, "{of:?}");
    }
}
