//! The small worlds that are explored, and the planted faults that they must find.

use std::{
    fmt, thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use stateright::{Checker, HasDiscoveries, Model, Path};

use super::{Action, Broken, Budget, State, World, laws::REACHED};
use crate::{
    mutants::{Forgery, What},
    workload,
};

/// A world, and what it shows.
struct Named {
    name: &'static str,
    world: World,
}

/// The result of an exploration.
struct Explored {
    states: usize,
    depth: usize,
    took: Duration,
    /// Whether a caller got a guard behind another.
    reached: bool,
    /// The laws that are broken, each with the shortest way there.
    broken: Vec<(&'static str, Path<State, Action>)>,
}

impl Named {
    const fn kind(&self) -> &'static str {
        if self.world.fair { "fair" } else { "lock" }
    }

    /// Tells whether it breaks a law, since nothing is promised there.
    fn breaks(&self) -> bool {
        matches!(self.name, "forgets" | "clocks-apart")
    }
}

const WAIT: &[bool] = &[true];
const TRY: &[bool] = &[false];

/// Returns the worlds, the smaller ones first. `ticks` pass in most of them, and two calls wait.
fn worlds(ticks: u8) -> impl Iterator<Item = Named> {
    let mut all = Vec::new();
    for fair in [false, true] {
        let mut add = |name, change: &dyn Fn(&mut World, &mut Budget)| {
            let mut budget = Budget::default();
            let mut world = World {
                fair,
                calls: vec![WAIT.into(), WAIT.into()],
                horizon: ticks,
                orders: fair,
                ..World::default()
            };
            change(&mut world, &mut budget);
            world.budget = budget;
            all.push(Named { name, world });
        };
        add("late", &|world, may| {
            world.calls.pop();
            world.horizon += 1;
            (may.copies, may.leaves) = (1, 1);
        });
        add("three", &|world, _| {
            world.calls.push(WAIT.into());
            world.horizon = 1;
        });
        add("tries", &|world, may| {
            world.calls = vec![[WAIT, TRY].concat(), [WAIT, TRY].concat()];
            (may.copies, world.horizon, world.orders) = (1, 1, false);
        });
        add("deaths", &|_, may| (may.deaths, may.renewals) = (1, 1));
        add("takeover", &|world, may| {
            (world.durable, world.ahead, may.takeovers) = (true, 1, 1);
        });
        add("lost", &|_, may| (may.losses, may.again) = (1, 1));
        add("copies", &|_, may| (may.copies, may.leaves) = (1, 1));
        add("forgets", &|world, may| {
            (world.durable, may.takeovers) = (true, 1);
            world.broken = Some(Broken::Confirm);
        });
        add("clocks-apart", &|world, may| {
            (world.durable, world.ahead, may.takeovers) = (true, 2, 1);
        });
    }
    all.into_iter()
}

/// Explores a world with all cores, until a law is broken.
fn visit(world: &World) -> Explored {
    #[expect(
        clippy::disallowed_methods,
        reason = "it measures, and decides nothing"
    )]
    let began = Instant::now();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let checker = world.clone().checker().threads(threads);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let found = checker.discoveries().into_iter();
    let (reached, mut broken): (Vec<_>, Vec<_>) = found.partition(|(law, _)| *law == REACHED);
    broken.sort_by_key(|(law, _)| *law);
    Explored {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: began.elapsed(),
        reached: !reached.is_empty(),
        broken,
    }
}

/// Explores the worlds of a kind, or of all kinds. Returns whether the laws hold where they must,
/// and nowhere else.
pub fn explore(ticks: u8, kind: Option<&str>) -> bool {
    let mut good = true;
    for named in worlds(ticks).filter(|named| kind.is_none_or(|kind| kind == named.kind())) {
        let explored = visit(&named.world);
        println!("{:<6}{:<14}{explored}", named.kind(), named.name);
        let wrong = match (explored.broken.is_empty(), named.breaks()) {
            (false, false) => "a law is broken",
            (true, true) => "no law is broken",
            (true, false) if !explored.reached && named.world.calls.len() > 1 => "no caller waited",
            _ => continue,
        };
        good = false;
        println!("!!! {wrong}");
        explored.tell();
    }
    good
}

/// A planted fault.
#[derive(Default)]
struct Plant {
    name: String,
    /// The kind whose scripts have it; `None` for a rule that clients of all kinds break.
    kind: Option<&'static str>,
    broken: Option<Broken>,
    forgery: Option<Forgery>,
    /// Whether no small world shows it.
    unseen: bool,
}

impl Plant {
    /// Returns the rules that clients can break, and the changes of scripts that the simulator
    /// hunts.
    fn all() -> impl Iterator<Item = Self> {
        let rules = Broken::value_variants().iter().map(|&rule| Self {
            name: format!("{rule:?}"),
            broken: Some(rule),
            ..Self::default()
        });
        let scripts = ["lock", "fair"].into_iter().flat_map(|kind| {
            let mutants = workload::find(kind).map_or(&[][..], |kind| kind.mutants);
            let mutants = mutants.iter();
            let texts = mutants.filter(|mutant| matches!(mutant.what, What::Script(..)));
            texts.map(move |mutant| Self {
                name: mutant.name.to_owned(),
                kind: Some(kind),
                forgery: mutant.forgery(),
                unseen: mutant.unseen,
                ..Self::default()
            })
        });
        rules.chain(scripts)
    }

    /// Explores until a world breaks a law, and describes the shortest way there.
    fn find(&self, ticks: u8) -> Option<String> {
        let worlds = worlds(ticks).filter(|named| !named.breaks());
        let mut worlds = worlds.filter(|named| self.kind.is_none_or(|kind| kind == named.kind()));
        worlds.find_map(|mut named| {
            (named.world.broken, named.world.forgery) = (self.broken, self.forgery.clone());
            let (law, path) = visit(&named.world).broken.into_iter().next()?;
            let (events, kind) = (path.into_actions().len(), named.kind());
            Some(format!("{law}, {events} events, {kind} {}", named.name))
        })
    }
}

/// Hunts the planted faults of a kind, or all. Returns whether each was found that has to be.
pub fn hunt(ticks: u8, kind: Option<&str>) -> bool {
    let mut good = true;
    for plant in Plant::all().filter(|plant| kind.is_none_or(|kind| plant.kind == Some(kind))) {
        let found = match plant.unseen {
            true => Some("needs what no small world has".to_owned()),
            false => plant.find(ticks),
        };
        good &= found.is_some();
        let found = found.as_deref().unwrap_or("!!! not found");
        println!("{:<38}{found}", plant.name);
    }
    good
}

impl Explored {
    /// Prints the ways to the broken laws.
    fn tell(&self) {
        for (law, path) in &self.broken {
            println!("{law}");
            for (state, action) in path.clone().into_vec() {
                match action {
                    Some(action) => println!("  tick {}: {action:?}", state.now),
                    None => println!("  {state:?}"),
                }
            }
        }
    }
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (states, depth, took) = (self.states, self.depth, self.took.as_secs_f64());
        write!(f, "{states:>9} states, {depth:>2} events, {took:>5.1} s")?;
        let mut broken = self.broken.iter();
        broken.try_for_each(|(law, _)| write!(f, ", breaks {law}"))
    }
}
