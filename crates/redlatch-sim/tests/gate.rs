//! What every test run asks of the simulator. The full numbers are `cargo xtask sim`'s, which
//! `cargo xtask test` runs.

use redlatch_sim::{Fault, Options, batch, mutants, run, scenarios};

#[test]
fn same_seed_tells_the_same_story() {
    let options = Options {
        told: true,
        ..Options::default()
    };
    for seed in 0..100 {
        let (one, two) = (run(seed, &options), run(seed, &options));
        for (line, other) in one.story.iter().zip(&two.story) {
            assert_eq!(line, other, "seed {seed}");
        }
        assert_eq!(one, two, "seed {seed}");
    }
}

#[test]
fn recording_a_story_does_not_change_it() {
    for seed in 100..120 {
        let told = Options {
            told: true,
            ..Options::default()
        };
        let (mut one, two) = (run(seed, &told), run(seed, &Options::default()));
        one.story.clear();
        assert_eq!(one, two, "seed {seed}");
    }
}

#[test]
fn library_keeps_its_promises() {
    let seeds = number("REDLATCH_SIM_SEEDS", 300);
    let sum = batch::seeds(0, seeds, &Options::default(), false);
    println!("{sum}");
    for report in &sum.broken {
        println!("seed {}: {:?}", report.seed, report.violations);
    }
    assert!(sum.broken.is_empty(), "cargo xtask sim --seeds {seeds}");
    assert!(sum.tally.grants > seeds * 20, "hardly anything was locked");
    let common = &sum.tally.common;
    assert!(common.served > seeds, "hardly any call was merged");
    assert!(common.alone > 0, "every merged call was plain");
}

#[test]
fn two_holders_are_found_where_expected_and_the_token_stops_the_older() {
    for fault in Fault::EXPECTED {
        let options = Options {
            faults: vec![fault],
            ..Options::default()
        };
        let sum = batch::seeds(0, 60, &options, false);
        assert!(sum.broken.is_empty(), "{fault:?}: {:?}", sum.broken);
        assert!(sum.two_holders > 0, "{fault:?} was not seen");
        assert!(sum.tally.stopped > 0, "{fault:?}: no write was stopped");
    }
}

#[test]
fn library_keeps_its_promises_in_scenarios() {
    let seeds = number("REDLATCH_SIM_SEEDS", 300) / 5;
    for scenario in scenarios::gated() {
        let options = Options {
            scenario: Some(scenario),
            ..Options::default()
        };
        let sum = batch::seeds(0, seeds, &options, false);
        let name = scenario.name;
        println!("{name}: {sum}");
        assert!(sum.broken.is_empty(), "{name}: {:?}", sum.broken);
        for fault in scenario.faults {
            let times = sum.tally.faults.get(fault).copied().unwrap_or(0);
            assert!(times > seeds / 10, "{name}: {fault:?} came {times} times");
        }
    }
}

#[test]
fn two_holders_are_found_where_server_clocks_differ_by_more_than_the_allowance() {
    let options = Options {
        scenario: scenarios::find("clocks-beyond"),
        ..Options::default()
    };
    let sum = batch::seeds(0, 60, &options, false);
    assert!(sum.two_holders > 0, "no server's clock made a difference");
}

#[test]
fn clients_that_share_an_id_are_found_as_two_holders() {
    let (kind, mutant) = mutants::find("ids-collide").expect("it is in the list");
    let options = Options {
        kind: Some(kind),
        mutant: Some(mutant),
        ..Options::default()
    };
    let sum = batch::seeds(0, 20, &options, false);
    let violations = sum.broken.iter().flat_map(|report| &report.violations);
    let two_holders = violations.filter(|it| it.promise == "P1").count();
    assert!(two_holders > 0, "{:?}", sum.broken);
}

#[test]
fn scenarios_have_kinds_and_unique_names() {
    for scenario in scenarios::all() {
        assert!(!scenario.kinds().is_empty(), "{}", scenario.name);
    }
    let mut names: Vec<_> = scenarios::all().map(|it| it.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
    for (kind, mutant) in mutants::every() {
        let Some(name) = mutant.within else { continue };
        let scenario = scenarios::find(name).expect("it is in the list");
        assert!(kind.takes_part(scenario), "{}: {name}", mutant.name);
    }
}

#[test]
fn planted_faults_are_found() {
    let quick = [
        "token-repeats",
        "reentry-not-counted",
        "renewal-shortens",
        "release-wakes-nobody",
        "ids-collide",
        #[cfg(redlatch_sim)]
        "loss-not-latched",
        #[cfg(redlatch_sim)]
        "resend-new-id",
    ];
    for name in quick {
        let (kind, mutant) = mutants::find(name).expect("it is in the list");
        let found = batch::hunt(kind, mutant, 0, 200);
        assert!(found.is_some(), "{name} survived");
    }
}

#[cfg(not(redlatch_sim))]
#[test]
fn a_build_without_fault_switches_refuses_to_break_a_rule() {
    let (_, mutant) = mutants::find("resend-new-id").expect("it is in the list");
    let refused = mutant.check().expect_err("there is no switch");
    assert!(refused.contains("cargo xtask sim"), "{refused}");
}

#[test]
fn planted_faults_find_the_text_they_replace() {
    for (_, mutant) in mutants::every() {
        // Panics if it is not there.
        mutant.forgery();
    }
}

#[test]
fn planted_faults_have_unique_names() {
    let mut names: Vec<_> = mutants::every().map(|(_, mutant)| mutant.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}
