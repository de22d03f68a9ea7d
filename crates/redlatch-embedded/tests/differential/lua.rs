//! Random scripts.

use fastrand::Rng;
use redlatch_core::runtime::Command;
use redlatch_embedded::engine::Model;

use crate::{
    commands::{self, Arg},
    family::pick,
};

/// A script of one to three random commands that shows their replies in one of several ways.
pub(crate) fn random_call(model: Model, rng: &mut Rng) -> Command {
    let mut script = Script::default();
    let count = rng.usize(1..4);
    for n in 1..=count {
        let (how, call) = (rng.u8(..12), script.call(model, rng));
        let call = match how {
            0 => format!("{{pcall(function() return {call} end)}}"),
            1 => {
                let call = call.replacen('(', ", ", 1);
                format!("{{{}}}", call.replacen("redis", "pcall(redis", 1))
            }
            2 => format!("{{xpcall(function() return {call} end, show)}}"),
            _ => call,
        };
        let separator = pick(rng, " |\n");
        script.source += &format!("local r{n} = {call}{separator}");
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
    let body = format!("function() return {expression} end");
    let source = match rng.u8(..6) {
        0 => format!("return {{pcall({body})}}"),
        1 => format!("{SHOW}local ok, e = pcall({body}) return {{tostring(ok), show(e)}}"),
        2 => format!("\nlocal v = {expression}\nreturn {{v, v, nil, v}}"),
        4 => format!("{SHOW}local ok, e = xpcall({body}, show) return {{tostring(ok), show(e)}}"),
        3 => format!("local v = {expression} error(type(v) == 'string' and v or {{err='CODE x'}})"),
        _ => format!("return {expression}"),
    };
    let keys: Vec<_> = (0..rng.usize(..3)).map(|_| commands::key(rng)).collect();
    let argv = ["12", "x", "-1.5"].map(Vec::from);
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
        let is_over_keys = ["DEL", "EXISTS"].contains(&name);
        if rng.u8(..25) == 0 && !is_over_keys {
            commands::spoil(name, &mut args, rng);
        }
        let name = if rng.u8(..60) == 0 {
            pick(rng, "NOPE|EVAL|SUBSCRIBE")
        } else {
            name.to_owned()
        };
        // A number drawn at random could be a lifetime that ends, or ties with another, while the
        // round runs.
        let is_about_time = ["PEXPIRE", "SET"].contains(&name.as_str());
        let args = args.into_iter();
        let args = args.map(|arg| self.arg(model, arg, is_about_time, rng));
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
                2 => pick(rng, "1/0|-0.5|2.125|1e15|2^53|2^62|-7"),
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
        0..10 => {
            let operator = pick(rng, "+|-|*|/|%|..|==|<|and|or");
            format!("({a} {operator} {b})")
        }
        10 => format!("(not {a})"),
        11 => format!("#{a}"),
        12 => format!("-{a}"),
        13 => format!("{{{a}, {b}}}"),
        14 => format!("{{{a}, nil, {b}}}"),
        15 => format!("({{{a}, {b}}})[1]"),
        16 => format!("string.format('%.0f', {a})"),
        17 => format!("string.format('%d|%s', {a}, 'x')"),
        18 => format!("string.sub({a}, 2, 3)"),
        19 => format!("math.max({a}, {b})"),
        20 => format!("select(2, {a}, {b})"),
        21 => format!("string.find({a}, {b}, 1, true)"),
        22 => format!("({a}).field"),
        23 => format!("({a})({b})"),
        _ => {
            let replies = "redis.sha1hex|redis.error_reply|redis.status_reply";
            let function = pick(rng, &format!("tonumber|type|math.floor|{replies}"));
            format!("{function}({a})")
        }
    }
}

fn leaf(rng: &mut Rng) -> String {
    if rng.bool() {
        return number(rng);
    }
    let leaves = "nil|true|false|''|'abc'|'12'|'-1.5e3'|'a b'|KEYS[1]|ARGV[1]|ARGV[2]|ARGV[3]|\
         #KEYS|{}|{ok='fine'}|{err='CODE text'}|{err='NOSPACE'}|unknown|redis.LOG_WARNING|KEYS|\
         '0x10'|' 7 '|'x\\r\\ny'|1795224006123456|redis.nothing";
    pick(rng, leaves)
}

fn number(rng: &mut Rng) -> String {
    match rng.u8(..7) {
        0 => format!("{}", rng.f64() * 1000.0 - 500.0),
        1 => format!("{}e{}", rng.u8(1..10), rng.i8(-30..31)),
        2 => format!("2^{}", rng.u8(..70)),
        3 => {
            let some = "0.1|1/3|-0.5|3.99|-3.99|1/0|-1/0|1e15|1e16|123456789012345678";
            pick(rng, some)
        }
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
