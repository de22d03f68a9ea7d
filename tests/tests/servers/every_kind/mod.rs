//! All kinds at once, held and waited for while something fails: what the other tests here show of
//! the plain lock first is true of each.

mod changes;
mod churn;
mod clock_set;
mod cluster;
mod full;
mod kind;
mod kinds;
mod load;
mod logins;
mod lost_replies;
mod prelude;
mod processes;
mod scene;
mod sentinel;
mod standalone;

use redlatch::ClientBuilder;
use redlatch_behaviours::prelude::*;

use self::kind::Party;

/// Starts to build a client that bears with a server that does not answer for longer than any fault
/// here lasts.
fn builder(url: &str) -> ClientBuilder {
    Client::builder(url).patience(Duration::from_secs(60))
}

async fn connect(url: &str) -> Client {
    builder(url).connect().await.unwrap()
}

/// Two clients of several servers that stand for one.
async fn parties(url: &str) -> [Party; 2] {
    let party = async || Party::alone(connect(url).await);
    [party().await, party().await]
}

/// What all names begin with where they have to be in one slot.
const TAG: &str = "{s}";
