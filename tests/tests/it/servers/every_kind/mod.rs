//! All kinds at once, held and waited for while something fails: what the other tests here show of the plain lock first is true of each.

mod cluster;
mod hold;
mod kinds;
mod load;
mod lost_replies;
mod scene;
mod sentinel;
mod standalone;

use std::time::Duration;

use redlatch::Client;

use self::kinds::Party;

/// Two clients of several servers that stand for one.
async fn parties(url: &str) -> [Party; 2] {
    let party = async || Party {
        client: Client::builder(url)
            .patience(PATIENCE)
            .connect()
            .await
            .unwrap(),
        others: Vec::new(),
    };
    [party().await, party().await]
}

/// What all names begin with where they have to be in one slot.
const TAG: &str = "{s}";

/// How long clients here bear with a server that does not answer, which is longer than any fault lasts.
const PATIENCE: Duration = Duration::from_secs(60);
