//! Laws of a pool's waiters: who is notified, and when again.

use std::time::Duration;

use redlatch_embedded::engine::Model;
use redlatch_lua::POOL;

use super::calls::{Acquire, KIND, Release, call, change, clients, release, renew, set, tickets};
use crate::scripts::{
    bed::{Bed, key},
    costs::counted,
};

const SECOND: Duration = Duration::from_secs(1);

/// A pool of `size` permits, all of which are out as holds `h:1` to `h:<size>`.
fn full(size: u64) -> Bed {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", i64::try_from(size).unwrap());
    for holder in 1..=size {
        let attempt = format!("h:{holder}");
        let call = Acquire::new(&bed, &attempt, 1).call();
        assert_eq!(bed.ask(&call)[1], "granted");
    }
    bed
}

fn wait(bed: &mut Bed, n: u64, client: &str, need: u64) -> Vec<String> {
    let (attempt, address) = (format!("{client}:{n}"), format!("PUBLISH w:{client} {n}"));
    let call = Acquire::new(bed, &attempt, need).waiting(&address).call();
    bed.ask(&call).split_off(1)
}

/// The waiters that were notified, by number.
fn notified(bed: &mut Bed) -> Vec<u64> {
    let published = bed.published().into_iter();
    published
        .map(|(_, payload)| payload.rsplit_once(' ').unwrap().1.parse().unwrap())
        .collect()
}

/// Who is first and has been notified, by number.
fn called(bed: &mut Bed) -> Option<u64> {
    let fields = bed.hash(&key("x"));
    let called = fields.get("y")?;
    called.split(' ').nth(3)?.parse().ok()
}

#[test]
fn each_waiter_is_notified_once_however_many_permits_come_back() {
    let mut bed = full(3);
    for n in 1..=5 {
        wait(&mut bed, n, "a", 1);
    }
    for n in 1..=3 {
        bed.ask(&release(&format!("h:{n}")));
        assert_eq!(notified(&mut bed), [n]);
    }
    for n in [2, 1, 3] {
        assert_eq!(wait(&mut bed, n, "a", 1)[0], "granted");
        assert_eq!(notified(&mut bed), [0; 0], "{n} leaves no room for another");
    }
    bed.ask(&release("a:2"));
    assert_eq!(notified(&mut bed), [4]);
}

#[test]
fn notified_waiter_that_becomes_the_first_has_five_seconds_from_then() {
    let mut bed = full(2);
    for n in 1..=3 {
        wait(&mut bed, n, "a", 1);
    }
    bed.ask(&release("h:1"));
    bed.ask(&release("h:2"));
    assert_eq!(notified(&mut bed), [1, 2]);
    assert_eq!(called(&mut bed), Some(1));
    bed.pass(4 * SECOND);
    assert_eq!(wait(&mut bed, 1, "a", 1)[0], "granted");
    assert_eq!((notified(&mut bed), called(&mut bed)), (vec![], Some(2)));
    bed.pass(4 * SECOND);
    assert_eq!(wait(&mut bed, 3, "a", 1)[2], "2", "it is its turn");
    bed.pass(SECOND);
    assert_eq!(wait(&mut bed, 3, "a", 1)[0], "granted", "2 did not come");
}

#[test]
fn waiter_that_was_notified_in_vain_is_notified_again() {
    let mut bed = full(3);
    wait(&mut bed, 1, "a", 2);
    bed.ask(&release("h:1"));
    bed.ask(&release("h:2"));
    assert_eq!(notified(&mut bed), [1]);
    set(&mut bed, "c:2", 2);
    assert_eq!(wait(&mut bed, 1, "a", 2)[0], "busy", "there is one");
    set(&mut bed, "c:3", 3);
    assert_eq!(notified(&mut bed), [1]);
    // Whatever has taken its permits: the ticket up to which waiters were notified is not believed.
    let mut bed = full(2);
    wait(&mut bed, 1, "a", 1);
    let ticket = bed.sorted(&tickets())["PUBLISH w:a 1 1"].to_string();
    for field in [ticket.as_str(), "1999999999999999"] {
        let set = redlatch::runtime::Command::new("HSET").arg(key("x"));
        bed.execute(&set.arg("r").arg(field)).unwrap();
        assert_eq!(wait(&mut bed, 1, "a", 1)[0], "busy");
    }
    wait(&mut bed, 2, "a", 1);
    bed.ask(&release("h:1"));
    bed.ask(&release("h:2"));
    assert_eq!(notified(&mut bed), [1, 2]);
}

#[test]
fn client_is_recorded_as_alive_ten_times_a_second_at_most() {
    let mut bed = full(1);
    wait(&mut bed, 1, "a", 1);
    let alive = |bed: &mut Bed| bed.sorted(&clients())["w:a"];
    let first = alive(&mut bed);
    bed.pass(Duration::from_millis(90));
    assert_eq!(wait(&mut bed, 2, "a", 1)[0], "busy");
    assert_eq!(alive(&mut bed), first);
    bed.pass(Duration::from_millis(20));
    assert_eq!(wait(&mut bed, 3, "a", 1)[0], "busy");
    assert_eq!(alive(&mut bed), bed.millis() + 5_000);
    assert_eq!(bed.ttl(&tickets()), Some(5_099));
}

#[test]
fn hand_over_costs_a_bounded_number_of_commands_however_many_wait() {
    for waiters in [10_u64, 1_000] {
        let mut bed = full(8);
        for n in 1..=waiters {
            wait(&mut bed, n, "a", 1);
        }
        let ended = counted(&mut bed, &release("h:1"));
        assert_eq!(ended, ("released".to_owned(), 10), "{waiters}");
        let call = Acquire::new(&bed, "a:1", 1).waiting("PUBLISH w:a 1").call();
        let taken = counted(&mut bed, &call);
        assert_eq!(taken, ("granted".to_owned(), 7), "{waiters}");
        let last = waiters + 1;
        let (id, address) = (format!("a:{last}"), format!("PUBLISH w:a {last}"));
        let call = Acquire::new(&bed, &id, 1).waiting(&address).call();
        let queued = counted(&mut bed, &call);
        assert_eq!(queued, ("busy".to_owned(), 7), "{waiters}");
    }
}

#[test]
fn common_calls_take_back_give_out_and_queue() {
    let mut bed = full(3);
    for n in 1..=3 {
        wait(&mut bed, n, "a", 1);
    }
    let back = call(&POOL.release_some, 4, &["h", KIND, ":1", ":2", ":9"]);
    let now = bed.millis();
    let released = bed.raw(&back);
    let line = format!("{now} released 0");
    assert_eq!(released.as_str(), Some(&*format!("{line}\n{line}\n")));
    assert_eq!(notified(&mut bed), [1, 2]);
    let by = (now + 5_000).to_string();
    let mut args = vec![&*by, "a", KIND, "60000", "5000"];
    for waiter in [
        [":4", "1", "PUBLISH w:a 4 1", ""],
        [":2", "1", "PUBLISH w:a 2 1", ""],
        [":1", "1", "PUBLISH w:a 1 1", ""],
        [":5", "9", "PUBLISH w:a 5 9", ""],
    ] {
        args.extend(waiter);
    }
    let reply = bed.raw(&call(&POOL.acquire_some, 4, &args));
    let lines: Vec<_> = reply.as_str().unwrap().split('\n').collect();
    let verdicts: Vec<_> = lines.iter().map(|line| line.split(' ').nth(1)).collect();
    let expected = [Some("busy"), Some("granted"), Some("granted"), None];
    assert_eq!(
        verdicts, expected,
        "in the queue's order, and the last one gets its error"
    );
    let mut waiting: Vec<_> = bed.sorted(&tickets()).into_iter().collect();
    waiting.sort_by_key(|(_, ticket)| *ticket);
    let waiting: Vec<_> = waiting.iter().map(|(member, _)| member.as_str()).collect();
    assert_eq!(waiting, ["PUBLISH w:a 3 1", "PUBLISH w:a 4 1"]);
    let rest = Release {
        holds: &["h:3", "a:1", "a:2"],
        ..Release::default()
    };
    bed.ask(&rest.call());
    assert_eq!(notified(&mut bed), [3, 4]);
}

#[test]
fn common_release_gives_to_as_many_as_fit_and_the_next_is_called() {
    let mut bed = full(4);
    let order = |n: u64| format!("g60000.70000.{n:016x}");
    for n in 1..=5 {
        let (attempt, address, order) = (format!("a:{n}"), format!("PUBLISH w:a {n}"), order(n));
        let mut call = Acquire::new(&bed, &attempt, 1).waiting(&address);
        call.order = if n == 3 { "" } else { &order };
        assert_eq!(bed.ask(&call.call())[1], "busy");
    }
    let (now, micros) = (bed.millis(), bed.now.micros());
    let back = call(
        &POOL.release_some,
        4,
        &["h", KIND, ":1", ":2", ":9", ":3", ":4"],
    );
    let reply = bed.raw(&back);
    let ends = now + 5_000;
    let grant = |n: u64, number: u64| format!("a:{n} g{n:016x}.{number}.{ends}.0");
    let told = [(1, 0), (2, 1), (4, 2)].map(|(n, later)| grant(n, micros + later));
    let line = format!("{now} released 0");
    let granted = told
        .clone()
        .map(|grant| format!(" granted {grant}"))
        .concat();
    let expected = format!("{line}\n{line}\n\n{line}\n{line}{granted}");
    assert_eq!(reply.as_str(), Some(&*expected));
    let messages: Vec<_> = bed.published().into_iter().map(|(_, text)| text).collect();
    let name = key("x");
    let message = |at: usize| format!("{name} {}", told[at].strip_prefix("a:").unwrap());
    let called = format!("{name} 3");
    assert_eq!(messages, [message(0), message(1), message(2), called]);
    let fields = bed.hash(&name);
    assert_eq!(
        (&*fields["c"], &*fields["h:a:4"]),
        ("3", &*format!("{ends} 1 0 g"))
    );
    let left: Vec<_> = bed.sorted(&tickets()).into_keys().collect();
    assert_eq!(
        left,
        [
            "PUBLISH w:a 3 1".to_owned(),
            format!("PUBLISH w:a 5 1 {}", order(5))
        ]
    );
}

#[test]
fn entry_of_an_attempt_that_holds_is_given_nothing() {
    let mut bed = full(2);
    let order = "g60000.70000.0000000000000001";
    let mut call = Acquire::new(&bed, "a:1", 1).waiting("PUBLISH w:a 1");
    call.order = order;
    assert_eq!(bed.ask(&call.call())[1], "busy");
    // However it came about: the attempt of this entry holds.
    let hold = format!("{} 1 0", bed.millis() + 9_000);
    let set = redlatch::runtime::Command::new("HSET").arg(key("x"));
    bed.execute(&set.arg("h:a:1").arg(&hold)).unwrap();
    bed.ask(&release("h:1"));
    assert_eq!(bed.hash(&key("x"))["h:a:1"], hold);
    assert_eq!(notified(&mut bed), [1]);
}

/// The reply to the first release may be lost. Holds of others whose end is near do not hide the
/// grant from its copy.
#[test]
fn copy_of_a_release_names_the_grant_of_its_own_client() {
    let mut bed = full(20);
    bed.pass(58 * SECOND);
    let mut waiter = Acquire::new(&bed, "h:99", 1).waiting("PUBLISH w:h 99");
    waiter.order = "g60000.70000.0000000000000001";
    let waiter = waiter.call();
    assert_eq!(bed.ask(&waiter)[1], "busy");
    let own = Release {
        attempt: "h:20",
        holds: &["h:20"],
        ..Release::default()
    };
    let first = bed.ask(&own.call());
    assert_eq!(first[1..5], ["released", "0", "granted", "h:99"]);
    assert_eq!(notified(&mut bed), [0; 0], "the reply tells it");
    assert_eq!(bed.ask(&own.call())[1..], ["gone", "0", "holds", "h:99"]);
    // Another client learns nothing.
    assert_eq!(bed.ask(&release("h:20"))[1..], ["gone", "0"]);
    assert_eq!(bed.ask(&waiter)[1], "granted");
    assert_eq!(bed.ask(&own.call())[1..], ["gone", "0"], "it knows");
}

#[test]
fn pool_that_expires_gives_nothing_ahead() {
    let mut bed = full(1);
    let set = change(bed.millis() + 5_000, "c:2", "set", 1, "300000");
    bed.ask(&set);
    let mut call = Acquire::new(&bed, "a:1", 1).waiting("PUBLISH w:a 1");
    call.order = "g60000.70000.0000000000000001";
    assert_eq!(bed.ask(&call.call())[1], "busy");
    bed.ask(&release("h:1"));
    assert_eq!(notified(&mut bed), [1]);
    assert!(!bed.hash(&key("x")).contains_key("h:a:1"));
}

/// The client takes a granted hold for one without a guard, while the guard's release is on its
/// way.
#[test]
fn release_of_a_withdrawn_hold_finds_its_permits_back() {
    let mut bed = full(2);
    let mut first = Acquire::new(&bed, "a:1", 1).waiting("PUBLISH w:a 1");
    first.order = "g60000.70000.0000000000000001";
    let first = first.call();
    assert_eq!(bed.ask(&first)[1], "busy");
    wait(&mut bed, 2, "b", 1);
    bed.ask(&release("h:1"));
    assert!(bed.hash(&key("x"))["h:a:1"].ends_with(" g"));
    let list = call(&POOL.withdraw, 4, &["list", "w:a", KIND]);
    assert_eq!(bed.ask(&list)[1..], ["found", "1"]);
    bed.published();
    let strike = call(&POOL.withdraw, 4, &["strike", "w:a", KIND, "1"]);
    assert_eq!(bed.ask(&strike)[1..], ["struck"]);
    assert_eq!(notified(&mut bed), [2], "the next one is called");
    assert_eq!(bed.hash(&key("x"))["c"], "1");
    assert_eq!(bed.ask(&release("a:1"))[1..], ["already", "0"]);
    let common = call(&POOL.release_some, 4, &["a", KIND, ":1"]);
    let common = bed.raw(&common);
    assert!(
        common.as_str().unwrap().ends_with(" released 0"),
        "{common:?}"
    );
    assert_eq!(bed.hash(&key("x"))["c"], "1");
    assert_eq!(bed.ask(&first)[1], "void", "a late copy takes nothing");
    assert_eq!(bed.ask(&release("a:1"))[1..], ["gone", "0"]);
    // A confirmed hold has a guard.
    let mut bed = full(1);
    let mut first = Acquire::new(&bed, "a:1", 1).waiting("PUBLISH w:a 1");
    first.order = "g60000.70000.0000000000000001";
    bed.ask(&first.call());
    bed.ask(&release("h:1"));
    let confirm = renew(bed.millis() + 5_000, 60_000, &["a:1"]);
    assert_eq!(bed.ask(&confirm)[1], "renewed");
    assert_eq!(bed.ask(&list)[1..], ["found"]);
    bed.ask(&strike);
    assert_eq!(bed.ask(&release("a:1"))[1..3], ["released", "0"]);
}

#[test]
fn common_release_for_another_kind_leaves_the_holds() {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", 2);
    let ask = Acquire::new(&bed, "a:1", 1).call();
    assert_eq!(bed.ask(&ask)[1], "granted");
    let before = bed.dump();
    let other = call(&POOL.release_some, 4, &["a", "permits:1", ":1"]);
    assert_eq!(bed.raw(&other).as_str(), Some(""));
    assert_eq!(bed.dump(), before);
}
