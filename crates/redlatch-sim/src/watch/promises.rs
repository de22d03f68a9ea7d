//! The promises that all kinds share, but for P4.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    checker::{Checker, Event},
    history::Holds,
    notice::Notice,
    record::Record,
    view::{Call, Claim, Part, View, Waits},
};
use crate::{
    names::label,
    scripts::{Act, Seen},
};

/// Returns the checkers of the promises that all kinds share.
pub(super) fn checkers(names: usize) -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(Tokens(vec![BTreeMap::new(); names])),
        Box::new(Exclusion(vec![false; names])),
        Box::<Notice>::default(),
        Box::<Lateness>::default(),
        Box::new(HandOff(vec![None; names])),
        Box::<Holds>::default(),
    ]
}

/// P1: no two holds that exclude each other are believed to be valid at the same time.
///
/// Checks after each step the names with guards of more than one hold.
#[derive(Debug)]
struct Exclusion(Vec<bool>);

impl Exclusion {
    fn check(&mut self, view: &View, record: &mut Record) {
        for name in 0..view.names() {
            if !self.0[name] {
                continue;
            }
            let mut holds: Vec<&Claim> = Vec::new();
            for (_, claim) in view.of_name(name).filter(|(_, it)| view.is_believed(it)) {
                let known = holds.iter().any(|known| known.is_with(claim));
                if !known && !view.was_ended_by_force(claim) {
                    holds.push(claim);
                }
            }
            if let Some(what) = clash(&holds) {
                record.violate("P1", format!("{what} {}", label(name)));
                self.0[name] = false;
            }
        }
    }
}

impl Checker for Exclusion {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        match *event {
            Event::Delivered { claim, .. } => {
                self.0[claim.name] = view.holds(claim.name) > 1;
                self.check(view, record);
            }
            Event::Left { name } => self.0[name] = view.holds(name) > 1,
            Event::Stepped if self.0.contains(&true) => self.check(view, record),
            _ => {}
        }
    }
}

/// Returns a description of two holds that exclude each other, if there are any.
fn clash(holds: &[&Claim]) -> Option<String> {
    let who = |it: &Claim| format!("{} ({})", it.who, it.hold);
    let two = |it: &Claim, other: &Claim| format!("{} and {} both hold", who(it), who(other));
    let (first, rest) = holds.split_first()?;
    if let Some(whole) = holds.iter().find(|claim| claim.part == Part::Whole) {
        let mut others = rest.iter().chain([first]);
        let other = others.find(|it| !it.is_with(whole) && !it.shares_owner(whole));
        return other.map(|other| two(whole, other));
    }
    let (mut taken, mut most) = (0, 0);
    for claim in holds {
        if let Part::Units { taken: units, of } = claim.part {
            taken += units;
            most = most.max(of);
        }
    }
    (taken > most).then(|| {
        let who: Vec<_> = holds.iter().map(|claim| claim.who.as_str()).collect();
        format!("{} have {taken} of {most} of", who.join(", "))
    })
}

/// P2: the token of a new hold is greater than every token that was known when the acquisition
/// began. Each token has one owner.
///
/// Records per name the owner of each token.
#[derive(Debug)]
struct Tokens(Vec<BTreeMap<u64, Arc<str>>>);

impl Checker for Tokens {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Event::Delivered { claim, call } = *event else {
            return;
        };
        let (Some(token), owner, name) = (claim.token, &claim.owner, label(claim.name)) else {
            return;
        };
        let known = self.0[claim.name].get(&token).cloned();
        let again = known.as_ref() == Some(owner);
        if let Some(known) = known.filter(|known| known != owner && claim.part == Part::Whole) {
            let what = format!("{known} and {owner} hold {name} with the same token {token}");
            record.violate("P2", what);
        }
        self.0[claim.name]
            .entry(token)
            .or_insert_with(|| Arc::clone(owner));
        // A failover that lost a release restores its hold. An owner that enters this hold again
        // gets its token again. The token of a new hold rises even then.
        let brought_back = again && view.conditions.loses_writes;
        let acked = call.map_or(0, |call| call.acked);
        if token < acked && !brought_back {
            let what = format!("{owner} holds {name} with token {token}, after {acked} was known");
            record.violate("P2", what);
        }
    }
}

/// P8: after a release a waiter gets the name at once, or as soon as messages reach every client
/// again. A waiter that has just arrived gets it as soon as the server must know it.
///
/// Records per name when a release freed it, if it was not granted since.
#[derive(Debug)]
struct HandOff(Vec<Option<u64>>);

impl HandOff {
    fn look(&mut self, view: &View, record: &mut Record) {
        let (calm, delay) = (view.conditions.calm, view.conditions.delay);
        let (hand_off, settling) = (HAND_OFF + 6 * delay, SETTLING + 8 * delay);
        let unheard = view.subscribed.values().any(|heard| !heard);
        let heard = if calm { 0 } else { view.resubscribed };
        for (name, free) in self.0.iter_mut().enumerate() {
            let Some(freed) = *free else { continue };
            let from = freed.max(heard);
            if (unheard && !calm) || view.now < from + hand_off {
                continue;
            }
            if view.now >= from + settling + hand_off {
                // The hand-off is over for every waiter that had arrived by then.
                *free = None;
            }
            let calls = || view.calls.values().filter(|call| call.name == name);
            let polls =
                |it: &Call| calls().any(|by| by.proc == it.proc && by.waits == Waits::Polling);
            let patient = calls().find(|call| {
                call.waits == Waits::Patiently
                    && call.since < freed
                    && (call.since + settling).max(from) + hand_off <= view.now
                    && view.exec.is_alive(call.proc)
                    && !polls(call)
            });
            if let Some(call) = patient {
                *free = None;
                let (name, proc, span) = (label(name), call.proc, hand_off / 1000);
                let what = format!(
                    "{name} was released, and a waiter of process {proc} did not get it within {span} ms"
                );
                record.violate("P8", what);
            }
        }
    }
}

impl Checker for HandOff {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        match *event {
            Event::Ran { seen, .. } => {
                for seen in seen {
                    match seen.act {
                        Act::Granted => self.0[seen.name] = None,
                        Act::Ended { freed: true } | Act::Forced { freed: true, .. }
                            if view.conditions.calm || view.conditions.calm_but_for_pubsub =>
                        {
                            self.0[seen.name] = Some(view.now);
                        }
                        _ => {}
                    }
                }
            }
            // A waiter to which a release has given the name has to hear of it as well.
            Event::Delivered { claim, .. } => self.0[claim.name] = None,
            Event::Looked => self.look(view, record),
            _ => {}
        }
    }
}

/// The longest hand-off without faults in µs, besides six delays: the wake-up, the request and its
/// reply, with the script's text.
const HAND_OFF: u64 = 10_000;

/// The time in µs after which the server knows a waiter.
const SETTLING: u64 = 30_000;

/// P6 and P10: no request acts seconds after it was sent, and no attempt acts once it has been
/// ended.
///
/// Records the attempts that were ended on the server, with the time if the server has refused a
/// try. A client that does not hear of the refusal may ask again.
#[derive(Debug, Default)]
struct Lateness {
    ended: BTreeMap<String, Option<u64>>,
}

impl Lateness {
    /// Tells whether a request that was sent then is about an attempt that had ended.
    fn is_over(&self, id: &str, sent: u64) -> bool {
        let ended = self.ended.get(id);
        ended.is_some_and(|refused| refused.is_none_or(|refused| sent <= refused))
    }
}

impl Checker for Lateness {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let (proc, ran, seen, sent) = match *event {
            Event::Ran {
                proc,
                ran,
                seen,
                sent,
                ..
            } => (proc, ran, seen, sent),
            // A server that has forgotten an attempt cannot refuse a copy. What the record had of
            // the other servers is not checked any more.
            Event::OneForgot => return self.ended.clear(),
            _ => return,
        };
        let age = view.now.saturating_sub(sent);
        for Seen { name, act, id } in seen {
            let name = label(*name);
            if matches!(act, Act::Granted | Act::Renewed)
                && age > REACH + view.conditions.servers_differ
            {
                let age = age / 1000;
                let what = format!(
                    "a request of process {proc} acted on {name} {age} ms after it was sent"
                );
                record.violate("P6", what);
            }
            match act {
                Act::Granted | Act::Given if self.is_over(id, sent) && !view.conditions.forks => {
                    let what = format!("attempt {id} took {name} after it had been ended");
                    record.violate("P10", what);
                }
                // Without the keys of the queue, the entry stays until the call is repeated.
                Act::Ended { .. } if !id.is_empty() && !ran.is_bare() => {
                    let refused = (ran.verdict() == "busy").then_some(view.now);
                    self.ended.insert(id.clone(), refused);
                }
                _ => {}
            }
        }
    }
}

/// The age in µs above which a request must not act if one server serves throughout: 5 s, an error
/// of 1 % for both clocks, and a small margin.
const REACH: u64 = 5_150_000;
