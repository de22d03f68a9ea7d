//! What the servers say about themselves, for the command `redlatch doctor`.

use std::time::Duration;

use crate::{
    Client, Error, ErrorKind,
    net::LinkClass,
    protocol::time::Moment,
    runtime::{Command, Value},
};

/// The answers of one server.
#[derive(Clone, Debug)]
pub struct ServerAnswers {
    /// Its address.
    pub address: String,
    /// The reply to `INFO`; `None` if the server refuses it.
    pub info: Option<String>,
    /// The shortest of a few round trips.
    pub round_trip: Duration,
    /// The server's time since 1970.
    pub time: Duration,
}

/// Asks each server in use for `INFO` and, a few times, for its time.
pub(crate) async fn describe(client: &Client) -> Result<Vec<ServerAnswers>, Error> {
    client.check_open()?;
    let deadline = client.now() + client.patience();
    client.net().router.want();
    client.net().router.known(deadline).await?;
    let mut all = Vec::new();
    for slot in client.net().router.one_slot_per_node() {
        all.push(describe_one(client, slot, deadline).await?);
    }
    Ok(all)
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
        Err(error) if error.kind() == ErrorKind::Permission => None,
        Err(error) => return Err(error),
    };
    Ok(ServerAnswers {
        address: session.address().to_string(),
        info,
        round_trip,
        time,
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
