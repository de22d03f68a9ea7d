//! Scripts: conversions, errors, the sandbox.

use redlatch_embedded::engine::Model;

use crate::support::Shell;

fn check_error(model: Model, source: &str, before: &str, after: &str) {
    let reply = Shell::new(model).eval(source, &["k"]);
    let is_right = reply.starts_with(before) && reply.ends_with(after);
    assert!(is_right, "{source}: {reply}");
}

/// The second line of a script, and its error.
const ERRORS: &str = "
return redis.call('NOPE') | ERR Unknown Redis command called from script
error('boom') | ERR user_script:2: boom
x = 1 | ERR user_script:2: Attempt to modify a readonly table
return x | ERR user_script:2: Script attempted to access nonexistent global variable 'x'
return ({}).a.b | ERR user_script:2: attempt to index field 'a' (a nil value)
error({err='CODE x'}) | CODE x
";

#[test]
fn errors_say_what_and_where() {
    for row in ERRORS.trim().lines() {
        let (source, error) = row.split_once(" | ").unwrap();
        let source = format!("\n{source}");
        let before = format!("!{error} script: ");
        check_error(Model::Redis7_0, &source, &before, ", on @user_script:2.");
    }
    let compile =
        "!ERR Error compiling script (new function): user_script:1: '=' expected near 'x'";
    check_error(Model::Redis7_0, "x x", compile, "");
}

#[test]
fn errors_are_worded_as_by_each_server() {
    let valkey =
        "!ERR Please specify at least one argument for this call script: on @user_script:2.";
    check_error(Model::Valkey9_1, "\nredis.call()", valkey, "");
    let before = "!ERR Error running script (call to f_";
    let after = "): @user_script:2: @user_script: 2: Unknown Redis command called from Lua script";
    check_error(Model::Redis6_2, "\nredis.call('NOPE')", before, after);
}

#[test]
fn the_sandbox_is_closed() {
    let absent = "os io require load loadstring dofile debug package collectgarbage getfenv \
         setfenv rawset coroutine newproxy getmetatable";
    for name in absent.split(' ') {
        let reply = Shell::new(Model::Redis7_0).eval(&format!("return {name}"), &[]);
        assert!(reply.contains("nonexistent global"), "{name}: {reply}");
    }
    let mut shell = Shell::new(Model::Redis7_0);
    for place in ["string.x", "redis.call", "math.random", "_G.x", "KEYS"] {
        let reply = shell.eval(&format!("{place} = 1"), &[]);
        let refused = "Attempt to modify a readonly table";
        assert!(reply.contains(refused), "{place}: {reply}");
    }
    let binary = shell.eval("\x1bLuaQ", &[]);
    let refused = binary.starts_with("!ERR Error compiling script");
    assert!(refused, "{binary}");
    let endless = shell.eval("local t = {} t[1] = t return t", &[]);
    assert_eq!(endless, "!ERR reached lua stack limit");
}

#[test]
fn scripts_are_cached_by_digest() {
    let mut shell = Shell::new(Model::Redis7_0);
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let absent = "!NOSCRIPT No matching script. Please use EVAL.";
    assert_eq!(shell.run(&format!("EVALSHA {sha} 0")), absent);
    let loaded = shell.run_args(&["SCRIPT", "LOAD", "return 1"]);
    assert_eq!(loaded, format!("\"{sha}\""));
    assert_eq!(shell.run(&format!("EVALSHA {} 0", sha.to_uppercase())), "1");
    assert_eq!(shell.run(&format!("SCRIPT EXISTS {sha} x")), "[1 0]");
    assert_eq!(shell.run("SCRIPT FLUSH"), "OK");
    assert_eq!(shell.run(&format!("EVALSHA {sha} 0")), absent);
    assert_eq!(shell.run_args(&["EVAL", "return 1", "0"]), "1");
    assert_eq!(shell.run(&format!("EVALSHA {sha} 0")), "1");
}

#[test]
fn any_number_of_scripts_fits() {
    let mut shell = Shell::new(Model::Redis7_0);
    for n in 0..30_000 {
        assert_eq!(shell.eval(&format!("return {n}"), &[]), n.to_string());
    }
    assert_eq!(shell.run("SCRIPT FLUSH"), "OK");
    assert_eq!(shell.eval("return 'still here'", &[]), "\"still here\"");
}
