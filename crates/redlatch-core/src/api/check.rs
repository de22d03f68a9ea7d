//! The self check of a client when it connects.

use std::{collections::BTreeMap, future::pending, sync::Arc};

use futures_util::{
    future::{join, try_join_all},
    stream::{FuturesUnordered, StreamExt},
};
use redlatch_lua::CORE;
use tokio::select;

use crate::{
    Client, Error, ErrorKind,
    base::{observe, script::ScriptCall, timeouts},
    net::{LinkClass, Listener, Repeated},
    protocol::{
        classify::{Class, Refusal, classify},
        name::{Key, Name, PUBLISH},
        rights::{self, Missing},
        time::Moment,
        waiter::WaitStrategy,
    },
    runtime::{Address, Command, ServerError, Value, authority},
};

/// Checks the server's version, role and eviction policy. Checks whether the user may run the
/// commands of the scripts and subscribe to notifications.
pub(super) async fn check(client: &Client, deadline: Moment) -> Result<(), Error> {
    let early = listen_early(client);
    let servers = check_servers(client, deadline).await?;
    let mut keys = client.probe_keys(&servers);
    if keys.len() > 1 {
        // Start at a random node, so that clients spread over the nodes of a cluster.
        let by = client.runtime().random() as usize % keys.len();
        keys.rotate_left(by);
    }
    if client.0.strategy == WaitStrategy::Notify && client.net().router.is_cluster() {
        choose_reach(client, &keys, deadline).await;
    }
    let (mut passed, mut silence) = (false, None);
    for key in &keys {
        let now = client.now();
        let until = if keys.len() > 1 {
            now + (deadline - now) / 2
        } else {
            deadline
        };
        match check_commands(client, key, until).await {
            Ok(()) => passed = true,
            // For example, a master that the others have left. The names elsewhere can be used.
            Err(error) if error.is_silence() => {
                if let Some(master) = client.net().router.node(key.slot()) {
                    observe::unreachable(&master);
                }
                silence = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    if let (false, Some(silence)) = (passed, silence) {
        return Err(silence);
    }
    if client.0.strategy != WaitStrategy::Notify {
        return Ok(());
    }
    let wakes = client.wakes(keys.first().map_or(0, Key::slot));
    wakes.pin();
    let Some(key) = keys.first() else {
        return wakes.confirm(deadline).await;
    };
    let broadcast = match &early {
        Some((broadcast, _)) => Arc::clone(broadcast),
        None => key.broadcast_channel(),
    };
    let broadcasts = client.net().hub.confirm(&broadcast, deadline);
    let (wakes, broadcasts) = join(wakes.confirm(deadline), broadcasts).await;
    wakes.and(broadcasts)
}

/// Begins to connect for messages, and to subscribe to the channel for broadcasts that the end of
/// the check confirms. In a cluster the first master tried may be dead, and another one is tried
/// after a third of the connect time-out. That must not add to the time of the checks.
fn listen_early(client: &Client) -> Option<(Arc<str>, Listener)> {
    let net = client.net();
    let notifies = client.0.strategy == WaitStrategy::Notify;
    let keys = client.probe_keys(&net.router.masters());
    let key = keys.first().filter(|_| notifies && keys.len() > 1)?;
    let broadcast = key.broadcast_channel();
    let listener = net.hub.listen(&broadcast, Arc::default());
    Some((broadcast, listener))
}

/// Decides whether notifications use sharded channels: if all nodes accept `SPUBLISH` and one of
/// them accepts a subscription within half of the remaining time. After any failure, notifications
/// over the whole cluster may still work.
async fn choose_reach(client: &Client, keys: &[Key], deadline: Moment) {
    let now = client.now();
    let until = now + (deadline - now) / 2;
    client.net().wakes.go_by_shard(true);
    while let Err(error) = try_shards(client, keys, until).await {
        if error.is_transient() && client.now() + timeouts::SHARD_LOOK < until {
            client.alarm(client.now() + timeouts::SHARD_LOOK).await;
            continue;
        }
        if let Some(right) = denied_right(&error) {
            observe::lacks_shard_right(&right);
        }
        tracing::info!(target: "redlatch", %error, "wakes go over the whole cluster");
        client.net().wakes.go_by_shard(false);
        // The end of the check confirms this channel.
        client.net().wakes.everywhere.pin();
        return;
    }
}

async fn try_shards(client: &Client, keys: &[Key], deadline: Moment) -> Result<(), Error> {
    let published = keys.iter().map(|key| {
        let channel = Arc::clone(&client.wakes(key.slot()).channel);
        let publish = Command::new("SPUBLISH").arg(&*channel).arg("");
        client.net().ask(key.slot(), publish, deadline)
    });
    try_join_all(published).await?;
    let Some(key) = keys.first() else {
        return Ok(());
    };
    let wakes = client.wakes(key.slot());
    wakes.pin();
    wakes.confirm(deadline).await
}

/// Returns the right for messages by shard that the user of the client lacks, if a server says so.
pub(super) async fn shard_right(client: &Client, deadline: Moment) -> Option<String> {
    let keys = client.probe_keys(&client.net().router.masters());
    let wakes = &client.net().wakes;
    wakes.go_by_shard(true);
    let tried = try_shards(client, &keys, deadline).await;
    wakes.go_by_shard(false);
    denied_right(&tried.err()?)
}

/// Returns the rule for the command that an error says was denied.
fn denied_right(error: &Error) -> Option<String> {
    let denial = error.reason()?.to_string();
    let command = rights::command(&denial)?;
    (error.kind() == ErrorKind::Permission).then(|| format!("+{command}"))
}

/// Checks all servers, and returns the addresses of those that answer. A server that does not is a
/// warning if another one does: the names on the others can be used.
async fn check_servers(client: &Client, deadline: Moment) -> Result<Vec<Address>, Error> {
    let router = &client.net().router;
    let slots = router.one_slot_per_node();
    let until = router.patient_until(deadline);
    let asked = slots
        .iter()
        .map(|&slot| check_server(client, slot, deadline));
    let mut asked: FuturesUnordered<_> = asked.collect();
    let (mut answered, mut silence) = (Vec::new(), None);
    loop {
        let enough = async {
            match answered.is_empty() {
                true => pending().await,
                false => client.alarm(until).await,
            }
        };
        select! {
            biased;
            answer = asked.next() => match answer {
                None => break,
                Some(Ok(address)) => answered.push(address),
                Some(Err(error)) if error.is_silence() => silence = silence.or(Some(error)),
                Some(Err(error)) => return Err(error),
            },
            () = enough => break,
        }
    }
    if let (true, Some(silence)) = (answered.is_empty(), silence) {
        return Err(silence);
    }
    let masters = router.masters();
    let silent = masters.iter().filter(|master| !answered.contains(master));
    silent.for_each(observe::unreachable);
    Ok(answered)
}

/// Checks one server, and returns its address. Accepts a server that refuses `INFO`, as managed
/// servers and proxies may.
async fn check_server(client: &Client, slot: u16, deadline: Moment) -> Result<Address, Error> {
    let router = &client.net().router;
    let session = router.session(slot, LinkClass::Command, deadline).await?;
    let address = &session.address;
    let info = match session.ask(Command::new("INFO"), deadline).await {
        Ok(info) => info,
        // Any answer shows a server that lives.
        Err(error) if error.reason().is_some() => {
            tracing::debug!(target: "redlatch", %error, "the server tells nothing about itself");
            return Ok(address.clone());
        }
        Err(error) => return Err(error),
    };
    let info = info.as_str().unwrap_or_default();
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim_end)
    };
    let unsupported = |why: String| Err(Error::new(ErrorKind::UnsupportedServer, why));
    if let Some(version) = field("redis_version")
        && is_older(version, (6, 2))
    {
        return unsupported(format!(
            "{address} is of version {version}; redlatch needs Redis 6.2 or later, or Valkey"
        ));
    }
    if field("cluster_enabled") == Some("1") && !router.is_cluster() {
        let cluster = address.written("+cluster");
        return unsupported(format!("{address} belongs to a cluster; write {cluster}"));
    }
    // With other topologies, each link checks the role when it connects.
    if field("role") == Some("slave") && router.is_fixed() {
        let master = field("master_host").unwrap_or("unknown");
        let master = authority(master, field("master_port").unwrap_or_default());
        return unsupported(format!(
            "{address} is a replica, which takes no writes; connect to its master {master}, or name all of them with redis+replicas:// or redis+sentinel://"
        ));
    }
    // All keys of this client have a TTL, so the volatile policies evict them as well.
    if let Some(policy) = field("maxmemory_policy").filter(|&policy| policy != "noeviction") {
        tracing::warn!(
            target: "redlatch", event = "eviction", policy,
            "the server may evict locks when it is full; use noeviction for it"
        );
    }
    Ok(address.clone())
}

async fn check_commands(client: &Client, key: &Key, deadline: Moment) -> Result<(), Error> {
    let mut call = ScriptCall::in_slot(&CORE.probe, key.slot()).key(key.part("probe"));
    if client.0.strategy == WaitStrategy::Notify {
        let wakes = client.wakes(key.slot());
        call = call
            .arg(wakes.verb())
            .arg(wakes.channel.to_string())
            .arg(PUBLISH)
            .arg(key.broadcast_channel().to_string());
    }
    // Once anybody has loaded the scripts, they run without the right to load them.
    let text = Command::new("EVAL")
        .arg("return 1")
        .arg("1")
        .arg(key.as_str());
    match client.net().ask(key.slot(), text, deadline).await {
        // The probe insists.
        Err(error) if error.is_transient() => {}
        answer => drop(answer?),
    }
    let repeated = Repeated::new(&call, timeouts::REQUEST, deadline);
    let answer = client.net().insist(repeated).await.map_err(barred);
    judge(client, &answer?.reply)
}

/// Names the command if a server refuses to run the probe because of one. The probe catches the
/// refusals of all commands but `TIME`.
fn barred(error: Error) -> Error {
    let refusal = error.reason().and_then(|reason| reason.downcast_ref());
    match refusal {
        Some(refusal @ ServerError { message, .. }) if rights::is_barred_from_scripts(message) => {
            unfit(&["TIME"], refusal.clone())
        }
        _ => error,
    }
}

/// Returns the error for the commands that a server has refused to the probe.
fn judge(client: &Client, reply: &Value) -> Result<(), Error> {
    let items = reply
        .as_array()
        .ok_or_else(|| Error::bad_reply(CORE.probe.name, reply))?;
    let refused: Vec<_> = items.iter().skip(1).filter_map(Value::as_str).collect();
    if let Some(full) = refused.iter().find(|refusal| refusal.contains("OOM")) {
        return Err(Error::new(
            ErrorKind::ServerFull,
            format!(
                "{}: the server is out of memory: raise its maxmemory, and keep the policy noeviction: {}",
                client.address(),
                full.trim()
            ),
        ));
    }
    let mut missing = Missing::default();
    let (mut unknown, mut first) = (Vec::new(), None);
    for refusal in refused {
        let (command, denial) = refusal.split_once(": ").unwrap_or((refusal, ""));
        let error = ServerError::parse(denial);
        match classify(&error.code, &error.message) {
            // It passes by itself.
            Class::Retry(_) => {}
            _ if rights::is_denial(denial) => {
                missing.add(command, denial, client.0.prefix.as_str());
            }
            // What an earlier refusal has left behind.
            Class::Halted(Refusal::WrongType) => {}
            _ => {
                // The probe runs some commands twice.
                if !unknown.contains(&command) {
                    unknown.push(command);
                }
                first.get_or_insert(error);
            }
        }
    }
    if !missing.is_empty() {
        let user = client.net().router.user();
        return Err(Error::new(ErrorKind::Permission, missing.text(&user)));
    }
    first.map_or(Ok(()), |first| Err(unfit(&unknown, first)))
}

/// Returns the error for commands that a script cannot use, whatever the rights of the user are.
fn unfit(commands: &[&str], first: ServerError) -> Error {
    let commands = commands.join(", ");
    // As for a command outside of a script.
    let (kind, what, advice) = match rights::is_unknown_command(&first.message) {
        true => (
            ErrorKind::Permission,
            format!("the server does not know {commands} in a script, or has renamed it"),
            "it has to know all commands of \"Give rights\" in the redlatch book under their names",
        ),
        false => (
            ErrorKind::UnsupportedServer,
            format!("the server answers, but not to {commands} in a script"),
            "use a server, or a kind of this service, whose scripts accept all commands of redlatch",
        ),
    };
    let advice = match commands.as_str() {
        "PUBLISH" | "SPUBLISH" | "SPUBLISH, PUBLISH" => {
            "a client with WaitStrategy::Poll needs no messages"
        }
        _ => advice,
    };
    Error::with_reason(kind, format!("{what}: {first}; {advice}"), first)
}

/// Adds the user, and the rule that is missing, to a refusal that does not name them: of the whole
/// script, of a subscription, of what a connection asks first.
pub(super) fn denied(client: &Client, error: Error) -> Error {
    let (ErrorKind::Permission, Some(denial)) = (error.kind(), error.reason()) else {
        return error;
    };
    let denial = denial.to_string();
    let command = match rights::command(&denial) {
        // No rule of the user helps where the server does not know a command.
        _ if rights::is_unknown_command(&denial) => return error,
        Some(command) => command,
        None if rights::is_about_key(&denial) || rights::is_about_channel(&denial) => String::new(),
        None => return error,
    };
    let mut missing = Missing::default();
    missing.add(&command, &denial, client.0.prefix.as_str());
    let text = missing.text(&client.net().router.user());
    Error::new(ErrorKind::Permission, text)
}

fn is_older(version: &str, than: (u32, u32)) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version < than
}

impl Client {
    /// Returns one key per node at `addresses`, of names that no other client uses.
    fn probe_keys(&self, addresses: &[Address]) -> Vec<Key> {
        let router = &self.net().router;
        let mut found = BTreeMap::new();
        for n in 0..PROBES {
            if found.len() == addresses.len() {
                break;
            }
            // The digits of an id with a suffix are a valid name.
            let Ok(name) = Name::parse(&format!("{}-{n}", self.id())) else {
                continue;
            };
            let key = self.key(&name);
            let node = router.node(key.slot());
            if let Some(address) = node.filter(|node| addresses.contains(node)) {
                found.entry(address).or_insert(key);
            }
        }
        found.into_values().collect()
    }
}

/// The maximum number of keys tried to find one on every node. It is enough for a node with one
/// slot in a thousand.
const PROBES: u32 = 8192;

#[cfg(test)]
mod tests {
    use super::is_older;

    #[test]
    fn versions_are_compared() {
        for (version, older) in [
            ("6.0.16", true),
            ("6.2.14", false),
            ("7.0.15", false),
            ("10.0", false),
            ("5", true),
        ] {
            assert_eq!(is_older(version, (6, 2)), older, "{version}");
        }
    }
}
