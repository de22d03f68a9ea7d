//! `redlatch forget`: the removal of a record that nobody uses.

use redlatch::{Client, Forgotten};

use crate::app::{
    args::{ForgetArgs, ServerArgs},
    exit::{BUSY, Failure},
    out::clean,
    session,
    span::short,
};

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &ForgetArgs) -> Result<u8, Failure> {
    let client = session::look(server, "redlatch forget").await?;
    session::answer(client, async |client| attempt(client, &args.name).await).await
}

async fn attempt(client: &Client, name: &str) -> Result<String, Failure> {
    let forgotten = client.forget(name).await?;
    let shown = clean(name);
    let why = match forgotten {
        Forgotten::Done => return Ok(format!("{shown} is forgotten; it may be of any kind now\n")),
        Forgotten::Unset => {
            return Ok(format!(
                "the server knows nothing of {shown}: nothing to forget\n"
            ));
        }
        Forgotten::Held => "somebody holds it; redlatch show says who, redlatch break ends it",
        Forgotten::Waited => "somebody waits for it; stop the old program, and try again",
        Forgotten::Set => {
            "it is a latch or a job; the program that uses it has to delete it, or to reset it"
        }
        Forgotten::Early(rest) => {
            &format!("it was used a moment ago; try again in {}", short(rest))
        }
        _ => "it is in use",
    };
    Err(Failure::new(BUSY, format!("{shown}: {why}")))
}
