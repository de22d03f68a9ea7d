//! The meaning of an error reply for its request.

use super::{rights, slot::SLOTS};

/// The class of an error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The script is not in the server's cache. The client sends its text.
    NoScript,
    /// Another node serves the slot.
    Redirect(Redirect),
    /// The server executed nothing, and a later try may succeed.
    Retry(Obstacle),
    /// The server may or may not have executed the request. Sending it again is safe, because every
    /// script is idempotent.
    Unknown,
    /// The server executed nothing, and no retry helps.
    Fatal(Refusal),
    /// The server stopped a script at this command, and no retry helps. Its earlier writes stay.
    Halted(Refusal),
}

/// The target of a redirected request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Whether the redirection is for this request only (`ASK`), and not for the whole slot
    /// (`MOVED`).
    pub once: bool,
    /// The slot that another node serves.
    pub slot: u16,
    /// `host:port` as the server wrote it. An empty host means the node that answered.
    pub address: String,
}

/// Why a server cannot execute a request for the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The server has fewer replicas than its configuration asks for.
    Replicas,
    /// The server is no master, or not any longer.
    ReadOnly,
    /// The server is loading its data, is busy, is moving the slot, or cannot write to its disk.
    NotNow,
}

/// Why a server will never execute a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key holds a value of another type.
    WrongType,
    /// The ACL user lacks a permission.
    Permission,
    /// The server rejects the user or the password.
    Auth,
    /// The server runs no scripts, or refuses a command in scripts to every user.
    Unsupported,
    /// The server is out of memory.
    Full,
    /// Any other permanent refusal.
    Other,
}

/// Classifies an error reply by its code and the rest of its line.
///
/// A refusal for the server's state (no memory, no replicas, no master) hits the first write of a
/// script, so nothing was written. A refusal for a key or for the user's rights may follow earlier
/// writes of the script.
pub(crate) fn classify(code: &str, message: &str) -> Class {
    let of_script = message.contains("@user_script")
        || message.contains(" script: ")
        || message.contains(" called from ");
    match classify_code(code, message) {
        Class::Fatal(refusal @ Refusal::WrongType) => Class::Halted(refusal),
        Class::Fatal(refusal @ (Refusal::Permission | Refusal::Unsupported)) if of_script => {
            Class::Halted(refusal)
        }
        class => class,
    }
}

/// Tells whether the server refuses all scripts for the moment, whatever their keys are. No script
/// has begun.
pub(crate) fn refuses_all(code: &str) -> bool {
    matches!(code, "LOADING" | "BUSY" | "MASTERDOWN")
}

/// Tells whether an error reply is that of a script which has failed on what it found, such as a
/// field that is not there. Another try fails in the same way unless somebody mends the data.
pub(crate) fn is_script_error(reply: &str) -> bool {
    let fails =
        |reason: &str| reason.starts_with("attempt to ") || reason.starts_with("bad argument");
    // The line of the script comes before the reason.
    reply
        .split("user_script:")
        .filter_map(|rest| rest.split_once(": "))
        .any(|(line, reason)| line.bytes().all(|byte| byte.is_ascii_digit()) && fails(reason))
}

fn classify_code(code: &str, message: &str) -> Class {
    match code {
        "ERR" => classify_err(message),
        "NOSCRIPT" => Class::NoScript,
        "MOVED" | "ASK" => redirect(code == "ASK", message).map_or(Class::Unknown, Class::Redirect),
        "NOREPLICAS" => Class::Retry(Obstacle::Replicas),
        "READONLY" => Class::Retry(Obstacle::ReadOnly),
        "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "LOADING" | "BUSY" | "MISCONF" => {
            Class::Retry(Obstacle::NotNow)
        }
        "WRONGTYPE" => Class::Fatal(Refusal::WrongType),
        "NOPERM" => Class::Fatal(Refusal::Permission),
        "NOAUTH" | "WRONGPASS" => Class::Fatal(Refusal::Auth),
        "OOM" => Class::Fatal(Refusal::Full),
        "CROSSSLOT" | "CLOCK" => Class::Fatal(Refusal::Other),
        _ => Class::Unknown,
    }
}

/// Classifies an `ERR` reply. Redis 6.2 wraps the error of a command inside a script; later servers
/// keep its code in front.
fn classify_err(message: &str) -> Class {
    // Redis 7.0 and Valkey also deny a command inside a script by a text without a code.
    if rights::is_unknown_command(message)
        || message.starts_with("The user executing the script can't")
        || message.starts_with("ACL failure in script")
    {
        return Class::Fatal(Refusal::Permission);
    }
    if rights::is_barred_from_scripts(message) || rights::is_without_scripts(message) {
        return Class::Fatal(Refusal::Unsupported);
    }
    if message.starts_with("max number of clients") {
        return Class::Retry(Obstacle::NotNow);
    }
    // Only the text of a user's script can be wrong. The server has run nothing.
    if message.starts_with("Error compiling script") {
        return Class::Fatal(Refusal::Other);
    }
    let inner = message.rsplit_once("@user_script:");
    let Some((_, inner)) = inner.and_then(|(_, inner)| inner.split_once(": ")) else {
        return Class::Unknown;
    };
    if inner.contains("can't run this command") || inner.contains("can't access") {
        // Redis 6.2 denies by a text without a code.
        return Class::Fatal(Refusal::Permission);
    }
    let inner = inner.trim_start_matches('-');
    let (code, rest) = inner.split_once(' ').unwrap_or((inner, ""));
    let is_code = code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    if code == "ERR" || !is_code {
        Class::Unknown
    } else {
        classify(code, rest)
    }
}

fn redirect(once: bool, message: &str) -> Option<Redirect> {
    let mut words = message.split_ascii_whitespace();
    let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
    let address = words.next()?.to_owned();
    Some(Redirect {
        once,
        slot,
        address,
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::prelude::*;
    use serde_json::Value as Json;

    use super::*;

    /// `vectors/errors/replies.json` has what servers answer. The Python client reads it, too.
    // L45
    #[test]
    fn codes_of_all_servers() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/errors/replies.json");
        let rows: Vec<Json> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert!(rows.len() > 30);
        for row in rows {
            let reply = row["reply"].as_str().unwrap();
            let (code, message) = reply.split_once(' ').unwrap_or((reply, ""));
            let class = match classify(code, message) {
                Class::Redirect(_) => "Redirect".to_owned(),
                class => format!("{class:?}"),
            };
            assert_eq!(class, row["class"].as_str().unwrap(), "{reply}");
        }
    }

    #[test]
    fn errors_of_scripts_are_known_by_their_reason() {
        for reply in [
            "ERR user_script:3: attempt to compare nil with number script: 2be1, on @user_script:3.",
            "ERR Error running script (call to f_1): @user_script:3: user_script:3: attempt to compare",
            "ERR user_script:1: bad argument #1 to 'match' (string expected, got boolean)",
        ] {
            assert!(is_script_error(reply), "{reply}");
        }
        for reply in [
            "ERR Error running script (call to f_1): @user_script:1: WRONGTYPE Operation",
            "ERR something new: attempt to",
            "UNBLOCKED client unblocked via CLIENT UNBLOCK",
        ] {
            assert!(!is_script_error(reply), "{reply}");
        }
    }

    proptest! {
        #[test]
        fn any_error_has_a_class(
            code in "[A-Z]{0,12}|\\PC{0,6}|ERR|MOVED|ASK",
            message in "\\PC{0,40}|[0-9]{1,6} [a-z:0-9]{0,12}|.{0,9}@user_script:1: -?[A-Z]{2,9} .{0,9}",
        ) {
            if let Class::Redirect(redirect) = classify(&code, &message) {
                prop_assert!(redirect.slot < SLOTS, "{:?}", redirect);
            }
        }

        #[test]
        fn redirects_are_read_as_they_were_written(slot in 0..SLOTS, address in "[a-z0-9.:]{1,20}") {
            for (code, once) in [("MOVED", false), ("ASK", true)] {
                let address = address.clone();
                let message = format!("{slot} {address}");
                let expected = Class::Redirect(Redirect { once, slot, address });
                prop_assert_eq!(classify(code, &message), expected);
                prop_assert_eq!(classify(code, "x"), Class::Unknown);
            }
        }
    }
}
