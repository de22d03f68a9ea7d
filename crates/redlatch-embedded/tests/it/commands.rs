//! Tables of commands and their replies; each table starts on an empty server.

use redlatch_embedded::engine::Model;

use crate::support::Shell;

fn check(table: &[(&str, &str)]) {
    let mut shell = Shell::new(Model::Redis7_0);
    for (line, expected) in table {
        if let Some(millis) = line.strip_prefix("wait ") {
            shell.wait(millis.parse().unwrap());
            continue;
        }
        assert_eq!(shell.run(line), *expected, "{line}");
    }
}

const WRONG_TYPE: &str = "!WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_INT: &str = "!ERR value is not an integer or out of range";

#[test]
fn string_commands_work() {
    check(&[
        ("GET k", "nil"),
        ("SET k v", "OK"),
        ("GET k", "\"v\""),
        ("SET k w NX", "nil"),
        ("SET k w XX GET", "\"v\""),
        ("SET n w XX", "nil"),
        ("SET k x NX GET", "\"w\""),
        ("SET k v NX XX", "!ERR syntax error"),
        ("SET k v PX 0", "!ERR invalid expire time in 'set' command"),
        ("SET k v PX x", NOT_INT),
        ("APPEND k 12", "3"),
        ("STRLEN k", "3"),
        ("INCR k", NOT_INT),
        ("INCRBY c 5", "5"),
        ("DECR c", "4"),
        ("DECRBY c 10", "-6"),
        ("SET c 9223372036854775807", "OK"),
        ("INCR c", "!ERR increment or decrement would overflow"),
        ("HGET k f", WRONG_TYPE),
        ("GET", "!ERR wrong number of arguments for 'get' command"),
        (
            "NOPE a b",
            "!ERR unknown command 'NOPE', with args beginning with: 'a' 'b'",
        ),
    ]);
}

#[test]
fn expiry_is_exact() {
    check(&[
        ("SET k v PX 10", "OK"),
        ("PTTL k", "10"),
        ("wait 10", ""),
        ("PTTL k", "0"),
        ("EXISTS k", "1"),
        ("wait 1", ""),
        ("PTTL k", "-2"),
        ("SET k v", "OK"),
        ("TTL k", "-1"),
        ("PEXPIRE k 100 GT", "0"),
        ("PEXPIRE k 100 LT", "1"),
        ("PEXPIRE k 50 NX", "0"),
        ("PEXPIRE k 1600 XX", "1"),
        ("TTL k", "2"),
        ("PERSIST k", "1"),
        ("PERSIST k", "0"),
        ("EXPIRE k -1", "1"),
        ("EXISTS k", "0"),
        ("PEXPIRE k 1", "0"),
        ("PEXPIRE k 1 FOO", "!ERR Unsupported option FOO"),
    ]);
}

#[test]
fn hash_commands_work() {
    check(&[
        ("HSET h b 1 a 2", "2"),
        ("HSET h b 3 c 4", "1"),
        ("HGETALL h", "[\"b\" \"3\" \"a\" \"2\" \"c\" \"4\"]"),
        ("HMGET h a x", "[\"2\" nil]"),
        ("HINCRBY h a 5", "7"),
        ("HSETNX h a 1", "0"),
        ("HDEL h a b x", "2"),
        ("HLEN h", "1"),
        ("HKEYS h", "[\"c\"]"),
        ("HVALS h", "[\"4\"]"),
        ("HSTRLEN h c", "1"),
        ("HEXISTS h c", "1"),
        ("HSCAN h 0", "[\"0\" [\"c\" \"4\"]]"),
        (
            "HSET h a",
            "!ERR wrong number of arguments for 'hset' command",
        ),
        ("HDEL h c", "1"),
        ("TYPE h", "none"),
        ("HSET h f x", "1"),
        ("HINCRBY h f 1", "!ERR hash value is not an integer"),
    ]);
}

#[test]
fn sorted_set_commands_work() {
    check(&[
        ("ZADD z 1 a 2 b 3 c", "3"),
        ("ZADD z XX CH 5 a 1 x", "1"),
        ("ZADD z NX 9 a 0 d", "1"),
        ("ZADD z GT 4 a", "0"),
        ("ZADD z INCR 1.5 a", "\"6.5\""),
        (
            "ZADD z NX GT 1 a",
            "!ERR GT, LT, and/or NX options at the same time are not compatible",
        ),
        ("ZRANGE z 0 -1", "[\"d\" \"b\" \"c\" \"a\"]"),
        ("ZRANGE z 0 0 REV WITHSCORES", "[\"a\" \"6.5\"]"),
        ("ZRANGE z (2 inf BYSCORE", "[\"c\" \"a\"]"),
        ("ZRANGE z inf -inf BYSCORE REV LIMIT 1 2", "[\"c\" \"b\"]"),
        ("ZRANGEBYSCORE z -inf 2 LIMIT 0 1", "[\"d\"]"),
        ("ZRANK z c", "2"),
        ("ZSCORE z a", "\"6.5\""),
        ("ZCOUNT z 2 3", "2"),
        ("ZPOPMIN z", "[\"d\" \"0\"]"),
        ("ZINCRBY z -1 b", "\"1\""),
        ("ZREMRANGEBYSCORE z -inf (3", "1"),
        ("ZREMRANGEBYRANK z 0 0", "1"),
        ("ZCARD z", "1"),
        ("ZREM z a x", "1"),
        ("EXISTS z", "0"),
        ("ZADD z x a", "!ERR value is not a valid float"),
        ("ZRANGE z a b BYSCORE", "!ERR min or max is not a float"),
    ]);
}

#[test]
fn server_commands_work() {
    check(&[
        ("PING", "PONG"),
        ("TIME", "[\"1700000000\" \"0\"]"),
        ("SET a 1", "OK"),
        ("HSET b f v", "1"),
        ("KEYS *", "[\"a\" \"b\"]"),
        ("SCAN 0 MATCH a* COUNT 5", "[\"0\" [\"a\"]]"),
        ("SCAN 0 TYPE hash", "[\"0\" [\"b\"]]"),
        ("SCAN x", "!ERR invalid cursor"),
        ("DBSIZE", "2"),
        ("UNLINK a x", "1"),
        ("FLUSHALL", "OK"),
        ("DBSIZE", "0"),
        ("CLIENT GETNAME", "nil"),
        ("CLIENT SETNAME me", "OK"),
        ("CLIENT GETNAME", "\"me\""),
        (
            "CLIENT KILL x",
            "!ERR unknown subcommand 'KILL'. Try CLIENT HELP.",
        ),
        ("SELECT 1", "!ERR DB index is out of range"),
        ("WAIT 1 10", "0"),
        ("ROLE", "[\"master\" 0 []]"),
        ("CONFIG GET maxmemory", "[\"maxmemory\" \"0\"]"),
        ("CONFIG SET maxmemory 1mb", "OK"),
        ("CONFIG GET maxmemory", "[\"maxmemory\" \"1048576\"]"),
        ("CLUSTER KEYSLOT {a}b", "15495"),
        (
            "SUBSCRIBE a",
            "!ERR Can't execute 'subscribe': subscriptions and commands use connections of their own",
        ),
    ]);
}
