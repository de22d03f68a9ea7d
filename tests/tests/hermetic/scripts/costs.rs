//! What a script costs the server: how many commands it runs, counted inside of it.

use super::prelude::*;

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

/// Runs a script of which verdict and number of commands are known.
#[track_caller]
pub(crate) fn costs(bed: &mut Bed, call: &Call, (verdict, commands): (&str, usize)) {
    let (told, ran) = counted(bed, call);
    assert_eq!((&*told, ran), (verdict, commands), "{call}");
}

/// Runs a script that runs so many commands at most. Returns their number.
#[track_caller]
pub(crate) fn at_most(bed: &mut Bed, call: &Call, (verdict, most): (&str, usize)) -> usize {
    let (told, ran) = counted(bed, call);
    assert_eq!(told, verdict, "{call}");
    assert!(ran <= most, "{ran} commands: {call}");
    ran
}

/// As `at_most`, again and again as long as the script has more to remove. Returns how often.
#[track_caller]
pub(crate) fn exhaust(bed: &mut Bed, call: &Call, (verdict, most): (&str, usize)) -> usize {
    for looks in 1..2_000 {
        let (told, ran) = counted(bed, call);
        assert!(ran <= most, "{ran} commands: {call}");
        if told == verdict {
            return looks;
        }
        assert_eq!(told, "more", "{call}");
    }
    panic!("it never ends: {call}");
}

/// What each name costs beside the time, in one entry or in several. The lease is shorter or longer
/// than the retention of the token.
#[test]
fn uncontended_scripts_run_few_commands() {
    for (of, in_one, each) in [
        (Of::Plain, false, [3, 3, 2]),
        (Of::Plain, true, [3, 3, 2]),
        (Of::Fair, false, [3, 3, 2]),
        (Of::Write, false, [3, 4, 2]),
        (Of::Read, false, [5, 4, 4]),
        (Of::Permits, false, [3, 3, 5]),
    ] {
        for model in Model::ALL {
            for m in 1..=5 {
                let names = &["u", "v", "w", "y", "z"][..m];
                let names: Vec<_> = match in_one {
                    true => vec![names],
                    false => names.chunks(1).collect(),
                };
                for lease in [5_000, 50_000] {
                    check_costs(&mut Bed::new(model), of, (names.as_slice(), m), lease, each);
                }
            }
        }
    }
}

fn check_costs(
    bed: &mut Bed,
    of: Of,
    (entries, m): (&[&[&'static str]], usize),
    lease: u64,
    [taken, renewed, mut ended]: [usize; 3],
) {
    if lease > RETENTION && of != Of::Permits {
        // The release shortens the TTL.
        ended += 1;
    }
    for round in 1..=3 {
        let entries = (10 * round..).zip(entries);
        let asks = entries.map(|(n, names)| {
            let mut ask = Ask::new(of, bed, "a:1", n).names(names).need(2);
            ask.size = Some(10);
            ask.lease(lease)
        });
        let asks: Vec<_> = asks.collect();
        let calls: Vec<_> = asks.iter().map(Ask::call).collect();
        costs(bed, &list(&calls), ("granted", 1 + taken * m));
        let ids: Vec<_> = asks.iter().map(|ask| ask.ids(bed)).collect();
        let held = || asks.iter().zip(&ids);
        let by = asks[0].by;
        let calls: Vec<_> = held()
            .map(|(ask, ids)| ask.renew(by, lease + 4_000, ids))
            .collect();
        costs(bed, &list(&calls), ("renewed", 1 + renewed * m));
        let calls: Vec<_> = held()
            .map(|(ask, ids)| ask.release(ids, None, ""))
            .collect();
        costs(bed, &list(&calls), ("released", 1 + ended * m));
    }
}

#[test]
fn contention_costs_a_bounded_number_of_commands_more() {
    let mut bed = Bed::new(Model::default());
    let holder = Ask::new(Of::Plain, &bed, "a:1", 1).lease(5_000);
    holder.gets(&mut bed, "granted");
    for waiter in 0..200 {
        let ask = Ask::new(Of::Plain, &bed, &format!("b:{waiter}"), waiter);
        costs(&mut bed, &ask.waiting().call(), ("busy", 6));
    }
    let ids = holder.ids(&mut bed);
    costs(&mut bed, &holder.inspect(), ("held", 3));
    costs(&mut bed, &holder.release(&ids, None, ""), ("released", 7));
    assert_eq!(bed.published().len(), 1);
}

/// An attempt at the fair lock, which is its own owner.
fn fair(bed: &Bed, n: u64, channel: impl Display) -> Ask {
    let ask = Ask::new(Of::Fair, bed, &format!("a:{n}"), n);
    ask.at(&format!("PUBLISH w:{channel} {n} {n}"))
}

fn release(bed: &mut Bed, n: u64) -> Call {
    let ask = fair(bed, n, "");
    ask.release(&ask.ids(bed), None, "")
}

#[test]
fn no_script_costs_more_in_a_long_queue() {
    let mut bed = Bed::new(Model::default());
    let acquire = |bed: &Bed, n: u64| fair(bed, n, n % 40).call();
    let call = acquire(&bed, 0);
    bed.ask(&call);
    let mut worst = 0;
    for n in 1..2_000 {
        let call = acquire(&bed, n);
        worst = worst.max(at_most(&mut bed, &call, ("busy", 30)));
    }
    println!("to queue: {worst} commands at most");
    bed.published();
    for n in 0..100 {
        let call = release(&mut bed, n);
        at_most(&mut bed, &call, ("released", 10));
        let called = bed.published();
        assert_eq!(called.len(), 0, "nobody listens to these channels here");
        let call = acquire(&bed, n + 1);
        at_most(&mut bed, &call, ("granted", 14));
    }
}

/// Whoever is told when the head counts as dead looks then: all clients while they are few, else
/// those of the first 16 places.
#[test]
fn bounded_number_of_clients_looks_when_the_first_waiter_dies() {
    for clients in [2, 16, 17, 60] {
        let mut bed = Bed::new(Model::default());
        fair(&bed, 0, 0).gets(&mut bed, "granted");
        for n in 1..=20 {
            fair(&bed, n, "dead").gets(&mut bed, "busy");
        }
        let looks = |bed: &mut Bed, n: u64| {
            let ask = fair(bed, 100 + n, format_args!("living{n}"));
            bed.ask(&ask.call()).swap_remove(3)
        };
        for n in 1..clients {
            looks(&mut bed, n);
        }
        let call = release(&mut bed, 0);
        bed.ask(&call);
        let told = (1..clients).filter(|&n| looks(&mut bed, n) == "5000");
        let expected = if clients <= 16 { clients - 1 } else { 0 };
        assert_eq!(told.count() as u64, expected, "{clients} clients");
    }
}

#[test]
fn dead_waiters_are_removed_in_bounded_steps() {
    let mut bed = Bed::new(Model::default());
    for n in 0..=1_000 {
        let call = fair(&bed, n, n % 40).call();
        bed.ask(&call);
    }
    let call = release(&mut bed, 0);
    bed.pass(Duration::from_millis(5_001));
    at_most(&mut bed, &call, ("released", 2 * 64 + 12));
    // A client without dead waiters asks, while the flag of the queue still stands.
    let asker = fair(&bed, 5_000, "new").call();
    let looks = exhaust(&mut bed, &asker, ("granted", 2 * 64 + 12));
    assert!((11..30).contains(&looks), "{looks} looks remove 1,000");
}
