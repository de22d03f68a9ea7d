//! `EVAL`, `EVALSHA`, their read-only counterparts, and `SCRIPT`.

use redlatch_core::runtime::{Reply, ServerError, Value};

use crate::engine::{
    Condition, Engine, Model, SessionId,
    call::{bulk, error, flag, is, lower, not_an_integer, ok, wrong_arity},
    core::ScriptRun,
    gate,
    lua::Sha,
    number,
    time::Clock,
};

pub(in crate::engine) fn eval(
    engine: &mut Engine,
    session: SessionId,
    args: &[&[u8]],
    clock: Clock,
) -> Reply {
    eval_source(engine, Access::Full, session, args, clock)
}

pub(in crate::engine) fn eval_ro(
    engine: &mut Engine,
    session: SessionId,
    args: &[&[u8]],
    clock: Clock,
) -> Reply {
    eval_source(engine, Access::ReadOnly, session, args, clock)
}

pub(in crate::engine) fn evalsha(
    engine: &mut Engine,
    session: SessionId,
    args: &[&[u8]],
    clock: Clock,
) -> Reply {
    eval_known(engine, Access::Full, session, args, clock)
}

pub(in crate::engine) fn evalsha_ro(
    engine: &mut Engine,
    session: SessionId,
    args: &[&[u8]],
    clock: Clock,
) -> Reply {
    eval_known(engine, Access::ReadOnly, session, args, clock)
}

pub(in crate::engine) fn script(
    engine: &mut Engine,
    _session: SessionId,
    args: &[&[u8]],
    _clock: Clock,
) -> Reply {
    let sub = args[1];
    let seven = engine.model().is_seven();
    if is(sub, "LOAD") {
        want(seven, args, args.len() == 3)?;
        let sha = engine.host.load(args[2])?;
        Ok(bulk(sha.as_bytes()))
    } else if is(sub, "EXISTS") {
        want(seven, args, !seven || args.len() >= 3)?;
        let known = args[2..]
            .iter()
            .map(|sha| flag(engine.host.knows(&lower(sha))));
        Ok(Value::Array(known.collect()))
    } else if is(sub, "FLUSH") {
        match &args[2..] {
            [] => {}
            [how] if is(how, "SYNC") || is(how, "ASYNC") => {}
            [_] => return Err(error("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
            _ => return Err(unknown_subcommand(seven, sub)),
        }
        engine.host.flush();
        ok()
    } else if is(sub, "KILL") {
        kill(engine)
    } else {
        Err(unknown_subcommand(seven, sub))
    }
}

/// Ends the script of another client if the condition for one is set.
fn kill(engine: &Engine) -> Reply {
    let mut core = engine.core();
    if !core.conditions.has(Condition::Busy) {
        return Err(error("NOTBUSY No scripts in execution right now."));
    }
    core.conditions.set(Condition::Busy, false);
    ok()
}

#[derive(Clone, Copy, PartialEq)]
enum Access {
    Full,
    ReadOnly,
}

fn eval_source(
    engine: &mut Engine,
    access: Access,
    session: SessionId,
    args: &[&[u8]],
    clock: Clock,
) -> Reply {
    let keys = key_count(args)?;
    let sha = engine.host.load(args[1])?;
    run(engine, access, session, sha, &args[3..], keys, clock)
}

fn eval_known(
    engine: &mut Engine,
    access: Access,
    session: SessionId,
    args: &[&[u8]],
    clock: Clock,
) -> Reply {
    // An argument of another length cannot be a digest. The server answers it before it reads the
    // other arguments.
    if args[1].len() != SHA_LEN {
        return Err(no_script(engine.model()));
    }
    let keys = key_count(args)?;
    let sha = lower(args[1]);
    if !engine.host.knows(&sha) {
        return Err(no_script(engine.model()));
    }
    run(engine, access, session, sha, &args[3..], keys, clock)
}

fn run(
    engine: &mut Engine,
    access: Access,
    session: SessionId,
    sha: Sha,
    rest: &[&[u8]],
    keys: usize,
    clock: Clock,
) -> Reply {
    let (keys, argv) = rest.split_at(keys);
    let mut core = engine.core();
    let was_full = gate::is_full(&core);
    core.script = Some(ScriptRun {
        sha: sha.clone(),
        session,
        keys: keys.iter().map(|key| key.to_vec()).collect(),
        clock,
        read_only: access == Access::ReadOnly,
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

fn no_script(model: Model) -> ServerError {
    error(match model {
        Model::Valkey9_1 => "NOSCRIPT No matching script.",
        _ => "NOSCRIPT No matching script. Please use EVAL.",
    })
}

fn want(seven: bool, args: &[&[u8]], ok: bool) -> Result<(), ServerError> {
    match (ok, seven) {
        (true, _) => Ok(()),
        (false, true) => Err(wrong_arity(&format!("script|{}", lower(args[1])))),
        (false, false) => Err(unknown_subcommand(seven, args[1])),
    }
}

fn unknown_subcommand(seven: bool, sub: &[u8]) -> ServerError {
    let sub = String::from_utf8_lossy(sub);
    error(&if seven {
        format!("ERR unknown subcommand '{sub}'. Try SCRIPT HELP.")
    } else {
        format!("ERR Unknown subcommand or wrong number of arguments for '{sub}'. Try SCRIPT HELP.")
    })
}

/// The number of hexadecimal digits of a SHA-1 digest.
const SHA_LEN: usize = 40;
