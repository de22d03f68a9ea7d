//! Holds whose keys share the hash by which a client finds them are told apart.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::prelude::*;

/// Two names whose keys agree in the bits of the hash that the client's table of holds has.
fn colliding(prefix: &str) -> (String, String) {
    let mut seen = HashMap::new();
    for n in 0_u32.. {
        let name = format!("n{n}");
        let mut hasher = DefaultHasher::new();
        format!("{prefix}:{{{name}}}").as_str().hash(&mut hasher);
        if let Some(other) = seen.insert(hasher.finish() as u32, name.clone()) {
            return (other, name);
        }
    }
    unreachable!("there are more names than hashes")
}

#[tokio::test(start_paused = true)]
async fn names_with_colliding_hashes_are_held_apart() {
    let (_backend, [client]) = embedded().await;
    let (one, two) = colliding("redlatch");
    let (one, two) = (client.lock(&one), client.lock(&two));
    let owner = client.owner();
    let first = one.lock().owner(&owner).await.unwrap();
    let second = two.lock().owner(&owner).await.unwrap();
    let again = two.lock().owner(&owner).await.unwrap();
    assert_eq!((first.hold_count(), second.hold_count()), (1, 2));
    assert_eq!(second.token(), again.token());
    // Time stands still, so that not even the tokens tell them apart.
    assert_eq!(first.token(), second.token());
    one.force_release().await.unwrap();
    assert_eq!(first.state(), HoldState::Lost(LossCause::Revoked));
    assert_eq!(second.state(), HoldState::Held);
    drop(first);
    assert_eq!(second.hold_count(), 2);
    second.release().await.unwrap();
    assert_eq!(again.hold_count(), 1);
    let first = one.lock().owner(&owner).await.unwrap();
    again.release().await.unwrap();
    assert_eq!(first.state(), HoldState::Held);
    first.release().await.unwrap();
    assert_tables_empty(&client).await;
}
