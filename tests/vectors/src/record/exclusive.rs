//! The scripts of locks with one owner, for each kind.

/// A kind with one owner at a time.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) folder: &'static str,
    pub(super) queued: bool,
}

pub(super) const KINDS: [Kind; 4] = [
    Kind::new("reentrant", false),
    Kind::new("fair", true),
    Kind::new("election", false),
    Kind::new("fair_election", true),
];

pub(super) const SCENES: [&str; 8] = [
    HOLDS,
    ENDINGS,
    UNDONE,
    FORCED,
    SEVERAL,
    MERGED,
    REFUSALS,
    WITHDRAWALS,
];

impl Kind {
    const fn new(folder: &'static str, queued: bool) -> Self {
        Self { folder, queued }
    }

    /// Defines the scripts of this kind for the name `n`, and the keys of each name. `wait` is a
    /// request that registers if the name is busy, `take` one that does not, and `leave` a release
    /// with an address.
    pub(super) fn words(&self) -> String {
        let keys = |name: &str| match self.queued {
            true => format!("{name} {name}:q {name}:l"),
            false => format!("{name} {name}:q"),
        };
        let address = if self.queued { "@$1:$3:$2" } else { "@$1:$3" };
        let (kind, n) = (self.folder, keys("n"));
        let names = ["m", "n", "o", "r"].map(|name| format!("define {name} {}\n", keys(name)));
        let scripts = ["acquire", "release", "inspect", "force", "withdraw"];
        let scripts = scripts.map(|script| format!("define {script} {kind}/{script}({n})\n"));
        format!(
            "{}{}define kind {kind}
            define renew {kind}/renew(n)
            define take {kind}/acquire({n}) by $1 30000 630000 - :$2 :$3 - -
            define wait {kind}/acquire({n}) by $1 30000 630000 - :$2 :$3 5000 {address}
            define leave {kind}/release({n}) $1 600000 :$2 :$3 $4 {address} $5",
            names.concat(),
            scripts.concat()
        )
    }
}

/// Granted, re-entered, busy, released, handed on, renewed.
const HOLDS: &str = "
    inspect | free
    wait a1 1 2 | a free name is granted -> _ granted _ $token
    pass 20
    wait a1 1 2 | a copy of a granted request counts once
    take a1 1 3 | the owner enters again with another attempt
    pass 1000
    renew by a1 30000 630000 :1 $token | renewed
    renew by a1 5000 605000 :1 $token | renewed with a shorter lease, which shortens nothing
    take b2 1 2 | busy, without registering
    wait b2 3 4 | busy, and registers
    pass 1500
    wait b2 3 4 | busy, a re-check moves the registration
    wait c3 1 2 | busy, another client registers
    inspect | held
    release a1 600000 :1 :3 - - $token | one of two attempts is released
    release a1 600000 :1 :2 - - $token | the last attempt is released, and a waiter is notified
    release a1 600000 :1 :2 - - $token | a copy of that release
    pass 1
    wait b2 3 4 | the notified waiter is granted -> _ granted _ $next
    renew by a1 30000 630000 :1 $token | taken
    release a1 600000 :1 :2 - - $token | a copy of the release after the next grant
    leave b2 3 4 - $next | released, with its own address
    wait c3 1 2 | the last waiter is granted";

/// Leases that end, and holds that are unknown.
const ENDINGS: &str = "
    take a1 1 2 -> _ granted _ $token
    pass 30000
    renew by a1 30000 630000 :1 $token | expired, at the end to the ms
    release a1 600000 :1 :2 - - $token | expired
    release a1 600000 :1 :2 - - $token | expired, a copy of that release
    take b2 1 2 -> _ granted
    pass 30001
    wait c3 1 2 | after a holder that died, abandoned is 1
    release a1 600000 :1 :2 - - $token | taken
    clear
    release a1 600000 :1 :2 - - $token | gone
    renew by a1 30000 630000 :1 $token | gone
    take b2 1 2 -> _ granted
    renew by a1 30000 630000 :1 1700000000000000 | taken, an unknown token that is lower";

/// Undone attempts and their late copies.
const UNDONE: &str = "
    release a1 600000 :1 :2 by - - | an undo ends an attempt that never ran
    wait a1 1 2 | void
    take a1 1 3 | granted, a later attempt
    release a1 600000 :1 :3 by - - | an undo ends the hold and its attempt
    pass 6000
    take a1 1 4 | granted, and removes marks that are over
    wait b2 1 2 | busy, before a leave
    leave b2 1 2 by - | a waiter leaves: its place is removed, its attempt marked
    acquire past a1 30000 630000 - :5 :6 - - | late
    renew past a1 30000 630000 :1 1700000000000000 | late";

/// Holds that are ended by force.
const FORCED: &str = "
    force 1700000000000000 now 600000 redlatch:w: | gone, nobody holds
    take a1 1 2 -> _ granted _ $token
    force $token after 600000 redlatch:w: | the renewal is forbidden
    force $token after 600000 redlatch:w: | the renewal is forbidden again
    pass 1000
    renew by a1 30000 630000 :1 $token | revoked
    take a1 1 3 | the owner enters again, and learns how long the hold lasts
    wait b2 1 2 | busy, before a forced end
    force $token now 600000 redlatch:w: | ended at once, and a waiter is notified
    force $token now 600000 redlatch:w: | already, ended before
    release a1 600000 :1 :2 - - $token | revoked
    wait b2 1 2 | granted after a forced end
    force 1700000000000000 now 600000 redlatch:w: | gone, a later hold";

/// Several names by one call.
const SEVERAL: &str = "
    define both $kind/acquire($n $m)
    both by a1 30000 630000 all :1 :2 - - | two names are granted together \
        -> _ granted _ $first _ _ _ $second
    both by b2 30000 630000 all :1 :2 - - | one of two names is busy
    pass 10
    $kind/renew(n m) by a1 30000 630000 :1 $first :1 $second | two holds are renewed
    $kind/release($n $m) a1 600000 :1 :2 - - $first :1 :2 - - $second | two holds are released
    HSET %m k other:1
    both by a1 30000 630000 all :1 :2 - - | one of two names is of another kind";

/// Calls of several callers in one script.
const MERGED: &str = "
    $kind/acquire($n $m) by a1 30000 630000 - :1 :2 - - :3 :4 - - | \
        two free names, each for itself -> _ granted _ $token
    SET %r text
    define three $kind/acquire($o $m $r) $1 a1 30000 630000 - :5 :6 - - :7 :8 - - :9 :11 - -
    three by | one free name, one that is held, and one that is no hash
    three past | late, for all
    pass 1000
    $kind/renew(n m) by a1 30000 630000 :1 $token :3 $token | two holds are renewed
    $kind/renew(n m) past a1 30000 630000 :1 $token :3 $token | late
    $kind/release($n $m $r) a1 600000 :1 :2 - - $token :3 :9 - - $token :5 :6 - - $token | \
        one hold, one of another attempt, and a name that is no hash
    take b2 1 2 -> _ granted
    HSET %p k other:1
    $kind/force($m) $token after 600000 redlatch:w:
    $kind/renew(n m q p) by a1 30000 630000 :1 $token :3 $token :5 $token :7 $token | \
        taken, revoked, gone, another kind
    pass 29000
    $kind/renew(o) by a1 30000 630000 :5 1700000000123456 | expired";

/// Other kinds, and a clock that scripts cannot compare.
const REFUSALS: &str = "
    HSET %n k other:1
    wait a1 1 2 | another kind
    renew by a1 30000 630000 :1 1700000000000000 | another kind
    release a1 600000 :1 :2 - - 1700000000000000 | another kind
    inspect | another kind
    force 1700000000000000 now 600000 redlatch:w: | another kind
    withdraw list redlatch:w:a1 | another kind
    clear
    clock 999999999999999
    take a1 1 2 | a clock before 2001";

/// Entries of waiters that their client does not know.
const WITHDRAWALS: &str = "
    take a1 1 2 -> _ granted _ $token
    wait b2 1 2
    wait b2 3 4
    withdraw list redlatch:w:b2 | the entries of a client
    withdraw list redlatch:w:b | the entries of a client without any
    withdraw strike redlatch:w:b2 2 | one entry is removed
    wait c3 1 2
    release a1 600000 :1 :2 - - $token
    withdraw strike redlatch:w:b2 4 | \
        the notified entry is removed, and the next waiter is notified";
