//! Laws of the pool's scripts, each from the state that is most likely to break it.

use super::calls::{change, inspect, notified, release, set, wait};
use crate::scripts::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn acquire(bed: &mut Bed, n: u64, need: u64) -> Vec<String> {
    let ask = Ask::new(Of::Permits, bed, "h", n).need(need);
    bed.ask(&ask.call()).split_off(1)
}

fn totals(bed: &mut Bed) -> (String, String) {
    let answer = bed.ask(&inspect());
    (answer[2].clone(), answer[3].clone())
}

#[test]
fn splitting_and_forgetting_commute_with_retries() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order in orders {
        let mut bed = Bed::new(Model::default());
        set(&mut bed, "c:1", 10);
        acquire(&mut bed, 1, 6);
        let ask = Ask::new(Of::Permits, &bed, "h", 1);
        // One is forgotten, two are released, two more are forgotten; one is kept.
        let steps = [(5, 1), (3, 1), (1, 3)].map(|(left, forgotten)| {
            let ask = ask.clone().keeping(left, forgotten);
            ask.release(&[0], None, "")
        });
        for step in order.into_iter().chain(order) {
            bed.ask(&steps[step]);
        }
        assert_eq!(totals(&mut bed), ("7".into(), "1".into()), "{order:?}");
        assert_eq!(bed.ask(&release("h:1"))[1..], ["released", "0"]);
        bed.ask(&steps[2]);
        assert_eq!(totals(&mut bed), ("7".into(), "0".into()), "{order:?}");
    }
}

// L21
#[test]
fn dead_and_absent_waiters_delay_the_others_by_their_deadline_at_most() {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", 1);
    acquire(&mut bed, 1, 1);
    for n in 0..50 {
        wait(&mut bed, n, "a", 1);
    }
    bed.pass(3 * SECOND);
    wait(&mut bed, 100, "b", 1);
    bed.ask(&release("h:1"));
    assert_eq!(notified(&mut bed), [0]);
    bed.pass(2 * SECOND);
    assert_eq!(wait(&mut bed, 100, "b", 1)[0], "more", "they are many");
    let answer = wait(&mut bed, 100, "b", 1);
    assert_eq!(answer[0], "granted", "all of a are dead");
    wait(&mut bed, 200, "a", 1);
    wait(&mut bed, 201, "b", 1);
    bed.ask(&release("b:100"));
    assert_eq!(notified(&mut bed), [200]);
    bed.pass(4 * SECOND);
    let looks = wait(&mut bed, 201, "b", 1);
    assert_eq!(looks, ["busy", "1000", "", "0"], "it sees to it");
    let again = wait(&mut bed, 202, "a", 1);
    let called = ["busy", "1000", "200", "1"];
    assert_eq!(again, called, "its client is told again");
    bed.pass(SECOND);
    assert_eq!(wait(&mut bed, 201, "b", 1)[0], "granted", "it did not come");
}

#[test]
fn deletion_counts_once_and_operations_are_remembered_for_half_a_minute() {
    let mut bed = Bed::new(Model::default());
    let by = bed.millis() + 5_000;
    let ask = |bed: &mut Bed, op: &str, verb: &str, number: i64| {
        bed.ask(&change(by, op, verb, number, "")).split_off(1)
    };
    assert_eq!(ask(&mut bed, "a:1", "set", 5), ["done", "5"]);
    for _ in 0..2 {
        assert_eq!(ask(&mut bed, "a:7", "delete", 0), ["done", "0"]);
    }
    assert_eq!(ask(&mut bed, "a:8", "set", 1), ["done", "1"]);
    let late = ask(&mut bed, "a:7", "delete", 0);
    assert_eq!(late, ["done", "0"], "a late copy");
    assert_eq!(totals(&mut bed), ("1".into(), "0".into()));
    for n in 0..100 {
        bed.pass(SECOND);
        let call = change(bed.millis() + 5_000, &format!("b:{n}"), "set", 1, "");
        bed.ask(&call);
    }
    let known = bed.hash(&part("x", "o")).len();
    assert_eq!(known, 30, "each is remembered for half a minute");
    bed.pass(31 * SECOND);
    assert_eq!(bed.dump().len(), 1, "the size alone stays");
}

// L36
#[test]
fn expired_pool_takes_its_holds_along_and_changes_keep_its_ttl() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        let by = bed.millis() + 5_000;
        bed.ask(&change(by, "c:1", "set", 9, "100000"));
        bed.pass(SECOND);
        acquire(&mut bed, 1, 2);
        bed.ask(&change(by, "c:2", "add", 1, ""));
        bed.ask(&change(by, "c:3", "set", 5, ""));
        let split = Ask::new(Of::Permits, &bed, "h", 1).keeping(1, 0);
        bed.ask(&split.release(&[0], None, ""));
        assert_eq!(bed.ttl(&key("x")), Some(99_000));
        assert_eq!(bed.ttl(&part("x", "d")), Some(99_000));
        assert_eq!(bed.ask(&inspect())[1..], ["set", "5", "1", "0", "99000"]);
        bed.pass(59 * SECOND);
        let call = split.renew(bed.millis() + 5_000, 60_000, &[0]);
        assert_eq!(bed.ask(&call)[1..], ["renewed", "40000"]);
        assert_eq!(acquire(&mut bed, 2, 2)[3], "40000");
        let call = change(bed.millis() + 5_000, "c:4", "set", 5, "1000");
        bed.ask(&call);
        let ttl = bed.ttl(&key("x"));
        assert_eq!(ttl, Some(40_000), "not before its last lease");
        bed.pass(40 * SECOND);
        assert_eq!(acquire(&mut bed, 3, 2), ["unset"]);
        assert_eq!(bed.ttl(&part("x", "d")), None);
    }
}

// L19
#[test]
fn every_key_but_the_size_has_a_ttl() {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", 1);
    acquire(&mut bed, 1, 1);
    wait(&mut bed, 1, "a", 1);
    assert_eq!(bed.ttl(&part("x", "q")), Some(5_099));
    assert_eq!(bed.ttl(&part("x", "l")), Some(5_099));
    bed.pass(100 * SECOND);
    bed.ask(&inspect());
    let left: Vec<_> = bed.dump().into_iter().map(|dump| dump.key).collect();
    assert_eq!(left, [key("x").into_bytes()]);
    assert_eq!(totals(&mut bed), ("1".into(), "0".into()));
}
