//! `redlatch forget` and `redlatch resize`: what the server keeps of a name.

use redlatch::{Client, Forgotten, ObjectKind};

use crate::app::{
    args::{ForgetArgs, ResizeArgs, ServerArgs},
    exit::{BUSY, Failure},
    out::clean,
    session,
    span::short,
};

/// Runs `forget`, which removes a record that is not in use.
pub(crate) async fn forget(server: &ServerArgs, args: &ForgetArgs) -> Result<u8, Failure> {
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
        Forgotten::Held => "it is held; redlatch show names the holder, redlatch break ends it",
        Forgotten::Waited => "it has waiters; stop the old program, and try again",
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

/// Runs `resize`, which sets the number of permits of a semaphore.
pub(crate) async fn resize(server: &ServerArgs, args: &ResizeArgs) -> Result<u8, Failure> {
    let client = session::connect(session::builder(server, "redlatch resize")?).await?;
    let (name, permits) = (&args.name, args.permits);
    let set = async |client: &Client| {
        let object = client.object(name).await?;
        match object.map(|object| object.kind) {
            Some(ObjectKind::PermitExpirableSemaphore) => {
                let semaphore = client.permit_expirable_semaphore(name);
                semaphore.set_permits(permits).await?;
            }
            _ => client.semaphore(name).set_permits(permits).await?,
        }
        Ok(format!("{} has {permits} permits\n", clean(name)))
    };
    session::answer(client, set).await
}
