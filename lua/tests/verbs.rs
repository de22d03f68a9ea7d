//! What scripts execute: commands that stand in their text, and messages. What others may have
//! written into a key is never a command.

/// The only call whose command is no literal, and the check in front of it.
const PUBLISH: &str = "\
  if verb == 'PUBLISH' or verb == 'SPUBLISH' then
    local reply = redis.pcall(verb, channel, message)
";

/// The probe hands the commands in its own text to one function.
const PROBE: [&str; 2] = [
    "\
local function try(...)
  local reply = redis.pcall(...)
",
    "\
  if verb == 'PUBLISH' or verb == 'SPUBLISH' then
    try(verb, ARGV[i + 1], '')
",
];

/// The fence runs a body that is a part of the script's own text.
const BODY: &str =
    "local ran, reply = pcall(body, {KEYS[1], unpack(KEYS, 4)}, {unpack(ARGV, 6)})\n";

/// Entries are served by functions of the script's own text.
const SERVE: [&str; 2] = [
    "local fine, line = pcall(serve, i)\n",
    "      fine, failed = pcall(serve, pool)\n",
];

#[test]
fn scripts_execute_only_commands_in_their_own_text() {
    let (mut scripts, mut publishers) = (0, 0);
    for source in redlatch_lua::all() {
        let mut text = source.text.to_owned();
        publishers += text.matches(PUBLISH).count();
        text = text.replace(PUBLISH, "");
        for known in SERVE {
            assert!(text.matches(known).count() <= 1, "{known}");
            text = text.replace(known, "");
        }
        if source.name == "core/probe" {
            for known in PROBE {
                assert_eq!(text.matches(known).count(), 1, "{known}");
                text = text.replace(known, "");
            }
        }
        if source.name == "fence/eval" {
            assert_eq!(text.matches(BODY).count(), 1);
            text = text.replace(BODY, "");
        }
        let strange = computed(&text);
        assert!(strange.is_empty(), "{} has {strange:?}", source.name);
        scripts += 1;
    }
    assert!(scripts >= 30, "only {scripts} scripts were found");
    assert!(publishers >= 10, "only {publishers} scripts publish");
}

#[test]
fn a_computed_command_would_be_noticed() {
    for strange in [
        "redis.pcall(verb, channel, key)",
        "  call(ARGV[5], ARGV[6], 'open')",
        "x = pcall(f)",
        "call ('GET')",
        "try(name)",
        "local run = redis.call",
        "local run = call",
        "redis['call']('GET')",
        "local r = redis",
    ] {
        assert_eq!(computed(strange).len(), 1, "{strange}");
    }
    for fine in [
        "local call = redis.call",
        "-- redis.pcall(verb)",
        "call('HGET', key, 'v')",
        "queue_call(k, now, head)",
        "redis.pcall('GET', key)",
        "return redis.error_reply('CLOCK')",
    ] {
        assert!(computed(fine).is_empty(), "{fine}");
    }
}

/// Returns the lines that execute something else than a command they spell out, or that may.
fn computed(text: &str) -> Vec<&str> {
    text.lines().filter(|line| is_computed(line)).collect()
}

/// `try` is what the probe calls commands by.
fn is_computed(line: &str) -> bool {
    let code = line.split_once("--").map_or(line, |(code, _)| code);
    if code.trim() == "local call = redis.call" {
        return false;
    }
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bare = |name: &str| {
        let ends: Vec<_> = code
            .match_indices(name)
            .filter(|&(at, _)| at == 0 || !word(code.as_bytes()[at - 1]))
            .map(|(at, _)| &code[at + name.len()..])
            .filter(|rest| !rest.as_bytes().first().is_some_and(|&byte| word(byte)))
            .collect();
        ends
    };
    let literal = |rest: &&str| {
        let command = rest
            .strip_prefix("('")
            .and_then(|rest| rest.split_once('\''));
        command.is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase())
        })
    };
    let calls = ["call", "pcall"];
    let ways = [".call", ".pcall", ".error_reply"];
    let tried = bare("try")
        .into_iter()
        .any(|rest| rest.starts_with('(') && !literal(&rest));
    tried
        || calls.into_iter().flat_map(bare).any(|rest| !literal(&rest))
        || bare("redis")
            .iter()
            .any(|rest| !ways.iter().any(|way| rest.starts_with(way)))
}
