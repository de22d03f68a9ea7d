//! Who leads, for display and forwarding.

use std::{
    mem,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use redlatch_core::{
    Client, Error, ErrorKind, Token,
    family::{
        About, Identity, Internals, Items, Key, PhaseState, ScriptCall, Snapshot, Wait,
        WatchOptions, Watched,
    },
    streams,
};

use crate::{
    election::AGAIN,
    scripts::{self, Looked},
};

/// A leader as the server knows it. The information may be outdated on arrival, and decides
/// nothing: only a candidate with a [`Term`](crate::Term) leads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The value that the leader has [set](crate::Election::value), possibly empty. `None` before
    /// the leader has announced the value, about a round trip after its term began.
    pub value: Option<String>,
    /// The fencing token of the term.
    pub token: Token,
    /// When the term began, by the server's clock. Derived from the token, so it is too late after
    /// the server's clock was set back.
    pub since: SystemTime,
}

/// A stream of the leaders. See [`Election::observe`](crate::Election::observe).
#[must_use = "a stream does nothing unless it is polled"]
pub struct Observe(BoxStream<'static, Result<Option<Leader>, Error>>);

streams! {
    Observe => Option<Leader>;
}

impl Observe {
    pub(crate) fn new(client: &Client, name: Result<Arc<Observed>, Error>) -> Self {
        let watch = Watch {
            client: client.clone(),
            observed: name,
            shown: None,
            failed: false,
        };
        let changes = stream::unfold(Some(watch), |watch| async move {
            let mut watch = watch?;
            match watch.next().await {
                Ok(leader) => Some((Ok(leader), Some(watch))),
                Err(error) if error.is_transient() => {
                    watch.failed = true;
                    Some((Err(error), Some(watch)))
                }
                Err(error) => Some((Err(error), None)),
            }
        });
        // Callers may poll it again after its end.
        Self(Box::pin(changes.fuse()))
    }

    /// Returns the next change: the leader, or `None` inside if no candidate leads. The first call
    /// returns the present state. Returns `None` outside after an error that is not
    /// [transient](Error::is_transient), and from then on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let election = client.election("scheduler").value("10.0.0.7:9000");
    /// let mut leaders = election.observe();
    /// assert_eq!(leaders.next().await.expect("an item")?, None);
    ///
    /// let candidate = tokio::spawn(election.lead(async move |term| term.ending().await));
    /// let leader = leaders.next().await.expect("an item")?.expect("a leader");
    /// println!("{:?} leads with token {}", leader.value, leader.token);
    /// # candidate.abort();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call), and `TooManyWaiters`. After `Unavailable`
    /// or `OutcomeUnknown`, the next call continues.
    ///
    /// # Cancel safety
    ///
    /// The method only reads. If the future is dropped, the next call continues.
    pub async fn next(&mut self) -> Option<Result<Option<Leader>, Error>> {
        self.0.next().await
    }
}

/// One observer.
struct Watch {
    client: Client,
    observed: Result<Arc<Observed>, Error>,
    /// The state that was shown last.
    shown: Option<Looked>,
    /// Whether the last call failed for now.
    failed: bool,
}

impl Watch {
    async fn next(&mut self) -> Result<Option<Leader>, Error> {
        let observed = self.observed.as_ref().map_err(Error::clone)?;
        if mem::take(&mut self.failed) {
            // A client with `fail_fast` fails at once.
            self.client.pause(AGAIN).await;
        }
        loop {
            if let Some(shown) = &self.shown {
                let options = WatchOptions {
                    phase: Some(phase(shown)),
                    wait: Wait::Forever,
                    strategy: None,
                };
                let watched: Arc<dyn Watched> = observed.clone();
                self.client.watch(&watched, &options).await?;
            }
            let looked = look(&self.client, observed.key()).await?;
            let before = self.shown.replace(looked.clone());
            if before.is_none_or(|before| is_change(&before, &looked)) {
                return Ok(leader(looked));
            }
        }
    }
}

/// Returns what the server knows of the leader.
pub(crate) async fn look(client: &Client, key: &Key) -> Result<Looked, Error> {
    let looked = client.query(&scripts::look(key), scripts::looked).await;
    looked.about("election", key.name())
}

pub(crate) fn leader(looked: Looked) -> Option<Leader> {
    let Looked::Led { token, value, .. } = looked else {
        return None;
    };
    Some(Leader {
        value,
        token,
        since: SystemTime::UNIX_EPOCH + Duration::from_micros(token.as_u64()),
    })
}

/// The name of an election, as its observers watch it.
///
/// The core waits for the end of phases. A term has two, before and after its value is known, and
/// the time after a term is one.
#[derive(Debug)]
pub(crate) struct Observed(pub(crate) Identity);

/// Returns the number of a phase. Numbers rise with the tokens, which are below 2^53.
const fn phase(looked: &Looked) -> u64 {
    match looked {
        Looked::Led {
            token, value: None, ..
        } => 4 * token.as_u64(),
        Looked::Led { token, .. } => 4 * token.as_u64() + 1,
        Looked::Vacant(Some(token)) => 4 * token.as_u64() + 2,
        Looked::Vacant(None) => 0,
    }
}

/// Tells whether observers are to see a new state. If the server forgets the last term, nothing has
/// changed for them.
const fn is_change(before: &Looked, now: &Looked) -> bool {
    let forgotten = matches!((before, now), (Looked::Vacant(_), Looked::Vacant(None)));
    phase(before) != phase(now) && !forgotten
}

impl Watched for Observed {
    fn kind(&self) -> &'static str {
        "election_observer"
    }

    fn identity(&self) -> &Identity {
        &self.0
    }

    fn look(&self, _phases: &[u64]) -> ScriptCall {
        scripts::look(self.key())
    }

    fn looked(&self, phases: &[u64], items: &Items<'_>) -> Result<Snapshot, Error> {
        let looked = scripts::looked(items)?;
        let present = phase(&looked);
        let state = |&asked: &u64| match asked == present {
            true => (asked, PhaseState::UnderWay),
            false => (asked, PhaseState::Over),
        };
        Ok(Snapshot {
            states: phases.iter().map(state).collect(),
            present: Some((present, PhaseState::UnderWay)),
            remaining: match looked {
                Looked::Led { remaining, .. } => remaining,
                Looked::Vacant(_) => Duration::MAX,
            },
        })
    }

    fn absent(&self) -> Error {
        self.gone()
    }

    fn gone(&self) -> Error {
        let name = self.name();
        let message = format!("the election {name} has no state that can be watched");
        Error::new(ErrorKind::Protocol, message)
    }
}
