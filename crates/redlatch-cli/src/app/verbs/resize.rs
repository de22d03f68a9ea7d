//! `redlatch resize`: the number of permits of a semaphore.

use redlatch::ObjectKind;

use crate::app::{
    args::{ResizeArgs, ServerArgs},
    exit::Failure,
    out::{self, clean},
    session,
};

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &ResizeArgs) -> Result<u8, Failure> {
    let client = session::connect(session::builder(server, "redlatch resize")?).await?;
    let (name, permits) = (&args.name, args.permits);
    let set = async {
        let object = client.object(name).await?;
        match object.map(|object| object.kind) {
            Some(ObjectKind::PermitExpirableSemaphore) => {
                let semaphore = client.permit_expirable_semaphore(name);
                semaphore.set_permits(permits).await
            }
            _ => client.semaphore(name).set_permits(permits).await,
        }
    };
    let set = set.await;
    session::close(&client).await;
    set?;
    let name = clean(name);
    out::print(&format!("{name} has {permits} permits\n"))?;
    Ok(0)
}
