//! The scripts of jobs that run once per slot.

use crate::Bed;

const CLAIM: &str = "once/claim";
const RELEASE: &str = "once/release";
const RENEW: &str = "once/renew";
const RESET: &str = "once/reset";
const LOOK: &str = "once/look";

/// Claims the slot that begins at `slot`, for three attempts.
fn claim(name: &str, bed: &mut Bed, client: &str, slot: u64, seen: &str) -> Vec<String> {
    let ends = slot + 60_000;
    let args = format!(
        "by {client}:1 {client}:2 30000 1209600000 {slot} {seen} {slot} {ends} 3 host-{client} -"
    );
    bed.call(name, CLAIM, "n", &args)
}

/// Ends the claim of `client` with `outcome` and the text `why`.
fn end(name: &str, bed: &mut Bed, client: &str, token: &str, outcome: &str) -> Vec<String> {
    let args = format!("{client}:1 {client}:2 - 1209600000 600000 {token} {outcome} -");
    bed.call(name, RELEASE, "n", &args)
}

pub(super) fn slots(bed: &mut Bed) {
    let first = 1_700_000_000_000;
    bed.call("nothing is known", LOOK, "n", "-");
    bed.call("unset", RESET, "n", "by a1:9 ~0 -");
    let token = claim("the first attempt at a slot", bed, "a1", first, "~0")[3].clone();
    claim("a copy of a granted claim", bed, "a1", first, "~0");
    claim("busy", bed, "b2", first, "~0");
    bed.pass(1000);
    let renewal = format!("by a1:1 30000 1209600000 {token}");
    bed.call("renewed", RENEW, "n", &renewal);
    bed.call("a run is under way", LOOK, "n", "-");
    end("done", bed, "a1", &token, "done - ");
    end("already", bed, "a1", &token, "done -");
    claim(
        "moved, the state is not what the caller saw",
        bed,
        "b2",
        first,
        "~0",
    );
    let seen = format!("{token}~0");
    claim("moved, the slot is done", bed, "b2", first, &seen);
    claim(
        "moved, the slot has not begun",
        bed,
        "b2",
        first + 60_000,
        &seen,
    );
    bed.pass(60_000);
    let second = first + 60_000;
    let failing = claim("the next slot", bed, "b2", second, &seen)[3].clone();
    bed.call("taken", RENEW, "n", &renewal);
    let old = "a1:1 a1:3 - 1209600000 600000 1700000000000001 done - -";
    bed.call("taken", RELEASE, "n", old);
    end(
        "failed, with the reason",
        bed,
        "b2",
        &failing,
        "failed no~disk",
    );
    let seen = format!("{failing}~0");
    let lost = claim("the second attempt at a slot", bed, "c3", second, &seen)[3].clone();
    bed.pass(30_001);
    let renewal = format!("by c3:1 30000 1209600000 {lost}");
    bed.call("expired", RENEW, "n", &renewal);
    let seen = format!("{lost}~1");
    let third = claim(
        "the third attempt, after one that was lost",
        bed,
        "d4",
        second,
        &seen,
    );
    let third = third[3].clone();
    bed.pass(30_001);
    end(
        "expired, the outcome is recorded all the same",
        bed,
        "d4",
        &third,
        "overran -",
    );
    bed.pass(1);
    let seen = format!("{third}~0");
    bed.pass(20);
    let limit = format!("by e5:1 e5:2 30000 1209600000 {second} {seen} - - 3 host-e5 -");
    bed.call("moved, the slot has no attempt left", CLAIM, "n", &limit);
    bed.call("moved", RESET, "n", "by a1:9 ~0 -");
    bed.call(
        "the records are forgotten",
        RESET,
        "n",
        &format!("by a1:9 {seen} -"),
    );
    bed.call(
        "a copy of a reset",
        RESET,
        "n",
        &format!("by a1:9 {seen} -"),
    );
    bed.call("after a reset", LOOK, "n", "-");
}

pub(super) fn keyed(bed: &mut Bed) {
    let claim = |attempt: &str, slot: &str, seen: &str| {
        format!("by a1:1 {attempt} 30000 1209600000 {slot} {seen} - - 3 host-a1 86400000")
    };
    let first = bed.call("a keyed slot", CLAIM, "n", &claim("a1:2", "=x", "~0"));
    let token = first[3].clone();
    bed.call("a keyed slot under way", LOOK, "n", "=x");
    let done = format!("a1:1 a1:2 - 1209600000 600000 {token} done - 86400000");
    bed.call("a keyed slot is done", RELEASE, "n", &done);
    bed.call("a keyed slot that is done", LOOK, "n", "=x");
    let seen = format!("{token}~0");
    bed.call(
        "moved, the keyed slot is done",
        CLAIM,
        "n",
        &claim("a1:3", "=x", &seen),
    );
    let second = bed.run(CLAIM, "n", &claim("a1:4", "=y", &seen))[3].clone();
    let undo = format!("a1:1 a1:4 by 1209600000 600000 {second} - - 86400000");
    bed.call(
        "a run that never began does not count, and its copies are refused",
        RELEASE,
        "n",
        &undo,
    );
    let seen = format!("{second}~0");
    bed.call("void", CLAIM, "n", &claim("a1:4", "=y", &seen));
    bed.put("HSET %n y 1~1000~1000");
    bed.call("full, set by hand", CLAIM, "n", &claim("a1:5", "=z", &seen));
}

pub(super) fn refusals(bed: &mut Bed) {
    let claim = "a1:1 a1:2 30000 1209600000 1700000000000 ~0 - - 3 host-a1 -";
    let calls = [
        (CLAIM, claim),
        (RENEW, "a1:1 30000 1209600000 17"),
        (RESET, "a1:9 ~0 -"),
    ];
    let release = "a1:1 a1:2 - 1209600000 600000 1700000000000000 done - -";
    bed.call("gone", RELEASE, "n", release);
    bed.call(
        "gone",
        RENEW,
        "n",
        "by a1:1 30000 1209600000 1700000000000000",
    );
    bed.put("HSET %n k other:1");
    for (script, args) in calls {
        bed.call("another kind", script, "n", &format!("by {args}"));
        bed.call("late", script, "n", &format!("past {args}"));
    }
    bed.call("another kind", RELEASE, "n", release);
    bed.call("another kind", LOOK, "n", "-");
    bed.clear();
    bed.set_micros(999_999_999_999_999);
    for (script, args) in calls {
        bed.call("a clock before 2001", script, "n", &format!("by {args}"));
    }
}
