//! Laws of single scripts, each from the state that is most likely to break it.

use std::time::Duration;

use redlatch_embedded::engine::Model;

use super::bed::{self, Acquire, Bed, Release};

const MS: Duration = Duration::from_millis(1);

fn acquire<'a>(bed: &Bed, owner: &'a str, attempt: &'a str, address: &'a str) -> Acquire<'a> {
    Acquire {
        of: bed::Lock::Plain,
        names: &["x"],
        by: bed.millis() + 5_000,
        owner,
        attempt,
        lease: 60_000,
        retention: 10_000,
        register: Some(5_000),
        address,
    }
}

fn release<'a>(owner: &'a str, attempt: &'a str, tokens: &'a [u64]) -> Release<'a> {
    Release::new(&["x"], owner, attempt, tokens)
}

// L21
#[test]
fn release_wakes_the_waiter_behind_a_hundred_dead_ones() {
    let mut bed = Bed::new(Model::default());
    let call = acquire(&bed, "a:1", "a:2", "").call();
    let token = bed.ask(&call)[3].parse().unwrap();
    for n in 0..100 {
        let (id, address) = (format!("c:{n}"), format!("PUBLISH w:a {n}"));
        let mut dying = acquire(&bed, "c:1", &id, &address);
        dying.register = Some(1_000);
        bed.ask(&dying.call());
    }
    bed.pass(1_001 * MS);
    let call = acquire(&bed, "b:1", "b:2", "PUBLISH w:b 2").call();
    bed.ask(&call);
    bed.ask(&release("a:1", "a:2", &[token]).call());
    assert_eq!(bed.published(), [("w:b".to_owned(), bed::key("x"))]);
    assert_eq!(bed.ttl(&bed::queue("x")), None, "nobody is left in it");
}

// L40
#[test]
fn a_token_of_sixteen_digits_goes_up_by_one_when_the_clock_goes_back() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        let mut last = 0;
        for n in 0..50 {
            let id = format!("a:{n}");
            let call = acquire(&bed, "a:1", &id, "").call();
            let token: u64 = bed.ask(&call)[3].parse().unwrap();
            assert!(token > last, "{token} after {last}");
            assert!(n == 0 || token == last + 1);
            last = token;
            bed.ask(&release("a:1", &id, &[token]).call());
            bed.now = bed.now.before(7 * MS);
        }
    }
}

#[test]
fn an_ended_hold_stays_over_by_a_clock_that_is_behind() {
    for forced in [false, true] {
        let mut bed = Bed::new(Model::default());
        let token = bed.ask(&acquire(&bed, "a:1", "a:2", "").call())[3].clone();
        let tokens = [token.parse().unwrap()];
        let call = release("a:1", "a:2", &tokens).call();
        if forced {
            bed.pass(1_000 * MS);
            assert_eq!(
                bed.ask(&bed::Lock::Plain.force("x", tokens[0], "now", 10_000))[1],
                "done"
            );
        } else {
            bed.pass(60_001 * MS);
            assert_eq!(bed.ask(&call)[1], "expired");
        }
        bed.now = bed.now.before(900 * MS);
        let verdict = if forced { "revoked" } else { "expired" };
        assert_eq!(bed.ask(&call)[1], verdict, "the same answer again");
        let next = acquire(&bed, "b:1", "b:2", "").call();
        assert_eq!(bed.ask(&next)[1], "granted", "forced: {forced}");
    }
}

#[test]
fn request_with_a_deadline_of_another_length_is_late() {
    let mut bed = Bed::new(Model::default());
    for by in [0, 9_999_999_999, 99_999_999_999_999] {
        let mut call = acquire(&bed, "a:1", "a:2", "");
        call.by = by;
        assert_eq!(bed.ask(&call.call())[1], "late", "{by}");
        let renewal = bed::Lock::Plain.renew(&["x"], by, "a:1", 1_000, 10_000, &[1]);
        assert_eq!(bed.ask(&renewal)[1], "late", "{by}");
    }
    assert!(bed.dump().is_empty());
}
