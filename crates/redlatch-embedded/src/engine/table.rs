//! The table of commands.

use redlatch_core::runtime::{Reply, ServerError, Value};

use super::{
    Engine, Model, SessionId,
    call::{Call, error},
    commands::{hashes, keys, pubsub, scripts, server, strings, zsets},
    time::Clock,
};

/// A command: its name, its number of arguments, its flags and its handler.
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// The number of arguments, the name included; negative for "at least".
    arity: i32,
    flags: u16,
    pub(super) run: Run,
}

impl Spec {
    /// Tells whether the command has one of these flags.
    pub(super) const fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// Tells whether this number of arguments, the name included, can be right.
    pub(super) fn takes(&self, args: usize) -> bool {
        let args = i32::try_from(args).unwrap_or(i32::MAX);
        args == self.arity || (self.arity < 0 && args >= -self.arity)
    }

    /// Tells whether a command with this reply has an effect that replicas get.
    pub(super) fn has_effect(&self, reply: &Reply) -> bool {
        match reply {
            Ok(Value::Int(0)) if self.has(WRITE) => matches!(self.name, "hset" | "zadd"),
            Ok(Value::Nil) | Err(_) => false,
            Ok(_) => self.has(WRITE | PUBLISHES),
        }
    }

    /// Returns the keys among the arguments.
    pub(super) fn keys_of<'a>(&self, args: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
        match (self.has(KEY), self.has(KEYS)) {
            (true, _) => &args[1..2],
            (_, true) => &args[1..],
            _ => &[],
        }
    }
}

/// The handler of a command.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// A function over the state alone.
    Plain(Handler),
    /// A function that needs Lua.
    Script(ScriptHandler),
}

/// A function that runs a command.
pub(super) type Handler = fn(&mut Call<'_>) -> Reply;

/// A function that runs a command for scripts.
type ScriptHandler = fn(&mut Engine, Caller, &[&[u8]]) -> Reply;

/// The session that a script runs for, and its clock.
pub(super) type Caller = (SessionId, Clock);

/// Finds a command by its name in any case; `None` if this server does not have it.
pub(super) fn find(name: &[u8], model: Model) -> Option<&'static Spec> {
    let at = TABLE.binary_search_by(|spec| {
        let known = spec.name.bytes();
        known.cmp(name.iter().map(u8::to_ascii_lowercase))
    });
    let spec = &TABLE[at.ok()?];
    (model.is_seven() || !spec.has(SHARDED)).then_some(spec)
}

/// Returns the error for a command that scripts may not call.
pub(super) fn not_from_scripts(model: Model) -> ServerError {
    error(match model {
        Model::Redis6_2 => "ERR This Redis command is not allowed from scripts",
        Model::Redis7_0 => "ERR This Redis command is not allowed from script",
        Model::Valkey9_1 => "ERR This Valkey command is not allowed from script",
    })
}

/// The command changes data.
pub(super) const WRITE: u16 = 1;
/// The command may need memory.
pub(super) const DENYOOM: u16 = 2;
/// Scripts may not call the command.
pub(super) const NOSCRIPT: u16 = 4;
/// The command runs while the server loads its data.
pub(super) const LOADING: u16 = 8;
/// The command is only for connections with subscriptions.
pub(super) const PUBSUB: u16 = 16;
/// The command publishes messages.
pub(super) const PUBLISHES: u16 = 32;
/// The command is about sharded channels, which came with Redis 7.0.
pub(super) const SHARDED: u16 = 64;
/// The first argument is a key.
const KEY: u16 = 128;
/// All arguments are keys.
const KEYS: u16 = 256;

const READS: u16 = KEY;
const WRITES: u16 = KEY | WRITE;
const GROWS: u16 = KEY | WRITE | DENYOOM;
const LISTENS: u16 = PUBSUB | NOSCRIPT | LOADING;

const fn plain(name: &'static str, arity: i32, flags: u16, run: Handler) -> Spec {
    Spec {
        name,
        arity,
        flags,
        run: Run::Plain(run),
    }
}

const fn script(name: &'static str, arity: i32, flags: u16, run: ScriptHandler) -> Spec {
    Spec {
        name,
        arity,
        flags: flags | NOSCRIPT,
        run: Run::Script(run),
    }
}

/// All commands, by name.
static TABLE: &[Spec] = &[
    plain("client", -2, NOSCRIPT | LOADING, server::client),
    plain("cluster", -2, LOADING, server::cluster),
    plain("config", -2, NOSCRIPT | LOADING, server::config),
    plain("decr", 2, GROWS, strings::decr),
    plain("decrby", 3, GROWS, strings::decrby),
    plain("del", -2, WRITE | KEYS, keys::del),
    script("eval", -3, 0, scripts::eval),
    script("evalsha", -3, 0, scripts::evalsha),
    plain("exists", -2, KEYS, keys::exists),
    plain("flushall", -1, WRITE, keys::flush),
    plain("get", 2, READS, strings::get),
    plain("hdel", -3, WRITES, hashes::hdel),
    plain("hget", 3, READS, hashes::hget),
    plain("hgetall", 2, READS, hashes::hgetall),
    plain("hincrby", 4, GROWS, hashes::hincrby),
    plain("hmget", -3, READS, hashes::hmget),
    plain("hscan", -3, READS, keys::hscan),
    plain("hset", -4, GROWS, hashes::hset),
    plain("incr", 2, GROWS, strings::incr),
    plain("incrby", 3, GROWS, strings::incrby),
    plain("info", -1, LOADING, server::info),
    plain("keys", 2, 0, keys::keys),
    plain("persist", 2, WRITES, keys::persist),
    plain("pexpire", 3, WRITES, keys::pexpire),
    plain("ping", -1, 0, server::ping),
    plain("pttl", 2, READS, keys::pttl),
    plain("publish", 3, LOADING | PUBLISHES, pubsub::publish),
    plain("role", 1, NOSCRIPT | LOADING, server::role),
    plain("scan", -2, 0, keys::scan),
    script("script", -2, LOADING, scripts::script),
    plain("select", 2, LOADING, server::select),
    plain("set", -3, GROWS, strings::set),
    plain(
        "spublish",
        3,
        LOADING | PUBLISHES | SHARDED,
        pubsub::publish,
    ),
    plain("ssubscribe", -2, LISTENS | SHARDED, pubsub::subscribe),
    plain("subscribe", -2, LISTENS, pubsub::subscribe),
    plain("sunsubscribe", -1, LISTENS | SHARDED, pubsub::unsubscribe),
    plain("time", 1, LOADING, server::time),
    plain("type", 2, READS, keys::type_of),
    plain("unsubscribe", -1, LISTENS, pubsub::unsubscribe),
    plain("wait", 3, NOSCRIPT, server::wait),
    plain("zadd", -4, GROWS, zsets::zadd),
    plain("zcard", 2, READS, zsets::zcard),
    plain("zcount", 4, READS, zsets::zcount),
    plain("zpopmin", -2, WRITES, zsets::zpopmin),
    plain("zrange", -4, READS, zsets::zrange),
    plain("zrangebyscore", -4, READS, zsets::zrangebyscore),
    plain("zrank", 3, READS, zsets::zrank),
    plain("zrem", -3, WRITES, zsets::zrem),
    plain("zremrangebyscore", 4, WRITES, zsets::zremrangebyscore),
    plain("zscore", 3, READS, zsets::zscore),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(
            find(b"HgEtAlL", Model::Redis6_2).map(|spec| spec.name),
            Some("hgetall")
        );
        assert!(find(b"nope", Model::Redis7_0).is_none());
        assert!(find(b"spublish", Model::Redis6_2).is_none());
    }
}
