//! Random scripts.

use fastrand::Rng;
use redlatch_core::runtime::Command;
use redlatch_embedded::engine::Model;

use crate::commands::{self, Arg};

fn pick<'a>(rng: &mut Rng, items: &[&'a str]) -> &'a str {
    items[rng.usize(..items.len())]
}

/// A script of one to three random commands that shows their replies in one of several ways.
pub(crate) fn random_call(model: Model, rng: &mut Rng) -> Command {
    let mut script = Script::default();
    let count = rng.usize(1..4);
    for n in 1..=count {
        let call = match (rng.u8(..12), script.call(model, rng)) {
            (0, call) => format!("{{pcall(function() return {call} end)}}"),
            (1, call) => {
                format!(
                    "{{{}",
                    call.replacen('(', ", ", 1)
                        .replacen("redis", "pcall(redis", 1)
                ) + "}"
            }
            (2, call) => format!("{{xpcall(function() return {call} end, show)}}"),
            (_, call) => call,
        };
        let separator = pick(rng, &[" ", "\n"]);
        script
            .source
            .push_str(&format!("local r{n} = {call}{separator}"));
    }
    let form = match rng.u8(..9) {
        0 => format!("return {}", script.call(model, rng)),
        1 => "return r1".to_owned(),
        2 => format!("return {{r1, r{count}}}"),
        3 => format!("return {{r{count}, {{r1}}, 'x'}}"),
        4 => "return type(r1) == 'table' and #r1 or type(r1)".to_owned(),
        5 => "return r1 + 1".to_owned(),
        6 => "return r1 .. '!'".to_owned(),
        _ => format!("return {{show(r1), show(r{count})}}"),
    };
    let source = format!("{SHOW}{}{form}", script.source);
    eval(&source, &script.keys, &script.argv)
}

/// A script without commands: one random expression, at times caught.
pub(crate) fn random_expression(rng: &mut Rng) -> Command {
    let expression = expression(rng, 4);
    let source = match rng.u8(..6) {
        0 => format!("return {{pcall(function() return {expression} end)}}"),
        1 => format!(
            "{SHOW}local ok, e = pcall(function() return {expression} end) return {{tostring(ok), show(e)}}"
        ),
        2 => format!("\nlocal v = {expression}\nreturn {{v, v, nil, v}}"),
        4 => format!(
            "{SHOW}local ok, e = xpcall(function() return {expression} end, show) return {{tostring(ok), show(e)}}"
        ),
        3 => format!("local v = {expression} error(type(v) == 'string' and v or {{err='CODE x'}})"),
        _ => format!("return {expression}"),
    };
    let keys = (0..rng.usize(..3))
        .map(|_| commands::key(rng))
        .collect::<Vec<_>>();
    let argv: Vec<_> = ["12", "x", "-1.5"]
        .iter()
        .map(|arg| arg.as_bytes().to_vec())
        .collect();
    eval(&source, &keys, &argv)
}

pub(crate) fn eval(source: &str, keys: &[Vec<u8>], argv: &[Vec<u8>]) -> Command {
    let head = Command::new("EVAL").arg(source).arg(keys.len().to_string());
    keys.iter().chain(argv).fold(head, Command::arg)
}

/// A script in the making.
#[derive(Default)]
struct Script {
    source: String,
    keys: Vec<Vec<u8>>,
    argv: Vec<Vec<u8>>,
}

impl Script {
    /// Writes a call of a random command, at times a wrong one.
    fn call(&mut self, model: Model, rng: &mut Rng) -> String {
        let (name, mut args) = commands::data_command(model, rng);
        // One more argument would be one more key to these, and an undeclared one.
        let is_over_keys = ["DEL", "UNLINK", "EXISTS"].contains(&name);
        if rng.u8(..25) == 0 && !is_over_keys {
            commands::spoil(&mut args, rng);
        }
        let name = if rng.u8(..60) == 0 {
            pick(rng, &["NOPE", "EVAL", "SUBSCRIBE"])
        } else {
            name
        };
        // A number drawn at random could be a lifetime that ends, or ties with another, while the
        // round runs.
        let is_about_time = name.contains("EXPIRE") || name == "SET";
        let args = args
            .into_iter()
            .map(|arg| self.arg(model, arg, is_about_time, rng));
        let args: Vec<_> = std::iter::once(format!("'{name}'")).chain(args).collect();
        let how = if rng.u8(..3) == 0 { "call" } else { "pcall" };
        format!("redis.{how}({})", args.join(", "))
    }

    fn arg(&mut self, model: Model, arg: Arg, is_about_time: bool, rng: &mut Rng) -> String {
        match arg {
            Arg::Key(key) => {
                self.keys.push(key);
                format!("KEYS[{}]", self.keys.len())
            }
            Arg::Text(text) => match rng.u8(..40) {
                0 => "{}".to_owned(),
                1 => "nil".to_owned(),
                2 if is_about_time => quoted(&text),
                2 if commands::has_exact_digits(model) => number(rng),
                2 => pick(rng, &["1/0", "-0.5", "2.125", "1e15", "2^53", "2^62", "-7"]).to_owned(),
                3..12 => {
                    self.argv.push(text);
                    format!("ARGV[{}]", self.argv.len())
                }
                _ => number_literal(&text).unwrap_or_else(|| quoted(&text)),
            },
        }
    }
}

/// A Lua expression of any type; many of them are errors.
fn expression(rng: &mut Rng, depth: u8) -> String {
    if depth == 0 || rng.u8(..5) == 0 {
        return leaf(rng);
    }
    let mut inner = || expression(rng, depth - 1);
    let (a, b) = (inner(), inner());
    match rng.u8(..30) {
        0 => format!("({a} + {b})"),
        1 => format!("({a} - {b})"),
        2 => format!("({a} * {b})"),
        3 => format!("({a} / {b})"),
        4 => format!("({a} % {b})"),
        5 => format!("({a} .. {b})"),
        6 => format!("({a} == {b})"),
        7 => format!("({a} < {b})"),
        8 => format!("({a} and {b})"),
        9 => format!("({a} or {b})"),
        10 => format!("(not {a})"),
        11 => format!("#{a}"),
        12 => format!("-{a}"),
        13 => format!("{{{a}, {b}}}"),
        14 => format!("{{{a}, nil, {b}}}"),
        15 => format!("({{{a}, {b}}})[1]"),
        16 => format!("tonumber({a})"),
        17 => format!("type({a})"),
        18 => format!("string.format('%.0f', {a})"),
        19 => format!("string.format('%d|%s', {a}, 'x')"),
        20 => format!("string.sub({a}, 2, 3)"),
        21 => format!("math.floor({a})"),
        22 => format!("math.max({a}, {b})"),
        23 => format!("redis.sha1hex({a})"),
        24 => format!("redis.error_reply({a})"),
        25 => format!("redis.status_reply({a})"),
        26 => format!("select(2, {a}, {b})"),
        27 => format!("string.find({a}, {b}, 1, true)"),
        28 => format!("({a}).field"),
        _ => format!("({a})({b})"),
    }
}

fn leaf(rng: &mut Rng) -> String {
    let leaves = [
        "nil",
        "true",
        "false",
        "''",
        "'abc'",
        "'12'",
        "'-1.5e3'",
        "'a b'",
        "KEYS[1]",
        "ARGV[1]",
        "ARGV[2]",
        "ARGV[3]",
        "#KEYS",
        "{}",
        "{ok='fine'}",
        "{err='CODE text'}",
        "{err='NOSPACE'}",
        "unknown",
        "redis.LOG_WARNING",
        "KEYS",
        "'0x10'",
        "' 7 '",
        "'x\\r\\ny'",
        "1795224006123456",
        "redis.nothing",
    ];
    if rng.bool() {
        number(rng)
    } else {
        pick(rng, &leaves).to_owned()
    }
}

fn number(rng: &mut Rng) -> String {
    match rng.u8(..7) {
        0 => format!("{}", rng.f64() * 1000.0 - 500.0),
        1 => format!("{}e{}", rng.u8(1..10), rng.i8(-30..31)),
        2 => format!("2^{}", rng.u8(..70)),
        3 => pick(
            rng,
            &[
                "0.1",
                "1/3",
                "-0.5",
                "3.99",
                "-3.99",
                "1/0",
                "-1/0",
                "1e15",
                "1e16",
                "123456789012345678",
            ],
        )
        .to_owned(),
        _ => rng.i32(-20..20).to_string(),
    }
}

/// The text as a Lua number, if it reads as one that is written back the same.
fn number_literal(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then(|| text.to_owned())
}

fn quoted(text: &[u8]) -> String {
    let letters = text.iter().map(|byte| match byte {
        b' '..=b'~' if !b"'\\".contains(byte) => char::from(*byte).to_string(),
        byte => format!("\\{byte:03}"),
    });
    format!("'{}'", letters.collect::<String>())
}

/// Makes a text of any value that a reply can become.
pub(crate) const SHOW: &str = "local function show(v)
  if type(v) ~= 'table' then return type(v) .. ':' .. tostring(v) end
  if v.err then return 'err:' .. v.err end
  if v.ok then return 'ok:' .. v.ok end
  local o = {}
  for i, x in ipairs(v) do o[i] = show(x) end
  return '{' .. table.concat(o, ',') .. '}'
end
";
