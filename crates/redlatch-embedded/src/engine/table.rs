//! The table of commands.

use redlatch_core::runtime::{Reply, ServerError, Value};

use super::{
    Engine, Model, SessionId,
    call::{Call, error},
    commands::{connection, expiry, hashes, keys, pubsub, scan, scripts, server, strings, zsets},
    time::Clock,
};

/// A command: its name, its number of arguments, its flags and its handler.
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// The number of arguments, the name included; negative for "at least".
    arity: i32,
    pub(super) flags: u8,
    keys: Keys,
    pub(super) run: Run,
}

impl Spec {
    /// Tells whether this number of arguments, the name included, can be right.
    pub(super) fn takes(&self, model: Model, args: usize) -> bool {
        let args = i32::try_from(args).unwrap_or(i32::MAX);
        let arity = match (self.name, model) {
            // On these servers the commands had no options yet.
            ("expire" | "pexpire" | "pexpireat", Model::Redis6_2) => 3,
            ("zrank", Model::Redis6_2 | Model::Redis7_0) => 3,
            _ => self.arity,
        };
        if arity < 0 {
            args >= -arity
        } else {
            args == arity
        }
    }

    /// Tells whether a command with this reply has an effect that replicas get.
    pub(super) fn has_effect(&self, reply: &Reply) -> bool {
        match reply {
            Ok(Value::Int(0)) if self.flags & WRITE != 0 => matches!(self.name, "hset" | "zadd"),
            Ok(Value::Nil) | Err(_) => false,
            Ok(_) => self.flags & (WRITE | PUBLISHES) != 0,
        }
    }

    /// Returns the keys among the arguments.
    pub(super) fn keys_of<'a>(&self, args: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
        match self.keys {
            Keys::None => &[],
            Keys::First => &args[1..2],
            Keys::All => &args[1..],
        }
    }
}

/// The position of the keys in the arguments of a command.
#[derive(Clone, Copy)]
enum Keys {
    None,
    First,
    All,
}

/// The handler of a command.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// A function over the state alone.
    Plain(fn(&mut Call<'_>) -> Reply),
    /// A function that needs Lua.
    Script(fn(&mut Engine, SessionId, &[&[u8]], Clock) -> Reply),
}

/// Finds a command by its name in any case; `None` if this server does not have it.
pub(super) fn find(name: &[u8], model: Model) -> Option<&'static Spec> {
    let at = TABLE.binary_search_by(|spec| {
        let known = spec.name.bytes();
        known.cmp(name.iter().map(u8::to_ascii_lowercase))
    });
    let spec = &TABLE[at.ok()?];
    (model.is_seven() || spec.flags & SEVEN == 0).then_some(spec)
}

/// Returns the number of commands.
pub(super) const fn len() -> usize {
    TABLE.len()
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
pub(super) const WRITE: u8 = 1;
/// The command may need memory.
pub(super) const DENYOOM: u8 = 2;
/// Scripts may not call the command.
pub(super) const NOSCRIPT: u8 = 4;
/// The command runs while the server loads its data.
pub(super) const LOADING: u8 = 8;
/// The command is only for connections with subscriptions.
pub(super) const PUBSUB: u8 = 16;
/// The command publishes messages.
pub(super) const PUBLISHES: u8 = 32;
/// The command came with Redis 7.0.
pub(super) const SEVEN: u8 = 64;

const GROWS: u8 = WRITE | DENYOOM;
const READ: u8 = 0;

const fn plain(
    name: &'static str,
    arity: i32,
    flags: u8,
    keys: Keys,
    run: fn(&mut Call<'_>) -> Reply,
) -> Spec {
    Spec {
        name,
        arity,
        flags,
        keys,
        run: Run::Plain(run),
    }
}

const fn script(
    name: &'static str,
    arity: i32,
    flags: u8,
    run: fn(&mut Engine, SessionId, &[&[u8]], Clock) -> Reply,
) -> Spec {
    Spec {
        name,
        arity,
        flags: flags | NOSCRIPT,
        keys: Keys::None,
        run: Run::Script(run),
    }
}

/// All commands, by name.
static TABLE: [Spec; 70] = [
    plain("append", 3, GROWS, Keys::First, strings::append),
    plain(
        "client",
        -2,
        NOSCRIPT | LOADING,
        Keys::None,
        connection::client,
    ),
    plain("cluster", -2, LOADING, Keys::None, server::cluster),
    plain("command", -1, LOADING, Keys::None, server::command),
    plain("config", -2, NOSCRIPT | LOADING, Keys::None, server::config),
    plain("dbsize", 1, READ, Keys::None, keys::dbsize),
    plain("decr", 2, GROWS, Keys::First, strings::decr),
    plain("decrby", 3, GROWS, Keys::First, strings::decrby),
    plain("del", -2, WRITE, Keys::All, keys::del),
    plain("echo", 2, LOADING, Keys::None, connection::echo),
    script("eval", -3, READ, scripts::eval),
    script("eval_ro", -3, SEVEN, scripts::eval_ro),
    script("evalsha", -3, READ, scripts::evalsha),
    script("evalsha_ro", -3, SEVEN, scripts::evalsha_ro),
    plain("exists", -2, READ, Keys::All, keys::exists),
    plain("expire", -3, WRITE, Keys::First, expiry::expire),
    plain("flushall", -1, WRITE, Keys::None, keys::flush),
    plain("flushdb", -1, WRITE, Keys::None, keys::flush),
    plain("get", 2, READ, Keys::First, strings::get),
    plain("hdel", -3, WRITE, Keys::First, hashes::hdel),
    plain("hexists", 3, READ, Keys::First, hashes::hexists),
    plain("hget", 3, READ, Keys::First, hashes::hget),
    plain("hgetall", 2, READ, Keys::First, hashes::hgetall),
    plain("hincrby", 4, GROWS, Keys::First, hashes::hincrby),
    plain("hkeys", 2, READ, Keys::First, hashes::hkeys),
    plain("hlen", 2, READ, Keys::First, hashes::hlen),
    plain("hmget", -3, READ, Keys::First, hashes::hmget),
    plain("hscan", -3, READ, Keys::First, scan::hscan),
    plain("hset", -4, GROWS, Keys::First, hashes::hset),
    plain("hsetnx", 4, GROWS, Keys::First, hashes::hsetnx),
    plain("hstrlen", 3, READ, Keys::First, hashes::hstrlen),
    plain("hvals", 2, READ, Keys::First, hashes::hvals),
    plain("incr", 2, GROWS, Keys::First, strings::incr),
    plain("incrby", 3, GROWS, Keys::First, strings::incrby),
    plain("info", -1, LOADING, Keys::None, server::info),
    plain("keys", 2, READ, Keys::None, keys::keys),
    plain("persist", 2, WRITE, Keys::First, expiry::persist),
    plain("pexpire", -3, WRITE, Keys::First, expiry::pexpire),
    plain("pexpireat", -3, WRITE, Keys::First, expiry::pexpireat),
    plain("ping", -1, READ, Keys::None, connection::ping),
    plain("pttl", 2, READ, Keys::First, expiry::pttl),
    plain(
        "publish",
        3,
        LOADING | PUBLISHES,
        Keys::None,
        pubsub::publish,
    ),
    plain("role", 1, NOSCRIPT | LOADING, Keys::None, server::role),
    plain("scan", -2, READ, Keys::None, scan::scan),
    script("script", -2, LOADING, scripts::script),
    plain("select", 2, LOADING, Keys::None, connection::select),
    plain("set", -3, GROWS, Keys::First, strings::set),
    plain(
        "spublish",
        3,
        LOADING | PUBLISHES | SEVEN,
        Keys::None,
        pubsub::spublish,
    ),
    plain(
        "ssubscribe",
        -2,
        PUBSUB_ONLY | SEVEN,
        Keys::None,
        pubsub::ssubscribe,
    ),
    plain("strlen", 2, READ, Keys::First, strings::strlen),
    plain("subscribe", -2, PUBSUB_ONLY, Keys::None, pubsub::subscribe),
    plain(
        "sunsubscribe",
        -1,
        PUBSUB_ONLY | SEVEN,
        Keys::None,
        pubsub::sunsubscribe,
    ),
    plain("time", 1, LOADING, Keys::None, server::time),
    plain("ttl", 2, READ, Keys::First, expiry::ttl),
    plain("type", 2, READ, Keys::First, keys::type_of),
    plain("unlink", -2, WRITE, Keys::All, keys::del),
    plain(
        "unsubscribe",
        -1,
        PUBSUB_ONLY,
        Keys::None,
        pubsub::unsubscribe,
    ),
    plain("wait", 3, NOSCRIPT, Keys::None, server::wait),
    plain("zadd", -4, GROWS, Keys::First, zsets::zadd),
    plain("zcard", 2, READ, Keys::First, zsets::zcard),
    plain("zcount", 4, READ, Keys::First, zsets::zcount),
    plain("zincrby", 4, GROWS, Keys::First, zsets::zincrby),
    plain("zpopmin", -2, WRITE, Keys::First, zsets::zpopmin),
    plain("zrange", -4, READ, Keys::First, zsets::zrange),
    plain("zrangebyscore", -4, READ, Keys::First, zsets::zrangebyscore),
    plain("zrank", -3, READ, Keys::First, zsets::zrank),
    plain("zrem", -3, WRITE, Keys::First, zsets::zrem),
    plain(
        "zremrangebyrank",
        4,
        WRITE,
        Keys::First,
        zsets::zremrangebyrank,
    ),
    plain(
        "zremrangebyscore",
        4,
        WRITE,
        Keys::First,
        zsets::zremrangebyscore,
    ),
    plain("zscore", 3, READ, Keys::First, zsets::zscore),
];

const PUBSUB_ONLY: u8 = PUBSUB | NOSCRIPT | LOADING;

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
