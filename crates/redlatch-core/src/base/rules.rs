//! The rules that the client's correctness rests on, as data.
//!
//! The simulator breaks one rule at a time and sees whether its checks notice. Only a build with
//! `--cfg redlatch_sim`, as `cargo xtask sim` makes it, can break a rule. All other builds keep
//! every rule and contain no check.

/// One rule. The engine asks `Rules::keeps` at the place where the rule lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// What an abandoned acquisition may have taken is undone.
    UndoAbandoned,
    /// A release whose acquire has copies under way leaves a mark that stops them.
    MarkCopies,
    /// A lease is counted from when it was asked for.
    CountFromSend,
    /// A holder gives up before the lease ends, by as much as clocks may differ.
    TakeMargin,
    /// A server is asked for a longer lease than the holder believes in, by as much as the clock of
    /// another server may differ that takes over.
    AllowForServerClocks,
    /// A loss is for good.
    LatchLoss,
    /// A request that is sent again keeps its attempt's id.
    ResendSameId,
    /// After subscribing, a waiter tries again before it waits.
    TryAfterSubscribing,
    /// Whoever listens looks for himself when messages may have been missed.
    WakeAfterGap,
    /// A request may act for a few seconds only.
    LimitBy,
    /// A release that was not answered is sent again.
    RetryReleases,
    /// A dropped guard releases.
    ReleaseOnDrop,
    /// The watchdog renews.
    Renew,
    /// Renewal goes on while any guard of a hold wants it.
    RenewForEach,
    /// A waiter that goes passes its turn on.
    PassTurn,
    /// A waiter that is to ask right behind a release is told so.
    CallSuccessor,
    /// A waiter registers with the server.
    Register,
    /// A waiter that gives up is struck out.
    StrikeOut,
    /// A holder is told of its loss by the clock.
    TellByClock,
    /// A client that is called for a waiter it does not have withdraws the entry.
    WithdrawStrays,
    /// A waiter looks again after a while, woken or not.
    LookAgain,
    /// A watcher counts only looks that began after it came.
    LookAfresh,
    /// A message ends no wait by itself: it makes its hearers look.
    ConfirmMessages,
    /// Several things are taken in one order, whatever order they are given in.
    TakeInOrder,
    /// What is held already is watched while another thing is waited for.
    WatchTaken,
    /// Of several servers a quorum has to grant.
    NeedQuorum,
    /// A hold on several servers is lost when fewer than a quorum are left.
    LoseWithQuorum,
    /// A server that may have forgotten what it granted is not counted.
    DistrustYoung,
    /// What is no quorum is given back.
    GiveBackMinority,
}

/// Which rules a client keeps: all of them, unless the simulator wants otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    #[cfg(redlatch_sim)]
    broken: Option<Rule>,
}

#[cfg(redlatch_sim)]
impl Rules {
    /// Keeps all rules but one.
    pub const fn all_but(rule: Rule) -> Self {
        Self { broken: Some(rule) }
    }

    /// Tells whether a rule is kept.
    pub(crate) fn keeps(self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }
}

#[cfg(not(redlatch_sim))]
impl Rules {
    /// Tells whether a rule is kept. Always true, so that the compiler removes each check.
    pub(crate) const fn keeps(self, _: Rule) -> bool {
        true
    }
}
