//! The harness itself. Promises and planted faults are for `cargo xtask sim`, which is optimised.

use redlatch_sim::{Options, mutants, rng::Rng, run, runtime::Clock, scenarios, workload::KINDS};

#[test]
fn same_seed_tells_the_same_story() {
    let tell_twice = |seed, kind| {
        let options = Options {
            kind: Some(kind),
            told: true,
            ..Options::default()
        };
        let (one, two) = (run(seed, &options), run(seed, &options));
        for (line, other) in one.story.iter().zip(&two.story) {
            assert_eq!(line, other, "seed {seed}");
        }
        assert_eq!(one, two, "seed {seed}");
    };
    std::thread::scope(|threads| {
        for (seed, &kind) in (0..).zip(KINDS) {
            threads.spawn(move || tell_twice(seed, kind));
        }
    });
}

#[test]
fn recording_a_story_does_not_change_it() {
    for seed in 10..15 {
        let told = Options {
            told: true,
            ..Options::default()
        };
        let (mut one, two) = (run(seed, &told), run(seed, &Options::default()));
        one.story.clear();
        assert_eq!(one, two, "seed {seed}");
    }
}

/// In µs.
const SECOND: u64 = 1_000_000;

#[test]
fn clock_shows_a_reading_at_the_time_it_promises() {
    let mut rng = Rng::new(7);
    for clock in [
        Clock::steady(5, -10_000),
        Clock::steady(5, 10_000),
        Clock::wandering(1_000_000, 10_000, &mut rng),
    ] {
        let mut last = clock.read(0);
        for at in (0..200 * SECOND).step_by(9_973) {
            let reading = clock.read(at);
            assert!(reading >= last, "it never goes back");
            last = reading;
            let when = clock.when(reading);
            assert!(when <= at && clock.read(when) >= reading, "{at}: {when}");
            assert!(when == 0 || clock.read(when - 1) < reading, "{at}: {when}");
            let next = clock.when(reading + 1);
            assert!(next > at && clock.read(next) > reading, "{at}: {next}");
        }
    }
}

#[test]
fn a_clock_keeps_within_its_bound() {
    let clock = Clock::wandering(0, 10_000, &mut Rng::new(3));
    for from in (0..140 * SECOND).step_by(1_300_007) {
        let gone = clock.read(from + SECOND) - clock.read(from);
        assert!((989_999..=1_010_001).contains(&gone), "{from}: {gone}");
    }
}

#[test]
fn scenarios_have_kinds_and_unique_names() {
    for scenario in scenarios::all() {
        assert!(!scenario.kinds().is_empty(), "{}", scenario.name);
    }
    are_unique(scenarios::all().map(|it| it.name));
    for (kind, mutant) in mutants::all() {
        let Some(name) = mutant.within else { continue };
        let scenario = scenarios::find(name).expect("it is in the list");
        assert!(kind.takes_part(scenario), "{}: {name}", mutant.name);
    }
}

/// The hunt ends with whatever it finds first, which is another promise.
#[test]
fn clients_that_share_an_id_are_found_as_two_holders() {
    let (kind, mutant) = mutants::find("ids-collide").expect("it is in the list");
    let options = Options {
        kind: Some(kind),
        mutant: Some(mutant),
        ..Options::default()
    };
    let two_holders = |seed| {
        let violations = run(seed, &options).violations;
        violations.iter().any(|it| it.promise == "P1")
    };
    assert!((0..20).any(two_holders));
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
    for (_, mutant) in mutants::all() {
        // Panics if it is not there.
        mutant.forgery();
    }
}

#[test]
fn planted_faults_have_unique_names() {
    are_unique(mutants::all().map(|(_, mutant)| mutant.name));
}

fn are_unique(names: impl Iterator<Item = &'static str>) {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        assert!(seen.insert(name), "{name} is there twice");
    }
}
