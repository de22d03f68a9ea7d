//! The calls that are recorded, one scene after another. Each scene has a server of its own.
//!
//! Clients are `a1` to `e5`, which keeps the vectors short: scripts do not read the ids of clients,
//! and real ones have 32 digits. The lease is 30 s and tokens are kept for 10 minutes, so that the
//! TTL of a hold is 630 s.

mod compat;
mod core;
mod election;
mod exclusive;
mod fair;
mod fence;
mod latch;
mod limit;
mod once;
mod pool;
mod pool_queue;
mod rwlock;
mod rwlock_queue;

use crate::{Bed, Vector};

/// Records all calls.
pub fn all() -> Vec<Vector> {
    let mut vectors = Vec::new();
    let mut scene = |play: &dyn Fn(&mut Bed)| {
        let mut bed = Bed::new();
        play(&mut bed);
        vectors.extend(bed.finish());
    };
    scene(&core::probe);
    scene(&core::forgotten);
    scene(&core::forgotten_kinds);
    for kind in exclusive::KINDS {
        for text in exclusive::SCENES {
            scene(&|bed| {
                bed.play(&kind.words());
                bed.play(text);
            });
        }
        if kind.queued {
            scene(&|bed| fair::in_order(bed, &kind));
            scene(&|bed| fair::granted_ahead(bed, &kind));
            scene(&|bed| fair::dead_waiters(bed, &kind));
        }
    }
    for play in [
        fair::inspection,
        election::terms,
        latch::life,
        latch::refusals,
        limit::passes,
        limit::lists,
        limit::refusals,
        once::slots,
        once::keyed,
        once::refusals,
        fence::writes,
        fence::refusals,
        compat::set_nx,
        compat::set_nx_undone,
        compat::set_nx_revived,
        compat::redisson,
        compat::redisson_ends,
        compat::redisson_revived,
        compat::redisson_as_java,
        compat::redisson_force,
        compat::refusals,
        pool::holds,
        pool::refusals,
        pool::changes,
        pool::merged,
        pool::expiring,
        pool_queue::waiters,
        pool_queue::dead,
        pool_queue::crowd,
        pool_queue::granted_ahead,
        rwlock::readers,
        rwlock::writer,
        rwlock::ended_writers,
        rwlock::refusals,
        rwlock::upgrade,
        rwlock::ends,
        rwlock::merged,
        rwlock_queue::batch,
        rwlock_queue::granted_ahead,
        rwlock_queue::dead,
    ] {
        scene(&play);
    }
    // Readers find the calls of one script together.
    vectors.sort_by(|a: &Vector, b: &Vector| a.script.cmp(&b.script));
    vectors
}

/// Plays calls that another kind refuses, and that are refused when they come late.
fn refused(bed: &mut Bed, calls: &[&str]) {
    for call in calls {
        bed.play(&format!("{call} | another kind"));
    }
    late(bed, calls);
}

/// Plays calls behind the time until which they may act.
fn late(bed: &mut Bed, calls: &[&str]) {
    for call in calls {
        let late = call.replacen(" by ", " past ", 1);
        assert_ne!(late, *call, "it has no time");
        bed.play(&format!("{late} | late"));
    }
}

/// Plays calls on an empty server with a clock that scripts cannot compare.
fn before_2001(bed: &mut Bed, calls: &[&str]) {
    bed.play("clear\nclock 999999999999999");
    for call in calls {
        bed.play(&format!("{call} | a clock before 2001"));
    }
}
