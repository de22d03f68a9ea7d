//! Laws of a pool's waiters: who is notified, and when again.

use std::time::Duration;

use redlatch_embedded::engine::Model;
use redlatch_lua::POOL;

use super::calls::{
    Acquire, KIND, Release, call, change, clients, list, notified, release, renew, set, tickets,
    wait, waiting,
};
use crate::scripts::{
    bed::{Bed, Call, key},
    costs::counted,
};

const SECOND: Duration = Duration::from_secs(1);

/// A pool of `size` permits, all of which are out as holds `h:1` to `h:<size>`.
pub(super) fn full(size: u64) -> Bed {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", i64::try_from(size).unwrap());
    for holder in 1..=size {
        let attempt = format!("h:{holder}");
        let call = Acquire::new(&bed, &attempt, 1).call();
        assert_eq!(bed.ask(&call)[1], "granted");
    }
    bed
}

/// An order with which a release may grant.
pub(super) const ORDER: &str = "g60000.70000.0000000000000001";

/// Returns the request of waiter 1 of the client `a`, to which a release may grant.
pub(super) fn with_order(bed: &Bed) -> Call {
    let call = Acquire {
        order: ORDER,
        ..Acquire::new(bed, "a:1", 1)
    };
    call.waiting("PUBLISH w:a 1").call()
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
        Acquire::new(&bed, "a:10", 1).call(),
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
        let call = waiting(&bed, "a", 1, 1);
        let taken = counted(&mut bed, &call);
        assert_eq!(taken, ("granted".to_owned(), 7), "{waiters}");
        let call = waiting(&bed, "a", waiters + 1, 1);
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
    let back = list(&["h:1", "h:2", "h:9"].map(release));
    let now = bed.millis();
    let released = bed.raw(&back);
    let line = format!("{now} released 0");
    let gone = format!("{now} gone 0");
    assert_eq!(released.as_str(), Some(&*format!("{line}\n{line}\n{gone}")));
    assert_eq!(notified(&mut bed), [1, 2]);
    let asks = [(4, 1), (2, 1), (1, 1), (5, 9)];
    let asks = asks.map(|(n, need)| waiting(&bed, "a", n, need));
    let lines = bed.lines(&list(&asks));
    // In the queue's order, and the last one gets its error.
    assert_eq!(verdicts(&lines), ["busy", "granted", "granted", "large"]);
    let mut left: Vec<_> = bed.sorted(&tickets()).into_iter().collect();
    left.sort_by_key(|(_, ticket)| *ticket);
    let left: Vec<_> = left.iter().map(|(member, _)| member.as_str()).collect();
    assert_eq!(left, ["PUBLISH w:a 3 1", "PUBLISH w:a 4 1"]);
    let rest = Release {
        holds: &["h:3", "a:1", "a:2"],
        ..Release::default()
    };
    bed.ask(&rest.call());
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
    let order = |n: u64| format!("g60000.70000.{n:016x}");
    for n in 1..=5 {
        let (attempt, address, order) = (format!("a:{n}"), format!("PUBLISH w:a {n}"), order(n));
        let mut call = Acquire::new(&bed, &attempt, 1).waiting(&address);
        call.order = if n == 3 { "" } else { &order };
        assert_eq!(bed.ask(&call.call())[1], "busy");
    }
    let (now, micros) = (bed.millis(), bed.now.micros());
    let back = list(&["h:1", "h:2", "h:9", "h:3", "h:4"].map(release));
    let reply = bed.raw(&back);
    let ends = now + 5_000;
    let grant = |n: u64, number: u64| format!("a:{n} g{n:016x}.{number}.{ends}.0");
    let told = [(1, 0), (2, 1), (4, 2)].map(|(n, later)| grant(n, micros + later));
    let line = format!("{now} released 0");
    let granted = told
        .clone()
        .map(|grant| format!(" granted {grant}"))
        .concat();
    let expected = format!("{line}\n{line}\n{now} gone 0\n{line}\n{line} sent{granted}");
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
    let call = with_order(&bed);
    assert_eq!(bed.ask(&call)[1], "busy");
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
    waiter.order = ORDER;
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
    let call = with_order(&bed);
    assert_eq!(bed.ask(&call)[1], "busy");
    bed.ask(&release("h:1"));
    assert_eq!(notified(&mut bed), [1]);
    assert!(!bed.hash(&key("x")).contains_key("h:a:1"));
}

/// The client takes a granted hold for one without a guard, while the guard's release is on its
/// way.
#[test]
fn release_of_a_withdrawn_hold_finds_its_permits_back() {
    let mut bed = full(2);
    let first = with_order(&bed);
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
    let left = bed.hash(&key("x"));
    assert_eq!(left["c"], "1");
    assert!(
        !left.contains_key("h:a:1"),
        "its release removes the record"
    );
    assert_eq!(bed.ask(&first)[1], "void", "a late copy takes nothing");
    assert_eq!(bed.ask(&release("a:1"))[1..], ["gone", "0"]);
    // A confirmed hold has a guard.
    let mut bed = full(1);
    let first = with_order(&bed);
    bed.ask(&first);
    bed.ask(&release("h:1"));
    let confirm = renew(bed.millis() + 5_000, 60_000, &["a:1"]);
    assert_eq!(bed.ask(&confirm)[1], "renewed");
    assert_eq!(bed.ask(&list)[1..], ["found"]);
    bed.ask(&strike);
    assert_eq!(bed.ask(&release("a:1"))[1..3], ["released", "0"]);
}

/// One release tells the waiters of its own client by its reply. Several tell all by messages, and
/// say so.
#[test]
fn only_a_release_by_itself_replaces_messages() {
    for (attempts, sent) in [
        (&["a:1", "a:2"][..], true),
        (&["a:1"], false),
        (&[""], true),
    ] {
        let mut bed = Bed::new(Model::default());
        set(&mut bed, "c:1", 2);
        for holder in ["a:1", "a:2"] {
            let call = Acquire::new(&bed, holder, 1).call();
            assert_eq!(bed.ask(&call)[1], "granted");
        }
        let mut waiter = Acquire::new(&bed, "a:9", 1).waiting("PUBLISH w:a 9");
        waiter.order = ORDER;
        assert_eq!(bed.ask(&waiter.call())[1], "busy");
        let back = attempts.iter().enumerate().map(|(at, attempt)| {
            let it = Release {
                attempt,
                holds: &[["a:1", "a:2"][at]],
                ..Release::default()
            };
            it.call()
        });
        let back: Vec<_> = back.collect();
        let reply = bed.raw(&list(&back));
        let text = reply.as_str().unwrap();
        assert!(text.contains(" granted a:9 g"), "{text}");
        assert_eq!(text.contains(" sent granted"), sent, "{text}");
        assert_eq!(bed.published().len(), usize::from(sent), "{text}");
    }
}

/// An error of one pool is that of all its entries, and of no other's.
#[test]
fn error_of_one_pool_is_that_of_its_entries_only() {
    let of = |name: &str, mut call: Call| {
        for item in &mut call.keys {
            *item = item.replacen(&key("x"), &key(name), 1);
        }
        call
    };
    for broken in ["", ":d", ":q", ":l"] {
        let mut bed = Bed::new(Model::default());
        let ask = |bed: &Bed, name: &str, n: u64, need: u64| {
            let (attempt, address) = (format!("a:{n}"), format!("PUBLISH w:a {n}"));
            let mut one = Acquire::new(bed, &attempt, need).waiting(&address);
            one.size = Some(2);
            of(name, one.call())
        };
        for (n, name) in [(1, "x"), (2, "y"), (3, "z")] {
            let holds = ask(&bed, name, n, 2);
            assert_eq!(bed.ask(&holds)[1], "granted");
        }
        if broken == ":l" || broken == ":q" {
            // The first waiter makes what then is of another type.
            assert_eq!(bed.ask(&ask(&bed, "y", 9, 1))[1], "busy");
        }
        let other = redlatch::runtime::Command::new("SET");
        bed.execute(&other.arg(format!("{}{broken}", key("y"))).arg("1"))
            .unwrap();
        let calls = [(11, "x"), (12, "y"), (13, "y"), (14, "z")];
        let calls = calls.map(|(n, name)| ask(&bed, name, n, 1));
        let lines = bed.lines(&list(&calls));
        let words = verdicts(&lines);
        assert_eq!([words[0], words[3]], ["busy"; 2], "{broken}: {lines:?}");
        assert!(lines[1].starts_with("-WRONGTYPE"), "{broken}: {lines:?}");
        assert_eq!(lines[1], lines[2], "{broken}");
        let back = [(":1", "x"), (":2", "y"), (":3", "z")].map(|(hold, name)| {
            let mut call = of(name, release(hold));
            call.args[0] = "a".to_owned();
            call
        });
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
    let ask = |bed: &Bed, n: u64, need: u64| {
        let attempt = format!("a:{n}");
        let mut one = Acquire::new(bed, &attempt, need);
        one.each = true;
        one.call()
    };
    let calls = [(1, 2), (2, 1), (3, 4), (4, 2)].map(|(n, need)| ask(&bed, n, need));
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
    assert_eq!(
        verdicts,
        ["released", "released", "gone", "gone", "released"]
    );
    assert!(answer[2..].iter().step_by(2).all(|left| left == "0"));
    assert_eq!(bed.hash(&key("x"))["c"], "2");
}

// What 16 entries of one pool cost together.
#[test]
fn entries_of_one_pool_cost_no_more_than_one() {
    let plain = |bed: &Bed, n: u64| {
        let attempt = format!("a:{n}");
        Acquire::new(bed, &attempt, 1).call()
    };
    let waiting = |bed: &Bed, n: u64| waiting(bed, "a", n, 1);
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", 16);
    let calls: Vec<_> = (1..=16).map(|n| plain(&bed, n)).collect();
    assert_eq!(
        counted(&mut bed, &list(&calls)).1,
        4,
        "TIME, HMGET, ZADD, HSET"
    );
    // A later call puts all in the queue: TIME, HMGET, ZRANGE × 3, ZADD and its PEXPIRE, and ZADD,
    // HSET, PEXPIRE × 2 for the client.
    let calls: Vec<_> = (21..=36).map(|n| waiting(&bed, n)).collect();
    let (verdict, count) = counted(&mut bed, &list(&calls));
    assert_eq!((&*verdict, count), ("busy", 11));
    let calls: Vec<_> = (41..=56).map(|n| waiting(&bed, n)).collect();
    let (verdict, count) = counted(&mut bed, &list(&calls));
    assert_eq!((&*verdict, count), ("busy", 7), "the client is known");
    // A release of 16, and then all of the notified.
    let back: Vec<_> = (1..=16).map(|n| release(&format!("a:{n}"))).collect();
    let (verdict, count) = counted(&mut bed, &list(&back));
    assert_eq!((&*verdict, count), ("released", 9 + 16));
    let calls: Vec<_> = (21..=36).map(|n| waiting(&bed, n)).collect();
    let (verdict, count) = counted(&mut bed, &list(&calls));
    assert_eq!((&*verdict, count), ("granted", 7));
    // Half of those who ask are served.
    let back: Vec<_> = (21..=28).map(|n| release(&format!("a:{n}"))).collect();
    counted(&mut bed, &list(&back));
    let calls: Vec<_> = (41..=48).chain(61..=68).map(|n| waiting(&bed, n)).collect();
    let (verdict, count) = counted(&mut bed, &list(&calls));
    assert_eq!(verdict, "granted");
    assert!(count <= 12, "{count}");
}
