//! What the servers say about themselves, for the command `redlatch doctor`.

use std::time::Duration;

use futures_util::future::join_all;

use super::check;
use crate::{
    Client, Error,
    net::LinkClass,
    protocol::{rights, time::Moment},
    runtime::{Command, Value},
};

/// The answers of one server.
#[derive(Clone, Debug, Default)]
pub struct ServerAnswers {
    /// Its address.
    pub address: String,
    /// Why there are no answers; `None` if there are. The other fields are empty then.
    pub failed: Option<String>,
    /// The reply to `INFO`; `None` if the server refuses it.
    pub info: Option<String>,
    /// The shortest of a few round trips.
    pub round_trip: Duration,
    /// The server's time since 1970.
    pub time: Duration,
    /// The rights that the user lacks and that only some programs need, as rules of `ACL SETUSER`.
    pub lacks: Vec<String>,
    /// The refusal of `WAIT` by a server that refuses it to every user.
    pub no_wait: Option<String>,
}

/// Asks each server in use for `INFO` and, a few times, for its time. Fails if none answers. Of a
/// cluster, an entry of its own has the slots that no server is in charge of.
pub(crate) async fn describe(client: &Client) -> Result<Vec<ServerAnswers>, Error> {
    client.check_open()?;
    let deadline = client.now() + client.0.patience;
    let router = &client.net().router;
    router.known(deadline).await?;
    let slots = router.one_slot_per_node();
    let answers = slots
        .iter()
        .map(|&slot| describe_one(client, slot, deadline));
    let answers = join_all(answers).await;
    let answered = answers.iter().any(Result::is_ok);
    let mut all = Vec::new();
    for (slot, answer) in slots.into_iter().zip(answers) {
        all.push(match answer {
            Ok(answer) => answer,
            Err(error) if answered && error.is_silence() => {
                let address = router.node(slot).map(|address| address.to_string());
                ServerAnswers::none(address.unwrap_or_default(), error.to_string())
            }
            Err(error) => return Err(error),
        });
    }
    if let Some(slots) = router.unserved() {
        let why = "no server of the cluster is in charge of them".to_owned();
        all.push(ServerAnswers::none(format!("slots {slots}"), why));
    }
    if let (true, Some(first)) = (router.is_cluster(), all.first_mut()) {
        first
            .lacks
            .extend(check::shard_right(client, deadline).await);
    }
    Ok(all)
}

impl ServerAnswers {
    /// Creates the entry of a server, or of slots, without answers.
    fn none(address: String, why: String) -> Self {
        Self {
            address,
            failed: Some(why),
            ..Self::default()
        }
    }
}

async fn describe_one(
    client: &Client,
    slot: u16,
    deadline: Moment,
) -> Result<ServerAnswers, Error> {
    let router = &client.net().router;
    let session = router.session(slot, LinkClass::Command, deadline).await?;
    let mut best = None;
    for _ in 0..ROUND_TRIPS {
        let sent = client.now();
        let reply = session.ask(Command::new("TIME"), deadline).await?;
        let took = client.now() - sent;
        let time = time(&reply).ok_or_else(|| Error::bad_reply("TIME", &reply))?;
        if best.is_none_or(|(shortest, _)| took < shortest) {
            best = Some((took, time));
        }
    }
    let (round_trip, time) = best.unwrap_or_default();
    let info = match session.ask(Command::new("INFO"), deadline).await {
        Ok(info) => info.as_str().map(str::to_owned),
        // Any answer shows a server that lives.
        Err(error) if error.reason().is_some() => None,
        Err(error) => return Err(error),
    };
    // With no replica to wait for, the answer comes at once.
    let wait = Command::new("WAIT").arg("0").arg("1");
    let refusal = session.ask(wait, deadline).await.err();
    let refusal = refusal.and_then(|error| error.reason().map(ToString::to_string));
    let (denial, no_wait) = match refusal {
        Some(refusal) if rights::is_denial(&refusal) => (Some("+wait".to_owned()), None),
        refusal => (None, refusal),
    };
    Ok(ServerAnswers {
        address: session.address.to_string(),
        failed: None,
        info,
        round_trip,
        time,
        lacks: denial.into_iter().collect(),
        no_wait,
    })
}

fn time(reply: &Value) -> Option<Duration> {
    let [seconds, micros] = reply.as_array()? else {
        return None;
    };
    let number = |value: &Value| value.as_str()?.parse::<u64>().ok();
    Some(Duration::from_secs(number(seconds)?) + Duration::from_micros(number(micros)?))
}

/// How often the time of a round trip is measured.
const ROUND_TRIPS: u32 = 5;
