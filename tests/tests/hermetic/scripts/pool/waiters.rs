//! Laws of a pool's waiters: who is notified, and when again.

use std::ops::RangeInclusive;

use redlatch_lua::POOL;

use super::calls::{call, change, notified, release, set, wait, waiting};
use crate::scripts::{calls::KIND, prelude::*};

const SECOND: Duration = Duration::from_secs(1);

/// Attempt `n` of a client at one permit, without waiting.
pub(super) fn attempt(bed: &Bed, client: &str, n: u64) -> Ask {
    Ask::new(Of::Permits, bed, client, n)
}

/// A pool of `size` permits, all of which are out as holds `h:1` to `h:<size>`.
pub(super) fn full(size: u64) -> Bed {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", size);
    for holder in 1..=size {
        attempt(&bed, "h", holder).gets(&mut bed, "granted");
    }
    bed
}

/// Adds a waiter to which a release may grant. Returns its request.
fn order(bed: &mut Bed, client: &str, n: u64) -> Call {
    let call = attempt(bed, client, n).ordered().call();
    bed.gets(&call, "busy");
    call
}

fn verdicts(lines: &[String]) -> Vec<&str> {
    let words = lines.iter().map(|line| line.split(' ').nth(1));
    words.map(Option::unwrap_or_default).collect()
}

#[test]
fn refused_try_counts_for_later_entries_of_its_list() {
    let mut bed = full(3);
    assert_eq!(wait(&mut bed, 7, "a", 1)[0], "busy");
    let calls = [
        attempt(&bed, "a", 10).call(),
        waiting(&bed, "a", 7, 1),
        waiting(&bed, "a", 8, 1),
    ];
    let lines = bed.lines(&list(&calls));
    assert_eq!(verdicts(&lines), ["busy", "busy", "void"]);
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
    let ticket = bed.sorted(&part("x", "q"))["PUBLISH w:a 1 1"].to_string();
    for field in [ticket.as_str(), "1999999999999999"] {
        let set = Command::new("HSET").arg(key("x"));
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
    let alive = |bed: &mut Bed| bed.sorted(&part("x", "l"))["w:a"];
    let first = alive(&mut bed);
    bed.pass(Duration::from_millis(90));
    assert_eq!(wait(&mut bed, 2, "a", 1)[0], "busy");
    assert_eq!(alive(&mut bed), first);
    bed.pass(Duration::from_millis(20));
    assert_eq!(wait(&mut bed, 3, "a", 1)[0], "busy");
    assert_eq!(alive(&mut bed), bed.millis() + 5_000);
    assert_eq!(bed.ttl(&part("x", "q")), Some(5_099));
}

#[test]
fn hand_over_costs_a_bounded_number_of_commands_however_many_wait() {
    for waiters in [10_u64, 1_000] {
        let mut bed = full(8);
        for n in 1..=waiters {
            wait(&mut bed, n, "a", 1);
        }
        costs(&mut bed, &release("h:1"), ("released", 10));
        let call = waiting(&bed, "a", 1, 1);
        costs(&mut bed, &call, ("granted", 7));
        let call = waiting(&bed, "a", waiters + 1, 1);
        costs(&mut bed, &call, ("busy", 7));
    }
}

#[test]
fn common_calls_take_back_give_out_and_queue() {
    let mut bed = full(3);
    for n in 1..=3 {
        wait(&mut bed, n, "a", 1);
    }
    let back = list(&["h:1", "h:2", "h:9"].map(release));
    let now = bed.millis();
    let right = ["released 0", "released 0", "gone 0"];
    assert_eq!(bed.lines(&back), right.map(|line| format!("{now} {line}")));
    assert_eq!(notified(&mut bed), [1, 2]);
    let asks = [(4, 1), (2, 1), (1, 1), (5, 9)];
    let asks = asks.map(|(n, need)| waiting(&bed, "a", n, need));
    let lines = bed.lines(&list(&asks));
    // In the queue's order, and the last one gets its error.
    assert_eq!(verdicts(&lines), ["busy", "granted", "granted", "large"]);
    let left = bed.queue(&part("x", "q")).into_iter();
    let left: Vec<_> = left.map(|(member, _)| member).collect();
    assert_eq!(left, ["PUBLISH w:a 3 1", "PUBLISH w:a 4 1"]);
    bed.ask(&release("h:3 a:1 a:2"));
    assert_eq!(notified(&mut bed), [3, 4]);
}

#[test]
fn later_entry_of_a_list_does_not_overtake_one_that_waits_for_more() {
    let mut bed = full(2);
    bed.ask(&release("h:1"));
    let asks = [(1, 2), (2, 1)].map(|(n, need)| waiting(&bed, "a", n, need));
    let lines = bed.lines(&list(&asks));
    assert_eq!(verdicts(&lines), ["busy", "busy"]);
    bed.ask(&release("h:2"));
    assert_eq!(notified(&mut bed), [1]);
}

#[test]
fn common_release_gives_to_as_many_as_fit_and_the_next_is_called() {
    let mut bed = full(4);
    for n in 1..=5 {
        if n == 3 {
            assert_eq!(wait(&mut bed, n, "a", 1)[0], "busy");
        } else {
            order(&mut bed, "a", n);
        }
    }
    let (now, micros) = (bed.millis(), bed.now.micros());
    let back = list(&["h:1", "h:2", "h:9", "h:3", "h:4"].map(release));
    let lines = bed.lines(&back);
    let ends = now + 5_000;
    let grant = |n: u64, number: u64| format!("a:{n} g{n:016x}.{number}.{ends}.0");
    let told = [(1, 0), (2, 1), (4, 2)].map(|(n, later)| grant(n, micros + later));
    let granted = told.each_ref().map(|grant| format!(" granted {grant}"));
    let last = format!("released 0 sent{}", granted.concat());
    let right = ["released 0", "released 0", "gone 0", "released 0", &last];
    assert_eq!(lines, right.map(|line| format!("{now} {line}")));
    let messages: Vec<_> = bed.published().into_iter().map(|(_, text)| text).collect();
    let name = key("x");
    let message = |at: usize| format!("{name} {}", told[at].strip_prefix("a:").unwrap());
    let called = format!("{name} 3");
    assert_eq!(messages, [message(0), message(1), message(2), called]);
    let fields = bed.hash(&name);
    let (count, last) = (&*fields["c"], &*fields["h:a:4"]);
    assert_eq!((count, last), ("3", &*format!("{ends} 1 0 g")));
    let left: Vec<_> = bed.sorted(&part("x", "q")).into_keys().collect();
    let last = "PUBLISH w:a 5 1 g60000.70000.0000000000000005";
    assert_eq!(left, ["PUBLISH w:a 3 1", last]);
}

#[test]
fn entry_of_an_attempt_that_holds_is_given_nothing() {
    let mut bed = full(2);
    order(&mut bed, "a", 1);
    // However it came about: the attempt of this entry holds.
    let hold = format!("{} 1 0", bed.millis() + 9_000);
    let set = Command::new("HSET").arg(key("x"));
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
    let waiter = order(&mut bed, "h", 99);
    let own = attempt(&bed, "h", 20).release(&[0], None, "");
    let first = bed.ask(&own);
    assert_eq!(first[1..5], ["released", "0", "granted", "h:99"]);
    assert_eq!(notified(&mut bed), [0; 0], "the reply tells it");
    assert_eq!(bed.ask(&own)[1..], ["gone", "0", "holds", "h:99"]);
    // Another client learns nothing.
    assert_eq!(bed.ask(&release("h:20"))[1..], ["gone", "0"]);
    assert_eq!(bed.ask(&waiter)[1], "granted");
    assert_eq!(bed.ask(&own)[1..], ["gone", "0"], "it knows");
}

#[test]
fn pool_that_expires_gives_nothing_ahead() {
    let mut bed = full(1);
    let set = change(bed.millis() + 5_000, "c:2", "set", 1, "300000");
    bed.ask(&set);
    order(&mut bed, "a", 1);
    bed.ask(&release("h:1"));
    assert_eq!(notified(&mut bed), [1]);
    assert!(!bed.hash(&key("x")).contains_key("h:a:1"));
}

/// The client takes a granted hold for one without a guard, while the guard's release is on its
/// way.
#[test]
fn release_of_a_withdrawn_hold_finds_its_permits_back() {
    let mut bed = full(2);
    let first = order(&mut bed, "a", 1);
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
    let left = bed.hash(&key("x"));
    assert_eq!(left["c"], "1");
    let kept = left.contains_key("h:a:1");
    assert!(!kept, "its release removes the record");
    assert_eq!(bed.ask(&first)[1], "void", "a late copy takes nothing");
    assert_eq!(bed.ask(&release("a:1"))[1..], ["gone", "0"]);
    // A confirmed hold has a guard.
    let mut bed = full(1);
    order(&mut bed, "a", 1);
    bed.ask(&release("h:1"));
    let guard = attempt(&bed, "a", 1);
    bed.gets(&guard.renew(guard.by, 60_000, &[0]), "renewed");
    assert_eq!(bed.ask(&list)[1..], ["found"]);
    bed.ask(&strike);
    assert_eq!(bed.ask(&release("a:1"))[1..3], ["released", "0"]);
}

/// One release tells the waiters of its own client by its reply. Several tell all by messages, and
/// say so.
#[test]
fn only_a_release_by_itself_replaces_messages() {
    for (own, sent) in [(2, true), (1, false), (0, true)] {
        let mut bed = Bed::new(Model::default());
        set(&mut bed, "c:1", 2);
        for holder in [1, 2] {
            attempt(&bed, "a", holder).gets(&mut bed, "granted");
        }
        order(&mut bed, "a", 9);
        let ends = [1, 2].map(|n| attempt(&bed, "a", n).release(&[0], None, ""));
        let back = match own {
            0 => release("a:1"),
            _ => list(&ends[..own]),
        };
        let text = bed.lines(&back).join("\n");
        assert!(text.contains(" granted a:9 g"), "{text}");
        assert_eq!(text.contains(" sent granted"), sent, "{text}");
        assert_eq!(bed.published().len(), usize::from(sent), "{text}");
    }
}

/// An error of one pool is that of all its entries, and of no other's.
#[test]
fn error_of_one_pool_is_that_of_its_entries_only() {
    let ask = |bed: &Bed, name: &'static str, n: u64, need: u64| {
        let mut ask = attempt(bed, "a", n).need(need).names(&[name]);
        ask.size = Some(2);
        ask.waiting()
    };
    for broken in ["", ":d", ":q", ":l"] {
        let mut bed = Bed::new(Model::default());
        for (n, name) in [(1, "x"), (2, "y"), (3, "z")] {
            ask(&bed, name, n, 2).gets(&mut bed, "granted");
        }
        if broken == ":l" || broken == ":q" {
            // The first waiter makes what then is of another type.
            ask(&bed, "y", 9, 1).gets(&mut bed, "busy");
        }
        let other = Command::new("SET");
        bed.execute(&other.arg(format!("{}{broken}", key("y"))).arg("1"))
            .unwrap();
        let calls = [(11, "x"), (12, "y"), (13, "y"), (14, "z")];
        let calls = calls.map(|(n, name)| ask(&bed, name, n, 1).call());
        let lines = bed.lines(&list(&calls));
        let words = verdicts(&lines);
        assert_eq!([words[0], words[3]], ["busy"; 2], "{broken}: {lines:?}");
        assert!(lines[1].starts_with("-WRONGTYPE"), "{broken}: {lines:?}");
        assert_eq!(lines[1], lines[2], "{broken}");
        let back = [(1, "x"), (2, "y"), (3, "z")];
        let back = back.map(|(n, name)| ask(&bed, name, n, 2).release(&[0], None, ""));
        let lines = bed.lines(&list(&back));
        let words = verdicts(&lines);
        assert_eq!([words[0], words[2]], ["released"; 2], "{broken}: {lines:?}");
        assert!(lines[1].starts_with("-WRONGTYPE"), "{broken}: {lines:?}");
        let left = bed.hash(&key("x"));
        assert_eq!((&*left["c"], left.get("h:a:1")), ("0", None));
    }
}

/// Permits with ids that go together are one entry each, also of several permits.
#[test]
fn permits_with_ids_are_served_together() {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", 6);
    let calls = [(1, 2), (2, 1), (3, 4), (4, 2)];
    let ask = |(n, need)| Ask::new(Of::Each, &bed, "a", n).need(need).call();
    let calls = calls.map(ask);
    // Copies of them, too.
    for refused in ["busy", "void"] {
        let lines = bed.lines(&list(&calls));
        assert_eq!(verdicts(&lines), ["granted", "granted", refused, "granted"]);
        assert_eq!(bed.hash(&key("x"))["c"], "5");
    }
    let mut back = release("a:1:0");
    back.args[0] = "a".to_owned();
    // A result each, and twice the same counts once.
    back.args[8] = ":1:0 :1:1 b:7 :1:0 :4:1".to_owned();
    let answer = bed.ask(&back);
    let verdicts: Vec<_> = answer[1..].iter().step_by(2).collect();
    let right = ["released", "released", "gone", "gone", "released"];
    assert_eq!(verdicts, right);
    assert!(answer[2..].iter().step_by(2).all(|left| left == "0"));
    assert_eq!(bed.hash(&key("x"))["c"], "2");
}

/// One call of waiters of one permit each.
fn waits(bed: &Bed, numbers: impl Iterator<Item = u64>) -> Call {
    let calls = numbers.map(|n| waiting(bed, "a", n, 1));
    list(&calls.collect::<Vec<_>>())
}

// What 16 entries of one pool cost together.
#[test]
fn entries_of_one_pool_cost_no_more_than_one() {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", 16);
    let back = |numbers: RangeInclusive<u64>| {
        let calls = numbers.map(|n| release(&format!("a:{n}")));
        list(&calls.collect::<Vec<_>>())
    };
    let calls: Vec<_> = (1..=16).map(|n| attempt(&bed, "a", n).call()).collect();
    // TIME, HMGET, ZADD, HSET
    costs(&mut bed, &list(&calls), ("granted", 4));
    // A later call puts all in the queue: TIME, HMGET, ZRANGE × 3, ZADD and its PEXPIRE, and ZADD,
    // HSET, PEXPIRE × 2 for the client.
    let call = waits(&bed, 21..=36);
    costs(&mut bed, &call, ("busy", 11));
    // The client is known.
    let call = waits(&bed, 41..=56);
    costs(&mut bed, &call, ("busy", 7));
    // A release of 16, and then all of the notified.
    costs(&mut bed, &back(1..=16), ("released", 9 + 16));
    let call = waits(&bed, 21..=36);
    costs(&mut bed, &call, ("granted", 7));
    // Half of those who ask are served.
    bed.ask(&back(21..=28));
    let call = waits(&bed, (41..=48).chain(61..=68));
    at_most(&mut bed, &call, ("granted", 12));
}
