//! Common calls as the calls for which they stand.

use redlatch_core::family::Objects;
use redlatch_lua::{ELECTION, Exclusive, FAIR, FAIR_ELECTION, POOL, REENTRANT, RWLOCK, Source};

/// How the arguments of a common call belong to those of the single calls. Positions count from 0
/// and include the limit of time, if there is one.
pub(super) struct Layout {
    /// The script of a single call.
    pub(super) single: &'static Source,
    /// Whether the first argument is a limit of time.
    pub(super) dated: bool,
    /// The number of keys of each call.
    pub(super) keys: usize,
    /// Whether each call has keys of its own.
    pub(super) objects: Objects,
    /// The places of the shared arguments in a single call.
    pub(super) shared: &'static [usize],
    /// The places of the arguments that begin with the client's id.
    pub(super) ids: &'static [usize],
    /// The places of the other arguments.
    pub(super) texts: &'static [usize],
}

/// Returns the layout of a script that serves several calls.
pub(super) fn layout(source: &Source) -> Option<Layout> {
    [
        &REENTRANT,
        &FAIR.exclusive,
        &ELECTION.exclusive,
        &FAIR_ELECTION,
    ]
    .into_iter()
    .find_map(|sources| exclusive(sources, source))
    .or_else(|| rwlock(source))
    .or_else(|| pool(source))
}

fn exclusive(sources: &'static Exclusive, source: &Source) -> Option<Layout> {
    let layout = if *source == sources.acquire_each {
        acquiring(&sources.acquire, 1)
    } else if *source == sources.renew_each {
        Layout {
            single: &sources.renew,
            dated: true,
            keys: 1,
            objects: Objects::Each,
            shared: &[2, 3],
            ids: &[1],
            texts: &[4],
        }
    } else if *source == sources.release_each {
        Layout {
            single: &sources.release,
            dated: false,
            keys: 1,
            objects: Objects::Each,
            shared: &[3],
            ids: &[1],
            texts: &[5],
        }
    } else {
        return None;
    };
    Some(layout)
}

fn rwlock(source: &Source) -> Option<Layout> {
    let layout = if *source == RWLOCK.read_each {
        acquiring(&RWLOCK.read, 2)
    } else if *source == RWLOCK.write_each {
        acquiring(&RWLOCK.write, 1)
    } else if *source == RWLOCK.renew_each {
        Layout {
            single: &RWLOCK.renew,
            dated: true,
            keys: 1,
            objects: Objects::Each,
            shared: &[2, 3],
            ids: &[1],
            texts: &[4, 5],
        }
    } else if *source == RWLOCK.read_release_each {
        Layout {
            single: &RWLOCK.release,
            dated: false,
            keys: 2,
            objects: Objects::Each,
            shared: &[3],
            ids: &[0, 1],
            texts: &[6],
        }
    } else if *source == RWLOCK.write_release_each {
        Layout {
            single: &RWLOCK.release,
            dated: false,
            keys: 1,
            objects: Objects::Each,
            shared: &[3],
            ids: &[1],
            texts: &[6],
        }
    } else {
        return None;
    };
    Some(layout)
}

fn pool(source: &Source) -> Option<Layout> {
    let layout = if *source == POOL.acquire_each {
        Layout {
            single: &POOL.acquire,
            dated: true,
            keys: 2,
            objects: Objects::Each,
            shared: &[1, 4],
            ids: &[2],
            texts: &[3, 5, 8],
        }
    } else if *source == POOL.acquire_some {
        Layout {
            single: &POOL.acquire,
            dated: true,
            keys: 4,
            objects: Objects::One,
            shared: &[1, 4, 6],
            ids: &[2],
            texts: &[3, 7, 8],
        }
    } else if *source == POOL.release_some {
        Layout {
            single: &POOL.release,
            dated: false,
            keys: 4,
            objects: Objects::One,
            shared: &[0],
            ids: &[7],
            texts: &[],
        }
    } else if *source == POOL.renew_each {
        Layout {
            single: &POOL.renew,
            dated: true,
            keys: 1,
            objects: Objects::Each,
            shared: &[1, 2],
            ids: &[3],
            texts: &[],
        }
    } else if *source == POOL.release_each {
        Layout {
            single: &POOL.release,
            dated: false,
            keys: 2,
            objects: Objects::Each,
            shared: &[0],
            ids: &[7],
            texts: &[],
        }
    } else {
        return None;
    };
    Some(layout)
}

const fn acquiring(single: &'static Source, keys: usize) -> Layout {
    Layout {
        single,
        dated: true,
        keys,
        objects: Objects::Each,
        shared: &[3, 4],
        ids: &[1, 2],
        texts: &[],
    }
}

impl Layout {
    /// Returns the number of single calls. `args` are the arguments of the common call.
    pub(super) fn calls(&self, args: usize) -> usize {
        let header = usize::from(self.dated) + 1 + self.shared.len();
        (args - header) / (self.ids.len() + self.texts.len())
    }

    /// Returns the arguments of the single call at `place`, as far as the common call has them;
    /// the others are empty. `args` are those of the common call.
    pub(super) fn args(&self, place: usize, args: &[&[u8]]) -> Vec<Vec<u8>> {
        let first = usize::from(self.dated);
        let mut single = vec![Vec::new(); WIDTH];
        if self.dated {
            single[0] = args[0].to_vec();
        }
        let client = args[first];
        for (&to, arg) in self.shared.iter().zip(&args[first + 1..]) {
            single[to] = arg.to_vec();
        }
        let own = self.ids.len() + self.texts.len();
        let from = first + 1 + self.shared.len() + place * own;
        let mut own = args[from..].iter();
        for (&to, arg) in self.ids.iter().zip(own.by_ref()) {
            single[to] = [client, arg].concat();
        }
        for (&to, arg) in self.texts.iter().zip(own) {
            single[to] = arg.to_vec();
        }
        // A pool's release ends all of the hold.
        if *self.single == POOL.release {
            single[5] = b"0".to_vec();
            single[6] = b"0".to_vec();
        }
        if *self.single == RWLOCK.release {
            let writes = self.keys == 1;
            single[5] = if writes { b"w" } else { b"r" }.to_vec();
        }
        if *self.single == RWLOCK.read {
            single[7] = b"r".to_vec();
        }
        single
    }
}

/// More arguments than any of these scripts has.
const WIDTH: usize = 12;
