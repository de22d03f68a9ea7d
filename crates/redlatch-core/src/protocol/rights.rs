//! Reads out of a server's denial which right a user lacks.

/// The rights that a user lacks, as rules of `ACL SETUSER`.
#[derive(Debug, Default)]
pub(crate) struct Missing(Vec<String>);

impl Missing {
    /// Adds the right that was denied to `command` with the text `denial`. `prefix` is that of the
    /// client's keys and channels.
    pub(crate) fn add(&mut self, command: &str, denial: &str, prefix: &str) {
        let rule = if is_about_channel(denial) {
            format!("&{prefix}:*")
        } else if is_about_key(denial) {
            format!("~{prefix}:*")
        } else {
            format!("+{}", command.to_lowercase())
        };
        if !self.0.contains(&rule) {
            self.0.push(rule);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text for `user`: what is missing, and the command that grants it.
    pub(crate) fn text(&self, user: &str) -> String {
        let all = self.0.join(" ");
        let shown = match self.0.as_slice() {
            few if few.len() <= SHOWN => all.clone(),
            many => format!("{} and {} more", many[..2].join(" "), many.len() - 2),
        };
        format!("user `{user}` lacks {shown}; run: ACL SETUSER {user} {all}")
    }
}

/// Tells whether a refusal is a denial of permission. Inside a script its wording differs between
/// versions, and not all versions pass its code on.
pub(crate) fn is_denial(refusal: &str) -> bool {
    [
        "NOPERM",
        "permission",
        "can't access",
        "can't run",
        "can't publish",
    ]
    .iter()
    .any(|word| refusal.contains(word))
}

/// Tells whether a denial is about a key, and not about a command or a channel.
pub(crate) fn is_about_key(denial: &str) -> bool {
    let words = words(denial);
    !words.contains("channel") && words.contains(" key") && !words.contains("cannot run")
}

/// Tells whether a denial is about a channel.
pub(crate) fn is_about_channel(denial: &str) -> bool {
    words(denial).contains("channel")
}

/// Returns the server's own words in a denial, without the names of the user, the key, the channel
/// or the command.
fn words(denial: &str) -> String {
    let (_, own) = denial
        .split_once(" has no permissions ")
        .unwrap_or(("", denial));
    own.replace("can't", "cannot")
        .split('\'')
        .step_by(2)
        .collect()
}

/// Tells whether the server does not know a command, of the client or of a script. The text may
/// begin with its code.
pub(crate) fn is_unknown_command(refusal: &str) -> bool {
    let refusal = refusal.to_ascii_lowercase();
    let text = refusal.strip_prefix("err ").unwrap_or(&refusal);
    let in_script = |text: &str| text.contains("unknown ") && text.contains("command called from");
    text.starts_with("unknown command") || in_script(text)
}

/// Tells whether the server refuses a command in scripts to every user, as some managed services do
/// with `TIME`.
pub(crate) fn is_barred_from_scripts(refusal: &str) -> bool {
    refusal.contains("command is not allowed from script")
}

/// Tells whether the server cannot run scripts, as Valkey cannot without its module `lua`.
pub(crate) fn is_without_scripts(refusal: &str) -> bool {
    refusal.contains("Could not find scripting engine")
}

/// Returns the command that a denial is about, as a rule names it, if the denial names one.
pub(crate) fn command(denial: &str) -> Option<String> {
    Some(between(denial, "run the '", "' command")?.replace(' ', "|"))
}

/// Returns the text for a denial of one request, with the command that grants the right if the
/// denial says enough for one.
pub(crate) fn denied(denial: &str) -> String {
    let user = between(denial, "User ", " has no permissions");
    let command = command(denial);
    match (user, command) {
        (Some(user), Some(command)) => {
            format!("user `{user}` lacks +{command}; run: ACL SETUSER {user} +{command}")
        }
        (None, Some(command)) => {
            format!("the server's user lacks +{command}, a rule for ACL SETUSER")
        }
        _ => format!(
            "the server's user lacks a right, see \"Give rights\" in the redlatch book: {denial}"
        ),
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    let (found, _) = rest.split_once(after)?;
    Some(found).filter(|found| !found.is_empty())
}

/// The largest number of rights that a text lists twice.
const SHOWN: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule to grant, the command, and the words of the server.
    const DENIALS: &str = "
    +set SET NOPERM User app has no permissions to run the 'set' command
    +get GET ERR The user executing the script can't run this command or subcommand
    ~shop:* SET NOPERM No permissions to access a key
    ~shop:* DEL The user executing the script can't access at least one of the keys mentioned in the command arguments
    &shop:* PUBLISH NOPERM No permissions to access a channel
    &shop:* PUBLISH NOPERM User key has no permissions to access the 'a key:w' channel
    &shop:* PUBLISH ERR The user executing the script can't publish to the channel mentioned in the command
    ~shop:* GET NOPERM User channel has no permissions to access the 'channel:{x}' key
    +evalsha EVALSHA NOPERM User channel has no permissions to run the 'evalsha' command
    &shop:* PUBLISH The user executing the script can't access at least one of the channels mentioned
";

    #[test]
    fn denials_of_all_versions_name_the_rule() {
        for row in DENIALS.trim().lines() {
            let row = row.trim().split_once(' ').unwrap();
            let (rule, (command, denial)) = (row.0, row.1.split_once(' ').unwrap());
            let mut missing = Missing::default();
            missing.add(command, denial, "shop");
            missing.add(command, denial, "shop");
            assert_eq!(missing.0, [rule], "{denial}");
            assert!(is_denial(denial));
        }
    }

    #[test]
    fn unknown_commands_are_known_by_all_wordings() {
        for refusal in [
            "unknown command 'EVAL'",
            "ERR unknown command `EVAL`",
            "ERR Unknown command",
            "ERR Unknown Redis command called from script script: 1f",
            "ERR unknown command called from script",
        ] {
            assert!(is_unknown_command(refusal), "{refusal}");
        }
        for refusal in [
            "ERR unknown subcommand 'SETINFO'",
            "NOPERM User unknown has no permissions to run the 'x' command",
        ] {
            assert!(!is_unknown_command(refusal), "{refusal}");
        }
    }

    #[test]
    fn missing_rights_are_told_with_the_line_to_paste() {
        let mut missing = Missing::default();
        missing.add("SET", "NOPERM", "x");
        missing.add("GET", "NOPERM", "x");
        assert_eq!(
            missing.text("app"),
            "user `app` lacks +set +get; run: ACL SETUSER app +set +get"
        );
        for command in "a b c d e".split(' ') {
            missing.add(command, "NOPERM", "x");
        }
        assert_eq!(
            missing.text("app"),
            "user `app` lacks +set +get and 5 more; run: ACL SETUSER app +set +get +a +b +c +d +e"
        );
    }

    #[test]
    fn one_denial_is_told_with_what_it_says() {
        for (denial, text) in [
            (
                "NOPERM User app has no permissions to run the 'evalsha' command",
                "user `app` lacks +evalsha; run: ACL SETUSER app +evalsha",
            ),
            (
                "NOPERM this user has no permissions to run the 'evalsha' command or its subcommand",
                "the server's user lacks +evalsha, a rule for ACL SETUSER",
            ),
        ] {
            assert_eq!(denied(denial), text);
        }
        let text = denied("NOPERM No permissions to access a channel");
        assert!(
            text.ends_with("NOPERM No permissions to access a channel"),
            "{text}"
        );
    }
}
