//! `EVAL`, `EVALSHA` and `SCRIPT`.

use redlatch_core::runtime::{Reply, ServerError, Value};

use crate::engine::{
    Condition, Engine, Model,
    call::{bulk, error, flag, is, lower, no_subcommand, not_an_integer, ok, unknown_subcommand},
    core::ScriptRun,
    gate,
    lua::Sha,
    number,
    table::Caller,
};

pub(in crate::engine) fn eval(engine: &mut Engine, caller: Caller, args: &[&[u8]]) -> Reply {
    let keys = key_count(args)?;
    let sha = engine.host.load(args[1])?;
    run(engine, caller, sha, keys, args)
}

pub(in crate::engine) fn evalsha(engine: &mut Engine, caller: Caller, args: &[&[u8]]) -> Reply {
    let no_script = error(match engine.model() {
        Model::Valkey9_1 => "NOSCRIPT No matching script.",
        _ => "NOSCRIPT No matching script. Please use EVAL.",
    });
    // An argument of another length cannot be a digest. The server answers it before it reads the
    // other arguments.
    if args[1].len() != SHA_LEN {
        return Err(no_script);
    }
    let keys = key_count(args)?;
    let sha = lower(args[1]);
    if !engine.host.knows(&sha) {
        return Err(no_script);
    }
    run(engine, caller, sha, keys, args)
}

pub(in crate::engine) fn script(engine: &mut Engine, _: Caller, args: &[&[u8]]) -> Reply {
    let model = engine.model();
    match &*lower(args[1]) {
        "load" if args.len() == 3 => {
            let sha = engine.host.load(args[2])?;
            Ok(bulk(sha.as_bytes()))
        }
        "exists" if args.len() >= 3 || !model.is_seven() => {
            let known = args[2..].iter().map(|sha| engine.host.knows(&lower(sha)));
            Ok(Value::Array(known.map(flag).collect()))
        }
        "flush" => {
            match &args[2..] {
                [] => {}
                [how] if is(how, "SYNC") || is(how, "ASYNC") => {}
                [_] => return Err(error("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
                _ => return Err(unknown_subcommand(model, args)),
            }
            engine.host.flush();
            ok()
        }
        // Ends the script of another client if the condition for one is set.
        "kill" => match engine.core().conditions.remove(&Condition::Busy) {
            true => ok(),
            false => Err(error("NOTBUSY No scripts in execution right now.")),
        },
        _ => Err(no_subcommand(model, args, &["load", "exists"])),
    }
}

fn run(engine: &mut Engine, caller: Caller, sha: Sha, keys: usize, args: &[&[u8]]) -> Reply {
    let (session, clock) = caller;
    let (keys, argv) = args[3..].split_at(keys);
    let mut core = engine.core();
    let was_full = gate::is_full(&core);
    core.script = Some(ScriptRun {
        sha: sha.clone(),
        session,
        keys: keys.iter().map(|key| key.to_vec()).collect(),
        clock,
        wrote: false,
        was_full,
        random: 0,
    });
    drop(core);
    let reply = engine.host.run(&sha, keys, argv);
    engine.core().script = None;
    reply
}

fn key_count(args: &[&[u8]]) -> Result<usize, ServerError> {
    let keys = number::parse_int(args[2]).ok_or_else(not_an_integer)?;
    let Ok(keys) = usize::try_from(keys) else {
        return Err(error("ERR Number of keys can't be negative"));
    };
    if keys > args.len() - 3 {
        return Err(error(
            "ERR Number of keys can't be greater than number of args",
        ));
    }
    Ok(keys)
}

/// The number of hexadecimal digits of a SHA-1 digest.
const SHA_LEN: usize = 40;
