//! Laws of single scripts, each from the state that is most likely to break it. Some hold for
//! several kinds.

use super::prelude::*;

const MS: Duration = Duration::from_millis(1);

// L21
#[test]
fn release_wakes_the_waiter_behind_a_hundred_dead_ones() {
    let mut bed = Bed::new(Model::default());
    let holder = Ask::new(Of::Plain, &bed, "a:1", 2);
    holder.gets(&mut bed, "granted");
    for n in 0..100 {
        let mut dying = Ask::new(Of::Plain, &bed, "c:1", n).at(&format!("PUBLISH w:a {n}"));
        dying.register = Some(1_000);
        dying.gets(&mut bed, "busy");
    }
    bed.pass(1_001 * MS);
    let living = Ask::new(Of::Plain, &bed, "b:1", 2).waiting();
    living.gets(&mut bed, "busy");
    let ids = holder.ids(&mut bed);
    bed.ask(&holder.release(&ids, None, ""));
    assert_eq!(bed.published(), [("w:b".to_owned(), key("x"))]);
    assert_eq!(bed.ttl(&part("x", "q")), None, "nobody is left in it");
}

// L40
#[test]
fn a_token_of_sixteen_digits_goes_up_by_one_when_the_clock_goes_back() {
    for (model, of) in Model::ALL
        .into_iter()
        .flat_map(|it| [Of::Plain, Of::Fair, Of::Write, Of::Read].map(|of| (it, of)))
    {
        let mut bed = Bed::new(model);
        let mut last = 0;
        for n in 0..50 {
            let ask = Ask::new(of, &bed, "a:1", n);
            ask.gets(&mut bed, "granted");
            let ids = ask.ids(&mut bed);
            assert!(ids[0] > last, "{of:?}: {ids:?} after {last}");
            assert!(n == 0 || ids[0] == last + 1, "{of:?}");
            last = ids[0];
            bed.ask(&ask.release(&ids, None, ""));
            bed.now = bed.now.before(7 * MS);
        }
    }
}

#[test]
fn an_ended_hold_stays_over_by_a_clock_that_is_behind() {
    for (of, then, forced) in [
        (Of::Plain, Of::Plain, false),
        (Of::Plain, Of::Plain, true),
        (Of::Fair, Of::Fair, false),
        (Of::Fair, Of::Fair, true),
        (Of::Write, Of::Read, false),
        (Of::Write, Of::Read, true),
        (Of::Write, Of::Write, true),
    ] {
        let mut bed = Bed::new(Model::default());
        let ask = Ask::new(of, &bed, "a:1", 2);
        ask.gets(&mut bed, "granted");
        let ids = ask.ids(&mut bed);
        let call = ask.release(&ids, None, "");
        let verdict = if forced {
            bed.pass(1_000 * MS);
            bed.gets(&ask.force(ids[0], "now"), "done");
            "revoked"
        } else {
            bed.pass(60_001 * MS);
            bed.gets(&call, "expired");
            "expired"
        };
        bed.now = bed.now.before(900 * MS);
        bed.gets(&call, verdict);
        let next = Ask::new(then, &bed, "b:1", 2);
        let answer = bed.ask(&next.call());
        assert_eq!(answer[1], "granted", "{of:?}, forced: {forced}");
    }
}

#[test]
fn request_with_a_deadline_of_another_length_is_late() {
    for of in [Of::Plain, Of::Fair, Of::Write, Of::Read, Of::Permits] {
        let mut bed = Bed::new(Model::default());
        for by in [0, 9_999_999_999, 99_999_999_999_999] {
            let mut ask = Ask::new(of, &bed, "a:1", 2);
            ask.by = by;
            ask.gets(&mut bed, "late");
            bed.gets(&ask.renew(by, 1_000, &[1]), "late");
        }
        assert!(bed.dump().is_empty());
    }
}

/// Else a client whose shard got another channel would be two, one of which nobody hears of any
/// more.
#[test]
fn waiters_belong_to_their_client_whatever_their_channel() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        let ask = |bed: &Bed, owner: &str, n: u64, address: &str| {
            Ask::new(Of::Fair, bed, owner, n).lease(1_000).at(address)
        };
        ask(&bed, "a:1", 1, "PUBLISH re:w:a 1 1").gets(&mut bed, "granted");
        let addresses = [
            "SPUBLISH re:w:b{71} 2 2",
            "NONE re:w:b 3 3",
            "SPUBLISH re:w:b{5} 4 4",
            "PUBLISH re:w:bb 5 5",
        ];
        for (n, address) in (2..).zip(addresses) {
            ask(&bed, &format!("b:{n}"), n, address).gets(&mut bed, "busy");
        }
        assert_eq!(bed.sorted(&part("x", "q")).len(), 4);
        let clients: Vec<_> = bed.sorted(&part("x", "l")).into_keys().collect();
        assert_eq!(clients, ["re:w:b", "re:w:bb"]);
        // The name is free; whoever of the client looks is told which of its waiters is first.
        bed.pass(1_500 * MS);
        let answer = ask(&bed, "b:4", 4, addresses[2]).gets(&mut bed, "busy");
        assert_eq!(answer[5], "2", "{answer:?}");
    }
}
