//! `redlatch resize`: the number of permits of a semaphore.

use redlatch::{Client, ObjectKind};

use crate::app::{
    args::{ResizeArgs, ServerArgs},
    exit::Failure,
    out::clean,
    session,
};

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &ResizeArgs) -> Result<u8, Failure> {
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
