//! The rules on which the client's correctness depends, as data.
//!
//! The simulator breaks one rule at a time and verifies that its checks detect it. Only a build
//! with `--cfg redlatch_sim`, as `cargo xtask sim` makes it, can break a rule. All other builds
//! keep every rule and contain no check.

/// One rule. The engine calls `Rules::keeps` at the place that implements the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// An abandoned acquisition is undone.
    UndoAbandoned,
    /// A release whose acquire may have copies in flight leaves a mark that stops them.
    MarkCopies,
    /// A lease counts from the time at which its request was sent.
    CountFromSend,
    /// A renewed or extended lease counts from the time at which its request was sent.
    CountRenewalFromSend,
    /// A holder gives up before the lease ends, by the possible drift of clocks.
    TakeMargin,
    /// A request asks for a longer lease than the holder counts on, by the possible difference
    /// between the clocks of servers.
    AllowForServerClocks,
    /// A lost hold stays lost.
    LatchLoss,
    /// A repeated request keeps its attempt's id.
    ResendSameId,
    /// After subscribing, a waiter tries again before it waits.
    TryAfterSubscribing,
    /// A waiter asks the server when messages may have been missed.
    WakeAfterGap,
    /// A request may act only for a few seconds.
    LimitBy,
    /// An unanswered release is repeated.
    RetryReleases,
    /// A dropped guard releases.
    ReleaseOnDrop,
    /// The watchdog renews.
    Renew,
    /// Renewal continues while any guard of a hold requests it.
    RenewForEach,
    /// A waiter that leaves passes its turn on.
    PassTurn,
    /// A pass that was taken ahead is not used before it counts.
    WaitUntilItCounts,
    /// The next local waiter is prompted to ask right behind a release.
    PromptNextWaiter,
    /// A waiter registers with the server.
    Register,
    /// The entry of a waiter that gives up is removed.
    StrikeOut,
    /// The clock reports a loss to the holder.
    TellByClock,
    /// A client that is notified for a waiter that it does not have withdraws the entry.
    WithdrawStrays,
    /// A waiter asks again after a while, even without a notification.
    LookAgain,
    /// A watcher counts only queries that began after it joined.
    LookAfresh,
    /// A message does not end a wait by itself: it makes its receivers query.
    ConfirmMessages,
    /// Several objects are acquired in one fixed order, in whatever order the caller passes them.
    TakeInOrder,
    /// The objects already held are watched during the wait for another one.
    WatchTaken,
    /// A quorum of the servers has to grant.
    NeedQuorum,
    /// A hold on several servers is lost when fewer than a quorum remain.
    LoseWithQuorum,
    /// A server that may have forgotten its grants does not count.
    DistrustYoung,
    /// Grants of less than a quorum are given back.
    GiveBackMinority,
    /// A poll of a leader's work looks at the deadline first.
    LookBeforeWork,
    /// A poll of a term's task looks at the deadline first.
    LookBeforeTask,
    /// The tasks of a term end with it, before the name is given back.
    EndTasks,
    /// The grace of a term whose renewal was forbidden ends before the server gives the name away.
    EndGrace,
    /// The end of a granted hold is counted from the sending of a request, not from a reception.
    DateBySending,
    /// A message about a grant has to have the nonce of the order.
    CheckNonce,
    /// A waiter of the client that releases learns of its grant from the reply.
    HandOverGrants,
    /// A client starts while some masters of its cluster do not answer.
    StartWithoutSome,
    /// A request that the end of the caller's time has cut off is undone.
    UndoCutOff,
    /// A grant that too few replicas have confirmed is refused.
    RefuseShortfall,
    /// A grant counts only if the number of confirmations is known.
    KnowConfirmations,
    /// Replicas have to confirm the renewals of a durable hold.
    RenewDurably,
    /// A renewal that too few replicas have confirmed does not count.
    ConfirmRenewals,
    /// A majority is counted of the most replicas ever seen.
    CountMostReplicas,
    /// A redirection to the present node of a slot is followed.
    FollowMoved,
    /// An `ASKING` precedes what a node of a moving slot has redirected.
    SendAsking,
    /// The client leaves a server that is not a master any more.
    LeaveDemoted,
}

/// The rules that a client keeps: all of them, unless the simulator breaks one.
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
