//! What a script costs the server: how many commands it runs, counted inside of it.

use redlatch::runtime::Command;
use redlatch_embedded::engine::Model;

use super::bed::{self, Acquire, Bed, Call, Release};

/// Runs a script whose commands are counted; returns its verdict and how many there were.
pub(crate) fn counted(bed: &mut Bed, call: &Call) -> (String, usize) {
    let text = format!(
        "local real, n = redis, 0
         local redis = {{
           call = function(...) n = n + 1 return real.call(...) end,
           pcall = function(...) n = n + 1 return real.pcall(...) end,
           error_reply = real.error_reply,
         }}
         local function script()\n{}\nend
         local reply = script()
         if type(reply) == 'string' then return {{string.match(reply, ' (%S+)'), n}} end
         return {{reply[2], n}}",
        call.script.text
    );
    let head = Command::new("EVAL")
        .arg(text)
        .arg(call.keys.len().to_string());
    let command = call.keys.iter().chain(&call.args).fold(head, Command::arg);
    let reply = bed.execute(&command).unwrap();
    let [verdict, count] = reply.as_array().unwrap() else {
        panic!("{reply:?}");
    };
    let count = usize::try_from(count.as_int().unwrap()).unwrap();
    (verdict.as_str().unwrap().to_owned(), count)
}

fn acquire<'a>(names: &'a [&'a str], owner: &'a str, attempt: &'a str) -> Acquire<'a> {
    Acquire {
        of: bed::Lock::Plain,
        names,
        by: 9_999_999_999_999,
        owner,
        attempt,
        lease: 5_000,
        retention: 10_000,
        register: Some(2_000),
        address: "PUBLISH w:a 1",
    }
}

fn tokens(bed: &mut Bed, names: &[&str]) -> Vec<u64> {
    let mut token = |name: &&str| bed.hash(&bed::key(name))["t"].parse().unwrap();
    names.iter().map(&mut token).collect()
}

#[test]
fn uncontended_scripts_run_at_most_four_commands_and_three_more_per_further_name() {
    let names = ["x", "y", "z"];
    for model in Model::ALL {
        for m in 1..=3 {
            let names = &names[..m];
            let most = 1 + 3 * m;
            let mut bed = Bed::new(model);
            for round in 0..3 {
                let attempt = format!("a:{round}");
                let call = acquire(names, "a", &attempt).call();
                assert_eq!(counted(&mut bed, &call), ("granted".to_owned(), most));
                let held = tokens(&mut bed, names);
                let call =
                    bed::Lock::Plain.renew(names, 9_999_999_999_999, "a", 9_000, 10_000, &held);
                assert_eq!(counted(&mut bed, &call), ("renewed".to_owned(), most));
                let call = Release::new(names, "a", &attempt, &held).call();
                // A release of a plain hold leaves the TTL as it is.
                let freed = 1 + 2 * m;
                assert_eq!(counted(&mut bed, &call), ("released".to_owned(), freed));
            }
        }
    }
}

#[test]
fn contention_costs_a_bounded_number_of_commands_more() {
    let mut bed = Bed::new(Model::default());
    bed.ask(&acquire(&["x"], "a", "a:1").call());
    for waiter in 0..200 {
        let (owner, address) = (format!("b:{waiter}"), format!("PUBLISH w:b {waiter}"));
        let call = Acquire {
            address: &address,
            ..acquire(&["x"], &owner, &owner)
        };
        assert_eq!(counted(&mut bed, &call.call()), ("busy".to_owned(), 6));
    }
    let held = tokens(&mut bed, &["x"]);
    let inspected = counted(&mut bed, &bed::inspect("x"));
    assert_eq!(inspected, ("held".to_owned(), 3));
    let call = Release::new(&["x"], "a", "a:1", &held).call();
    assert_eq!(counted(&mut bed, &call), ("released".to_owned(), 7));
    assert_eq!(bed.published().len(), 1);
}
